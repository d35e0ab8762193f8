"""The loss of the whole batch, and where backward passes of towers start for its gradient.

A loss is computed from *parts*: what is reduced over rows, as their mean or their sum, and what no
row enters. Of the whole batch, each part is known (see `extents`), and so is the loss, computed
again from these. Its gradient is what flows back from it to the parts, and on from each
tower's: through sums as it is, through means by the tower's share of the rows. So sums, sums
divided by other sums, as masks and weights of rows make them, and penalties that count once are
those of one device. Of a part that the graph tells nothing of, `loss_reduction` tells.
"""

import contextlib
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import copying
from replicate.compat.graph import id_of
from replicate.graphs import inner_sums, loss_operations, loss_warnings, state
from replicate.graphs.functions import line_of
from replicate.graphs.reduction_kinds import MEAN, SUM, WHOLE

_SCOPE = "replicate/loss/"
_MEANS = "replicate/cross_tower_mean/"
_DEEPEST = 100  # Operations between a loss and its parts.
_ONE_VALUE = ("Max", "Min", "Prod", "StridedSlice", "GatherV2")


class Part(NamedTuple):
    """What a loss is computed from.

    Attributes:
        tensor: Tower 0's.
        kind: `WHOLE`, `MEAN` or `SUM`.
        is_known: Whether the graph tells.
    """

    tensor: Any
    kind: str
    is_known: bool = True


class Start(NamedTuple):
    """Where a backward pass starts: a tensor of tower 0, and its gradient there, None for 1."""

    tensor: Any
    gradient: Any


