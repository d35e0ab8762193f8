"""Indices that are proven to point at their own row need no rows of other towers; others do.

Random graphs are compared with one device; see `own_cases.py`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from layouts import own_cases, pointing_proof
from replicate.layouts import Own, Shard, dims, own_rows
from replicate.layouts.rule import Op

EXAMPLES, PER_NIGHT = 6, 200
WRONG = {
    "rows": (own_cases.WRONG_NUMBERS, own_cases.IN_ROW),
    "places": (own_cases.NUMBERS, own_cases.OUT_OF_ROW),
}


class _Heard:
    """Counts what the proof is asked, and what it finds."""

    def __init__(self, monkeypatch: Any) -> None:
        self.found: list[Any] = []
        right = own_rows.demand

        def listen(op: Op, layouts: Any, index: int, rows: Any, *rest: Any, **more: Any) -> Any:
            made = right(op, layouts, index, rows, *rest, **more)
            if all(layouts[one] == Shard(0) for one in rows):
                self.found.append(made)
            return made

        monkeypatch.setattr(own_rows, "demand", listen)


@pytest.mark.parametrize("name", own_cases.TYPES)
def test_indices_of_the_own_row_are_found(name: str, monkeypatch: Any) -> None:
    heard = _Heard(monkeypatch)
    case = own_cases.picks(own_cases.NUMBERS, own_cases.IN_ROW)
    found = pointing_proof.Proof(name, [case]).run(EXAMPLES)
    assert not found.wrong, "\n".join(found.wrong)
    assert heard.found and all(one is not None for one in heard.found)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", own_cases.TYPES)
def test_other_indices_are_taken_as_such(name: str, wrong: str) -> None:
    found = pointing_proof.Proof(name, [own_cases.picks(*WRONG[wrong])]).run(EXAMPLES)
    assert not found.wrong, "\n".join(found.wrong)


@pytest.mark.nightly
@pytest.mark.parametrize("name", own_cases.TYPES)
def test_indices_are_right_in_many_graphs(name: str) -> None:
    numbers = own_cases.NUMBERS + own_cases.WRONG_NUMBERS
    case = own_cases.picks(numbers, own_cases.IN_ROW + own_cases.OUT_OF_ROW)
    found = pointing_proof.Proof(name, [case], seed=random.randrange(10**6)).run(PER_NIGHT)
    assert not found.wrong, "\n".join(found.wrong)


def _is_always_own(op: Op, layouts: Any, index: int, rows: Any, size: Any, **more: Any) -> Any:
    """Takes the indices of rows for granted."""
    each = None if size is None else dims.over(size, op.rows)
    is_asked = all(layouts[one] == Shard(0) for one in rows) and layouts[index] == Shard(0)
    return Own(each=each, **more) if is_asked and each is not None else None


@pytest.mark.parametrize("name", own_cases.TYPES)
def test_the_proof_finds_indices_of_other_rows(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(own_rows, "demand", _is_always_own)
    proof = pointing_proof.Proof(name, [own_cases.picks(*WRONG["rows"])])
    assert any(proof.run(2, 2 * index).wrong for index in range(20))
