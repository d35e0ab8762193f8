"""Weights cross devices in packs, and are what one device would read.

That all models train as on one device is shown with the ways of gathering, in `test_gather.py`.
"""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from replicate.gathering import packing
from replicate.reports import transfers

pytestmark = pytest.mark.conformance

LAYERS, WIDTH = 5, 8
BYTES = LAYERS * (WIDTH + 1) * WIDTH * 8  # In float64.
F64 = tf.float64
LARGE = 100  # Rows and columns of a weight that goes by itself.


def layers(features, labels, mode, params):
    x = tf.cast(features, F64)
    for index in range(LAYERS):
        kernel = tf.get_variable(
            f"kernel_{index}", [WIDTH, WIDTH], F64, tf.initializers.orthogonal(seed=index)
        )
        x = tf.tanh(
            x @ kernel + tf.get_variable(f"bias_{index}", [WIDTH], F64, tf.zeros_initializer())
        )
    loss = tf.reduce_mean(tf.squared_difference(x, tf.cast(labels, F64)))
    return params["train"](loss)


def sgd(loss, **kwargs):
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.5), **kwargs)
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec("train", loss=loss, train_op=train_op)


def built(model_fn, num_towers, train=sgd, **kwargs):
    tf.train.get_or_create_global_step()
    rows = tf.random.stateless_normal([2 * num_towers + 1, WIDTH], [1, 2])
    model_fn = contract.replicated(model_fn, num_towers, **kwargs)
    return model_fn(rows, tf.sin(rows), mode="train", params={"train": train})


def weights_crossing(spec):
    """Returns what crosses of weights: numbers and bytes by link."""
    numbers, sizes = collections.Counter(), collections.Counter()
    for each in transfers.crossing([spec.train_op, spec.loss]):
        if each.kind == "weights":
            numbers[each.source, each.destination] += 1
            sizes[each.source, each.destination] += each.size
    return dict(numbers), dict(sizes)


def device(index):
    return f"/device:CPU:{index}"


@pytest.mark.parametrize("num_towers", [2, 4, 8])
def test_small_weights_cross_together(num_towers):
    links = [(device(0), device(index)) for index in range(1, num_towers)]
    assert weights_crossing(built(layers, num_towers)) == (
        dict.fromkeys(links, 1),
        dict.fromkeys(links, BYTES),
    )


def test_each_crosses_by_itself_if_nothing_is_to_be_packed():
    def train(loss):
        return sgd(loss, gather=replicate.Gather(pack_bytes=0))

    link = device(0), device(1)
    assert weights_crossing(built(layers, 2, train)) == ({link: 2 * LAYERS}, {link: BYTES})


@pytest.mark.parametrize("num_towers", [2, 3])
def test_each_device_sends_a_pack_of_what_it_holds(num_towers):
    spec = built(layers, num_towers, variable_placement="round_robin")
    held = collections.Counter()
    for variable in tf.trainable_variables():
        held[variable.device] += variable.shape.num_elements() * 8
    links = [(i, j) for i in held for j in map(device, range(num_towers)) if i != j]
    numbers, sizes = weights_crossing(spec)
    assert numbers == dict.fromkeys(links, 1)
    assert sizes == {(i, j): held[i] for i, j in links}


def test_a_tower_takes_weights_of_its_own_device_as_they_are():
    built(layers, 3, variable_placement="round_robin")
    graph = tf.get_default_graph()
    own, parts = collections.Counter(), collections.Counter()
    for op in graph.get_operations():
        if op.type == "MatMul" and "gradients" not in op.name:
            taken = op.inputs[1].op
            if taken.type == "ReadVariableOp":
                assert taken.inputs[0].op.device == op.device
                own[op.device] += 1
            else:
                assert (taken.type, taken.device) == ("Reshape", op.device)
                parts[op.device] += 1
    placed = collections.Counter(v.device for v in tf.trainable_variables() if "kernel" in v.name)
    assert own == dict(placed)
    assert parts == {device(i): LAYERS - placed[device(i)] for i in range(3)}


def test_what_a_model_takes_is_the_first_output_of_something():
    """TensorFlow's optimiser takes that where it fuses a layer normalisation, whatever is meant."""
    built(layers, 3)
    taken = [
        tensor
        for op in tf.get_default_graph().get_operations()
        if not op.name.startswith(packing.WEIGHTS_SCOPE)
        for tensor in op.inputs
        if tensor.op.name.startswith(packing.WEIGHTS_SCOPE)
    ]
    assert len(taken) >= 2 * 2 * LAYERS and {tensor.value_index for tensor in taken} == {0}


def test_a_pack_is_joined_once_for_all_towers():
    built(layers, 8)
    made = [
        op
        for op in tf.get_default_graph().get_operations()
        if op.name.startswith(packing.WEIGHTS_SCOPE)
    ]
    assert [op.device for op in made if op.type == "ConcatV2"] == [device(0)]


