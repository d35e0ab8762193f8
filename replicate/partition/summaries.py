"""Summaries in the program of one tower: the first tower's, their mean, or those of all towers.

This concerns operations of `tf.summary` of TensorFlow 1, which return serialised protocol buffers.
Those of TensorFlow 2 write themselves, mostly in a condition, and stay the first tower's.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning, scaffolds
from replicate.compat import summaries as compat
from replicate.graphs import line_of, state
from replicate.layouts import MEAN, WHOLE, Layouts
from replicate.partition.program import Program

HOW = ("first", "mean", "all")

# Types whose inputs are a tag and values. Scalars have as many tags as values.
_SCALARS = "ScalarSummary"
_TAGGED = frozenset(
    [_SCALARS, "HistogramSummary", "ImageSummary", "AudioSummary", "AudioSummaryV2"]
    + ["TensorSummaryV2"]
)
_SCOPE = "replicate/summaries/"


def combine(spec: Any, layouts: Layouts, program: Program, how: str) -> Any:
    """Lets summaries of per-tower tensors take the values of all towers.

    Args:
        spec: The spec of the program.
        layouts: The `Layouts` of its tensors.
        program: The `Program`.
        how: One of `HOW`.

    Returns:
        A spec whose hooks and scaffold save the changed summaries.
    """
    if how == "first":
        return spec
    instead, left = [], []
    for operation in list(layouts.strategies):
        if operation.type not in _TAGGED:
            if state.writes_summaries(operation):
                left.append(operation)
            continue
        tag, *values = operation.inputs
        # Values of other towers cannot be taken from inside their branches or loops.
        if graph_lib.is_in_control_flow(operation) or layouts.layout_of(tag) != WHOLE:
            left.append(operation)
            continue
        with tf.control_dependencies(None), tf.name_scope(_SCOPE):
            if how == "all":
                instead.append((operation.outputs[0], _join(operation, layouts, program)))
            elif operation.type == _SCALARS:
                partitioning.take(operation, 1, _mean(values[0], program))
    for summary in tf.get_collection(tf.GraphKeys.SUMMARIES):
        made: Any = getattr(summary, "op", None)
        if made in layouts.strategies and made.type not in (*_TAGGED, "MergeSummary"):
            left.append(made)  # The result of a condition or a function.
    if left:
        tf.logging.warning(
            "replicate: summaries=%r does not reach summaries that are made in a `tf.cond`, a loop "
            "or a function, or that write themselves. These show the rows of tower 0 alone: %s. "
            "Make them outside, by `tf.summary`.",
            how,
            ", ".join(f"{one.type} {one.name} ({line_of(one)})" for one in dict.fromkeys(left)),
        )
    return _with_others(spec, program, instead)


def _mean(value: Any, program: Program) -> Any:
    """Returns the mean of the towers' values, weighted by rows, in their dtype."""
    if value.dtype in (tf.float32, tf.float64):
        return program.whole(value, MEAN)
    mean = program.whole(tf.cast(value, tf.float64), MEAN)
    with program.running_once():
        return tf.cast(tf.round(mean) if value.dtype.is_integer else mean, value.dtype)


def _join(operation: Any, layouts: Layouts, program: Program) -> Any:
    """Returns the summaries of all towers that have rows, and replaces the first tower's."""
    tag, *values = operation.inputs
    apart = [
        [value] * program.size if layouts.layout_of(value) == WHOLE else program.each(value)
        for value in values
    ]
    summaries = []
    with program.running_once():
        for index, taken in enumerate(zip(*apart)):
            tags = tf.strings.join([f"tower_{index}/", tag])
            (summary,) = partitioning.again(operation, [tags, *taken])
            count = program.rows.counts[index]
            # An empty protocol buffer is serialised as an empty string.
            summaries.append(tf.where_v2(count > 0, summary, "") if index else summary)
        merged = tf.summary.merge(summaries, collections=[])
    partitioning.replace([(operation.outputs[0], merged)])
    return merged


def _with_others(spec: Any, program: Program, instead: Sequence[tuple[Any, Any]]) -> Any:
    """Returns a spec that saves other summaries, and replaces them in collections and hooks."""
    if not instead:
        return spec
    for key in program.graph.get_all_collection_keys():
        items = program.graph.get_collection_ref(key)
        for position, item in enumerate(items):
            items[position] = compat.other_of(item, instead)
    for field in ("training_hooks", "training_chief_hooks", "evaluation_hooks"):
        compat.save_others(getattr(spec, field, None) or (), instead)
    scaffold = getattr(spec, "scaffold", None)
    if scaffold is None or scaffold.summary_op is None:
        return spec
    scaffolds.change(scaffold, summary_op=compat.other_of(scaffold.summary_op, instead))
    return spec
