"""Python sees the whole batch in towers: sizes, shapes, `params["batch_size"]`, feeds."""

import pytest
import tensorflow.compat.v1 as tf

from partition import harness, model_inputs, row_losses, static_models, tables
from partition.harness import ModeKeys
from partition.model_inputs import CASES, STATIC, TEN, UNKNOWN

pytestmark = pytest.mark.filterwarnings("ignore:`tf.nn.rnn_cell:UserWarning")


def _model(loss):
    def model(features, labels, mode, params):
        h = model_inputs.hidden(features["x"])
        if labels is None:
            return tables.spec_of(mode, {"h": h}, None, params)
        made = loss(h, model_inputs.Batch(**features, **labels), params["batch_size"])
        return tables.spec_of(mode, {"h": h}, made, params)

    return model


MODELS = tables.Table({name: _model(loss) for name, loss in static_models.LOSSES.items()})
STATIC_CASES = [
    pytest.param(2, STATIC, id="2-static"),
    pytest.param(3, TEN, id="3-ten"),
    pytest.param(3, STATIC, id="3-static", marks=pytest.mark.thorough),
    pytest.param(2, TEN, id="2-ten", marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("num_towers, batches", STATIC_CASES)
@pytest.mark.parametrize("name", MODELS.models)
def test_sizes_are_those_of_the_whole_batch(name, num_towers, batches):
    MODELS.check_training(name, batches, num_towers)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS.models)
def test_sizes_are_those_of_the_whole_batch_in_evaluation(name):
    MODELS.check_applied(name, STATIC, 2)


def test_sizes_that_nothing_needs_are_there_in_training():
    """No step computes how many rows are kept; who fetches it gets one device's number."""

    def model(features, labels, mode, params):
        x = features["x"]
        kept = tf.boolean_mask(x, tf.sin(x[:, 0]) > 0)
        found = {"kept": tf.shape(kept)[0], "entries": tf.size(tf.tanh(kept))}
        return tables.spec_of(mode, found, tf.reduce_mean(model_inputs.hidden(x) ** 2), params)

    harness.check_training(model, UNKNOWN, 3)


@pytest.mark.parametrize("num_towers, batches", CASES)
def test_python_sees_the_whole_batch(num_towers, batches):
    seen = []

    def model(features, labels, mode, params):
        h = model_inputs.hidden(features["x"])
        seen.append([h.shape.as_list(), labels["k"].shape.as_list(), params["batch_size"]])
        loss = row_losses.mean(h, model_inputs.Batch(**features, **labels))
        return tables.spec_of(mode, {"h": h}, loss, params)

    size = batches.size if batches.static else None
    with harness.mechanism(), harness.building(model, batches, num_towers, ModeKeys.TRAIN) as spec:
        assert spec.predictions["h"].shape.as_list() == [size, 3]
    assert seen == [[[size, 3], [size], batches.size]]


def _with_defaults(features, labels, mode, params):
    """Features pass placeholders, so that a server of the model can feed them."""
    given = {
        name: tf.placeholder_with_default(tensor, [None, *tensor.shape[1:]], f"given_{name}")
        for name, tensor in features.items()
    }
    h = model_inputs.hidden(given["x"])
    loss = row_losses.mean(h, model_inputs.Batch(**given, **labels)) if labels else None
    return tables.spec_of(mode, {"h": h}, loss, params)


@pytest.mark.parametrize("num_towers, batches", CASES)
def test_placeholders_have_their_defaults(num_towers, batches):
    want = harness.trained(_with_defaults, batches)
    harness.assert_trains(want)
    # A tensor that can be fed, with any number of rows, need not be split.
    got = harness.trained(_with_defaults, batches, num_towers)
    harness.assert_same(got, want, is_split=False)


def test_placeholders_are_fed():
    x = model_inputs.rows_of(5)[0]["x"]
    fetched = []
    for num_towers in (1, 3):
        with harness.mechanism(), harness.building(
            _with_defaults, UNKNOWN, num_towers, ModeKeys.EVAL
        ) as spec, tf.Session(config=harness.session_config(num_towers)) as session:
            session.run(tf.global_variables_initializer())
            fetched.append(session.run(spec.predictions["h"], {"given_x:0": x}))
    harness.assert_close(fetched[1], fetched[0], 1e-9, "h")


def _taking_apart(features, labels, mode, params):
    """Takes features out of their dictionary, and puts in what it makes of them."""
    ids = features.pop("ids")
    features["pairs"] = tf.one_hot(tf.reduce_sum(ids, 1), 12, dtype=tf.float64)
    features["x"] = tf.concat([features["x"], features["pairs"]], 1)
    h = model_inputs.hidden(features["x"])
    if labels is None:
        return tables.spec_of(mode, {"h": h}, None, params)
    labels["y"] = 2.0 * labels["y"]
    loss = tf.reduce_mean((h - labels.pop("y")) ** 2)
    features.clear()
    return tables.spec_of(mode, {"h": h}, loss, params)


@pytest.mark.parametrize("num_towers, batches", CASES)
def test_dictionaries_may_be_changed(num_towers, batches):
    want = harness.trained(_taking_apart, batches)
    harness.assert_trains(want)
    harness.assert_same(harness.trained(_taking_apart, batches, num_towers), want)
