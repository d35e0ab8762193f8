"""Variables of which every tower has a replica on its own device.

No weight crosses devices then: what does is the gathered gradient, with which each tower updates
its own replica, by a copy of the optimizer's operations with slots of its own. All are computed
from the same numbers, so they stay equal. Tower 0's have the usual names, and are what checkpoints
hold; the others begin every session with their values.
"""

import tensorflow.compat.v1 as tf

from replicate.compat.functions import function_bodies
from replicate.compat.graph import id_of, reference
from replicate.compat.repetition import Repetition
from replicate.gathering import collectives
from replicate.graphs import line_of, state, updates


def initial_value(first):
    """Returns the value of tower 0's variable `first`, read where that is.

    To be read when a replica is initialised. It must not be read in a function that makes the
    initial value: TensorFlow would place that with the replica, and all that is with the replica
    on the device of `first`.
    """
    with tf.init_scope(), tf.colocate_with(None, ignore_existing=True), tf.device(first.device):
        # What reads a variable without a handle is the variable's own memory, which the replica
        # would take for its own, and get all updates of.
        return tf.raw_ops.Snapshot(input=first.read_value())


class Replicas:
    """The replicas of one graph's variables, those of optimizers included."""

    def __init__(self):
        self.later = []
        """The later towers' replicas."""
        self._of = {}  # By the id of tower 0's operation: tower 0's variable, and all towers'.
        self._made = []  # What optimizers made while they applied gradients.
        self._updates = set()  # Operations by which optimizers update tower 0's.

    def make(self, first, group):
        """Makes the replicas of tower 0's variable `first`, which copies have in its place."""
        replicas = [first]
        for index in range(1, group.size):
            with group.of_session(index):
                replicas.append(
                    tf.Variable(
                        initial_value(first),
                        trainable=False,
                        collections=[tf.GraphKeys.LOCAL_VARIABLES],
                        use_resource=hasattr(first, "handle"),
                        name=f"replicate/tower_{index}/{first.op.name}",
                    )
                )
        self._of[id_of(first.op)] = first, replicas
        self.later += replicas[1:]
        group.copies.substitute([variable.op.outputs[0] for variable in replicas])

    def made_by_optimizer(self, variable):
        """Takes a variable that an optimizer made while it applied gradients."""
        self._made.append(variable)

    def apply(self, optimizer, group, how):
        """Returns a function that takes what `apply_gradients` does, for all towers' variables.

        Args:
            optimizer: The wrapped optimizer.
            group: The `Towers`, in a merge function.
            how: The `Gather`, by which updated gradients go to the towers, too.

        Raises:
            ValueError: If towers cannot update variables by themselves.
        """
        if isinstance(optimizer, tf.train.SyncReplicasOptimizer):
            raise ValueError(
                "With `variable_placement='replicated'`, each tower updates its own variables, but "
                "a `SyncReplicasOptimizer` updates those that workers share. Place variables by "
                "'consolidation' or 'round_robin'."
            )

        def apply_gradients(grads_and_vars, *args, **kwargs):
            pairs = list(grads_and_vars)
            by_tower = collectives.broadcast(pairs, group, how)
            own = [(gradient, v) for gradient, (_, v) in zip(by_tower[0], pairs)]
            self._made = []
            repetition = Repetition(tf.get_default_graph())
            with tf.device(group.devices[0]):
                applied = optimizer.apply_gradients(own, *args, **kwargs)
            fetches = [
                each
                for each in tf.nest.flatten(applied)
                if isinstance(each, (tf.Operation, tf.Tensor))
            ]
            operations = repetition.leading_to(fetches)
            self._updates.update(operations)
            self._replicate_state(operations, repetition, group)
            done = list(fetches)
            for index in range(1, group.size):
                taken = {}
                for first, other in zip(by_tower[0], by_tower[index]):
                    for a, b in zip(_parts(first), _parts(other)):
                        taken[reference(a)] = b
                for _, replicas in self._of.values():
                    taken[reference(replicas[0].op.outputs[0])] = replicas[index].op.outputs[0]
                names = tf.name_scope(f"replicate/replicas/tower_{index}/")
                with tf.device(group.devices[index]), names:
                    devices = {group.devices[0]: group.devices[index]}
                    done += repetition.repeat(operations, fetches, taken, index, devices)
            return tf.group(*done)

        return apply_gradients

    def _replicate_state(self, operations, repetition, group):
        """Makes replicas of what these operations change, besides what is trained."""
        made = {id_of(variable.op): variable for variable in self._made if hasattr(variable, "op")}
        step = tf.train.get_global_step()
        bodies = None
        for op in operations:
            inside = []
            if state.kind(op).calls_functions:
                bodies = bodies or function_bodies(op.graph)
                found = updates.written_inside(op.node_def, [False] * len(op.inputs), bodies)
                inside = [op.inputs[position] for position in found]
            for handle in state.handles(op) if state.writes(op) else inside:
                memory = state.source(repetition.outer(handle))
                if id_of(memory) in self._of:
                    continue
                if id_of(memory) in made:
                    self.make(made[id_of(memory)], group)
                elif step is not None and memory is step.op:
                    self.make(step, group)
                elif state.assigns(op) or (inside and memory.type == "VarHandleOp"):
                    raise ValueError(
                        "With `variable_placement='replicated'`, an optimizer updates each tower's "
                        f"variables, but this one changes '{memory.name}', which the towers share, "
                        f"each time, by {op.name}. Let it make its variables in `apply_gradients`, "
                        "and count steps by the argument `global_step`; or place variables by "
                        "'consolidation' or 'round_robin'."
                    )

    def check_assigned(self, train_op, group):
        """Raises if something else than an optimizer changes what is replicated in a step.

        Args:
            train_op: The train operation of all towers.
            group: The `Towers`.

        Raises:
            ValueError: If so; names the variable and the operation.
        """
        reached = updates.ancestors([train_op])
        step = tf.train.get_global_step()
        for first, _ in self._of.values():
            for op in updates.changes(first) if first is not step else ():
                if op in reached and op not in self._updates and not group.copies.is_once(op):
                    raise ValueError(
                        "With `variable_placement='replicated'`, optimizers alone may change what "
                        "is trained, which they do in every tower, but "
                        f"'{first.name}' is changed by {op.name} ({line_of(op)}), too. "
                        "Place variables by 'consolidation' or 'round_robin'."
                    )


def _parts(gradient):
    if gradient is None:
        return []
    if isinstance(gradient, tf.IndexedSlices):
        parts = [gradient.values, gradient.indices, gradient.dense_shape]
        return [part for part in parts if part is not None]
    return [gradient]
