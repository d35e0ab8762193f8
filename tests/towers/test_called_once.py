"""Model functions as people have them: called once and run in towers, they train as on one device.

The rows of `contract/models/` are trained with `sgd`, in float64 unless a row says otherwise, on
uneven batches, in towers whose optimizers are wrapped or not.
"""

import functools
import random

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from bodies import control_flow
from contract import models
from contract.models import changes, draws
from contract.models.parts import F64, get_matrix, linear, mean_square, trained

pytestmark = [
    pytest.mark.usefixtures("resource_variables"),
    pytest.mark.conformance,
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices"),
]
WRAPS = {"wrapped": replicate.TowerOptimizer, "unwrapped": contract.plain}
REDUCTIONS = {"mean": contract.MEAN, "sum": contract.SUM}


def cells(mark):
    """Returns two runs of each row: over 3 and over 2 towers, one of which wraps optimizers.

    The other reduces the loss in another way. Rows of the mark `mixed` depend on both, and always
    run twice.
    """
    found = []
    for row, name in enumerate(models.rows(mark)):
        for towers in (3, 2):
            wrap = list(WRAPS)[(row + towers) % 2]
            reduction = list(REDUCTIONS)[(row // 2 + towers) % 2]
            found.append(
                selection.cell(
                    name,
                    towers,
                    wrap,
                    reduction,
                    id=f"{name}-{towers}-{wrap}-{reduction}",
                    is_quick=towers == 3 or mark == "mixed",
                )
            )
    return pytest.mark.parametrize("name, towers, wrap, reduction", found)


def check(name, towers, wrap, reduction, warnings):
    """Asserts that a row trains as on one device, and that the library says nothing."""
    contract.check(models.TABLE[name], towers, reduction=REDUCTIONS[reduction], wrap=WRAPS[wrap])
    assert warnings() == []


@cells("penalty")
def test_a_penalty_added_by_hand_counts_once(name, towers, wrap, reduction, warnings):
    check(name, towers, wrap, reduction, warnings)


@cells("recipe")
def test_recipes(name, towers, wrap, reduction, warnings):
    check(name, towers, wrap, reduction, warnings)


@cells("state")
def test_state(name, towers, wrap, reduction, warnings):
    check(name, towers, wrap, reduction, warnings)


@cells("mixed")
def test_gradients_and_weights_that_are_mixed_with_rows(name, towers, wrap, reduction, warnings):
    check(name, towers, wrap, reduction, warnings)


def changed():
    """Yields a run of each pair of a way to make gradients and a change."""
    for m, make in enumerate(changes.MAKERS):
        for c, change in enumerate(changes.CHANGES):
            yield selection.cell(
                f"{make}-{change}",
                2 + c % 2,
                list(WRAPS)[(m + c) % 2],
                list(REDUCTIONS)[(m + c // 2) % 2],
                is_quick=selection.on_diagonal(c, m, 5),
            )


@pytest.mark.parametrize("name, towers, wrap, reduction", list(changed()))
def test_gradients_changed_before_they_are_applied(name, towers, wrap, reduction, warnings):
    check(name, towers, wrap, reduction, warnings)


@pytest.mark.parametrize(
    "make",
    [selection.cell(make, is_quick=row % 2 == 0) for row, make in enumerate(changes.MAKERS)],
)
def test_gradients_changed_in_a_condition_of_tensorflow_1(make):
    with control_flow(1):
        row = models.TABLE[f"{make}-cond"]
        contract.check(row, 2, contract.DYNAMIC, wrap=contract.plain)


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
    model_fn = models.TABLE[f"compute_gradients-{change}"].fn
    want = contract.record_plain(model_fn, 1, contract.UNEVEN, wrap)
    got = contract.record_plain(model_fn, 3, contract.UNEVEN, wrap, **given)
    for run in (got, want):  # Replicas, loss scales and what is accumulated: not the model's.
        for values in run.variables:
            for name in list(values):
                if name not in ("global_step:0", "table:0", "w:0", "b:0", "v:0"):
                    del values[name]
    assert len(got.variables[0]) == 5
    contract.assert_same_run(got, want)


def drawn(name, num_towers, rows, **kwargs):
    """Returns what the rows of two batches draw."""
    model_fn = draws.drawing(draws.RANDOM[name])
    if num_towers > 1:
        model_fn = contract.replicated(model_fn, num_towers, **kwargs)
    data = functools.partial(contract.dataset, contract.Batches(2 * rows, rows, static=False))
    result = contract.evaluate(model_fn, data, num_towers, contract.ModeKeys.PREDICT)
    return [batch["drawn"] for batch in result["predictions"]]


@pytest.mark.parametrize("version", [selection.cell(1, is_quick=False), 2])
@pytest.mark.parametrize("name", list(draws.RANDOM))
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
@pytest.mark.parametrize("name", list(draws.RANDOM))
def test_random_numbers_of_one_device(name, version):
    with control_flow(version):
        got = drawn(name, 3, 12, random="batch")
        np.testing.assert_array_equal(got, drawn(name, 1, 12))


def dropping_weights(x):
    """Masks a weight, and takes the norm of that."""
    kept = get_matrix("w", [4, 3]) * tf.cast(tf.random.uniform([4, 3], seed=5) < 0.5, F64)
    return tf.reduce_sum(tf.tanh(x @ kept), 1, keepdims=True), 0.01 * tf.reduce_mean(kept**2)


def drawing_weights(x):
    """A Bayesian layer, whose weights are drawn once for all rows."""
    noise = tf.random.normal([4, 3], dtype=F64, seed=5)
    drawn = get_matrix("w", [4, 3]) + 0.1 * noise
    return tf.reduce_sum(x @ drawn, 1, keepdims=True), 0.01 * tf.reduce_mean(drawn * noise)


def noise_of_features(x):
    """Each feature has a gate, from the mean of all rows."""
    gate = tf.sigmoid(tf.reduce_mean(x, 0)) + tf.random.normal([4], dtype=F64, seed=3)
    return (x * gate) @ get_matrix("w", [4, 1]), 0.0


def mean_of_samples(x):
    """A weight is the mean of four samples, from codes."""
    codes = tf.random.normal([4, 2], dtype=F64, seed=3)
    w = tf.reduce_mean(tf.tanh(codes @ get_matrix("g", [2, 4])), 0)
    return (x * w) @ get_matrix("w", [4, 1]), 0.0


def around_the_mean(x):
    """Four codes around the mean of the batch."""
    center = tf.tile(tf.reduce_mean(x, 0, keepdims=True), [4, 1])
    codes = center + 0.1 * tf.random.normal([4, 4], dtype=F64, seed=3)
    return x @ get_matrix("w", [4, 1]), tf.reduce_mean(tf.tanh(codes @ get_matrix("g", [4, 2])))


def largest_of_features(x):
    """The largest value of each of four features, by a sort of all rows."""
    largest = tf.sort(tf.transpose(x), 1)[:, -1] + 0.1 * tf.random.normal([4], dtype=F64, seed=3)
    w = get_matrix("w", [4, 1])
    return (x * tf.tanh(largest)) @ w, tf.reduce_mean(tf.square(largest) * w[:, 0])


def power_iteration(x):
    """The largest eigenvector of a covariance, found in a loop."""
    covariance = tf.matmul(x, x, transpose_a=True)
    v = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, v: (i + 1, tf.nn.l2_normalize(covariance @ v)),
        (0, tf.ones([4, 1], F64)),
    )[1]
    v += 0.1 * tf.random.normal([4, 1], dtype=F64, seed=3)
    return x @ get_matrix("w", [4, 1]), tf.reduce_mean(tf.square(v * get_matrix("g", [4, 1])))


def projections(x):
    """Four random projections of rows."""
    projected = tf.matmul(tf.random.normal([4, 4], dtype=F64, seed=3), x, transpose_b=True)
    w = get_matrix("w", [4, 1])
    return x @ w, tf.reduce_mean(tf.square(projected)) * tf.reduce_mean(w)


NOT_FOR_ROWS = [
    dropping_weights,
    drawing_weights,
    noise_of_features,
    mean_of_samples,
    around_the_mean,
    largest_of_features,
    power_iteration,
    projections,
]


@pytest.mark.parametrize("rows", [4, 8])
@pytest.mark.parametrize("model", NOT_FOR_ROWS)
def test_random_numbers_that_are_not_for_rows(model, rows):
    """They are one device's, even if a weight has as many rows as the batch."""

    def model_fn(features, labels, mode, params):
        predictions, penalty = model(features["x"])
        return trained(mean_square(predictions, labels, params) + penalty, params, mode)

    batches = contract.Batches(4 * rows, rows, static=True)
    got, want = (contract.record_plain(model_fn, towers, batches) for towers in (3, 1))
    contract.assert_same_run(got, want)


def branching(features, labels, mode, params):
    loss = mean_square(linear(features), labels, params)
    if replicate.tower_index() == 0:
        tf.summary.scalar("loss", loss)
    return trained(loss, params, mode)


def test_branching_on_the_index_in_python():
    """It fails in a program of one tower; in that of the batch it is 0, as on one device."""
    with pytest.raises(TypeError, match=r"called once for all towers.*tf\.where.*merge_call"):
        contract.record_towers(branching, contract.UNEVEN, 2, per_tower=True)
    contract.check(models.Model(branching, ""), 2)


@pytest.mark.parametrize("per_tower", [False, True])
def test_effects_of_python_happen_once(per_tower):
    effects = []

    def model_fn(features, labels, mode, params):
        effects.append(random.random())
        params["seen"] = params.get("seen", 0) + 1
        params["nested"]["rate"] = 0.5
        return trained(mean_square(linear(features), labels, params), params, mode)

    params = {**contract.make_params(wrap=replicate.TowerOptimizer), "nested": {"rate": 0.1}}
    given = functools.partial(contract.dataset, contract.UNEVEN)
    contract.record(contract.replicated(model_fn, 3, per_tower=per_tower), given, params, 3)
    assert len(effects) == 1
    # The program of one tower has a copy of them; that of the batch what one device has.
    assert ("seen" in params) == (not per_tower)
    assert params["nested"] == {"rate": 0.1 if per_tower else 0.5}