@pytest.mark.parametrize("towers", [2, 3])
@pytest.mark.parametrize("placement", ["consolidation", "round_robin"])
def test_they_train_as_one_device(towers, placement):
    def input_fn():
        rows = np.random.RandomState(0).normal(size=[7 * 4, WIDTH])
        return tf.data.Dataset.from_tensor_slices((rows, np.sin(rows))).batch(7)

    params = {"train": sgd}
    want = contract.record(layers, input_fn, params)
    model_fn = contract.replicated(layers, towers, variable_placement=placement)
    got = contract.record(model_fn, input_fn, params, towers)
    contract.assert_same_run(got, want)


def test_what_is_read_after_an_update_is_new():
    """A pack has values of one time: reads that wait for something are in none."""
    found = []

    def model_fn(features, labels, mode):
        names = "abc"
        weights = [tf.get_variable(name, [2], F64, tf.ones_initializer()) for name in names]
        rows = tf.cast(features, F64)
        loss = tf.reduce_mean(rows * weights[0] * weights[1] * weights[2])
        train_op = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0)).minimize(loss)
        with tf.control_dependencies([train_op]):
            again = [weight.read_value() + 0.0 * tf.reduce_sum(rows) for weight in weights]
        found[:] = [weights, replicate.cross_tower_mean(again)]
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, *found[1]))

    rows = tf.constant(np.arange(10.0).reshape(5, 2))
    spec = contract.replicated(model_fn, 2)(rows, None, mode="train")
    link = device(0), device(1)
    assert weights_crossing(spec)[0] == {link: 1 + 3}
    weights, after = found
    with tf.Session(config=contract.session_config(2)) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            before = session.run(weights)
            _, seen = session.run([spec.train_op, after])
            now = session.run(weights)
            np.testing.assert_allclose(seen, now, rtol=1e-14)
            assert not np.allclose(now, before)


def test_large_ones_go_by_themselves_and_types_apart():
    def model_fn(features, labels, mode):
        def weight(name, shape, dtype):
            return tf.get_variable(name, shape, dtype, tf.ones_initializer())

        loss = tf.reduce_mean(features)
        for name, shape, dtype in (
            ("large", [LARGE, 2 * LARGE], tf.float32),
            ("a", [3], tf.float32),
            ("b", [3], F64),
            ("c", [2, 2], F64),
            ("d", [], tf.float32),
        ):
            loss += tf.reduce_sum(features) * tf.cast(
                tf.reduce_sum(weight(name, shape, dtype) ** 2), tf.float32
            )
        return sgd(loss)

    tf.train.get_or_create_global_step()
    spec = contract.replicated(model_fn, 2)(tf.ones([4, 3]), None, mode="train")
    sizes = sorted(
        each.size
        for each in transfers.crossing([spec.train_op, spec.loss])
        if each.kind == "weights"
    )
    assert sizes == [16, 4 * 8 + 3 * 8, 8 * LARGE**2]


@pytest.mark.parametrize("use_resource", [True, False])
def test_what_is_taken_beside_the_variable_stays_there(use_resource):
    """Of references, nobody takes a pack either: whoever reads one has its memory."""

    def model_fn(features, labels, mode):
        names = ("one", "other", "third")
        weights = [
            tf.get_variable(n, [3], F64, tf.ones_initializer(), use_resource=use_resource)
            for n in names
        ]
        rows = tf.cast(features, F64)
        values = [tf.convert_to_tensor(weight) for weight in weights]
        with tf.colocate_with(weights[0].op if not use_resource else weights[0].handle.op):
            there = values[0] * rows
        loss = tf.reduce_sum(there * values[1] * values[2])
        return sgd(loss)

    tf.train.get_or_create_global_step()
    spec = contract.replicated(model_fn, 2, tf.losses.Reduction.SUM)(
        tf.ones([4, 3]), None, mode="train"
    )
    sizes = [each.size for each in transfers.crossing([spec.train_op]) if each.kind == "weights"]
    assert sizes == ([2 * 3 * 8] if use_resource else [])


def test_evaluation_packs_too():
    def model_fn(features, labels, mode):
        x = tf.cast(features, F64)
        for index in range(LAYERS):
            x = x @ tf.get_variable(f"kernel_{index}", [WIDTH, WIDTH], F64)
        return tf.estimator.EstimatorSpec(mode, predictions={"x": x})

    rows = tf.ones([5, WIDTH])
    spec = contract.replicated(model_fn, 2)(rows, None, mode="infer")
    crossing = transfers.crossing([spec.predictions["x"]])
    assert [t.size for t in crossing if t.kind == "weights"] == [LAYERS * WIDTH**2 * 8]


def test_integers_go_by_themselves():
    """Not every device joins and parts them."""

    def model_fn(features, labels, mode):
        x = tf.cast(features, tf.int64)
        for name in "ab":
            x *= tf.get_variable(name, [2], tf.int64, tf.ones_initializer())
        return tf.estimator.EstimatorSpec(mode, predictions={"x": x})

    spec = contract.replicated(model_fn, 2)(tf.ones([4, 2]), None, mode="infer")
    crossing = transfers.crossing([spec.predictions["x"]])
    assert [t.size for t in crossing if t.kind == "weights"] == [16, 16]
