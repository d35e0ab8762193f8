"""Stages the shards of the next batch on the towers' devices while a step computes.

Tower i's shard is in variables on device i. A step reads them and then assigns the next shard to
them. The iterator gives batches as optionals, so that the step that finds the end of the input
still trains the staged batch; in the next step the iterator raises, as on one device. Values that
depend on a batch that does not exist, such as its shards, are dead in the sense of TensorFlow 1's
control flow, and are not computed.

A staged batch belongs to a session, like the prefetched batches of an iterator, and is not saved.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import fresh_batch, input_graph
from replicate.batch.sharding import PREFETCH_SCOPE, Shards, Split
from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.compat.graph import last_id, reference
from replicate.graphs import OF_SESSION, ancestors, line_of

_HOST = "/device:CPU:0"
_SMALL = 2**16
"""Only a constant of fewer elements is repeated on each device."""


class Prefetched:
    """A batch that is taken from its iterators a step before towers train it.

    Args:
        batch: Pair of features and labels, as `input_fn` made them in this graph.

    Attributes:
        batch: Features and labels of the next batch, to be split and staged.
        variables: Variables that hold the staged batch and belong to a session.
        advance: Operation that stages the next batch in a step; set by `stage`.

    Raises:
        ValueError: If the batch comes from anything but iterators, or goes to anything but the
            model.
    """

    def __init__(self, batch: tuple[Any, Any]) -> None:
        leaves = tf.nest.flatten(batch, expand_composites=True)
        inputs = ancestors([leaf for leaf in leaves if isinstance(leaf, tf.Tensor)])
        self._last = input_graph.taken_from_iterators(inputs)
        self._iterators = [op.inputs[0] for op in self._last]
        input_graph.check_goes_nowhere_else(self._last, inputs)
        with tf.device(_HOST), tf.name_scope(PREFETCH_SCOPE):
            others = self._take_optionals()
        leaves = [others.get(id(leaf), leaf) for leaf in leaves]
        self.batch = tf.nest.pack_sequence_as(batch, leaves, expand_composites=True)
        self.variables: list[Any] = []
        self._staged: dict[Any, tf.Tensor] = {}  # Tensors of a step, by staged tensor and device.
        self._first: list[tf.Operation] = []  # Operations that stage the first batch.
        self._next: list[tf.Operation] = []  # Operations that stage the next batch in a step.

    def _take_optionals(self) -> dict[int, tf.Tensor]:
        """Takes optionals from the iterators, and replaces their batches by the optionals' values.

        Returns:
            The tensors of the next batch, by the ids of the tensors that they replace.
        """
        optionals = []
        for op in self._last:
            # It takes the place of `op`, and waits for the same operations.
            with tf.control_dependencies(op.control_inputs):
                given = tf.raw_ops.IteratorGetNextAsOptional(
                    iterator=op.inputs[0],
                    output_types=[tensor.dtype for tensor in op.outputs],
                    output_shapes=[tensor.shape for tensor in op.outputs],
                )
            optionals.append(given)
        there = [tf.raw_ops.OptionalHasValue(optional=optional) for optional in optionals]
        # A batch needs the values of all iterators, so the first one that ends ends the input.
        self._has_next = tf.reduce_all(tf.stack(there))
        self._of_next: list[tf.Operation] = []
        pairs: list[tuple[tf.Tensor, tf.Tensor]] = []
        for op, optional in zip(self._last, optionals):
            values = tf.raw_ops.OptionalGetValue(
                optional=fresh_batch.if_true(self._has_next, optional),
                output_types=[tensor.dtype for tensor in op.outputs],
                output_shapes=[tensor.shape for tensor in op.outputs],
            )
            self._of_next.append(values[0].op)
            for after in graph_lib.control_outputs(op):
                before = [values[0].op if one is op else one for one in after.control_inputs]
                graph_lib.set_control_inputs(after, before)
            pairs += zip(op.outputs, values)
        partitioning.replace(pairs)
        return {id(tensor): other for tensor, other in pairs}

    def stage(
        self, shards: Shards, devices: Sequence[str], worker: str, is_whole: bool
    ) -> tuple[Shards, Any]:
        """Returns the `Shards` that a step trains, with tensors on the towers' devices.

        Args:
            shards: Those of the next batch.
            devices: Device strings of the towers.
            worker: Device string of the towers' job and task, empty outside a cluster.
            is_whole: Whether the whole batch is staged on the host as well.

        Returns:
            The `Shards`, and the pair of features and labels that a step trains; without
            `is_whole`, the next step's.
        """
        self._made_before = last_id(tf.get_default_graph())
        self._worker = worker
        with tf.device(_HOST), tf.name_scope(PREFETCH_SCOPE):
            state = self._variable(tf.int32, tf.TensorShape([]), _HOST)
            self._is_there = fresh_batch.taken(state, self._last, self._iterators)
            features, labels = (
                [self._stage_all(part, device) for part, device in zip(parts, devices)]
                for parts in (shards.features, shards.labels)
            )
            rows, starts, held = (
                [self._stage_one(count, _HOST) for count in counts]
                for counts in (shards.rows, shards.starts, shards.held)
            )
            total = self._stage_one(shards.total, _HOST)
            batch, split = self.batch, shards.split
            if is_whole:
                batch = self._stage_all(batch, _HOST)
                split = [self._stage_leaf(one, devices) for one in split]
            after = tf.where_v2(self._has_next, fresh_batch.FRESH, fresh_batch.OVER)
            with tf.control_dependencies([self._is_there]):  # By then the batch is taken.
                told = state.assign(after, read_value=False)
            self.advance = tf.group(told, self._all(self._next))
            self._fill = tf.group(state.assign(after, read_value=False), self._all(self._first))
        self._made_until = last_id(tf.get_default_graph())
        staged = shards._replace(
            features=features,
            labels=labels,
            rows=rows,
            total=total,
            starts=starts,
            held=held,
            split=split,
        )
        return staged, batch

    def _stage_leaf(self, one: Split, devices: Sequence[str]) -> Split:
        """Returns the staged form of a leaf that was split."""
        staged = [self._stage_all(part, device) for part, device in zip(one.shards, devices)]
        return one._replace(leaf=self._stage_all(one.leaf, _HOST), shards=staged)

    def _all(self, operations: Sequence[tf.Operation]) -> tf.Operation:
        """Returns an operation that runs after `operations`, and also if there is no batch."""
        with tf.control_dependencies(operations):
            done = tf.identity(fresh_batch.if_true(self._has_next, self._has_next))
        over = fresh_batch.if_false(self._has_next, self._has_next)
        return tf.raw_ops.Merge(inputs=[done, over]).output.op

    def _stage_all(self, structure: Any, device: str) -> Any:
        leaves = tf.nest.flatten(structure, expand_composites=True)
        staged = [self._stage_one(leaf, device) for leaf in leaves]
        return tf.nest.pack_sequence_as(structure, staged, expand_composites=True)

    def _stage_one(self, value: Any, device: str) -> Any:
        """Returns the tensor that a step uses in place of a tensor of the next batch.

        Values that are not tensors are returned unchanged.
        """
        if not isinstance(value, tf.Tensor):
            return value
        # GPUs have no variables of strings, which stay on the host, nor of int32, whose bits a
        # float32 variable holds.
        on_cpu = tf.DeviceSpec.from_string(device).device_type == "CPU"
        place = _HOST if value.dtype == tf.string and not on_cpu else device
        key = reference(value), place
        # Neither an unknown shape (None) nor an empty one (0) counts as small.
        if key not in self._staged and (value.shape.num_elements() or _SMALL) < _SMALL:
            # While it is built, a model may need the value of a constant, such as a size.
            constant = tf.get_static_value(value)
            if constant is not None:
                with tf.control_dependencies(None), tf.device(place):
                    self._staged[key] = tf.constant(constant, value.dtype)
        if key not in self._staged:
            is_held = value.dtype == tf.int32 and not on_cpu
            dtype = tf.float32 if is_held else value.dtype
            variable = self._variable(dtype, value.shape, place)
            with tf.device(place):
                with tf.control_dependencies([self._is_there]):
                    taken = variable.read_value()
                taken.set_shape(value.shape)
                given = tf.bitcast(value, dtype) if is_held else value
                self._first.append(variable.assign(given, read_value=False))
                # The step reads its shard before the next one overwrites it.
                with tf.control_dependencies([taken]):
                    self._next.append(variable.assign(given, read_value=False))
                self._staged[key] = tf.bitcast(taken, value.dtype) if is_held else taken
        return self._staged[key]

    def _variable(self, dtype: tf.DType, shape: tf.TensorShape, place: str) -> Any:
        # Unknown sizes are 0 until a batch is staged, and may then change with each batch.
        known = [size or 0 for size in shape.as_list()] if shape.rank else []
        with tf.init_scope(), tf.name_scope(None), tf.device(self._worker), tf.device(place):
            variable = tf.Variable(
                lambda: tf.zeros(known, dtype),
                name=f"{PREFETCH_SCOPE}{len(self.variables)}",
                shape=shape,
                validate_shape=shape.is_fully_defined(),
                trainable=False,
                use_resource=True,
                collections=[tf.GraphKeys.LOCAL_VARIABLES, OF_SESSION],
            )
        self.variables.append(variable)
        return variable

    def merge(self, spec: tf.estimator.EstimatorSpec) -> tf.estimator.EstimatorSpec:
        """Returns a spec of training whose steps stage the next batch.

        Args:
            spec: The `EstimatorSpec` of all towers.

        Raises:
            ValueError: If the model uses the next batch in place of the staged one.
        """
        self.check_is_left_alone()
        operations = self._last + self._of_next
        input_graph.forbid_fetching(operations, self._made_before)
        hook = _FillHook(self)
        return spec._replace(
            train_op=tf.group(spec.train_op, self.advance),
            training_hooks=(*spec.training_hooks, hook),
        )

    def check_is_left_alone(self) -> None:
        """Raises a ValueError if another operation than those that stage the next batch uses it."""
        operations = self._last + self._of_next
        input_graph.check_is_left_alone(operations, self._made_before, self._made_until)

    def check_is_not_saved(self) -> None:
        """Raises a ValueError if iterators, which are one batch past the model, will be saved."""
        for iterator in self._iterators:
            for op in iterator.consumers():
                if op.type == "SerializeIterator":
                    raise ValueError(
                        "With `prefetch_to_devices`, an iterator is one batch past the model, so "
                        f"it must not be saved, but {op.name} ({line_of(op)}) saves it, as for a "
                        "`CheckpointInputPipelineHook`. Leave out one of the two."
                    )

    def fill(self, session: tf.Session) -> None:
        """Stages the first batch."""
        session.run(self._fill)


class _FillHook(tf.train.SessionRunHook):
    """Stages the first batch of each session.

    Args:
        prefetched: The `Prefetched`.
    """

    def __init__(self, prefetched: Prefetched) -> None:
        self._prefetched = prefetched

    def begin(self) -> None:
        """Checks the operations that earlier hooks have added."""
        self._prefetched.check_is_left_alone()
        self._prefetched.check_is_not_saved()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Takes the first batch, after the iterators are initialised."""
        del coord
        self._prefetched.fill(session)
