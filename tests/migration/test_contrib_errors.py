"""Errors of what replicate itself has of `tf.contrib`, by their texts, on every TensorFlow."""

import types

import pytest
import tensorflow.compat.v1 as tf

import bodies
from replicate.compat import kept
from replicate.migration import contrib, installation, tensorflow_1
from replicate.migration.contrib import (
    data,
    framework,
    initializers,
    learn,
    lookup,
    metrics,
    modules,
    regularizers,
    respelling,
    rnn,
    training,
)
from replicate.migration.contrib.hparam_text import parse_values
from replicate.migration.contrib.hparams import HParams

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]


def hparams():
    return HParams(n=3, rate=0.1, sizes=[1, 2])


def cell():
    return tf.nn.rnn_cell.BasicRNNCell(2)


def directions(**kwargs):
    given = {"cells_fw": [cell()], "cells_bw": [cell()], "inputs": tf.zeros([2, 3, 2]), **kwargs}
    return rnn.stack_bidirectional_dynamic_rnn(**given, dtype=tf.float32)


CASES = [
    (ValueError, lambda: HParams(parse=1), "must not have the name of an attribute, got …parse"),
    (ValueError, lambda: HParams(x=[]), " decides on its type, but is an empty list."),
    (
        NotImplementedError,
        lambda: HParams(hparam_def=3),
        "HParams takes no hparam_def: HParamDef went with tf.contrib. Write HParams(**values) of "
        "the values of …3",
    ),
    (
        NotImplementedError,
        lambda: hparams().to_proto(),
        "HParamDef went with tf.contrib. Write hparams.to_json().",
    ),
    (
        ValueError,
        lambda: hparams().set_hparam("n", [1]),
        " has one value, but got the list …[1]",
    ),
    (
        ValueError,
        lambda: hparams().set_hparam("sizes", 1),
        " has a list of values, but got …1",
    ),
    (
        ValueError,
        lambda: hparams().set_hparam("n", 0.5),
        " has values of …int, which 0.5 is not.",
    ),
    (
        ValueError,
        lambda: hparams().get("sizes", 1),
        "`default` must be as …sizes…a list of int, but is 1.",
    ),
    (
        ValueError,
        lambda: hparams().get("n", "x"),
        "`default` must be as …n…int, but is …x",
    ),
    (
        ValueError,
        lambda: parse_values("n:1", {"n": int}),
        "Hyperparameters are name=value, name=[values], but got …n:1",
    ),
    (
        ValueError,
        lambda: parse_values("m=1", {"n": int}),
        " is no hyperparameter here, in …m=1",
    ),
    (
        ValueError,
        lambda: parse_values("n[1]=[2]", {"n": int}),
        "] is one value, but is assigned a list in …n[1]=[2]",
    ),
    (
        ValueError,
        lambda: parse_values("n=x", {"n": int}),
        " takes values of …int, but got …x",
    ),
    (
        ValueError,
        lambda: parse_values("n[2]=1,n[2]=1", {"n": int}),
        " is assigned twice in …n[2]=1,n[2]=1",
    ),
    (
        TypeError,
        lambda: data.reduce_dataset(3, None),
        "`dataset` is to be a `tf.data.Dataset`, but is …3",
    ),
    (TypeError, lambda: framework.get_placeholders(3), "`graph` must be a `tf.Graph`, but is …3"),
    (
        ValueError,
        lambda: framework.assert_scalar_int(tf.constant(0.5, name="half")),
        " must be an integer, but is …float32",
    ),
    (
        TypeError,
        lambda: initializers.variance_scaling_initializer(mode="FAN"),
        "`mode` must be one of …FAN_IN, FAN_OUT, FAN_AVG, but is …FAN",
    ),
    (
        TypeError,
        lambda: initializers.xavier_initializer(dtype=tf.int32),
        "Weights are drawn as floating point numbers, but `dtype` is …int32",
    ),
    (
        ValueError,
        lambda: learn.ModeKeys.validate("test"),
        "A mode is one of `ModeKeys`, but got …test",
    ),
    (
        ValueError,
        lambda: lookup.index_table_from_tensor(None),
        "A table needs its strings: `mapping` is None.",
    ),
    (
        ValueError,
        lambda: lookup.index_to_string_table_from_tensor(None),
        "A table needs its strings: `mapping` is None.",
    ),
    (
        ValueError,
        lambda: metrics.aggregate_metrics(),
        "There must be a metric at least, but there is none.",
    ),
    (
        ValueError,
        lambda: metrics.aggregate_metric_map({}),
        "There must be a metric at least, but `names_to_tuples` is …{}",
    ),
    (
        ValueError,
        lambda: directions(cells_fw=[]),
        "` must be a list with a cell for each layer, but is …[]",
    ),
    (
        ValueError,
        lambda: directions(cells_bw=[cell(), cell()]),
        "Both directions must have as many layers, but have …1 and 2.",
    ),
    (
        ValueError,
        lambda: directions(initial_states_fw=[]),
        "` must be None or a list of …1 states, but is [].",
    ),
    (
        ValueError,
        lambda: regularizers.l1_l2_regularizer(1),
        "` must be a float, but is …1: write 1.0.",
    ),
    (
        ValueError,
        lambda: regularizers.l2_regularizer(1),
        "`scale` must be a float, but is …1: write 1.0.",
    ),
    (
        ValueError,
        lambda: regularizers.l1_regularizer(-0.5),
        "`scale` must not be negative, but is …-0.5",
    ),
    (
        ValueError,
        lambda: regularizers.apply_regularization(tf.nn.l2_loss),
        "There are no weights: neither `weights_list` nor the collection WEIGHTS has any.",
    ),
    (
        ValueError,
        lambda: regularizers.apply_regularization(tf.square, [tf.zeros([2], name="zeros")]),
        "`regularizer` must return scalars, but …Square:0 has rank 1.",
    ),
    (
        TypeError,
        lambda: respelling.respelled(tf.metrics.mean, "streaming_mean", "values")(1, 2),
        "; its arguments are …(values).",
    ),
    (
        TypeError,
        lambda: contrib.find(3),
        "A name of tf.contrib is a string, such as 'layers.conv2d', got …3",
    ),
    (AttributeError, lambda: kept.no_such, " has no attribute …no_such"),
    (AttributeError, lambda: metrics.no_such, " has no attribute …no_such"),
    (
        AttributeError,
        lambda: modules.Contrib("tensorflow.contrib").__no_such__,
        " has no attribute …__no_such__",
    ),
    (
        TypeError,
        lambda: installation.install(False, "mypackage", {}),
        "tensorflow_1 is True, False, or a tuple of names of installed packages that are written "
        "for TensorFlow 1, such as ('mypackage',), got …mypackage",
    ),
]


