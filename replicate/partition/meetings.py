"""Makes meetings of towers: partials are reduced and shards concatenated on one device.

The device is the consolidation device; for gradients, the user's `Reduction` may choose others.
"""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts import WHOLE, Grown, Partial, Shard
from replicate.partition import counted, means, splits
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
    has_rows = counted.has_rows(rows, devices)
    packs = list(_packs(parts, how))
    for scope in (collectives.SCOPE, collectives.GRADIENTS_SCOPE):
        here = [pack for pack in packs if _scope_of(pack[0]) == scope]
        others = [part for part in parts if not _is_sum(part.layout) and _scope_of(part) == scope]
        begun = _begin([*here, *([part] for part in others)], scope, devices, has_rows, how)
        for pack, total in zip(here, _sum_packs(here, begun, scope, devices, how, scale)):
            made += [total] if len(pack) > 1 else []
            for part, value in zip(pack, total.parts):
                whole[graph_lib.reference(part.tensor)] = value
        for part, (by_tower, _) in zip(others, begun[len(here) :]):
            with tf.name_scope(scope), tf.device(part.place):
                joined = _join(part, by_tower, has_rows, _links(part, devices, how, scale))
                whole[graph_lib.reference(part.tensor)] = joined
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


class _Begun(NamedTuple):
    """A meeting that one import has made, or begun.

    Attributes:
        values: The towers' tensors, each flat if the pack has several parts; or the sum or the
            concatenation of them, if the meeting needs nothing else.
        parts: The parts of a flat sum; else empty.
    """

    values: list[Any]
    parts: list[Any]


def _begin(
    packs: Sequence[Sequence[Part]],
    scope: str,
    devices: Sequence[str],
    has_rows: Sequence[Any],
    how: Reduction,
) -> list[_Begun]:
    """Makes most operations of the meetings of some packs by one import.

    Towers without rows do not count; see `counted`.

    Args:
        packs: The packs; a single part is one, too.
        scope: Name scope of the operations.
        devices: Device strings of the towers.
        has_rows: The result of `counted.has_rows`.
        how: The `Reduction`.
    """
    nodes, found = packing.Packing(), []
    for pack in packs:
        first, by_tower = pack[0], pack[0].by_tower
        if len(pack) > 1:
            by_tower = tuple(map(nodes.join, zip(*(part.by_tower for part in pack)), devices))
        dtype = first.by_tower[0].dtype.base_dtype
        values = counted.if_counted(first.layout, by_tower, dtype, has_rows, devices, nodes)
        parts: list[Any] = []
        if _are_concatenated(first, how):
            axis = nodes.constant(first.layout.axis, first.place)
            inputs, attrs = [*map(nodes.name_of, values), axis], {"N": len(values)}
            values = [nodes.add("ConcatV2", inputs, dtype, first.place, Tidx=tf.int32, **attrs)]
        elif _are_added(first, how):
            inputs, attrs = [*map(nodes.name_of, values)], {"N": len(values)}
            values = [nodes.add("AddN", inputs, dtype, first.place, **attrs)]
            if len(pack) > 1:
                parts = nodes.part(values[0], dtype, _shapes(pack), first.place)
        found.append(_Begun(values, parts))
    # Tensors that stay as they are have no name here.
    wanted = [one for begun in found for many in begun for one in many if isinstance(one, str)]
    made = dict(zip(wanted, nodes.make(scope, wanted)))
    return [
        _Begun(*([made[one] if isinstance(one, str) else one for one in many] for many in begun))
        for begun in found
    ]


def _shapes(pack: Sequence[Part]) -> list[Any]:
    return [part.by_tower[0].shape for part in pack]


def _are_added(part: Part, how: Reduction) -> bool:
    """Whether the towers' values are partial sums that need nothing else."""
    is_sent = how.where == "nccl" or how.narrows(part.tensor.dtype.base_dtype)
    is_sum = isinstance(part.layout, Partial) and part.layout.op == "sum"
    return is_sum and not (part.is_gradient and is_sent)


