"""What in a graph can explain that towers differ from one device, by line of the user's code.

It is asked of the towers' graph, which says what depends on rows and what is copied. Whatever is
found *can* make a difference: whether it did, on these rows, is what the comparison itself says.
"""

import functools
import re
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from replicate import towers
from replicate.comparing import deviations
from replicate.comparing.statistics import Inside, Statistics, leading_to
from replicate.compat.functions import function_bodies
from replicate.compat.graph import id_of
from replicate.graphs import WholeLoss, line_of, state, updates
from replicate.towers import boundary, last_id

_STATELESS = re.compile("Stateless(Random|Truncated|Multinomial|Parameterized|Sample|Shuffle)")
_GENERATORS = re.compile("Stateful(Uniform|StandardNormal|Truncated|Random)|RngReadAndSkip")
_PYTHON = re.compile("(Eager)?PyFunc|PyFuncStateless")
# These pass on what they take, whatever its type.
_PASSING = re.compile(
    "Identity|Placeholder|Split|Slice|StridedSlice|Iterator|Enter|Switch|Merge|NextIteration|Exit"
    "|TensorArray"  # Whose order is told by a number of type float32.
)


class Explanation(NamedTuple):
    """Something in the graph that can make towers differ from one device."""

    kind: str
    """`'random'`, `'batch statistics'`, `'count'`, `'reduction'`, `'update'`, `'padding'` or
    `'python'`."""
    operation: str
    """The name of the operation."""
    line: str
    """`file:line` of the user's code that made it, `'unknown line'` if only TensorFlow's did."""
    text: str
    """A phrase that says what it does in towers."""


class Watched:
    """The graph of a model as towers, seen from where the user's function returns.

    Args:
        model_fn: The function that is to be replicated.

    Attributes:
        model_fn: A function to replicate instead, that does the same.
    """

    def __init__(self, model_fn):
        @functools.wraps(model_fn)
        def watched_model_fn(*args, **kwargs):
            spec = model_fn(*args, **kwargs)
            self._group, self._own = towers.current(), spec
            self._last = last_id(tf.get_default_graph())
            return spec

        self.model_fn = watched_model_fn
        self._group = self._own = None
        self._last = 0

    def look(self, spec, summed):
        """Returns the explanations, and the names of the types that the model computes in.

        Args:
            spec: The `EstimatorSpec` of all towers, in training.
            summed: Whether losses are taken for sums.
        """
        group, own = self._group, tf.convert_to_tensor(self._own.loss)
        if group is None:  # A batch of one row.
            return (), {own.dtype.base_dtype.name}
        ops = [op for op in group.copies.new_operations() if id_of(op) <= self._last]
        ops = [op for op in ops if not group.copies.is_once(op)]
        listed = [loss for loss in tf.losses.get_losses() if loss.graph is own.graph]
        losses = [own, *(loss for loss in listed if id_of(loss.op) <= self._last)]
        whole = WholeLoss(group, own)
        found = [
            *_random(group, ops, losses),
            *self._statistics(losses, whole),
            *_reduction(whole, summed),
            *_updates(group),
            *_padding(group),
        ]
        made = _by_line(found)
        for kind, line in list(made):
            # What goes back into rows takes many a function of a reduction on its way.
            if kind == "reduction" and {("batch statistics", line), ("count", line)} & set(made):
                del made[kind, line]
        return tuple(made.values()), _types(group, ops, [spec.train_op, own])

    def look_at_metrics(self):
        """Returns the explanations of what was called last, in evaluation."""
        return tuple(_by_line(_updates(self._group)).values()) if self._group else ()

    def _statistics(self, losses, whole):
        for kind, op, text in Statistics(self._group, losses).find():
            # What the whole loss computes of all rows is no difference.
            if kind not in ("count", "reduction") or not whole.computes(op):
                yield kind, op, text


def _by_line(found):
    """Returns an `Explanation` for each kind and line."""
    made = {}
    for kind, op, text in found:
        # In functions that come with TensorFlow, there is no line of the user's code.
        line = line_of(op, within=__file__)
        made.setdefault((kind, line), Explanation(kind, op.name, line, text))
    return made


def _reduction(loss, summed):
    taken = (
        "a sum over rows; if it is a mean, leave `loss_reduction` out"
        if summed
        else "a mean over rows; if it adds up, pass `loss_reduction=SUM`"
    )
    for op in loss.unknown:
        yield "reduction", op, f"nothing in the graph tells what it is: it is taken for {taken}"


def _random(group, ops, losses):
    """Yields random operations and calls of Python that each tower has of its own."""
    inside = Inside(function_bodies(losses[0].graph), _draws)
    to_losses = {id_of(op) for op in leading_to(losses, lambda op: True)}
    for op in ops:
        is_own = id_of(op) in to_losses or group.copies.is_copied(op)
        if not is_own or not op.outputs:
            continue
        if _STATELESS.match(op.type):
            yield "random", op, "draws the same numbers in each tower, unless its seed is a row's"
        elif state.kind(op).is_random or _GENERATORS.match(op.type):
            yield "random", op, "each tower draws numbers of its own"
        elif _PYTHON.fullmatch(op.type):
            yield "python", op, "calls Python in each tower, with its rows"
        elif inside.of(op):
            yield "random", op, f"calls '{inside.of(op)}', which draws numbers of each tower's own"


def _draws(node):
    drawn = _STATELESS.match(node.op) or _GENERATORS.match(node.op)
    return bool(drawn) or "seed2" in node.attr


def _updates(group):
    for name, op in group.unmerged:
        yield "update", op, f"updates '{name}' from the rows of tower 0 alone"
    for name, op in group.averaged:
        yield "update", op, f"adds to '{name}' what is taken for a mean or sum over towers"
    for name, op in group.of_statistics:
        yield "batch statistics", op, f"'{name}' adds what a tower's rows have in common"


def _padding(group):
    for op in boundary.padding(group.boundary.features, group.boundary.labels):
        yield "padding", op, "pads a sparse entry to the longest of the tower's own rows"


def _types(group, ops, fetches):
    """Returns the names of the floating-point types in which rows are computed with."""
    runs = {id_of(op) for op in updates.ancestors(fetches)}
    return {
        output.dtype.base_dtype.name
        for op in ops
        if id_of(op) in runs and group.copies.rows.reach_op(op) and _rounds(op)
        for output in op.outputs
        if output.dtype.base_dtype.name in deviations.TOLERANCES
    }


def _rounds(op):
    """Whether an operation computes numbers, or makes coarser ones of numbers with a fraction."""
    if op.type == "Cast":
        return op.inputs[0].dtype.is_floating
    return not _PASSING.match(op.type)
