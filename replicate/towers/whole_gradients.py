"""Gradients of variables are the whole batch's from where they are made.

While a model is built as towers, whoever asks for the gradients of what all towers share gets those
of the whole batch: Σ wᵢ·gᵢ, where the backward pass of tower i starts from the weight wᵢ of its
loss, so that nothing is scaled afterwards. Whatever the model does to them, it does once. Gradients
of what depends on rows, such as activations, stay the tower's own, of a loss of weight 1.
"""

from __future__ import annotations

import contextlib
import threading

import tensorflow.compat.v1 as tf

from replicate import towers
from replicate.batch import losses_are_added_up
from replicate.compat import graph as graph_lib
from replicate.compat import seeds
from replicate.compat.interception import gradients_made_by
from replicate.graphs import MEAN, SUM, Start, WholeLoss, axis_of
from replicate.towers import gathered_gradients

_local = threading.local()
# Of TensorFlow's function, after the first three.
_ARGUMENTS = (
    "name",
    "colocate_gradients_with_ops",
    "gate_gradients",
    "aggregation_method",
    "stop_gradients",
    "unconnected_gradients",
    "src_graph",
)


class _Pass:
    """A backward pass that is being built.

    Attributes:
        is_weighted: Whether it starts from the losses' weights.
    """

    def __init__(self, is_weighted):
        self.is_weighted = is_weighted


def is_weighted():
    """Whether the backward pass that is being built starts from the losses' weights."""
    running = getattr(_local, "running", None)
    return running is not None and running.is_weighted


def intercepted():
    """A scope in which gradients are those of the whole batch, where towers are built."""
    return gradients_made_by(_of_graph, _of_tape)


@contextlib.contextmanager
def gathered_by(step=None, apart=False, own=False):
    """A scope in which gradients are gathered in the way of an optimizer.

    Args:
        step: The optimizer's `TrainingStep`.
        apart: Whether they are not gathered, but stay each tower's, weighted.
        own: Whether, besides, they are not weighted.
    """
    before = getattr(_local, "way", None)
    before = before or (None, False, False)
    _local.way = step, apart or before[1], own or before[2]
    try:
        yield
    finally:
        _local.way = before


def own_gradients() -> contextlib.AbstractContextManager[None]:
    """A scope in which gradients of variables stay each tower's own, of its own loss.

    For what has to see the gradients of single towers, such as how far they scatter:

        with replicate.own_gradients():
            grads = tf.gradients(loss, variables)
        squares = replicate.cross_tower_mean([grad**2 for grad in grads])

    Backward passes start from 1 there, not from the weight of the tower's loss. Applied by a
    `TowerOptimizer`, such gradients are gathered as those that are made by hand are. On other
    engines than towers, gradients are the replica's own anyway.

    Returns:
        A context manager.
    """
    return gathered_by(apart=True, own=True)


@contextlib.contextmanager
def _running(is_weighted_pass):
    before = getattr(_local, "running", None)
    _local.running = _Pass(is_weighted_pass)
    try:
        yield
    finally:
        _local.running = before


def _towers():
    """Returns the `Towers` for which gradients that are made here are gathered, or None."""
    group = towers.current()
    if group is None or group.merging or getattr(_local, "running", None) is not None:
        return None
    return None if graph_lib.in_control_flow(group.graph) else group


def _of_graph(original, ys, xs, grad_ys=None, *args, **kwargs):
    group = _towers()
    if group is None:
        return original(ys, xs, grad_ys, *args, **kwargs)

    def make(targets, sources, starts):
        given = dict(kwargs, **dict(zip(_ARGUMENTS, args)))
        if is_weighted() and all(hasattr(x, "handle") or _is_handle(x) for x in sources):
            # Gating keeps an update from overtaking gradients that still read the variable. Of
            # resource variables, what towers have read stays, so it would only cost operations.
            given["gate_gradients"] = False
        return original(targets, sources, starts, **given)

    sources = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    return _make(group, make, ys, sources, grad_ys)


def _of_tape(original, tape, target, sources, output_gradients=None, *args, **kwargs):
    group = _towers()
    if group is None:
        return original(tape, target, sources, output_gradients, *args, **kwargs)

    def make(targets, flat, starts):
        return original(tape, targets, flat, starts, *args, **kwargs)

    flat = tf.nest.flatten(sources)
    starts = None if output_gradients is None else tf.nest.flatten(output_gradients)
    made = _make(group, make, tf.nest.flatten(target), flat, starts, by_tape=True)
    return tf.nest.pack_sequence_as(sources, made)


