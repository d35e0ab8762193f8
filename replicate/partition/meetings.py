"""Makes meetings of towers: partials are reduced and shards concatenated on one device.

The device is the consolidation device; for gradients, the user's `Reduction` may choose others.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts import WHOLE, Grown, Partial, Shard
from replicate.partition import splits
from replicate.partition.rows import Rows
from replicate.reduction import Reduction, Transport, collectives, nccl, packing


class Part(NamedTuple):
    """A tensor as towers hold it, in shards or partials.

    Attributes:
        tensor: The tensor of one device's graph.
        layout: A `Shard`, a `Partial` or a `Grown`; or `WHOLE`, if all towers have the same.
        together: See `Plan.together`.
        by_tower: N tensors, the towers'.
        place: The device on which they are joined.
        rows: The `Rows` by which partials are weighted, or those of a ragged unit.
        is_gradient: Whether it is a gradient that an optimizer applies. Such a tensor crosses
            devices as the `Reduction` says.
        is_scaled: Whether it is a gradient that is still multiplied by the loss scale.
        blocks: How many `Blocks` of rows the axis of a shard has, or how many rounds have added to
            a `Grown` tensor; None for others.
    """

    tensor: Any
    layout: Any
    together: Any
    by_tower: tuple[Any, ...]
    place: str
    rows: Rows
    is_gradient: bool = False
    is_scaled: bool = False
    blocks: Any = None


class Pack(NamedTuple):
    """Whole values that are reduced as one flat tensor.

    Attributes:
        whole: The flat tensor.
        parts: The values, slices of it.
    """

    whole: Any
    parts: Sequence[Any]


def meet(
    parts: Sequence[Part], rows: Rows, devices: Sequence[str], how: Reduction, scale: Any = None
) -> tuple[dict[Any, Any], list[Pack]]:
    """Reduces or concatenates the towers' tensors.

    Args:
        parts: All tensors that are needed whole.
        rows: The `Rows`.
        devices: Device strings of the towers.
        how: The `Reduction`.
        scale: The loss scale, if gradients cross devices in float16; else None.

    Returns:
        The whole tensors, by references of the tensors of one device's graph; and the packs that
        hold several of them.
    """
    whole: dict[Any, Any] = {}
    made: list[Pack] = []
    packs = list(_packs(parts, how))
    for scope in (collectives.SCOPE, collectives.GRADIENTS_SCOPE):
        here = [pack for pack in packs if _scope_of(pack[0]) == scope]
        for pack, total in zip(here, _sum_packs(here, scope, rows, devices, how, scale)):
            made += [total] if len(pack) > 1 else []
            for part, value in zip(pack, total.parts):
                whole[graph_lib.reference(part.tensor)] = value
    for part in parts:
        key = graph_lib.reference(part.tensor)
        if key not in whole:
            with tf.name_scope(_scope_of(part)), tf.device(part.place):
                links = _links(part, devices, how, scale)
                whole[key] = _join(part, rows, links)
    return whole, made


def _links(part: Part, devices: Sequence[str], how: Reduction, scale: Any) -> Transport:
    return Transport(devices, part.place, how, None if part.is_scaled else scale)


def _scope_of(part: Part) -> str:
    return collectives.GRADIENTS_SCOPE if part.is_gradient else collectives.SCOPE


def _packs(parts: Sequence[Part], how: Reduction) -> Iterator[list[Part]]:
    """Yields partial sums and means in packs: small ones together if that is allowed."""
    sums = [part for part in parts if _is_sum(part.layout)]

    def describe(part: Part) -> tuple[Any, Any]:
        # A pack is flat, and taken apart by the shapes of tower 0.
        static = all(value.shape == part.by_tower[0].shape for value in part.by_tower)
        size = packing.size_of(part.by_tower[0]) if static else None
        kind = part.layout, part.tensor.dtype, part.is_gradient, part.is_scaled
        return (part.together, part.place, kind), size

    return packing.packs(sums, describe, how)


def _is_sum(layout: Any) -> bool:
    return isinstance(layout, Partial) and layout.op in ("sum", "mean")


def _sum_packs(
    packs: Sequence[Sequence[Part]],
    scope: str,
    rows: Rows,
    devices: Sequence[str],
    how: Reduction,
    scale: Any,
) -> list[Pack]:
    """Returns the sums over towers of all tensors of some packs, in a name scope."""
    flat, totals = _flat(packs, scope, devices), []
    for pack, values in zip(packs, flat):
        links = _links(pack[0], devices, how, scale)
        with tf.name_scope(scope), tf.device(links.place):
            totals.append(_sum(pack[0], values, rows, links))
    packing_of, names = packing.Packing(), []
    for pack, total in zip(packs, totals):
        if len(pack) > 1:
            shapes = [part.by_tower[0].shape for part in pack]
            names += packing_of.part(total, total.dtype, shapes, pack[0].place)
    made = iter(packing_of.make(scope, names))
    return [
        Pack(total, [next(made) for _ in pack] if len(pack) > 1 else [total])
        for pack, total in zip(packs, totals)
    ]


def _flat(
    packs: Sequence[Sequence[Part]], scope: str, devices: Sequence[str]
) -> list[Sequence[Any]]:
    """Returns for each pack the towers' tensors, each flat if the pack has several parts."""
    packing_of, names = packing.Packing(), []
    for pack in packs:
        if len(pack) > 1:
            for tower, device in enumerate(devices):
                names.append(packing_of.join([part.by_tower[tower] for part in pack], device))
    made = iter(packing_of.make(scope, names))
    return [[next(made) for _ in devices] if len(pack) > 1 else pack[0].by_tower for pack in packs]


