"""What checkpoints need and has no public name."""

import tensorflow.compat.v1 as tf
from tensorflow.python.training.saving import saveable_object


class _Whole(saveable_object.SaveableObject):
    """Several variables in a checkpoint's place for one."""

    def __init__(self, variables, initial, merge):
        first = variables[0].op.name
        with tf.control_dependencies(None), tf.name_scope(f"save_{first}"):
            whole = merge([variable.read_value() for variable in variables])
        spec = saveable_object.SaveSpec(whole, "", first, whole.dtype)
        super().__init__(whole, [spec], first)
        self._variables = variables
        self._initial = initial

    def restore(self, restored_tensors, restored_shapes):
        """Gives the first variable the whole, and the others nothing."""
        del restored_shapes
        first, *others = self._variables
        values = [restored_tensors[0]] + [self._initial() for _ in others]
        return tf.group(
            *(
                variable.assign(value, read_value=False)
                for variable, value in zip([first, *others], values)
            )
        )


def save_as_one(variables, initial, merge):
    """Lets the savers of this graph save variables as one.

    Args:
        variables: Variables in no collection. The first gives the name in the checkpoint.
        initial: Function without arguments that returns their initial value, which adds nothing.
        merge: Function from the list of their values to what is saved.
    """
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, _Whole(variables, initial, merge))


def set_initializer(variable, initializer):
    """Makes `initializer` the operation that initialises `variable`."""
    variable._initializer_op = initializer


def track(parent, child, name):
    """Makes `child` part of `parent` in object-based checkpoints, under `name`."""
    parent._track_trackable(child, name, overwrite=True)
