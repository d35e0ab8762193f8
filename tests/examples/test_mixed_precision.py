"""Mixed precision: float16 with float32 variables learns digits with a loss scale only."""

import dataclasses
import functools
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from examples import mixed_precision

CONFIG = mixed_precision.Config(steps=250)  # two towers, of 338 and 337 rows
UNSCALED_STEPS = 120  # when the others have learnt much
SPREAD = 0.03  # of the accuracy; the test rows are 450


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns the run of a name, trained once."""

    @functools.lru_cache(maxsize=None)
    def train(name):
        directory = str(tmp_path_factory.mktemp("run"))
        steps = UNSCALED_STEPS if name == "float16, no scale" else CONFIG.steps
        config = dataclasses.replace(CONFIG, steps=steps)
        return mixed_precision.train(config, *mixed_precision.RUNS[name], directory, name)

    return train


def test_float16_with_a_dynamic_scale_is_as_accurate_as_float32(trained):
    float32, scaled = trained("float32"), trained("float16, dynamic scale")
    assert float32.accuracy > 0.85
    assert abs(scaled.accuracy - float32.accuracy) <= SPREAD
    np.testing.assert_allclose(scaled.loss[-1], float32.loss[-1], atol=0.05)
    assert scaled.zeros[0] == pytest.approx(float32.zeros[0], abs=0.01)


@pytest.mark.thorough
def test_float16_without_a_scale_learns_nothing(trained):
    unscaled = trained("float16, no scale")
    assert trained("float32").loss[UNSCALED_STEPS - 1] < 1.5
    assert unscaled.accuracy < 0.2
    assert unscaled.loss[-1] > 0.98 * np.log(10)  # ten digits, equally likely
    assert unscaled.zeros.min() > 0.95  # all but the last bias, and dust
    assert unscaled.skipped == 0


@pytest.mark.thorough
def test_the_scale_grows_until_a_gradient_overflows_and_that_step_is_skipped(trained):
    run = trained("float16, dynamic scale")
    before, after = run.loss_scale[:-1], run.loss_scale[1:]
    assert run.loss_scale[0] == 2**15
    assert set(after / before) == {0.5, 1, 2}
    assert np.count_nonzero(after < before) == run.skipped > 0
    assert len(run.loss) == CONFIG.steps + run.skipped
    # The rule: 25 finite steps in a row double the scale; a skipped step halves it.
    good, scale = 0, run.loss_scale[0]
    for old, new in zip(before, after):
        assert old == scale
        good = 0 if new < old else good + 1
        if new < old:
            scale /= 2
        elif good == CONFIG.increment_period:
            good, scale = 0, 2 * scale
        assert new == scale


def test_variables_are_float32_and_multiplications_float16():
    params = {
        "mean": 0.5,
        "spread": 0.5,
        "dtype": "float16",
        "loss_scale": "dynamic",
        "hidden_layers": 4,
        "hidden_units": 32,
        "learning_rate": 0.01,
        "increment_period": 25,
    }
    replicated = replicate.replicate_model_fn(
        mixed_precision.model_fn, devices=["/cpu:0", "/cpu:1"]
    )
    tf.train.create_global_step()
    images = {"image": tf.ones([5, 64])}
    replicated(images, tf.zeros([5], tf.int32), tf.estimator.ModeKeys.TRAIN, params)
    operations = tf.get_default_graph().get_operations()
    products = [op for op in operations if op.type == "MatMul" and op.name.startswith("tower_")]
    assert len(products) == 2 * 3 * 5  # In each tower: forward, and for inputs and weights.
    assert {op.outputs[0].dtype for op in products} == {tf.float16}
    assert len(tf.trainable_variables()) == 6
    slots = [variable for variable in tf.global_variables() if "Adam" in variable.name]
    assert len(slots) == 12
    assert {v.dtype.base_dtype for v in tf.trainable_variables() + slots} == {tf.float32}


def test_the_program_leaves_a_table_a_plot_and_a_record(tmp_path, capsys):
    assert mixed_precision.main(["--steps=2", "--batch_size=9", f"--out={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in mixed_precision.RUNS:
        assert any(line.startswith(name) and "%" in line for line in lines)
    assert lines[-1] == f"Loss curves and loss scale: {tmp_path / 'mixed_precision.png'}"
    assert (tmp_path / "mixed_precision.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((tmp_path / "mixed_precision.json").read_text())
    assert record["config"]["batch_size"] == 9
    assert set(record["runs"]) == set(mixed_precision.RUNS)
