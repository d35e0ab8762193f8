"""Rules that know indices are true of random graphs, and plain ones of towers that have nothing.

How that is done is told in `pointing_proof.py` and in `empties.py`.
"""

from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest
import tensorflow.compat.v1 as tf

import versions
from layouts import empties, pointing_proof, proof
from layouts.pointers import COLUMNS, raw
from layouts.pointing_batch import Batch
from layouts.pointing_cases import Case, cases_of
from replicate.layouts import Layout, ragged, rule
from replicate.layouts.layout import WHOLE, Indices, Share, Strategy
from replicate.layouts.rule import Op
from replicate.partition.inputs import Inputs
from replicate.partition.units import Units

TYPES = pointing_proof.types()
PLAIN = proof.types()
# By type: the number of graphs, and of operations for which some towers have no entries.
EXAMPLES, OF_NONE, PER_NIGHT = 3, 1, 40


def test_every_rule_that_knows_indices_has_cases() -> None:
    assert sorted(rule.pointing_rules()) == sorted(cases_of())


@pytest.mark.parametrize("name", TYPES)
def test_a_rule_that_knows_indices_is_true(name: str) -> None:
    found = pointing_proof.Proof(name, TYPES[name]).run(EXAMPLES)
    assert not found.wrong, "\n".join(found.wrong)
    assert found.said


@pytest.mark.nightly
@pytest.mark.parametrize("name", TYPES)
def test_a_rule_that_knows_indices_is_true_of_many_graphs(name: str) -> None:
    found = pointing_proof.Proof(name, TYPES[name], seed=random.randrange(10**6)).run(PER_NIGHT)
    assert not found.wrong, "\n".join(found.wrong)


# Towers without entries of a tensor that is split.


@pytest.fixture
def filled_memory() -> Iterator[None]:
    """Fills memory, so that results are wrong that nobody has written."""
    empties.fill_new_memory(0xA5)
    yield
    empties.fill_new_memory(0)


def _of_none(name: str, seed: int, examples: int) -> empties.Proof:
    """Proves a type, unless `ragged` leaves it whole: its kernel may end the process."""
    if name.startswith(ragged._NEED_ROWS):
        return empties.Proof(name, [])
    return empties.Proof(name, PLAIN[name], seed).run(examples)


@pytest.mark.usefixtures("filled_memory")
def test_plain_rules_are_true_of_towers_that_have_nothing() -> None:
    judged = 0
    for name in PLAIN:
        found = _of_none(name, 0, OF_NONE)
        assert not found.wrong, "\n".join(found.wrong.values())
        judged += found.judged
    assert judged > 1000


@pytest.mark.nightly
@pytest.mark.usefixtures("filled_memory")
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_rule_is_true_of_towers_that_have_nothing(name: str) -> None:
    found = _of_none(name, random.randrange(10**6), PER_NIGHT)
    assert not found.wrong, "\n".join(found.wrong.values())


@pytest.mark.skipif(versions.IS_1, reason="TensorFlow 1.15 has no such kernel")
@pytest.mark.usefixtures("filled_memory")
def test_a_kernel_that_writes_nothing_is_found(monkeypatch: Any) -> None:
    name = "SparseSegmentSumGrad"
    assert empties.fill_new_memory(0xA5)
    monkeypatch.setattr(ragged, "_NEED_ROWS", ())
    assert empties.Proof(name, PLAIN[name]).run(4).wrong


def reductions(batch: Batch, name: str) -> None:
    values = batch.sparse(COLUMNS).values
    masked = tf.boolean_mask(batch.rows(3), batch.rows(dtype=tf.bool))
    for given in (values, masked):
        for axis in ([0], list(range(given.shape.rank))):
            made = raw(name, input=given > 0 if name in ("All", "Any") else given, axis=axis)
            if name not in ("All", "Any"):
                tf.tanh(made)


def sizes_left_open(batch: Batch, name: str) -> None:
    kept = tf.boolean_mask(batch.rows(4, COLUMNS), batch.rows(dtype=tf.bool))
    size = tf.shape(kept)[0]
    for shape in ([size, -1], [-1, 4 * COLUMNS], [size, 2, -1], [size * 2, -1], [size, 6, 2]):
        raw(name, tensor=kept, shape=tf.stack(shape))


