"""A `TowerOptimizer` without options makes the graph of the optimizer that nobody wrapped.

The only difference is how gradients cross devices: only a wrapped optimizer marks them.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import DEVICES, TRAIN, build, session, spec
from versions import legacy

ROWS = np.array([[1.0], [2.0], [6.0], [3.0], [-8.0]], np.float32)  # Over two towers: 3 and 2 rows.


class HandAssigning(tf.train.Optimizer):
    """An optimizer that updates by itself, as BERT's does."""

    def __init__(self):
        super().__init__(False, "HandAssigning")

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return tf.group(*[variable.assign(variable - g) for g, variable in grads_and_vars])


class Wrapper(tf.train.Optimizer):
    """An optimizer around another, as those that average weights are."""

    def __init__(self, optimizer):
        super().__init__(False, "Wrapper")
        self._optimizer = optimizer

    def compute_gradients(self, *args, **kwargs):
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        update = self._optimizer.apply_gradients(grads_and_vars, global_step)
        with tf.control_dependencies([update]):
            return tf.no_op(name="wrapped")


OPTIMIZERS = {
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "keras": lambda: legacy.SGD(0.1, momentum=0.5),
    "hand-assigning": HandAssigning,
    "wrapper of a wrapper": lambda: Wrapper(Wrapper(tf.train.MomentumOptimizer(0.1, 0.5))),
}


def _minimize(optimizer, loss, variables):
    return optimizer.minimize(loss, var_list=variables)


def _compute_and_apply(optimizer, loss, variables):
    return optimizer.apply_gradients(optimizer.compute_gradients(loss, variables))


def _by_hand(optimizer, loss, variables):
    return optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))


def _body(make, how):
    def body(index, features):
        kwargs = {"initializer": tf.ones_initializer()}
        variables = [tf.get_variable(name, [], **kwargs) for name in "vw"]
        loss = tf.reduce_mean(tf.square(variables[0] * features - variables[1]))
        return spec(TRAIN, loss, how(make(), loss, variables))

    return body


def _nodes(body, **kwargs):
    """Returns what towers of a body are made of, without what puts values together."""
    with tf.Graph().as_default() as graph:

        def model_fn(features, mode):
            return body(replicate.tower_index(), features)

        replicated = replicate.replicate_model_fn(model_fn, devices=DEVICES[:2], **kwargs)
        replicated(tf.ones([4, 1]), None, TRAIN)
        return [
            (node.name, node.op, [_made_by(one) for one in node.input], node.device)
            for node in graph.as_graph_def().node
            if _made_by(node.name)
        ]


def _made_by(name):
    """Returns the name of what a node takes, empty if it is put together."""
    return "" if name.lstrip("^").startswith("replicate/reduce/") else name


def cells():
    for name in OPTIMIZERS:
        for how in (_minimize, _compute_and_apply, _by_hand):
            # Those of Keras name the scope of the gradients that they make after themselves.
            if name != "keras" or how is _by_hand:
                yield name, how


@pytest.mark.parametrize(("name", "how"), list(cells()))
def test_wrapped_or_not(name, how):
    make = OPTIMIZERS[name]
    got = _nodes(_body(lambda: replicate.TowerOptimizer(make()), how))
    assert got == _nodes(_body(make, how))
    assert len(got) > 50


def _without_names(nodes):
    """Returns nodes whose inputs are told by the place of what makes them."""
    places = {name: f":{place}:" for place, (name, _, _, _) in enumerate(nodes)}
    places[""] = ""

    def input_of(text):
        name, colon, rest = text.lstrip("^").partition(":")
        return text[: text.startswith("^")] + places[name] + colon + rest

    return [(op, [input_of(one) for one in inputs], device) for _, op, inputs, device in nodes]


def test_updates_of_keras_have_other_names_alone():
    """The scope of the gradients that its optimizers make is called by the optimizer."""

    def how(optimizer, loss, variables):
        return tf.group(optimizer.get_updates(loss, variables))

    make = OPTIMIZERS["keras"]
    got = _nodes(_body(lambda: replicate.TowerOptimizer(make()), how))
    assert _without_names(got) == _without_names(_nodes(_body(make, how)))


def _trained(body, num_towers, **kwargs):
    with tf.Graph().as_default(), session(2) as running:
        train_op = build(
            body, tf.constant(ROWS), num_towers=num_towers, per_tower=False, **kwargs
        ).train_op
        weights = tf.trainable_variables()
        running.run([tf.global_variables_initializer()])
        running.run([tf.local_variables_initializer()])
        return [(running.run(train_op), running.run(weights))[1] for _ in range(3)]


@pytest.mark.parametrize("name", ["adam", "hand-assigning", "wrapper of a wrapper"])
def test_with_replicas_of_variables(name):
    body = _body(OPTIMIZERS[name], _by_hand)
    want = _trained(body, 1)
    assert np.any(want[0] != np.ones(2))
    got = _trained(body, 2, variable_placement="replicated")
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_each_replica_is_updated_on_its_device():
    nodes = _nodes(_body(OPTIMIZERS["adam"], _by_hand), variable_placement="replicated")
    devices = {device for _, op, _, device in nodes if op == "ResourceApplyAdam"}
    assert devices == {"/device:CPU:0", "/device:CPU:1"}
