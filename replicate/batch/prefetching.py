"""Batches wait on the devices: while a step computes, the shards of the next batch are staged.

Tower i's shard lies in variables on device i, of which a step reads, and which it then assigns the
next shard. The iterator gives batches as optionals, so that the step that finds the input at its
end still trains what is staged; in the one after it the iterator raises, as on one device. What
would be made of a batch that is not there, such as its shards, is dead, in the sense of TensorFlow
1's control flow, and does not run.

A staged batch belongs to a session, like what an iterator itself has prefetched, and is not saved.
"""

import tensorflow.compat.v1 as tf

from replicate.batch import fresh_batch, input_graph
from replicate.batch.initialising import OF_SESSION
from replicate.batch.sharding import PREFETCH_SCOPE
from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.compat.graph import last_id, reference
from replicate.graphs import ancestors, line_of

_HOST = "/device:CPU:0"
_SMALL = 2**16
"""Elements of a constant that is one on each device."""


class Prefetched:
    """A batch that is taken from its iterators a step before towers train it.

    Args:
        batch: Pair of features and labels, as `input_fn` made them in this graph.

    Attributes:
        batch: Those of the next batch, which is to be split and staged.
        variables: What it is staged in, variables that belong to a session.
        advance: Operation that stages the next batch in a step; set by `stage`.

    Raises:
        ValueError: If the batch does not come from iterators alone, or does not go to the model
            alone.
    """

    def __init__(self, batch):
        leaves = tf.nest.flatten(batch, expand_composites=True)
        inputs = ancestors([leaf for leaf in leaves if isinstance(leaf, tf.Tensor)])
        self._last = input_graph.taken_from_iterators(inputs)
        self._iterators = [op.inputs[0] for op in self._last]
        input_graph.check_goes_nowhere_else(self._last, inputs)
        with tf.device(_HOST), tf.name_scope(PREFETCH_SCOPE):
            others = self._take_optionals()
        leaves = [others.get(id(leaf), leaf) for leaf in leaves]
        self.batch = tf.nest.pack_sequence_as(batch, leaves, expand_composites=True)
        self.variables = []
        self._staged = {}  # What a step takes, by what is staged and where.
        self._first, self._next = [], []  # Operations that stage a batch at first, and in a step.

    def _take_optionals(self):
        """Takes optionals of the iterators, of which all that was made of their batches is made.

        Returns:
            The tensors of the next batch, by the ids of those in whose place they are.
        """
        optionals = []
        for op in self._last:
            with tf.control_dependencies(op.control_inputs):
                given = tf.raw_ops.IteratorGetNextAsOptional(
                    iterator=op.inputs[0],
                    output_types=[tensor.dtype for tensor in op.outputs],
                    output_shapes=[tensor.shape for tensor in op.outputs],
                )
            optionals.append(given)
        there = [tf.raw_ops.OptionalHasValue(optional=optional) for optional in optionals]
        self._has_next = tf.reduce_all(tf.stack(there))
        self._of_next, pairs = [], []
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

    def stage(self, shards, devices, worker, is_whole):
        """Returns the `Shards` that a step takes, whose tensors are on the towers' devices.

        Args:
            shards: Those of the next batch.
            devices: Device strings of the towers.
            worker: Device string of the job and task that they belong to, empty outside a cluster.
            is_whole: Whether the whole batch is staged on the host as well.

        Returns:
            The `Shards`, and the pair of features and labels that a step takes; without `is_whole`,
            the next step's.
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

    def _stage_leaf(self, one, devices):
        """Returns what is staged of one of `Shards.split`."""
        leaf, axis, each, parts = one
        staged = [self._stage_all(part, device) for part, device in zip(parts, devices)]
        return self._stage_all(leaf, _HOST), axis, each, staged

    def _all(self, operations):
        """Returns an operation that runs after `operations`, and also if there is no batch."""
        with tf.control_dependencies(operations):
            done = tf.identity(fresh_batch.if_true(self._has_next, self._has_next))
        over = fresh_batch.if_false(self._has_next, self._has_next)
        return tf.raw_ops.Merge(inputs=[done, over]).output.op

    def _stage_all(self, structure, device):
        leaves = tf.nest.flatten(structure, expand_composites=True)
        staged = [self._stage_one(leaf, device) for leaf in leaves]
        return tf.nest.pack_sequence_as(structure, staged, expand_composites=True)

    def _stage_one(self, value, device):
        """Returns what a step takes in the place of a tensor of the next batch."""
        if not isinstance(value, tf.Tensor):
            return value
        # GPUs have no variables of strings, which they do not compute with, nor of int32, of which
        # a variable of another type holds the bits.
        on_cpu = tf.DeviceSpec.from_string(device).device_type == "CPU"
        place = _HOST if value.dtype == tf.string and not on_cpu else device
        key = reference(value), place
        if key not in self._staged and (value.shape.num_elements() or _SMALL) < _SMALL:
            # A model may need to know what is constant when it is built, such as a size.
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
                with tf.control_dependencies([taken]):
                    self._next.append(variable.assign(given, read_value=False))
                self._staged[key] = tf.bitcast(taken, value.dtype) if is_held else taken
        return self._staged[key]

    def _variable(self, dtype, shape, place):
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

    def merge(self, spec):
        """Returns a spec of training whose steps stage the next batch.

        Args:
            spec: The `EstimatorSpec` of all towers.

        Raises:
            ValueError: If the model takes something of the next batch, not what is staged.
        """
        self.check_is_left_alone()
        operations = self._last + self._of_next
        input_graph.forbid_fetching(operations, self._made_before)
        hook = _FillHook(self)
        return spec._replace(
            train_op=tf.group(spec.train_op, self.advance),
            training_hooks=(*spec.training_hooks, hook),
        )

    def check_is_left_alone(self):
        """Raises ValueError if anything takes the next batch but what stages it."""
        operations = self._last + self._of_next
        input_graph.check_is_left_alone(operations, self._made_before, self._made_until)

    def check_is_not_saved(self):
        """Raises ValueError if iterators are to be saved, which are a batch ahead of the model."""
        for iterator in self._iterators:
            for op in iterator.consumers():
                if op.type == "SerializeIterator":
                    raise ValueError(
                        "With `prefetch_to_devices`, an iterator is a batch ahead of the model, so "
                        f"that it must not be saved, but {op.name} ({line_of(op)}) does, as for a "
                        "`CheckpointInputPipelineHook`. Leave out one of the two."
                    )

    def fill(self, session):
        """Stages the first batch."""
        session.run(self._fill)


class _FillHook(tf.train.SessionRunHook):
    """Stages the first batch of each session.

    Args:
        prefetched: The `Prefetched`.
    """

    def __init__(self, prefetched):
        self._prefetched = prefetched

    def begin(self):
        """Looks at what hooks before this one have made."""
        self._prefetched.check_is_left_alone()
        self._prefetched.check_is_not_saved()

    def after_create_session(self, session, coord):
        """Takes the first batch, once the iterators are initialised."""
        del coord
        self._prefetched.fill(session)
