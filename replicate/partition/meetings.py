"""Where towers meet: what each of them has is put together on the consolidation device."""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts import WHOLE, Grown, Partial, Shard
from replicate.partition import splits
from replicate.partition.rows import Rows
from replicate.reduction import Reduction, Transport, collectives, nccl, packing


class Part(NamedTuple):
    """One tensor, as towers have it: in shards or parts.

    Attributes:
        tensor: The tensor of one device's graph.
        layout: A `Shard` or a `Partial`.
        together: See `Plan.together`.
        by_tower: N tensors, the towers'.
        place: Device string of where they are put together.
        rows: By how many of what the towers' parts count, see `Shard.unit`.
        is_gradient: Whether it is a gradient that an optimizer applies, so that it crosses devices
            as users say.
        blocks: How many `Blocks` of rows the axis of a shard has, or how many rounds have added to
            what has `Grown`; None of others.
    """

    tensor: Any
    layout: Any
    together: Any
    by_tower: tuple[Any, ...]
    place: str
    rows: Rows
    is_gradient: bool = False
    blocks: Any = None


class Pack(NamedTuple):
    """Whole values that are put together as one tensor.

    Attributes:
        whole: That tensor.
        parts: The values.
    """

    whole: Any
    parts: Sequence[Any]


def meet(
    parts: Sequence[Part], rows: Rows, devices: Sequence[str], how: Reduction, scale: Any = None
) -> tuple[dict[Any, Any], list[Pack]]:
    """Puts together what towers have.

    Args:
        parts: The parts of all tensors that are needed whole.
        rows: The `Rows`.
        devices: Device strings of the towers.
        how: The `Reduction`.
        scale: What gradients are multiplied by while they cross devices in float16; or None.

    Returns:
        The whole tensors, by references of the tensors of one device's graph; and the packs in
        which several of them are.
    """
    whole: dict[Any, Any] = {}
    packs = []
    for pack in _packs(parts, how):
        with tf.name_scope(_scope_of(pack[0])), tf.device(pack[0].place):
            total = _sum_pack(pack, rows, Transport(devices, pack[0].place, how, scale))
            made = [total]
            if len(pack) > 1:
                made = packing.part(total, [part.by_tower[0].shape for part in pack])
                packs.append(Pack(total, made))
        for part, value in zip(pack, made):
            whole[graph_lib.reference(part.tensor)] = value
    for part in parts:
        key = graph_lib.reference(part.tensor)
        if key not in whole:
            with tf.name_scope(_scope_of(part)), tf.device(part.place):
                whole[key] = _join(part, rows, Transport(devices, part.place, how, scale))
    return whole, packs


def _scope_of(part: Part) -> str:
    return collectives.GRADIENTS_SCOPE if part.is_gradient else collectives.SCOPE


def _packs(parts: Sequence[Part], how: Reduction) -> Iterator[list[Part]]:
    """Yields the sums, and the means, small ones together where they may be."""
    sums = [part for part in parts if _is_sum(part.layout)]

    def describe(part: Part) -> tuple[Any, Any]:
        static = all(value.shape == part.by_tower[0].shape for value in part.by_tower)
        size = packing.size_of(part.by_tower[0]) if static else None
        kind = part.layout, part.tensor.dtype, part.is_gradient
        return (part.together, part.place, kind), size

    return packing.packs(sums, describe, how)


def _is_sum(layout: Any) -> bool:
    return isinstance(layout, Partial) and layout.op in ("sum", "mean")


def _sum_pack(pack: Sequence[Part], rows: Rows, links: Transport) -> Any:
    flat, devices = [], links.devices
    for index, device in enumerate(devices):
        values = [part.by_tower[index] for part in pack]
        with tf.device(device):
            flat.append(packing.join(values) if len(values) > 1 else values[0])
    if pack[0].layout.op == "mean":
        flat = _weighted(flat, pack[0].rows, devices)
    flat = _counted(flat, rows, devices, _zeros)
    if not pack[0].is_gradient:
        return tf.add_n(flat)
    if links.how.where == "nccl":
        return nccl.add(flat, devices, links.place)
    return tf.add_n([links.send(value, index) for index, value in enumerate(flat)])