def _are_concatenated(part: Part, how: Reduction) -> bool:
    """Whether the towers' values are shards that need nothing else."""
    is_narrowed = part.is_gradient and how.narrows(part.tensor.dtype.base_dtype)
    is_plain = isinstance(part.layout, Shard) and part.blocks is None and not is_narrowed
    return is_plain and len(part.by_tower) > 1  # `ConcatV2` takes at least two.


def _sum_packs(
    packs: Sequence[Sequence[Part]],
    begun: Sequence[_Begun],
    scope: str,
    devices: Sequence[str],
    how: Reduction,
    scale: Any,
) -> list[Pack]:
    """Returns the sums over towers of all tensors of some packs, in a name scope."""
    totals, nodes, names = [], packing.Packing(), []  # type: list[Any], Any, list[str]
    for pack, (values, parts) in zip(packs, begun):
        if _are_added(pack[0], how):
            totals.append(Pack(values[0], parts or values))
            continue
        links = _links(pack[0], devices, how, scale)
        with tf.name_scope(scope), tf.device(links.place):
            total = _sum(pack[0], values, links)
        parts = [total]
        if len(pack) > 1:
            parts = nodes.part(total, total.dtype, _shapes(pack), links.place)
            names += parts
        totals.append(Pack(total, parts))
    made = dict(zip(names, nodes.make(scope, names)))
    return [
        total._replace(parts=[made[one] if isinstance(one, str) else one for one in total.parts])
        for total in totals
    ]


def _sum(part: Part, by_tower: Sequence[Any], links: Transport) -> Any:
    """Returns the sum over towers of the tensors of a pack that holds `part`."""
    flat, devices = by_tower, links.devices
    # A pack has one layout, so the same rows weight all of its parts.
    if part.layout.op == "mean" and not part.is_gradient:
        return means.of_all(flat, part.rows, devices)
    if part.layout.op == "mean":
        flat = means.shares(flat, part.rows, devices)
    if not part.is_gradient:
        return tf.add_n(flat)  # TensorFlow sends the inputs as they are.
    if links.how.where == "nccl":
        return nccl.add(flat, devices, links.place)
    return tf.add_n([links.send(value, index) for index, value in enumerate(flat)])


def _join(part: Part, by_tower: Sequence[Any], has_rows: Sequence[Any], links: Transport) -> Any:
    """Returns the whole of a tensor that is no partial sum or mean.

    Args:
        part: The `Part`.
        by_tower: Its tensors from `_begin`.
        has_rows: The result of `counted.has_rows`.
        links: The `Transport`.
    """
    layout = part.layout
    if _are_concatenated(part, links.how):
        return by_tower[0]  # It is there already.
    if layout == WHOLE:
        # The same in all towers. The others may read a variable or fail, so they are waited for.
        with tf.control_dependencies([value.op for value in by_tower[1:]]):
            return tf.identity(by_tower[0])
    if isinstance(layout, Grown):
        # Each round has appended a block of rows, after the entries that are the same in all.
        grown = [value[layout.begin :] for value in by_tower]
        added = _join(part._replace(layout=Shard(0)), grown, has_rows, links)
        return tf.concat([by_tower[0][: layout.begin], added], 0)
    if isinstance(layout, Shard):
        if part.is_gradient:
            by_tower = [links.send(value, index) for index, value in enumerate(by_tower)]
        if part.blocks is None:
            return tf.concat(by_tower, layout.axis)
        return splits.joined(by_tower, layout.axis, part.blocks)
    # A repeated value changes a product, but none of the reductions below.
    if layout.op == "prod":
        return tf.reduce_prod(tf.stack(by_tower), 0)
    return _REDUCE[layout.op](tf.stack(counted.or_first(by_tower, has_rows)), 0)


_REDUCE = {
    "max": tf.reduce_max,
    "min": tf.reduce_min,
    "all": tf.reduce_all,
    "any": tf.reduce_any,
}
