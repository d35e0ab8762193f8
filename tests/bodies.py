"""Small models for tests of towers, and what must hold once one of them failed.

A *body* is what a `model_fn` does, as a function of `tower_index()` and of its tower's features. As
`model_fn` is, it is called once: in towers, the index is a tensor that is another one in each copy.

An error's text is given as phrases, in order and divided by "…": the rule, the value received and
the way out. The first is the rule as the source spells it, by which `test_bad_input.py` knows
which errors have a test.
"""

import contextlib
import pathlib
import re
import threading
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from replicate.batch import loss_sums

DEVICES = [f"/cpu:{index}" for index in range(3)]
TRAIN, EVAL, PREDICT = "train", "eval", "infer"


def matching(phrases):
    """Returns the pattern of texts that have all `phrases`, for `pytest.raises(match=...)`."""
    return "(?s)" + ".*?".join(map(re.escape, phrases.split("…")))


def rules_in(value):
    """Yields the first phrase of every text in `value`: a module, a test function or a table."""
    if isinstance(value, str):
        yield value.split("…")[0]
    elif isinstance(value, types.ModuleType):
        own = [v for name, v in vars(value).items() if not name.startswith("__")]
        yield from rules_in([v for v in own if not isinstance(v, types.ModuleType)])
    elif isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from rules_in(part)
    else:
        yield from rules_in([mark.args[1:] for mark in getattr(value, "pytestmark", ())])


def spec(mode, loss=None, train_op=None, **kwargs):
    loss = tf.constant(0.0) if loss is None else loss
    train_op = tf.no_op() if train_op is None else train_op
    return tf.estimator.EstimatorSpec(mode, None, loss, train_op, **kwargs)


def as_model_fn(body):
    """Returns a `model_fn` of `body(index, features)`, which may return a spec."""

    def model_fn(features, labels, mode):
        returned = body(replicate.tower_index(), features)
        return spec(mode) if returned is None else returned

    return model_fn


def build(body, features=None, mode=TRAIN, num_towers=2, **kwargs):
    """Returns the spec of towers of `body`, by default of a batch of 4 rows."""
    devices = DEVICES[:num_towers]
    kwargs.setdefault("per_tower", True)
    replicated = replicate.replicate_model_fn(as_model_fn(body), devices=devices, **kwargs)
    return replicated(tf.ones([4, 1]) if features is None else features, None, mode)


def session(num_towers=3):
    return tf.Session(config=replicate.session_config(DEVICES[:num_towers]))


def good(index, features):
    """A body that trains one weight."""
    loss = tf.reduce_mean(features) * tf.get_variable("good", [], initializer=tf.ones_initializer())
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.125))
    return spec(TRAIN, loss, optimizer.minimize(loss))


def seen(tag):
    """Returns what an operation and a variable made here get from the graph's state."""
    graph = tf.get_default_graph()
    op = tf.no_op(name=f"op_{tag}")
    variable = tf.Variable(0.0, name=f"variable_{tag}")
    named = tf.get_variable(f"named_{tag}", [])
    assert variable in tf.global_variables()
    penalty = tf.constant(1.0)
    tf.losses.add_loss(penalty, tf.GraphKeys.REGULARIZATION_LOSSES)
    scope = tf.get_variable_scope()
    return {
        "graph": graph,
        "op": op.name.replace(tag, "") + op.device,
        "variables": [v.name.replace(tag, "") + v.device for v in (variable, named)],
        "waits": [before.name for before in op.control_inputs],
        "colocation": op.colocation_groups()[:-1],
        "scope": (scope.name, scope.reuse, graph.get_name_scope()),
        "penalty": tf.losses.get_regularization_losses()[-1] is penalty,
        "penalties": type(graph.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES)),
        "threads": threading.enumerate(),
        "entering": graph.as_default,
        "engine": (replicate.num_towers(), replicate.tower_index()),
        "losses": loss_sums.losses_are_added_up(),
        # Neither has a public name; both reach into operations made later.
        "original op": graph._default_original_op,
        "control flow": graph._get_control_flow_context(),
    }


def check_failure(body, error, phrases, **kwargs):
    """Asserts how towers of `body` fail, and that it leaves nothing; returns the exception."""
    with tf.device("/cpu:2"), tf.name_scope("names"), tf.variable_scope("variables"):
        first = tf.no_op(name="first")
        with tf.control_dependencies([first]):
            before = seen("before")
            with pytest.raises(error, match=matching(phrases)) as caught:
                build(body, **kwargs)
            assert seen("after") == before
    # The next one works: d/dw mean(w) = 1, so w = 1 - 0.125.
    with tf.Graph().as_default(), session() as running:
        train_op = build(good).train_op
        (weight,) = tf.trainable_variables()
        running.run(tf.global_variables_initializer())
        running.run(train_op)
        np.testing.assert_allclose(running.run(weight), 0.875)
    return caught.value


def source_files():
    """Returns the library's modules."""
    return sorted(pathlib.Path(replicate.__file__).parent.rglob("*.py"))


@contextlib.contextmanager
def control_flow(version):
    """A scope in which `tf.cond` and loops are those of version 1 or 2."""
    enabled = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if version == 2 else tf.disable_control_flow_v2)()
    try:
        yield
    finally:
        (tf.enable_control_flow_v2 if enabled else tf.disable_control_flow_v2)()


@contextlib.contextmanager
def variables(of_references):
    """A scope in which variables are references, as by default on TensorFlow 1.15, or resources."""
    use_resources = tf.enable_resource_variables, tf.disable_resource_variables
    were_resources = tf.resource_variables_enabled()
    use_resources[of_references]()
    try:
        yield
    finally:
        use_resources[not were_resources]()