def _make(group, make, ys, xs, grad_ys, by_tape=False):
    """Returns gradients for `xs`, gathered for those that do not depend on rows."""
    ys = [_as_tensor(y) for y in (ys if isinstance(ys, (list, tuple)) else [ys])]
    if grad_ys is not None:
        grad_ys = list(grad_ys) if isinstance(grad_ys, (list, tuple)) else [grad_ys]
    if not any(group.differ(y) for y in ys):
        with _running(False):
            return make(ys, xs, grad_ys)
    step, apart, own = getattr(_local, "way", None) or (None, False, False)
    are_own = [group.differ(_value(x)) for x in xs]
    if all(are_own):
        with _running(False):
            return make(ys, xs, grad_ys)
    with seeds.uncounted():
        starts, kind = _starts(group, ys, grad_ys, apart)
    if own and not group.summed:
        with _running(False):
            return make(ys, xs, grad_ys)
    with _running(True):
        with seeds.uncounted():
            given = _seeds(starts)
        made = list(make([start.tensor for start in starts], xs, given))
        if grad_ys is None and given is not None and not by_tape:
            seeds.count(len(ys) * seeds.OF_ONES - len(given))
    if any(are_own) and kind is None:
        with _running(False):
            alone = iter(make(ys, [x for x, is_own in zip(xs, are_own) if is_own], grad_ys))
        made = [next(alone) if is_own else g for g, is_own in zip(made, are_own)]
    wanted = []
    for position, (gradient, x, is_own) in enumerate(zip(made, xs, are_own)):
        if gradient is None:
            continue
        if is_own:
            made[position] = _unweighted(group, gradient) if kind == MEAN else gradient
        else:
            wanted.append((position, gradient, x))
    if apart or not wanted:
        return made
    pairs = [(gradient, gathered_gradients.Target(x, group)) for _, gradient, x in wanted]
    gathered = gathered_gradients.gather(group, pairs, step)
    for (position, _, _), gradient in zip(wanted, gathered):
        made[position] = gradient
    return made


def _is_handle(x):
    return isinstance(x, tf.Tensor) and x.dtype == tf.resource


def _as_tensor(y):
    return y if isinstance(y, (tf.Tensor, tf.IndexedSlices)) else tf.convert_to_tensor(y)


def _value(x):
    """Returns a tensor that depends on rows if `x` does; of variables, their handle."""
    if isinstance(x, tf.Tensor):
        return x
    return getattr(x, "handle", None) if hasattr(x, "handle") else x


def _starts(group, ys, grad_ys, apart):
    """Returns the `Start`s of the tower's backward pass, and of what kind its own gradients are.

    They are `MEAN`, of which each tower has its share, `SUM`, or None if neither.
    """
    starts, kinds = [], set()
    for position, y in enumerate(ys):
        found, kind = _starts_of(group, y, None if grad_ys is None else grad_ys[position], apart)
        starts += found
        kinds.add(kind)
    return starts, kinds.pop() if len(kinds) == 1 else None


def _starts_of(group, y, given, apart):
    if isinstance(y, tf.IndexedSlices) or not y.dtype.is_floating:
        return [Start(y, given)], SUM
    if y.shape.rank == 0 and (given is None or not group.differ(given)):
        loss = WholeLoss(group, y)
        if apart:
            loss.check_reduction(losses_are_added_up())
        return loss.starts(given), loss.kind
    # Of rows, the sum is that of all of them already.
    kind = SUM if group.summed or (given is None and _has_rows(group, y)) else MEAN
    seed = group.weighted(given, y.dtype, kind == SUM)
    if given is None and seed is not None and y.shape.rank != 0:
        seed *= tf.ones_like(y)
    return [Start(y, seed)], kind


def _seeds(starts):
    """Returns the gradients that a backward pass starts with, None if all are 1."""
    if all(start.gradient is None for start in starts):
        return None
    # Tapes take either no gradients to begin with, or one for each.
    return [
        tf.ones_like(start.tensor) if start.gradient is None else start.gradient for start in starts
    ]


def _has_rows(group, y):
    """Whether an axis of `y` is that of rows, as far as is known, or its shape tells."""
    if y.shape.rank == 0:
        return False
    axes = {0, *group.boundary.axes.values()}
    if len(axes) > 1:
        # Of time-major tensors, an axis 0 of unknown size need not be that of rows.
        kind = group.extents.of(y)
        if kind is not None:
            return axis_of(kind) is not None
    if y.shape.rank is None:
        return True
    known = group.boundary.rows
    sizes = y.shape.as_list()
    sizes = [sizes[axis] for axis in axes if -len(sizes) <= axis < len(sizes)]
    return any(size is None or bool(known and size % known == 0) for size in sizes)


def _unweighted(group, gradient):
    weights = group.row_weights
    if weights.equal == 1:
        return gradient
    weight = group.weight(weights, gradient.dtype)
    divide = tf.divide if weights.are_positive() else tf.math.divide_no_nan
    if isinstance(gradient, tf.IndexedSlices):
        values = divide(gradient.values, weight)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return divide(gradient, weight)
