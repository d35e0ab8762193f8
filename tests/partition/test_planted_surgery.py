"""Errors that are planted in the inference, the plan and the surgery are found by few programs."""

from __future__ import annotations

import re
import types
from typing import Any, Callable, Sequence

import pytest
import tensorflow.compat.v1 as tf

from partition import fuzz
from replicate.compat import graph as graph_lib
from replicate.layouts import Shard, dims, facts, found
from replicate.partition import counted, inputs, means, meetings, origins, replicas, rows, splits
from replicate.reduction import packing

GRAPHS = 200  # Those of `test_fuzz`.

Plant = Callable[[pytest.MonkeyPatch], None]
_plants: dict[str, Plant] = {}


def plant(function: Plant) -> Plant:
    """Enters a function that plants an error."""
    _plants[function.__name__] = function
    return function


# Meetings of towers


@plant
def means_without_weights(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(means, "entries_of", lambda *_: None)
    patch.setattr(means, "of_all", lambda by_tower, *_: tf.add_n(by_tower) / len(by_tower))


@plant
def means_of_one_row_more(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(means, "divided", lambda total, number: total / tf.cast(number + 1, total.dtype))


@plant
def shards_joined_in_reverse(patch: pytest.MonkeyPatch) -> None:
    _before_join(patch, lambda part: part._replace(by_tower=part.by_tower[::-1]))


@plant
def shards_joined_on_another_axis(patch: pytest.MonkeyPatch) -> None:
    def other(part: Any) -> Any:
        rank = part.tensor.shape.rank
        return part._replace(layout=Shard((part.layout.axis + 1) % rank))

    _before_join(patch, other)


def _before_join(patch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    count = meetings._begin

    def with_changes(packs: Any, *rest: Any) -> Any:
        changed = [
            [change(part) if isinstance(part.layout, Shard) else part for part in pack]
            for pack in packs
        ]
        return count(changed, *rest)

    patch.setattr(meetings, "_begin", with_changes)


@plant
def largest_is_that_of_the_first_tower(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(meetings._REDUCE, "max", lambda stacked, _: stacked[0])


@plant
def towers_without_rows_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(counted, "if_counted", lambda _, by_tower, *__: list(by_tower))


@plant
def packs_parted_in_another_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(packing.Packing, "part", _mixed(packing.Packing.part))


def _mixed(part: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Returns `part` so that tensors of one shape change places."""

    def mixed(self: Any, joined: Any, dtype: Any, shapes: Sequence[Any], device: str) -> list[str]:
        made = part(self, joined, dtype, shapes, device)
        by_shape: dict[str, list[int]] = {}
        for index, shape in enumerate(shapes):
            by_shape.setdefault(str(shape), []).append(index)
        return [made[_next(index, by_shape[str(shape)])] for index, shape in enumerate(shapes)]

    return mixed


def _next(index: int, same: list[int]) -> int:
    return same[(same.index(index) + 1) % len(same)]


@plant
def packs_of_what_leads_to_one_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(origins.Origins, "origin_of", lambda *_: origins.Origin())


# Inputs of towers


@plant
def rows_that_start_as_if_all_had_as_many(patch: pytest.MonkeyPatch) -> None:
    def split(tensor: Any, axis: int, given_rows: Any, *others: Any) -> list[Any]:
        towers = len(given_rows.starts)
        starts = [given_rows.total * tower // towers for tower in range(towers)]
        return splits.split(tensor, axis, given_rows._replace(starts=starts), *others)

    others = types.SimpleNamespace(split=split, split_by_sizes=splits.split_by_sizes)
    patch.setattr(inputs, "splits", others)


@plant
def shapes_that_are_not_shared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rows, "constant_share", lambda *_: None)
    unknown = tf.TensorShape(None)
    patch.setattr(
        rows.Formulas, "share", lambda self, value, dtype, *_: self.whole(value, dtype, unknown)
    )


@plant
def shares_of_the_first_tower(patch: pytest.MonkeyPatch) -> None:
    share = rows.Formulas.share
    patch.setattr(
        rows.Formulas,
        "share",
        # Tower 0 asks first, and tensors made for a tower are cached.
        lambda self, value, dtype, axis, _, *rest: share(self, value, dtype, axis, 0, *rest),
    )


@plant
def sizes_of_another_axis(patch: pytest.MonkeyPatch) -> None:
    new = facts.Facts._new

    def other(self: Any, tensor: Any, axis: int, **options: Any) -> Any:
        made = new(self, tensor, axis, **options)
        (name,) = made.symbols
        rank = self.symbols[name].tensor.shape.rank
        if rank is not None:
            self.symbols[name] = self.symbols[name]._replace(axis=(axis + 1) % rank)
        return made

    patch.setattr(facts.Facts, "_new", other)


@plant
def sizes_that_stay_stand_ins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inputs.partitioning, "take", _takes_no_sizes(inputs.partitioning.take))


def _takes_no_sizes(take: Callable[..., None]) -> Callable[..., None]:
    def other(operation: Any, index: int, tensor: Any) -> None:
        if not (tensor.dtype == tf.int32 and tensor.shape.rank == 0):
            take(operation, index, tensor)

    return other


@plant
def weights_packed_in_another_order(patch: pytest.MonkeyPatch) -> None:
    # Not `part`, which gives these slices their matrices and which sums of gradients use as well.
    patch.setattr(packing.Packing, "slices", _mixed(packing.Packing.slices))


@plant
def copies_that_wait_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(graph_lib, "add_control_inputs", lambda *_: None)


@plant
def replicas_that_follow_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replicas, "follow", lambda *_: None)


# Layouts


@plant
def late_results_that_stay_parts(patch: pytest.MonkeyPatch) -> None:
    changed = found.Layouts.changed
    patch.setattr(found.Layouts, "changed", lambda self, made, _: changed(self, made, {}))


@plant
def differences_of_sizes_that_are_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(facts.Facts, "rest", lambda self, whole, gone: dims.added(whole, gone))


# Few programs find these, so it takes long until one does.
RARE = (
    "sizes_that_stay_stand_ins",
    "copies_that_wait_for_nothing",
    "replicas_that_follow_nothing",
    "rows_that_start_as_if_all_had_as_many",
    "weights_packed_in_another_order",
    "sizes_of_another_axis",
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.thorough] * (one in RARE), id=one) for one in _plants],
)
def test_a_planted_error_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of these programs find it; without it, all are right.

    A plant whose arguments are no longer those of what it replaces would be found, too.
    """
    _plants[name](monkeypatch)
    failures = fuzz.search(range(GRAPHS)).failures
    assert failures
    assert not re.search("^(TypeError|AttributeError)", failures[0].message, re.MULTILINE)
