"""Metrics, predictions, summaries and fetches of hooks cover all rows, as on one device."""

import functools
import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from partition import estimator_models, harness, metric_models, model_inputs, tables
from partition.model_inputs import CASES, STATIC, UNKNOWN

METRICS = tables.Table(metric_models.MODELS)


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("name", METRICS.models)
def test_metrics(name, num_towers, batches):
    METRICS.check_applied(name, batches, num_towers)


class Fetching(tf.train.SessionRunHook):
    """Fetches tensors by their names in every step."""

    def __init__(self, names):
        self._names = names
        self.seen = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._names)

    def after_run(self, run_context, run_values):
        self.seen.append(run_values.results)


def _run(model_fn, directory, batches, num_towers):
    """Trains, evaluates and predicts with an Estimator; returns all that is seen of it."""
    names = {"logits": "logits:0", "loss": "mean_loss:0"}
    hook, logging = Fetching(names), tf.train.LoggingTensorHook(names, every_n_iter=1)
    config = tf.estimator.RunConfig(
        model_dir=str(directory),
        tf_random_seed=model_inputs.SEED,
        session_config=harness.session_config(num_towers),
        save_summary_steps=1,
    )
    params = {"optimizer": batches.optimizer}
    input_fn = functools.partial(model_inputs.dataset, batches)
    with harness.mechanism() as made:
        model = tf.estimator.Estimator(
            harness.replicated(model_fn, num_towers), config=config, params=params
        )
        model.train(input_fn, hooks=[hook, logging])
        evaluated = model.evaluate(input_fn)
        predicted = list(model.predict(lambda: input_fn().map(lambda features, _: features)))
    assert len(made) == 3 * (num_towers > 1)
    seen = {}
    for step, values in enumerate(hook.seen):
        seen.update({f"{name} in step {step}": value for name, value in values.items()})
    for name in model.get_variable_names():
        seen[name] = model.get_variable_value(name)
    seen.update({f"evaluated {name}": value for name, value in evaluated.items()})
    for name in predicted[0]:
        seen[f"predicted {name}"] = np.stack([row[name] for row in predicted])
    seen.update(_summaries(directory))
    return seen


def _summaries(directory):
    """Returns the values written for each tag in each step, except the speed."""
    written = {}
    for path in sorted(pathlib.Path(directory).glob("**/events.*")):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                kind = value.WhichOneof("value")
                key = f"{path.parent.relative_to(directory)} {value.tag} {event.step}"
                if kind == "simple_value" and "global_step/sec" not in value.tag:
                    written[key] = np.float32(value.simple_value)
                if kind == "histo":
                    histogram = value.histo
                    written[key] = np.array([histogram.num, histogram.sum, histogram.max])
    return written


@pytest.mark.parametrize("num_towers, batches", [(2, STATIC), (3, UNKNOWN)], ids=["2", "3"])
@pytest.mark.parametrize("name", estimator_models.MODELS)
def test_estimators(name, num_towers, batches, tmp_path, warnings):
    model_fn = estimator_models.MODELS[name]
    want = _run(model_fn, tmp_path / "one", batches, 1)
    got = _run(model_fn, tmp_path / "more", batches, num_towers)
    assert want["logits in step 0"].shape[0] == batches.size
    assert {". loss 1", "eval loss 3"} <= {*want}, "summaries are read"
    assert warnings() == []
    assert sorted(got) == sorted(want)
    for key, value in want.items():
        rtol = 1e-6 if np.asarray(value).dtype == np.float32 else 1e-9
        harness.assert_close(got[key], value, rtol, key)