def gradients(batch: Batch, name: str) -> None:
    given, weights = batch.rows(4), tf.ones([4, 2], tf.float64)
    kept = tf.boolean_mask(given, batch.rows(dtype=tf.bool))
    made = tf.nn.log_softmax(raw(name, a=tf.tanh(kept), b=weights))
    tf.gradients(tf.reduce_sum(made) + tf.reduce_sum(made[:, 0] * kept[:, 1]), [given, weights])


OF_VALUES: dict[str, Case] = {
    **dict.fromkeys(["Sum", "Mean", "Max", "Min", "Prod", "All", "Any"], reductions),
    "Reshape": sizes_left_open,
    "MatMul": gradients,
}


@pytest.mark.parametrize("name", OF_VALUES)
def test_what_rows_have_any_number_of_goes_through_plain_operations(name: str) -> None:
    found = pointing_proof.Proof(name, [OF_VALUES[name]]).run(4)
    assert not found.wrong, "\n".join(found.wrong)


# Errors, planted one at a time.

Layouts = Any
Right = Callable[[Op, Layouts], Any]


def _claims_all(right: Right, op: Op, layouts: Layouts) -> Strategy | None:
    """Claims that each row has an entry."""
    found = right(op, layouts)
    return found and found._replace(outputs=tuple(map(_full, found.outputs)))


def _full(layout: Layout) -> Layout:
    return layout._replace(is_full=True) if isinstance(layout, Indices) else layout


def _shares_nothing(right: Right, op: Op, layouts: Layouts) -> Strategy | None:
    """Gives each tower the number of all rows."""
    found = right(op, layouts)
    inputs = found and tuple(WHOLE if isinstance(one, Share) else one for one in found.inputs)
    return found and found._replace(inputs=inputs)


def _takes_of_all(right: Right, op: Op, layouts: Layouts) -> Strategy | None:
    """Gives each tower all rows, which it wrongly indexes by its own indices."""
    found = right(op, layouts)
    return found and found._replace(inputs=(WHOLE, *found.inputs[1:]))


def _counts_rows(right: Right, op: Op, layouts: Layouts) -> Strategy | None:
    """Forgets that there are several entries for each row."""
    found = right(op, layouts)
    return found and found._replace(outputs=tuple(one._replace(each=1) for one in found.outputs))


PLANTED: dict[str, tuple[str, Any]] = {
    "SparseReorder claims all rows": ("SparseReorder", _claims_all),
    "a mask claims all rows": ("Where", _claims_all),
    "a number of rows is not shared": ("UnsortedSegmentSum", _shares_nothing),
    "a shape is not shared": ("SparseToDense", _shares_nothing),
    "rows are not shared": ("GatherV2", _takes_of_all),
    "several entries of each row": ("Where", _counts_rows),
}


@pytest.mark.parametrize("error", PLANTED)
def test_the_proof_finds(error: str, monkeypatch: Any) -> None:
    name, wrong = PLANTED[error]
    right = rule.pointing_rules()[name]
    monkeypatch.setitem(rule._pointing, name, lambda op, layouts: wrong(right, op, layouts))
    assert _finds(name)


@pytest.mark.parametrize("name", ["Where", "SparseFillEmptyRows", "StringSplit"])
def test_the_proof_finds_an_offset_that_is_forgotten(name: str, monkeypatch: Any) -> None:
    right = Inputs.offset
    monkeypatch.setattr(Inputs, "offset", lambda self, *given: right(self, *given[:-1], 0))
    assert _finds(name)


def test_the_proof_finds_a_mean_that_rows_weigh(monkeypatch: Any) -> None:
    monkeypatch.setattr(Units, "rows_of", lambda self, unit: self._rows)
    assert pointing_proof.Proof("Mean", [reductions]).run(EXAMPLES).wrong


def _finds(name: str) -> bool:
    return any(pointing_proof.Proof(name, TYPES[name]).run(2, 2 * i).wrong for i in range(30))
