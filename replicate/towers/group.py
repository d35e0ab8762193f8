"""The towers of one graph: the model is built once, as tower 0, and its graph is copied for others.

While the model is built, there is one tower. Where the values of all towers are needed, for sums,
gathered gradients or merged metrics, `Towers.each` gives *stand-ins* for those of the others. When
the model is complete, `Towers.finish` copies what leads to them, at once, and puts the copies in
their places. What is made of the values of all towers is made *once*, and is never copied.
"""

import contextlib
import threading

import tensorflow.compat.v1 as tf

from replicate.batch import row_weights
from replicate.compat import copying, seeds
from replicate.compat import graph as graph_lib
from replicate.gathering import Gather, collectives
from replicate.graphs import Extents
from replicate.towers import own_state, packed_weights, waiting
from replicate.towers.boundary import put_rows
from replicate.towers.copies import Copies, last_id
from replicate.towers.gathered_gradients import Gathered
from replicate.towers.per_tower import PerTower
from replicate.towers.tower_index import TowerIndex

_SCOPE = "replicate/towers/"
_local = threading.local()


def current():
    """Returns the `Towers` whose model this thread builds, None if it builds none."""
    return getattr(_local, "towers", None)


class Towers:
    """The towers of one call of a replicated `model_fn`.

    Attributes:
        size: N, the number of towers.
        devices: One device string per tower.
        consolidation_device: Device string of what is computed once for all towers.
        variables: The `SharedVariables` of the towers.
        row_weights: The `Weights` of the towers' means, which add up to 1.
        counts: The `Weights` of the towers' sums: 1, or 0 of a tower without rows.
        loss_weights: The `Weights` of the towers' losses and gradients, one of these two.
        graph: The graph under construction.
        copies: The `Copies`.
        boundary: The `Boundary`: the rows that tower 0 has, and the copies their own of.
        merging: Whether a merge function runs.
        summed: Whether the towers' losses are added up, instead of averaged.
        summed_on: Device strings of where gradients are summed.
        uses_nccl: Whether NCCL sums them.
        declarations: What `replicate.metrics.declare_merge` was told.
        unmerged: Pairs of a name and the operation that updates what has it, from the rows of tower
            0 alone.
        averaged, of_statistics: Such pairs of metrics; see `batch_metrics`.
    """

    def __init__(self, devices, consolidation_device, variables, shards, summed):
        self.size = len(devices)
        self.devices = devices
        self.consolidation_device = consolidation_device
        self.variables = variables
        self.summed = summed
        self.row_weights = row_weights(shards)
        self.counts = self.row_weights.counted()
        self.loss_weights = self.counts if summed else self.row_weights
        self.graph = tf.get_default_graph()
        self.copies = Copies(self.graph, devices)
        self.boundary = put_rows(shards, devices, self.copies)
        self.merging = False
        self.summed_on = set()
        self.uses_nccl = False
        self.declarations = []
        self.unmerged = []
        self.averaged = []
        self.of_statistics = []
        self.how = Gather()
        self.device_depth = None  # Device scopes open where the model starts.
        self._scopes = graph_lib.Scopes(self.graph)
        self._own_weights = {}
        self._index = None
        self._stand_ins = []
        self._fetches = []
        self.changed_inside = []
        self._once_depth = 0
        self.extents = Extents(self)
        self.warned_of = set()  # Operations.
        self.loss_extents = Extents(self, loosely=True)
        self.gathered = Gathered(self.graph, self.copies.rows)

    @contextlib.contextmanager
    def building(self, since):
        """The scopes in which the model is built, as tower 0.

        Args:
            since: Id of the last operation that was there before any of the towers'.
        """
        outer, _local.towers = current(), self
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(graph_lib.entered_once(self.graph))
                stack.enter_context(seeds.of_one_device(self.graph, last_id(self.graph) - since))
                stack.enter_context(tf.device(self.devices[0]))
                self.device_depth = graph_lib.device_depth(self.graph)
                stack.enter_context(tf.variable_creator_scope(self.variables.creator(self)))
                yield
        finally:
            _local.towers = outer

    @contextlib.contextmanager
    def once(self, place=None):
        """A scope whose operations are made once for all towers, on the consolidation device.

        Args:
            place: Another device string; None: that one.
        """
        first = last_id(self.graph) + 1
        self._once_depth += 1
        try:
            device = tf.device(place or self.consolidation_device)
            with seeds.uncounted(), self._scopes.again(), device:
                yield
        finally:
            self._once_depth -= 1
            if not self._once_depth:
                self.copies.made_once(first, last_id(self.graph))

    @contextlib.contextmanager
    def of_session(self, index):
        """A scope in which variables are made that tower `index` has of its own in a session."""
        once = self.once(self.devices[index])
        alone = tf.control_dependencies(None)
        with tf.init_scope(), once, self.in_merge_function(), tf.name_scope(None), alone:
            yield

    @contextlib.contextmanager
    def in_merge_function(self):
        """A scope in which the towers are one."""
        merging, self.merging = self.merging, True
        try:
            yield
        finally:
            self.merging = merging

    def each(self, tensors, copies=None):
        """Returns N lists, of which the first is `tensors`, and the others are the other towers'.

        The others' are stand-ins until the towers are finished.

        Args:
            tensors: List of tensors of this graph, outside of control flow.
            copies: The `Copies` that they will be, by default those of the model.
        """
        lists = [list(tensors)]
        for index, device in enumerate(self.devices[1:], 1):
            if not tensors:
                lists.append([])
                continue
            with self.once(device), tf.control_dependencies(None), tf.name_scope(_SCOPE):
                others = tf.identity_n(lists[0], name=f"tower_{index}")
            self._stand_ins.append((copies or self.copies, index, lists[0], others))
            lists.append(list(others))
        return lists

    def total(self, tensor, averaged=False):
        """Returns the sum of a tensor over towers, or its mean, weighted by rows.

        What a tower without rows computes does not count. To be called in `once`.
        """
        weights, values = self.row_weights, []
        for index, (own,) in enumerate(self.each([tensor])):
            with tf.device(self.devices[index]):
                if averaged:
                    own = own * weights.of(index, own.dtype)
                values.append(weights.mask(index, own, tf.zeros_like(own)))
        return tf.add_n(values)

    def each_structure(self, value):
        """Returns a `PerTower` of a nested structure; what is no tensor is the same in all."""
        leaves = tf.nest.flatten(value, expand_composites=True)
        leaves = [leaf.tensor if isinstance(leaf, TowerIndex) else leaf for leaf in leaves]
        are_tensors = [isinstance(leaf, tf.Tensor) for leaf in leaves]
        own = [leaf for leaf, is_tensor in zip(leaves, are_tensors) if is_tensor]
        if not own:
            return PerTower([value] * self.size)
        values = []
        for others in self.each(own):
            others = iter(others)
            flat = [next(others) if ours else leaf for leaf, ours in zip(leaves, are_tensors)]
            values.append(tf.nest.pack_sequence_as(value, flat, expand_composites=True))
        return PerTower(values)

    def own(self, values):
        """Returns tower 0's of N tensors, as a tensor of which the copies take theirs."""
        with self.once(self.devices[0]), tf.control_dependencies(None), tf.name_scope(_SCOPE):
            # Not foldable: no static shape may come of what is another number in each tower.
            first = tf.placeholder_with_default(values[0], values[0].shape)
        self.copies.put([first, *values[1:]])
        return first

    @property
    def index(self):
        """The tower's index, an int32 scalar tensor that is another one in each copy."""
        if self._index is None:
            self._index = self._of_each(lambda index: tf.constant(index, tf.int32))
        return self._index

    @property
    def tells_towers_apart(self):
        """Whether the model asked which tower it is, so that towers may train what they like."""
        return self._index is not None

    def weighted(self, gradient, dtype, summed=False):
        """Returns a gradient times what the tower counts for in a mean over rows, or in a sum.

        Args:
            gradient: A tensor or `tf.IndexedSlices`; None for 1, and returned for it.
            dtype: Its type.
            summed: Whether the tower counts as in a sum.
        """
        weights = self.counts if summed else self.row_weights
        if weights.equal == 1:
            return gradient
        weight = self.weight(weights, dtype)
        return weight if gradient is None else collectives.scale(gradient, weight)

    def weight(self, weights, dtype):
        """Returns the tower's own of `Weights`, a scalar tensor of `dtype`."""
        dtype = tf.as_dtype(dtype).base_dtype
        key = id(weights), dtype
        if key not in self._own_weights:
            self._own_weights[key] = self._of_each(lambda index: weights.of(index, dtype))
        return self._own_weights[key]

    def _of_each(self, make):
        with self.once(), tf.control_dependencies(None), tf.name_scope(_SCOPE):
            values = []
            for index, device in enumerate(self.devices):
                with tf.device(device):
                    values.append(make(index))
        return self.own(values)

    def reach(self, gradient):
        """Returns whether a tensor or `tf.IndexedSlices` depends on the tower's rows."""
        return _reach(self.copies.rows, gradient)

    def differ(self, value):
        """Returns whether a tensor or `tf.IndexedSlices` differs among towers."""
        return _reach(self.copies.differing, value)

    def waits_for(self, fetches):
        """Lets what runs once for all towers wait for all of them where it waits for one.

        Args:
            fetches: Operations or tensors that are run.
        """
        self._fetches += fetches

    def finish(self):
        """Copies tower 0's graph for all that was asked for, once the model is complete.

        Returns:
            Operations that a step has to run besides, to merge what functions and loops changed.
        """
        stand_ins, self._stand_ins = self._stand_ins, []
        self.copies.make([op for one, _, _ in self.changed_inside for op in one.ends])
        wanted = {}
        for copies, _, tensors, _ in stand_ins:
            wanted.setdefault(copies, []).extend(tensors)
        for copies, tensors in wanted.items():
            copies.make(tensors)
        pairs = [
            pair
            for copies, index, tensors, others in stand_ins
            for pair in zip(others, copies.of(tensors, index))
        ]
        copying.replace(pairs)
        for other, copied in pairs:  # For whoever waits for the stand-in, or fetches it.
            copying.redirect(other.op, other.value_index, copied)
        merges = own_state.merge(self, self.changed_inside)
        waiting.for_all(self, self._fetches)
        packed_weights.pack(self)
        return merges


def _reach(rows, value):
    if isinstance(value, tf.IndexedSlices):
        return rows.reach(value.values) or rows.reach(value.indices)
    return isinstance(value, tf.Tensor) and rows.reach(value)