@pytest.mark.parametrize(
    ("kind", "function", "text"), CASES, ids=[text.strip()[:40] for _, _, text in CASES]
)
def test_what_is_wrong_is_said(kind, function, text):
    with pytest.raises(kind, match=bodies.matching(text)):
        function()


SEVERAL = "An operation with one output has a size, but …parts has 2."
CLUSTER = (
    "tf.contrib.learn.RunConfig takes no cluster here, for it counted tasks otherwise than "
    "tf.estimator, but TF_CONFIG has …a:1"
)


def test_an_operation_of_several_outputs_has_no_size():
    op = tf.unstack(tf.zeros([2, 3]), name="parts")[0].op
    with pytest.raises(ValueError, match=bodies.matching(SEVERAL)):
        training.byte_size_load_fn(op)


def test_a_cluster_is_refused(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"]}}')
    with pytest.raises(ValueError, match=bodies.matching(CLUSTER)):
        learn.RunConfig()


GONE = " now, which TensorFlow …cannot give: "
NO_TENSORFLOW = " has no module …tensorflow.layers"


def test_a_place_that_this_tensorflow_lacks(monkeypatch):
    place = contrib.find("layers.linear")._replace(kind="alias", target="tf.no.such", package="")
    monkeypatch.setattr(modules.table, "find", lambda name: place)
    with pytest.raises(AttributeError, match=bodies.matching(GONE)):
        modules.lookup("layers.linear")


def test_a_library_does_not_see_what_version_1_alone_has(monkeypatch):
    monkeypatch.setitem(tensorflow_1._real, "tensorflow.layers", None)
    with pytest.raises(AttributeError, match=bodies.matching(NO_TENSORFLOW)):
        tensorflow_1._seen(types.ModuleType("tensorflow.layers"), False, "dense")


NO_MODULE = ": it is no module, but …l2_regularizer now."


def test_a_function_is_no_module():
    module = types.ModuleType("tensorflow.contrib.layers.l2_regularizer")
    with pytest.raises(ModuleNotFoundError, match=bodies.matching(NO_MODULE)):
        modules.Finder().exec_module(module)
