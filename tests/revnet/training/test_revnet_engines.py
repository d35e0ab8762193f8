"""All engines do the same, step by step; each resumes as if it had not been stopped."""

import os
import signal

import numpy as np
import pytest

from bodies import matching
from examples.revnet.training import train_eval
from examples.runs import checkpoints
from examples.runs.errors import UserError
from revnet.revnet_runs import (
    ENGINES,
    assert_same,
    fresh_graph,  # noqa: F401
    losses,
    scalars,
    settings,
    variables,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TPUEstimator's own
# Towers add up in another order; the difference grows from step to step.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Settings of a network after all its steps without a break, and its losses, by engine."""
    found = {}
    for engine in ENGINES:
        params = settings(tmp_path_factory.mktemp(engine), engine=engine, dtype="float64")
        found[engine] = params, losses(params)
    return found


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_losses_are_the_same_on_every_engine(trained, engine):
    _, want = trained["eager"]
    _, got = trained[engine]
    assert list(got) == list(want) == [1, 2, 3, 4]
    assert len(set(want.values())) == 4
    assert got == pytest.approx(want, rel=TOLERANCES["float64"])


def test_losses_in_float32_are_the_same_on_towers_too(tmp_path):
    want, got = (
        losses(settings(tmp_path / engine, engine=engine)) for engine in ("function", "towers")
    )
    assert got == pytest.approx(want, rel=TOLERANCES["float32"])


@pytest.mark.parametrize(
    "engine",
    [
        *("eager", "function", "towers"),
        *(pytest.param(engine, marks=pytest.mark.thorough) for engine in ("estimator", "tpu")),
    ],
)
def test_training_stops_and_resumes_as_if_it_had_not(tmp_path, trained, engine):
    whole, want = trained[engine]
    params = {**whole, "checkpoint_dir": str(tmp_path)}

    def interrupt(step, loss):
        assert loss == want[step]
        if step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    assert not train_eval.train(params, interrupt)
    stopped = checkpoints.latest_step(params["checkpoint_dir"])
    assert 2 <= stopped <= 3
    rest = losses(params)
    assert rest == {step: loss for step, loss in want.items() if step > stopped}
    assert_same(variables(params), variables(whole))


@pytest.mark.parametrize("engine", ENGINES)
def test_tensorboard_gets_the_scalars(trained, engine, tmp_path_factory):
    params, _ = trained[engine]
    directory = tmp_path_factory.getbasetemp() / os.path.basename(params["checkpoint_dir"])
    found = scalars(directory)
    for name in ("loss", "accuracy", "learning_rate"):
        assert len(found[f"model/{name}"]) >= 3, found


@pytest.mark.parametrize("engine", ENGINES)
def test_every_image_is_evaluated_once(trained, engine):
    metrics = train_eval.evaluate_network({**trained[engine][0], "eval_batch_size": 100})
    want = train_eval.evaluate_network(trained["eager"][0])
    assert metrics["engine"] == engine
    # Metrics of Estimators are float32.
    for name in ("accuracy", "cross_entropy", "num_images", "global_step", "params", "depth"):
        assert metrics[name] == pytest.approx(want[name], rel=1e-6), name
    assert np.isfinite(metrics["cross_entropy"])


@pytest.mark.parametrize("engine", ["eager", "towers"])
def test_a_checkpoint_of_another_network_is_an_error(trained, engine):
    params, _ = trained[engine]
    text = "A checkpoint must be for the network that params.json…is not: …Name one that this"
    for other in ({"filters": [8]}, {"units": [3]}):
        with pytest.raises(UserError, match=matching(text)):
            train_eval.load_model({**params, **other}, checkpoints.find(params["checkpoint_dir"]))