class WholeLoss:
    """A tensor that is differentiated, or reported as a loss, for the rows of all towers.

    Args:
        group: The `Towers`.
        loss: Tower 0's, a scalar tensor of floats.
        is_metric: Whether it is a metric of the batch, of which others say what is not known.
    """

    def __init__(self, group, loss, is_metric=False):
        self._group = group
        self._is_metric = is_metric
        self._loss = loss
        self._parts = {}  # By the tensor.
        self._again = {}  # ids of the operations that compute the loss of parts.
        self._is_linear = True
        self._doubts = []  # Operations of parts that may be something else, with what says so.
        self._unknown = SUM if group.summed else MEAN  # What is not known is taken for this.
        self._unknowable = set()
        self._look(loss, True)
        kinds = {part.kind for part in self._parts.values()}
        by_hand = self._reduced_by_hand() if self._is_linear and SUM in kinds else []
        if by_hand:
            # The model knows of its towers, and divides by what it has of all of them.
            for key, part in self._parts.items():
                if part.kind == SUM:
                    self._parts[key] = Part(part.tensor, self._unknown, is_known=False)
            is_mean = all(op.name.startswith(_MEANS) for op in by_hand)
            if is_mean == group.summed:
                text = loss_warnings.SUM_AND_MEAN if is_mean else loss_warnings.SUM_AND_TOTAL
                self._doubts.append((text, loss.op))
            kinds = {part.kind for part in self._parts.values()}
        mixing = None if is_metric or group.tells_towers_apart else self._mixing()
        if mixing is not None:
            self._doubts.append((loss_warnings.OTHER_ROWS, mixing))
        for text, op in self._doubts:
            if op not in group.warned_of:  # When the gradient was made.
                group.warned_of.add(op)
                loss_warnings.warn(text, op)
        self.kind = None
        """`MEAN` or `SUM` if the whole loss is the towers' mean or sum, None if it is neither."""
        if self._is_linear and kinds <= {WHOLE, MEAN}:
            self.kind = MEAN
        elif self._is_linear and kinds <= {SUM}:
            self.kind = SUM

    @property
    def unknown(self):
        """The operations that give what the graph tells nothing of."""
        return [part.tensor.op for part in self._parts.values() if not part.is_known]

    def computes(self, op):
        """Whether an operation is done again, of what its inputs are for all rows."""
        return id_of(op) in self._again

    def check_reduction(self, summed):
        """Checks that losses of which gradients are kept apart become one as these do.

        Args:
            summed: Whether gradients of batches, or of towers by themselves, are added up later,
                instead of averaged.

        Raises:
            ValueError: If not.
        """
        if self.unknown:
            return
        if self.kind == (MEAN if summed else SUM):
            raise ValueError(
                "Gradients that are kept apart, of batches or of towers, are added up later if "
                "`loss_reduction` is `SUM`, else averaged, but "
                f"{self._loss.op.name} ({line_of(self._loss.op)}) is a {self.kind} over rows. "
                "Pass `replicate_model_fn(model_fn, loss_reduction=tf."
                f"losses.Reduction.{'SUM' if self.kind == SUM else 'MEAN'})`."
            )

    def value(self):
        """Returns the loss of all rows."""
        with self._made_once():
            if self.kind is not None:
                return self._of_all(Part(self._loss, self.kind, is_known=False))
            made = self._made(self._whole_parts())
            with tf.control_dependencies([self._loss]):  # And for what that waits for.
                return tf.identity(made)

    def starts(self, given):
        """Returns the `Start`s of the backward pass of a tower.

        Args:
            given: The gradient of the loss, a tensor that no row enters; None for 1.
        """
        group = self._group
        if self.kind is not None:
            summed = self.kind == SUM
            return [Start(self._loss, group.weighted(given, self._loss.dtype, summed))]
        with self._made_once():
            parts = [part for part in self._parts.values() if part.tensor.dtype.is_floating]
            wholes = self._whole_parts()
            made = self._made(wholes)
            wanted = [wholes[_key(part.tensor)] for part in parts]
            seeds = tf.gradients(made, wanted, given)
        found = []
        for part, seed in zip(parts, seeds):
            if seed is not None:
                summed = part.kind == SUM
                found.append(Start(part.tensor, group.weighted(seed, seed.dtype, summed)))
        return found

    @contextlib.contextmanager
    def _made_once(self):
        group, names = self._group, tf.name_scope(_SCOPE)
        with group.once(), group.in_merge_function(), names, tf.control_dependencies(None):
            yield

    def _look(self, tensor, is_linear, depth=0):
        """Finds the parts of a tensor; returns whether all are known.

        Args:
            tensor: The tensor.
            is_linear: Whether the loss is linear in it; then a scalar that is not known is taken
                for what `loss_reduction` says.
            depth: How many operations lead from it to the loss.
        """
        group, op = self._group, tensor.op
        kind = group.loss_extents.of(tensor)
        if kind == WHOLE:
            if op.type != "Const":
                # Random numbers are each tower's own.
                kind = MEAN if group.differ(tensor) else WHOLE
                self._parts[_key(tensor)] = Part(tensor, kind)
            return True
        if (_key(tensor), is_linear) in self._unknowable or depth > _DEEPEST:
            return False
        if not group.copies.is_boundary(tensor) and loss_operations.goes_on(op, group.loss_extents):
            before = dict(self._parts), dict(self._again), self._is_linear
            linear = loss_operations.is_linear(op, group.loss_extents)
            inner = is_linear and linear
            if all(self._look(given, inner, depth + 1) for given in op.inputs):
                self._is_linear = self._is_linear and linear
                self._again[id_of(op)] = op
                return True
            self._parts, self._again, self._is_linear = before
        unclear = id_of(op) in group.loss_extents.unclear
        if not unclear and (kind == SUM or (kind == MEAN and tensor.dtype.is_floating)):
            self._parts[_key(tensor)] = Part(tensor, kind)
            return True
        if is_linear and tensor.dtype.is_floating and tensor.shape.rank == 0:
            self._doubt(tensor, unclear)
            self._parts[_key(tensor)] = Part(tensor, self._unknown, is_known=False)
            return True
        self._unknowable.add((_key(tensor), is_linear))
        return False

    def _doubt(self, tensor, unclear):
        """Has a part that is not known said, if it may be no mean of the tower's rows."""
        group, op = self._group, tensor.op
        if loss_operations.is_drawn(tensor, group.copies):
            return
        if not group.summed and inner_sums.may_add_up(tensor, group.boundary.rows):
            self._doubts.append((loss_warnings.INNER_SUM, op))
        if loss_operations.chooses_rows(op):
            self._doubts.append((loss_warnings.CHOSEN_ROWS, op))
        is_averaged_loss = not group.summed and not self._is_metric
        if op.type in _ONE_VALUE and is_averaged_loss:
            self._doubts.append((loss_warnings.ONE_VALUE, op))
        is_sum = op.type in loss_operations.SUMS and not group.summed
        if is_sum and not loss_operations.is_averaged(op, group.boundary.rows):
            self._doubts.append((loss_warnings.SUM, op))
        is_other = op.type not in loss_operations.SUMS + loss_operations.DIVISIONS
        if is_other and is_averaged_loss and self._takes_sum(op):
            self._doubts.append((loss_warnings.SUM_IN, op))
        if op.type not in loss_operations.DIVISIONS:
            return
        is_doubtful = not group.summed if unclear else group.reach(op.inputs[1])
        if is_doubtful and not loss_operations.is_count(op, group.loss_extents):
            self._doubts.append((loss_warnings.DIVISION, op))

    def _takes_sum(self, op):
        values = [given for given in op.inputs if given.dtype.is_floating]
        return any(self._group.loss_extents.of(given) == SUM for given in values)

    def _mixing(self):
        """Returns the first operation by which rows enter the loss of others; None if none does."""
        mixed, copies = self._group.loss_extents.mixed, self._group.copies
        pending = [part.tensor for part in self._parts.values()]
        seen, found = set(), []
        while pending:
            tensor = pending.pop()
            op = tensor.op
            if id_of(op) in seen or not copies.rows.reach(tensor) or copies.is_boundary(tensor):
                continue
            seen.add(id_of(op))
            self._group.loss_extents.of(tensor)
            found += [op] if id_of(op) in mixed else []
            pending += op.inputs
        return min(found, key=id_of, default=None)

    def _reduced_by_hand(self):
        """Returns what is computed of all towers' values, and enters the loss."""
        pending, seen, found = [self._loss.op], set(), []
        copies = self._group.copies
        while pending:
            op = pending.pop()
            if id_of(op) in seen or state.makes_state(op):
                continue
            seen.add(id_of(op))
            if copies.is_once(op):
                found += [] if _is_constant(op) else [op]
                continue
            for tensor in op.inputs:
                if not copies.is_boundary(tensor):
                    pending.append(tensor.op)
        return found

    def _whole_parts(self):
        """Returns the parts for all rows, by tower 0's; new tensors, through which gradients go."""
        return {key: tf.identity(self._of_all(part)) for key, part in self._parts.items()}

    def _of_all(self, part):
        group, tensor = self._group, part.tensor
        if part.kind == WHOLE:
            return tensor
        if part.is_known and group.reach(tensor):
            return group.loss_extents.merged(tensor)
        return group.total(tensor, averaged=part.kind == MEAN)

    def _made(self, wholes):
        """Returns the loss, computed of its parts."""
        known = dict(wholes)
        for op in sorted(self._again.values(), key=id_of):
            inputs = [known.get(_key(given), given) for given in op.inputs]
            for output, made in zip(op.outputs, copying.again(op, inputs)):
                known[_key(output)] = made
        return known[_key(self._loss)]


def _key(tensor):
    return id_of(tensor.op), tensor.value_index


def _is_constant(op):
    return not op.inputs or op.type == "PlaceholderWithDefault"
