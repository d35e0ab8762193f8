"""SavedModels exported from a replicated Estimator are those of the un-replicated one."""

import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import saved_model_pb2

import contract
import replicate
from contract import ModeKeys
from contract import models as contract_models

pytestmark = pytest.mark.conformance

TOWERS = 3


def model_fn(features, labels, mode, params):
    """A classifier and regressor with batch norm and every kind of export output."""
    x = features["x"]
    hidden = contract_models.two_layers(x, contract_models.biased)
    hidden = tf.layers.batch_normalization(hidden, training=mode == ModeKeys.TRAIN)
    probabilities = tf.concat([tf.sigmoid(hidden), tf.sigmoid(-hidden)], axis=1)
    predictions = {"value": hidden, "probabilities": probabilities}
    loss = train_op = None
    metrics = {}
    if mode != ModeKeys.PREDICT:
        loss = tf.reduce_mean((hidden - labels) ** 2)
        metrics["mae"] = tf.metrics.mean_absolute_error(labels, hidden)
    if mode == ModeKeys.TRAIN:
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = contract_models.by_minimize(loss, params)
    export = tf.estimator.export
    outputs = {
        "serving_default": export.PredictOutput(predictions),
        "classes": export.ClassificationOutput(scores=tf.cast(probabilities, tf.float32)),
        "regression": export.RegressionOutput(tf.cast(hidden, tf.float32)),
    }
    return tf.estimator.EstimatorSpec(
        mode, predictions, loss, train_op, metrics, export_outputs=outputs
    )


def serving_input():
    x = tf.placeholder(tf.float64, [None, 4], name="input_x")
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def supervised_input():
    like = {"x": tf.zeros([1, 4], tf.float64)}, tf.zeros([1, 1], tf.float64)
    return tf.estimator.experimental.build_raw_supervised_input_receiver_fn(*like)()


INPUTS = {
    ModeKeys.PREDICT: serving_input,
    ModeKeys.EVAL: supervised_input,
    ModeKeys.TRAIN: supervised_input,
}


def export_one(estimator, directory, mode):
    return estimator.export_saved_model(directory, INPUTS[mode], experimental_mode=mode)


def export_all(estimator, directory, mode):
    del mode  # All at once.
    return estimator.experimental_export_all_saved_models(directory, INPUTS)


@pytest.fixture(scope="module")
def estimators(tmp_path_factory):
    """A replicated and an un-replicated Estimator with the same trained weights."""
    directory = tmp_path_factory.mktemp("model")
    tower_params = contract.make_params("adam", wrap=replicate.TowerOptimizer)
    towers = contract.make_estimator(
        contract.replicated(model_fn, TOWERS), directory, tower_params, TOWERS
    )
    towers.train(lambda: contract.dataset(contract.DYNAMIC))
    plain = shutil.copytree(directory, directory.with_name("plain"))
    one = contract.make_estimator(model_fn, plain, contract.make_params("adam"))
    return towers, one


def read_graphs(directory):
    """Returns the MetaGraphDefs in a SavedModel, by their tags."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((pathlib.Path(directory.decode()) / "saved_model.pb").read_bytes())
    graphs = {}
    for meta in saved.meta_graphs:
        for node in meta.graph_def.node:
            if node.name.endswith("StringJoin/inputs_1"):
                node.ClearField("attr")  # The saver's temporary directory has a random name.
        graphs[tuple(sorted(meta.meta_info_def.tags))] = meta
    return graphs


@pytest.mark.parametrize(
    "export, mode",
    [
        (export_one, ModeKeys.PREDICT),
        (export_one, ModeKeys.EVAL),
        (export_one, ModeKeys.TRAIN),
        (export_all, None),
    ],
)
def test_an_export_is_the_un_replicated_one(export, mode, estimators, tmp_path):
    towers, one = estimators
    got = read_graphs(export(towers, str(tmp_path / "towers"), mode))
    want = read_graphs(export(one, str(tmp_path / "one"), mode))
    assert len(got) == (3 if mode is None else 1)
    assert sorted(got) == sorted(want)
    for tags, meta in got.items():
        assert meta.graph_def == want[tags].graph_def
        assert meta.signature_def == want[tags].signature_def
        assert sorted(meta.collection_def) == sorted(want[tags].collection_def)
        assert not re.search("tower|replicate|/shard/", str(meta), re.IGNORECASE)  # Anywhere.
        model = [node for node in meta.graph_def.node if not node.name.startswith("save/")]
        assert {node.device for node in model} == {""}  # TensorFlow's saver has devices.
        assert not {node.op for node in model} & {"Split", "SplitV"}


@pytest.mark.parametrize("rows", [1, 7])
def test_an_export_serves_any_number_of_rows(rows, estimators, tmp_path):
    towers, one = estimators
    directory = export_one(towers, str(tmp_path), ModeKeys.PREDICT).decode()
    x = contract.rows_of(rows)[0]["x"]
    want = list(one.predict(lambda: tf.data.Dataset.from_tensors({"x": x})))
    # A session of one CPU, in which the towers' devices do not exist.
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.load(session, [tf.saved_model.SERVING], directory)
        signature = meta.signature_def["serving_default"]
        fetches = {name: info.name for name, info in signature.outputs.items()}
        got = session.run(fetches, {signature.inputs["x"].name: x})
    assert len(want) == rows
    for name in ("value", "probabilities"):
        contract.assert_close(got[name], [row[name] for row in want], 1e-12, name)


def test_the_checkpoint_is_not_changed_by_an_export(estimators, tmp_path):
    towers, _ = estimators
    before = sorted(path.name for path in pathlib.Path(towers.model_dir).iterdir())
    values = {name: towers.get_variable_value(name) for name in towers.get_variable_names()}
    export_one(towers, str(tmp_path), ModeKeys.PREDICT)
    assert sorted(path.name for path in pathlib.Path(towers.model_dir).iterdir()) == before
    for name, value in values.items():
        np.testing.assert_array_equal(towers.get_variable_value(name), value)
