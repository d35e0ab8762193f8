"""Where towers meet: what each of them has is put together on the consolidation device."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.gathering import Gather, Transport, nccl, packing
from replicate.layouts import WHOLE, Partial, Shard
from replicate.partition.rows import Rows

SCOPE = "replicate/gather/"  # Name scope of the operations that put values together.


class Part(NamedTuple):
    """What towers have of one tensor.

    Attributes:
        tensor: The tensor of one device's graph.
        layout: A `Shard` or a `Partial`.
        together: See `Plan.together`.
        own: N tensors, the towers'.
        place: Device string of where they are put together.
        is_gradient: Whether it is a gradient that an optimizer applies, so that it crosses devices
            as users say.
    """

    tensor: Any
    layout: Any
    together: Any
    own: tuple[Any, ...]
    place: str
    is_gradient: bool = False


def meet(parts: Sequence[Part], rows: Rows, devices: Sequence[str], how: Gather) -> dict[Any, Any]:
    """Puts together what towers have.

    Args:
        parts: The parts of all tensors that are needed whole.
        rows: The `Rows`.
        devices: Device strings of the towers.
        how: The `Gather`.

    Returns:
        The whole tensors, by references of the tensors of one device's graph.
    """
    whole: dict[Any, Any] = {}
    with tf.name_scope(SCOPE):
        for pack in _packs(parts, how):
            with tf.device(pack[0].place):
                made = _sum_pack(pack, devices, how)
            for part, total in zip(pack, made):
                whole[graph_lib.reference(part.tensor)] = total
        for part in parts:
            key = graph_lib.reference(part.tensor)
            if key not in whole:
                with tf.device(part.place):
                    whole[key] = _join(part, rows, devices)
    return whole


def _packs(parts: Sequence[Part], how: Gather) -> Iterator[list[Part]]:
    """Yields the sums, small ones together where they may be."""
    sums = [part for part in parts if part.layout == Partial("sum")]

    def describe(part: Part) -> tuple[Any, Any]:
        static = all(own.shape == part.own[0].shape for own in part.own)
        size = packing.size_of(part.own[0]) if static else None
        return (part.together, part.tensor.dtype, part.place, part.is_gradient), size

    return packing.packs(sums, describe, how)


def _sum_pack(pack: Sequence[Part], devices: Sequence[str], how: Gather) -> list[Any]:
    flat = []
    for index, device in enumerate(devices):
        own = [part.own[index] for part in pack]
        with tf.device(device):
            flat.append(packing.join(own) if len(own) > 1 else own[0])
    if not pack[0].is_gradient:
        total = tf.add_n(flat)
    elif how.where == "nccl":
        total = nccl.add(flat, devices, pack[0].place)
    else:
        links = Transport(devices, pack[0].place, how)
        total = tf.add_n([links.send(own, index) for index, own in enumerate(flat)])
    if len(pack) == 1:
        return [total]
    return packing.part(total, [part.own[0].shape for part in pack])


def _join(part: Part, rows: Rows, devices: Sequence[str]) -> Any:
    layout, own = part.layout, part.own
    if layout == WHOLE:  # The same in all towers.
        return own[0]
    if isinstance(layout, Shard):
        return tf.concat(own, layout.axis)
    if layout.op == "mean":
        return _mean(own, rows, devices)
    fold = {"max": tf.maximum, "min": tf.minimum, "prod": tf.multiply}
    if layout.op in fold:
        made = own[0]
        for other in own[1:]:
            made = fold[layout.op](made, other)
        return made
    stacked = tf.stack(own)
    return (tf.reduce_all if layout.op == "all" else tf.reduce_any)(stacked, 0)


def _mean(own: Sequence[Any], rows: Rows, devices: Sequence[str]) -> Any:
    """Returns the mean of the towers' means, weighted by rows; of a tower without, none counts."""
    weighted = []
    for value, count, device in zip(own, rows.counts, devices):
        with tf.device(device):
            if isinstance(count, int):
                if count:
                    weighted.append(value * tf.constant(count / rows.total, value.dtype))
                continue
            # Divided in double precision: 3/7 in the type of the value would be rounded twice.
            share = tf.cast(count, tf.float64) / tf.cast(rows.total, tf.float64)
            scaled = value * tf.cast(share, value.dtype)
            weighted.append(tf.where_v2(count > 0, scaled, tf.zeros_like(value)))
    return tf.add_n(weighted)