def _join(part: Part, rows: Rows, links: Transport) -> Any:
    layout, by_tower, devices = part.layout, part.by_tower, links.devices
    if layout == WHOLE:  # The same in all towers.
        return by_tower[0]
    if isinstance(layout, Grown):
        grown = [value[layout.begin :] for value in by_tower]
        added = _join(part._replace(layout=Shard(0), by_tower=tuple(grown)), rows, links)
        return tf.concat([by_tower[0][: layout.begin], added], 0)
    if isinstance(layout, Shard) and part.blocks is not None:
        counted = _counted(by_tower, rows, devices, _without_entries(layout.axis))
        blocks = [splits.apart(value, layout.axis, part.blocks) for value in counted]
        return splits.together(tf.concat(blocks, layout.axis + 1), layout.axis)
    if isinstance(layout, Shard):
        counted = _counted(by_tower, rows, devices, _without_entries(layout.axis))
        if part.is_gradient:
            counted = [links.send(value, index) for index, value in enumerate(counted)]
        return tf.concat(counted, layout.axis)
    if layout.op == "prod":
        return tf.reduce_prod(tf.stack(_counted(by_tower, rows, devices, _ones)), 0)
    return _REDUCE[layout.op](tf.stack(_or_first(by_tower, rows)), 0)


def _weighted(by_tower: Sequence[Any], rows: Rows, devices: Sequence[str]) -> list[Any]:
    """Returns the towers' means, each times the tower's share of the rows."""
    weighted = []
    for value, count, device in zip(by_tower, rows.counts, devices):
        with tf.device(device):
            if rows.is_ragged:  # The mean of none is no number, but that of the batch may be one.
                counts = (count > 0) | tf.equal(rows.total, 0)
                value = tf.where_v2(counts, value, tf.zeros([], value.dtype))
            # Of no rows, all have tower 0's mean.
            if rows.are_known:
                share = tf.constant(count / rows.total if rows.total else 1.0, value.dtype)
            else:
                # Divided in double precision: 3/7 in the type of the value would be rounded twice.
                count = tf.cast(tf.where_v2(rows.total > 0, count, 1), tf.float64)
                share = tf.cast(count / tf.cast(tf.maximum(rows.total, 1), tf.float64), value.dtype)
            weighted.append(value * share)
    return weighted


def _counted(
    by_tower: Sequence[Any], rows: Rows, devices: Sequence[str], instead: Callable[[Any], Any]
) -> list[Any]:
    """Returns the towers' values, with something else in place of those that do not count.

    The others pass through a `Switch` and a `Merge`, which neither copy nor read them.

    Args:
        by_tower: N tensors, the towers'. Tower 0's always counts: it has rows if any tower has.
        rows: The `Rows`.
        devices: Device strings of the towers.
        instead: Function of a tensor that returns another one, made of it by operations.
    """
    made = [by_tower[0]]
    for value, count, device in zip(by_tower[1:], rows.counts[1:], devices[1:]):
        with tf.device(device):
            if not isinstance(count, int):
                without, counts = tf.raw_ops.Switch(data=value, pred=count > 0)
                made.append(tf.raw_ops.Merge(inputs=[instead(without), counts])[0])
            elif count:
                made.append(value)
            else:  # Known beforehand: that tower does not run at all.
                made.append(instead(by_tower[0]))
    return made


def _or_first(by_tower: Sequence[Any], rows: Rows) -> list[Any]:
    """Returns the towers' values, with tower 0's in place of those that do not count."""
    made = [by_tower[0]]
    for value, count in zip(by_tower[1:], rows.counts[1:]):
        if isinstance(count, int):
            made.append(value if count else by_tower[0])
        else:
            made.append(tf.where_v2(count > 0, value, by_tower[0]))
    return made


def _without_entries(axis: int) -> Callable[[Any], Any]:
    return lambda value: value[(slice(None),) * axis + (slice(0, 0),)]


# Operations themselves: TensorFlow's functions make a constant of a shape that is known, and a
# constant would be there also where the value counts.
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