def _sum(part: Part, by_tower: Sequence[Any], rows: Rows, links: Transport) -> Any:
    """Returns the sum over towers of the tensors of a pack that holds `part`."""
    flat, devices = by_tower, links.devices
    # A pack has one layout, so the same rows weight all of its parts.
    if part.layout.op == "mean":
        flat = _weighted(flat, part.rows, devices)
    flat = _counted(flat, rows, devices, _zeros)
    if not part.is_gradient:
        return tf.add_n(flat)  # TensorFlow sends the inputs as they are.
    if links.how.where == "nccl":
        return nccl.add(flat, devices, links.place)
    return tf.add_n([links.send(value, index) for index, value in enumerate(flat)])


def _join(part: Part, rows: Rows, links: Transport) -> Any:
    """Returns the whole of a tensor that is no partial sum or mean."""
    layout, by_tower, devices = part.layout, part.by_tower, links.devices
    if layout == WHOLE:  # The same in all towers.
        return by_tower[0]
    if isinstance(layout, Grown):
        # Each round has appended a block of rows, after the entries that are the same in all.
        grown = [value[layout.begin :] for value in by_tower]
        added = _join(part._replace(layout=Shard(0), by_tower=tuple(grown)), rows, links)
        return tf.concat([by_tower[0][: layout.begin], added], 0)
    if isinstance(layout, Shard):
        counted = _counted(by_tower, rows, devices, _without_entries(layout.axis))
        if part.is_gradient:
            counted = [links.send(value, index) for index, value in enumerate(counted)]
        if part.blocks is None:
            return tf.concat(counted, layout.axis)
        # The towers' rows are joined within each block.
        blocks = [splits.apart(value, layout.axis, part.blocks) for value in counted]
        return splits.together(tf.concat(blocks, layout.axis + 1), layout.axis)
    # A repeated value changes a product, but none of the reductions below.
    if layout.op == "prod":
        return tf.reduce_prod(tf.stack(_counted(by_tower, rows, devices, _ones)), 0)
    return _REDUCE[layout.op](tf.stack(_or_first(by_tower, rows)), 0)


def _weighted(by_tower: Sequence[Any], rows: Rows, devices: Sequence[str]) -> list[Any]:
    """Returns the towers' means, each multiplied by the tower's share of the rows."""
    weighted = []
    for value, count, device in zip(by_tower, rows.counts, devices):
        with tf.device(device):
            # A tower without entries has NaN as its mean, which must not reach that of the batch,
            # unless no tower has any.
            if rows.is_ragged:
                counts = (count > 0) | tf.equal(rows.total, 0)
                value = tf.where_v2(counts, value, tf.zeros([], value.dtype))
            # If the batch has no rows, each weight is 1, and `_counted` keeps tower 0's mean.
            if rows.are_known:
                share = tf.constant(count / rows.total if rows.total else 1.0, value.dtype)
            else:
                # Divided in double precision, so that a weight such as 3/7 is rounded only once.
                count = tf.cast(tf.where_v2(rows.total > 0, count, 1), tf.float64)
                share = tf.cast(count / tf.cast(tf.maximum(rows.total, 1), tf.float64), value.dtype)
            weighted.append(value * share)
    return weighted


def _counted(
    by_tower: Sequence[Any], rows: Rows, devices: Sequence[str], instead: Callable[[Any], Any]
) -> list[Any]:
    """Returns the towers' values, replaced in towers without rows of the batch.

    Such a tower computes the last row once more. Values of other towers pass through a `Switch`
    and a `Merge`, which neither copy nor read them.

    Args:
        by_tower: N tensors, the towers'. Tower 0's always counts: it has rows if any tower has.
        rows: The `Rows`.
        devices: Device strings of the towers.
        instead: Function of a value that returns its replacement, made from it by operations.
    """
    made = [by_tower[0]]
    for value, count, device in zip(by_tower[1:], rows.counts[1:], devices[1:]):
        with tf.device(device):
            if not isinstance(count, int):
                without, counts = tf.raw_ops.Switch(data=value, pred=count > 0)
                made.append(tf.raw_ops.Merge(inputs=[instead(without), counts])[0])
            elif count:
                made.append(value)
            else:  # Known in advance: nothing depends on that tower, so it does not run at all.
                made.append(instead(by_tower[0]))
    return made


def _or_first(by_tower: Sequence[Any], rows: Rows) -> list[Any]:
    """Returns the towers' values, with tower 0's in place of those of towers without rows."""
    made = [by_tower[0]]
    for value, count in zip(by_tower[1:], rows.counts[1:]):
        if isinstance(count, int):
            made.append(value if count else by_tower[0])
        else:
            made.append(tf.where_v2(count > 0, value, by_tower[0]))
    return made


def _without_entries(axis: int) -> Callable[[Any], Any]:
    return lambda value: value[(slice(None),) * axis + (slice(0, 0),)]


# Raw operations, which are dead if their input is. TensorFlow's functions make a constant if the
# shape is known; it is never dead, so the `Merge` in `_counted` would have two inputs.
def _zeros(value: Any) -> Any:
    return tf.raw_ops.ZerosLike(x=value)


def _ones(value: Any) -> Any:
    return tf.raw_ops.OnesLike(x=value)


_REDUCE = {
    "max": tf.reduce_max,
    "min": tf.reduce_min,
    "all": tf.reduce_all,
    "any": tf.reduce_any,
}
