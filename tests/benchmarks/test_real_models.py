"""The networks of `benchmarks.real_models` train alike on towers, and its command measures them."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import programs
import replicate
from benchmarks import networks, real_models
from replicate.bench import models

STEPS = 3


def losses_of(case, num_towers):
    """Returns the first losses of a small network of the kind that a case has."""
    devices = [f"/cpu:{index}" for index in range(max(1, num_towers))]

    def make_optimizer():
        optimizer = tf.train.MomentumOptimizer(0.05, 0.9)
        return replicate.TowerOptimizer(optimizer) if num_towers else optimizer

    model_fn = models.make_model_fn(case, make_optimizer)
    if num_towers:
        model_fn = replicate.replicate_model_fn(model_fn, devices=devices, random="batch")
    with tf.Graph().as_default():
        tf.set_random_seed(models.SEED)
        tf.train.create_global_step()
        batch = tf.data.make_one_shot_iterator(models.make_input_fn(case, 1)()).get_next()
        spec = model_fn(*batch, "train")
        with tf.Session(config=replicate.session_config(devices)) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run(tf.tables_initializer())
            return [session.run([spec.loss, spec.train_op])[0] for _ in range(STEPS)]


@pytest.mark.filterwarnings("ignore:.*is deprecated:UserWarning")
@pytest.mark.parametrize("name", [name for name in networks.CASES if "net" not in name])
def test_towers_have_the_losses_of_one_device(name):
    case = networks.CASES[name]._replace(layers=1, width=8, global_batch=8, classes=20)
    want = losses_of(case, 0)
    assert len(set(want)) == STEPS  # It trains.
    np.testing.assert_allclose(losses_of(case, 2), want, rtol=2e-5)


@pytest.mark.thorough
def test_mobilenet_v2_has_the_published_layers():
    """3.4 million weights, and 300 million multiply-adds at 224 × 224 (Sandler et al., table 4)."""
    case = networks.CASES["mobilenet_v2"]
    model_fn = models.make_model_fn(case, lambda: tf.train.GradientDescentOptimizer(0.1))
    model_fn(tf.ones([2, 64, 64, 3]), tf.zeros([2], tf.int32), "train")
    weights = sum(v.shape.num_elements() for v in tf.trainable_variables())
    assert weights == 3_504_872


@pytest.mark.thorough
def test_bert_has_the_layers_of_bert_base():
    case = networks.CASES["bert"]._replace(width=768, classes=30522)
    with tf.device("/cpu:0"):
        rows, labels = models.MODELS["bert"].rows(case, 2, np.random.RandomState(0))
        networks.models.MODELS["bert"].loss(tf.constant(rows), tf.constant(labels), case)
    kernels = [v for v in tf.trainable_variables() if v.op.name.endswith("kernel")]
    assert len(kernels) == 12 * 6
    assert sum(v.shape.num_elements() for v in kernels) == 12 * 12 * 768 * 768


def test_a_table_of_ratios_has_a_line_for_each_case_and_a_dash_for_what_cannot_be(capsys):
    found = {"first_step_s": 1.25, "step_ms_p50": 0.5, "peak_rss_mb": 1.0}
    ratios = {"single": {figure: {"median": value} for figure, value in found.items()}}
    records = [
        {"case": case, "engine": engine, "ratio_to": {} if engine == "single" else ratios}
        for case, engines in [("a4", ["single", "mirrored", "replicate"]), ("b4", ["single"])]
        for engine in engines
    ]
    assert real_models.ratios(records).splitlines() == [
        "| case | `MirroredStrategy` | `replicate` |",
        "| --- | --- | --- |",
        "| a4 | 1.25 · 0.50 · 1.00 | 1.25 · 0.50 · 1.00 |",
        "| b4 | – | – |",
    ]
    with pytest.raises(SystemExit):
        real_models.main(["--ratios", "--engines", "mirrored,replicate"])
    assert "--ratios are those to `single`, but --engines are mirrored,replicate" in (
        capsys.readouterr().err
    )


@pytest.mark.thorough
def test_a_quick_run_prints_where_the_time_goes():
    engines = ("single", "replicate, in turn", "replicate")
    cases = ["--cases", "wide_and_deepx2", "--engines", ",".join(engines[::2])]
    result = programs.run("-m", "benchmarks.real_models", "--quick", *cases)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [line["engine"] for line in lines] == list(engines[::2])
    assert set(engines) < set(real_models.ENGINES)
    for line in lines:
        parts = [line[figure] for figure in ("build_s", "session_s", "first_run_s")]
        assert min(parts) > 0 and line["first_step_s"] == pytest.approx(sum(parts), rel=1e-3)
    assert "| wide_and_deepx2 | graph build s |" in result.stdout
