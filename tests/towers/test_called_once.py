"""Strangers' model functions: called once and run in towers, they train as on one device.

The rows are in `strangers_gradients.py` and `strangers_state.py`. Each is trained with `sgd`, in
float64 unless said otherwise, on uneven batches.
"""

import functools
import random

import numpy as np
import pytest

import contract
import replicate
import selection
from bodies import control_flow
from towers import strangers
from towers import strangers_gradients as grads
from towers import strangers_state as state

pytestmark = [
    pytest.mark.usefixtures("resource_variables"),
    pytest.mark.conformance,
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices"),
]
WRAPS = {"wrapped": replicate.TowerOptimizer, "unwrapped": contract.plain}


def record(model_fn, num_towers, wrap, batches=contract.UNEVEN, reduction=contract.MEAN, **kwargs):
    if num_towers > 1:
        model_fn = contract.replicated(model_fn, num_towers, reduction, **kwargs)
    return contract.record(
        model_fn,
        functools.partial(contract.dataset, batches),
        contract.make_params("sgd", reduction, wrap),
        num_towers,
    )


def changes():
    for m, make in enumerate(grads.MAKERS):
        for c, change in enumerate(grads.CHANGES):
            for w, wrap in enumerate(WRAPS):
                towers = 2 + (m + c + w) % 2
                reduction = list(grads.REDUCTIONS)[(m + c // 2) % 2]
                yield selection.cell(
                    grads.changing(grads.MAKERS[make], grads.CHANGES[change]),
                    WRAPS[wrap],
                    towers,
                    grads.REDUCTIONS[reduction],
                    id=f"{make}-{change}-{wrap}-{towers}-{reduction}",
                    is_quick=selection.on_diagonal(c, m, 5) and w == m % 2,
                )


@pytest.mark.parametrize("model_fn, wrap, num_towers, reduction", list(changes()))
def test_gradients_changed_before_they_are_applied(model_fn, wrap, num_towers, reduction):
    want = contract.record_one_device(model_fn, contract.UNEVEN, "sgd", reduction)
    got = record(model_fn, num_towers, wrap, reduction=reduction)
    assert len(want.losses) == 3
    contract.assert_same_run(got, want)


def recipes():
    for name in grads.OTHERS:
        for w, wrap in enumerate(WRAPS):
            for towers in (2, 3):
                is_quick = w == (len(name) + towers) % 2
                yield selection.cell(name, WRAPS[wrap], towers, is_quick=is_quick)


@pytest.mark.parametrize(("name", "wrap", "num_towers"), list(recipes()))
def test_recipes(name, wrap, num_towers):
    model_fn = grads.OTHERS[name]
    want = contract.record_one_device(model_fn, contract.DYNAMIC)
    contract.assert_same_run(record(model_fn, num_towers, wrap, contract.DYNAMIC), want)


@pytest.mark.parametrize("num_towers", [selection.cell(2, is_quick=False), 3])
@pytest.mark.parametrize("name", list(state.STATE))
def test_state(name, num_towers, warnings):
    model_fn = state.STATE[name]
    want = contract.record_one_device(model_fn, contract.DYNAMIC)
    wrap = list(WRAPS.values())[num_towers % 2]
    contract.assert_same_run(record(model_fn, num_towers, wrap, contract.DYNAMIC), want)
    assert warnings() == []


@pytest.mark.parametrize(
    "name, reduction",
    [
        selection.cell(
            name,
            grads.REDUCTIONS[reduction],
            is_quick=selection.on_diagonal(row, column, 2),
            id=f"{name}-{reduction}",
        )
        for column, reduction in enumerate(grads.REDUCTIONS)
        for row, name in enumerate(strangers.PENALTIES)
    ],
)
def test_a_penalty_added_by_hand_counts_once(name, reduction):
    model_fn = strangers.PENALTIES[name]
    num_towers = 2 + len(name) % 2
    want = contract.record_one_device(model_fn, contract.UNEVEN, "sgd", reduction)
    wrap = list(WRAPS.values())[len(name) // 2 % 2]
    got = record(model_fn, num_towers, wrap, contract.UNEVEN, reduction)
    contract.assert_same_run(got, want)


@pytest.mark.parametrize("wrap", list(WRAPS.values()), ids=list(WRAPS))
@pytest.mark.parametrize("name", list(strangers.SCOPES))
def test_an_optimizer_under_a_scope_from_the_top(name, wrap):
    want = contract.record_one_device(strangers.SCOPES[name], contract.UNEVEN)
    contract.assert_same_run(record(strangers.SCOPES[name], 3, wrap), want)


@pytest.mark.parametrize(
    "make, version",
    [
        selection.cell(make, version, is_quick=selection.on_diagonal(row, version, 2))
        for version in (1, 2)
        for row, make in enumerate(grads.MAKERS)
    ],
)
def test_gradients_changed_in_a_condition(make, version):
    with control_flow(version):
        model_fn = grads.changing(grads.MAKERS[make], grads.clip_if_large)
        want = contract.record_one_device(model_fn, contract.DYNAMIC)
        contract.assert_same_run(record(model_fn, 2, contract.plain, contract.DYNAMIC), want)


OPTIONS = {
    "loss_scale": ({"loss_scale": 128.0}, {}),
    "dynamic loss_scale": ({"loss_scale": "dynamic"}, {}),
    "accumulate_steps": ({"accumulate_steps": 2}, {}),
    "check_finite": ({"check_finite": True}, {}),
    "replicated": ({}, {"variable_placement": "replicated"}),
    "round_robin": ({}, {"variable_placement": "round_robin"}),
    "reduction": ({"reduction": "round_robin"}, {"variable_placement": "round_robin"}),
}


@pytest.mark.parametrize(
    "option, change",
    [
        selection.cell(option, change, is_quick=selection.on_diagonal(row, column, 3))
        for column, change in enumerate(["clip_by_global_norm", "clip_by_norm", "multipliers"])
        for row, option in enumerate(OPTIONS)
    ],
)
def test_options_and_changed_gradients(option, change):
    wrapped, given = OPTIONS[option]
    wrap = functools.partial(replicate.TowerOptimizer, **wrapped)
    model_fn = grads.changing(grads.computed, grads.CHANGES[change])
    want = record(model_fn, 1, wrap)
    got = record(model_fn, 3, wrap, **given)
    for run in (got, want):  # Replicas, loss scales and what is accumulated: not the model's.
        for values in run.variables:
            for name in list(values):
                if name not in ("global_step:0", "table:0", "w:0", "b:0", "v:0"):
                    del values[name]
    assert len(got.variables[0]) == 5
    contract.assert_same_run(got, want)


@pytest.mark.parametrize("num_towers", [selection.cell(2, is_quick=False), 3])
@pytest.mark.parametrize("name", list(strangers.TABLES))
def test_tables(name, num_towers):
    want = contract.record_one_device(strangers.TABLES[name], contract.UNEVEN)
    contract.assert_same_run(record(strangers.TABLES[name], num_towers, contract.plain), want)


def test_a_backward_pass_in_half_precision():
    want = contract.record_one_device(strangers.HALF, contract.UNEVEN)
    contract.assert_same_run(record(strangers.HALF, 2, replicate.TowerOptimizer), want, rtol=2e-3)


def drawn(name, num_towers, rows, **kwargs):
    """Returns what the rows of two batches draw."""
    model_fn = strangers.drawing(strangers.RANDOM[name])
    if num_towers > 1:
        model_fn = contract.replicated(model_fn, num_towers, **kwargs)
    data = functools.partial(contract.dataset, contract.Batches(2 * rows, rows, static=False))
    result = contract.evaluate(model_fn, data, num_towers, contract.ModeKeys.PREDICT)
    return [batch["drawn"] for batch in result["predictions"]]


@pytest.mark.parametrize("version", [selection.cell(1, is_quick=False), 2])
@pytest.mark.parametrize("name", list(strangers.RANDOM))
def test_random_numbers_of_a_seed(name, version):
    """Programs of towers draw other ones in each, the first of them those of one device."""
    with control_flow(version):
        towers, again = (drawn(name, 3, 12, per_tower=True) for _ in range(2))
        alone = drawn(name, 1, 4)
    np.testing.assert_array_equal(towers, again)
    for batch, first in zip(towers, alone):
        np.testing.assert_array_equal(batch[:4], first)
        assert not np.array_equal(batch[4:8], first)
        assert not np.array_equal(batch[8:], first)
        assert not np.array_equal(batch[8:], batch[4:8])
    assert not np.array_equal(towers[0], towers[1])


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", list(strangers.RANDOM))
def test_random_numbers_of_one_device(name, version):
    with control_flow(version):
        got = drawn(name, 3, 12, random="batch")
        np.testing.assert_array_equal(got, drawn(name, 1, 12))


@pytest.mark.parametrize("wrap", list(WRAPS.values()), ids=list(WRAPS))
@pytest.mark.parametrize("name", list(strangers.MIXED))
def test_gradients_and_weights_that_are_mixed_with_rows(name, wrap, warnings):
    model_fn = strangers.MIXED[name]
    want = contract.record_one_device(model_fn, contract.UNEVEN)
    contract.assert_same_run(record(model_fn, 2 + len(name) % 2, wrap), want)
    assert warnings() == []


@pytest.mark.parametrize("wrap", list(WRAPS.values()), ids=list(WRAPS))
@pytest.mark.parametrize("reduction", list(grads.REDUCTIONS.values()), ids=list(grads.REDUCTIONS))
@pytest.mark.parametrize("name", list(strangers.TWICE))
def test_gradients_of_gradients(name, reduction, wrap):
    want = contract.record_one_device(strangers.TWICE[name], contract.UNEVEN, "sgd", reduction)
    got = record(strangers.TWICE[name], 2, wrap, reduction=reduction)
    contract.assert_same_run(got, want)


@pytest.mark.parametrize("model_fn", [strangers.summed_baseline, strangers.largest, strangers.last])
def test_an_update_of_all_towers_rows(model_fn, warnings):
    want = contract.record_one_device(model_fn, contract.UNEVEN)
    got = record(model_fn, 3, replicate.TowerOptimizer)
    contract.assert_same_run(got, want)
    assert warnings() == []


def test_branching_on_the_index_in_python():
    """It fails in a program of one tower; in that of the batch it is 0, as on one device."""
    with pytest.raises(TypeError, match=r"called once for all towers.*tf\.where.*merge_call"):
        record(strangers.branching, 2, replicate.TowerOptimizer, per_tower=True)
    want = contract.record_one_device(strangers.branching, contract.UNEVEN)
    contract.assert_same_run(record(strangers.branching, 2, replicate.TowerOptimizer), want)


@pytest.mark.parametrize("per_tower", [False, True])
def test_effects_of_python_happen_once(per_tower):
    effects = []

    def model_fn(features, labels, mode, params):
        effects.append(random.random())
        params["seen"] = params.get("seen", 0) + 1
        params["nested"]["rate"] = 0.5
        return state.trained(
            state.mean_square(state.linear(features), labels, params), params, mode
        )

    params = {**contract.make_params(wrap=replicate.TowerOptimizer), "nested": {"rate": 0.1}}
    given = functools.partial(contract.dataset, contract.UNEVEN)
    contract.record(contract.replicated(model_fn, 3, per_tower=per_tower), given, params, 3)
    assert len(effects) == 1
    # The program of one tower has a copy of them; that of the batch what one device has.
    assert ("seen" in params) == (not per_tower)
    assert params["nested"] == {"rate": 0.1 if per_tower else 0.5}
