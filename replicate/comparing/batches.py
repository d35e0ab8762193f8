"""The batches that both runs see: read once from the user's input, and given again from memory."""

import inspect

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2


def read(input_fn, mode, params, config, most):
    """Returns the first batches that an `input_fn` gives.

    Args:
        input_fn: As `tf.estimator.Estimator` takes it: a function of `mode`, `params` and `config`
            or some of them, that returns a dataset, or features with or without labels.
        mode: The `ModeKeys` that it is called with.
        params: The `params`.
        config: The `RunConfig`.
        most: How many batches to read; all, if the input has fewer.

    Returns:
        The `Batches`.

    Raises:
        ValueError: If the input returns something else, or ends before the first batch.
    """
    given = {"mode": mode, "params": params, "config": config}
    accepted = inspect.signature(input_fn).parameters
    with tf.Graph().as_default():
        tf.set_random_seed(config.tf_random_seed)
        tf.train.get_or_create_global_step()  # The Estimator makes it first, too.
        made = input_fn(**{name: value for name, value in given.items() if name in accepted})
        if isinstance(made, tf2.data.Dataset):
            iterator = tf.data.make_initializable_iterator(made)
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            made = iterator.get_next()
        batches = Batches(_features_and_labels(made))
        creator = tf.train.ChiefSessionCreator(config=config.session_config)
        # The end of the input ends its scope.
        with tf.train.MonitoredSession(creator) as session:
            while len(batches) < most and not session.should_stop():
                batches.add(session.run(batches.tensors))
    if not len(batches):
        raise ValueError(
            "An input must give at least one batch to compare, but `input_fn` "
            f"{getattr(input_fn, '__name__', input_fn)!r} ended before the first. Let it return "
            "data."
        )
    return batches


def _features_and_labels(made):
    if not isinstance(made, (list, tuple)):
        return made, None
    if len(made) != 2:
        raise ValueError(
            "`input_fn` must return a dataset, features, or a pair of features and labels, but "
            f"returned {len(made)} values. Put all features into one dict."
        )
    return tuple(made)


class Batches:
    """Batches in memory.

    Args:
        structure: Features and labels, nested; tensors, and what is the same in every batch.
    """

    def __init__(self, structure):
        self._structure = structure
        self._leaves = tf.nest.flatten(structure, expand_composites=True)
        self._arrays = []
        self._next = 0  # The place of the next batch.
        self.tensors = [leaf for leaf in self._leaves if isinstance(leaf, tf.Tensor)]
        """The tensors of which a batch is made."""

    def __len__(self):
        return len(self._arrays)

    def add(self, arrays):
        """Takes one more batch, what the tensors are in it."""
        # Scalar strings come as `bytes`, which an array of fixed length would cut at a zero.
        objects = [object if isinstance(array, bytes) else None for array in arrays]
        self._arrays.append([np.asarray(*pair) for pair in zip(arrays, objects)])

    @property
    def rows(self):
        """How many rows each batch has, None for those whose tensors do not agree on it."""
        dense = [leaf for leaf in tf.nest.flatten(self._structure) if isinstance(leaf, tf.Tensor)]
        places = [
            index
            for index, tensor in enumerate(self.tensors)
            if any(tensor is leaf for leaf in dense)
        ]
        found = []
        for arrays in self._arrays:
            counts = {arrays[index].shape[0] for index in places if arrays[index].ndim}
            found.append(counts.pop() if len(counts) == 1 else None)
        return tuple(found)

    def begin_again(self):
        """Has the first batch come next, where an `input_fn` gives batches already."""
        self._next = 0

    def input_fn(self, repeated=False):
        """Returns an `input_fn` without arguments that gives these batches, in order.

        Types and static shapes are those of the tensors that they were read from.

        Args:
            repeated: Whether they begin again at the end, for models that take several in a step.
        """

        def rounds():
            self.begin_again()
            while self._next < len(self._arrays):
                place = self._next
                self._next += 1
                if repeated:
                    self._next %= len(self._arrays)
                # Its place comes first, for batches that hold no tensor.
                yield (place, *self._arrays[place])

        def input_fn():
            dataset = tf.data.Dataset.from_generator(
                rounds,
                (tf.int64, *(tensor.dtype for tensor in self.tensors)),
                (tf.TensorShape([]), *(tensor.shape for tensor in self.tensors)),
            )
            options = tf.data.Options()  # Nothing is read ahead of what begins again.
            options.experimental_optimization.apply_default_optimizations = False
            dataset = dataset.with_options(options)
            _, *tensors = tf.data.make_one_shot_iterator(dataset).get_next()
            read = iter(tensors)
            leaves = [next(read) if isinstance(one, tf.Tensor) else one for one in self._leaves]
            return tf.nest.pack_sequence_as(self._structure, leaves, expand_composites=True)

        return input_fn
