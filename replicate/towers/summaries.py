"""Summaries of all towers: what rows enter is averaged, or told apart by towers.

What no row enters is made once anyway. Summaries are the operations of `tf.summary`, which give
serialised protocol buffers. Those of TensorFlow 2's API write by themselves, mostly in a condition,
and stay tower 0's.
"""

import tensorflow.compat.v1 as tf

from replicate.compat import copying
from replicate.compat import graph as graph_lib
from replicate.compat import summaries as compat
from replicate.graphs import state

_SCOPE = "replicate/summaries/"

HOW = ("first", "mean", "all")

# What takes a tag, and then values. Scalars have as many tags as values.
_SCALARS = "ScalarSummary"
_TAGGED = (
    _SCALARS,
    "HistogramSummary",
    "ImageSummary",
    "AudioSummary",
    "AudioSummaryV2",
    "TensorSummaryV2",
)


def merge(spec, group, how):
    """Lets summaries that rows enter take those of all towers.

    Args:
        spec: The `EstimatorSpec` of all towers.
        group: The `Towers`, the model built.
        how: One of `HOW`.

    Returns:
        An `EstimatorSpec` whose hooks and scaffold save what summaries became.
    """
    if how == "first":
        return spec
    found, left = _find(group, how)
    if left:
        tf.logging.warning(
            "replicate: summaries=%r does not reach summaries that are made in a `tf.cond`, a loop "
            "or a function, or written by an operation of their own, so that these are of the rows "
            "of tower 0 alone: %s. Make them outside, by `tf.summary`.",
            how,
            ", ".join(left),
        )
    wanted = [value for op in found for value in _of_rows(group, op)]
    by_tower = [iter(own) for own in group.each(wanted)]
    others = []
    for op in found:
        values = [[next(own) for _ in _of_rows(group, op)] for own in by_tower]
        with group.once(op.device), tf.control_dependencies(None), tf.name_scope(_SCOPE):
            if how == "mean":
                copying.redirect(op, 1, _mean(group, [value for (value,) in values]))
            elif op.type == _SCALARS:
                _stack_scalars(group, op, [value for (value,) in values])
            else:
                others.append((op.outputs[0], _join(group, op, values)))
    return _with_others(spec, group, others)


def _find(group, how):
    """Returns the operations to change, and the names of those that should be and cannot."""
    found, left = [], []
    for op in group.copies.new_operations():
        if group.copies.is_once(op) or not group.copies.rows.takes(op):
            continue
        if state.writes_summaries(op):
            left.append(op.name)
        elif op.type in ((_SCALARS,) if how == "mean" else _TAGGED):
            inside = graph_lib.is_in_control_flow(op) or group.reach(op.inputs[0])
            (left if inside else found).append(op.name if inside else op)
    for summary in tf.get_collection(tf.GraphKeys.SUMMARIES):
        made_inside = isinstance(summary, tf.Tensor) and summary.op.type not in _TAGGED
        if made_inside and summary.op.type != "MergeSummary" and group.reach(summary):
            left.append(summary.op.name)
    return found, left


def _of_rows(group, op):
    """Returns the values of a summary that each tower has its own of."""
    return [value for value in op.inputs[1:] if group.reach(value)]


def _mean(group, values):
    """Returns the mean of the towers' values, weighted by rows, of their type."""
    dtype = values[0].dtype
    exact = dtype if dtype in (tf.float32, tf.float64) else tf.float64
    weights = group.row_weights
    parts = [
        weights.mask(index, tf.cast(own, exact) * weights.of(index, exact), tf.zeros([], exact))
        for index, own in enumerate(values)
    ]
    total = tf.add_n(parts)
    return tf.cast(tf.round(total) if dtype.is_integer else total, dtype)


def _tag(op, index):
    """Returns the tag of tower `index`, or its tags."""
    known = tf.get_static_value(op.inputs[0])
    if known is not None and known.ndim == 0:
        return tf.constant(b"tower_%d/%s" % (index, known.item()))
    return tf.strings.join([f"tower_{index}/", op.inputs[0]])


def _stack_scalars(group, op, values):
    """Lets one operation give the scalars of all towers that have rows."""
    tags, scalars = [], []
    for index, own in enumerate(values):
        pair = [tf.reshape(given, [-1]) for given in (_tag(op, index), own)]
        if not group.row_weights.is_positive(index):
            size = group.row_weights.mask(index, tf.size(pair[0]), 0)
            pair = [given[:size] for given in pair]
        tags.append(pair[0])
        scalars.append(pair[1])
    for position, parts in enumerate((tags, scalars)):
        # An operation keeps its static shapes, which a longer input must not contradict.
        joined = tf.placeholder_with_default(tf.concat(parts, axis=0), None)
        copying.redirect(op, position, joined)


def _join(group, op, values):
    """Returns the summaries of all towers that have rows, in the place of tower 0's."""
    takers = [(taker, list(taker.inputs)) for taker in op.outputs[0].consumers()]
    summaries = [op.outputs[0]]
    for index in range(1, group.size):
        own = iter(values[index])
        given = [next(own) if group.reach(value) else value for value in op.inputs[1:]]
        (summary,) = copying.again(op, [_tag(op, index), *given])
        # Nothing, serialised, is an empty string.
        summaries.append(group.row_weights.mask(index, summary, ""))
    copying.redirect(op, 0, _tag(op, 0))
    merged = tf.summary.merge(summaries, collections=[])
    for taker, inputs in takers:
        for position, given in enumerate(inputs):
            if given is op.outputs[0]:
                copying.redirect(taker, position, merged)
    return merged


def _with_others(spec, group, others):
    """Returns a spec that saves other summaries, as do collections and hooks from now on."""
    if not others:
        return spec
    for key in group.graph.get_all_collection_keys():
        items = group.graph.get_collection_ref(key)
        for position, item in enumerate(items):
            items[position] = compat.other_of(item, others)
    for field in ("training_hooks", "training_chief_hooks", "evaluation_hooks"):
        compat.save_others(getattr(spec, field) or (), others)
    if spec.scaffold is None or spec.scaffold.summary_op is None:
        return spec
    summary_op = compat.other_of(spec.scaffold.summary_op, others)
    return spec._replace(
        scaffold=tf.train.Scaffold(summary_op=summary_op, copy_from_scaffold=spec.scaffold)
    )
