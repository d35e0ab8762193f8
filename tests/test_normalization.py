"""Batch norm over all rows of all towers, against TensorFlow's own on one device.

Each `net(x, norm)` makes predictions [n, 1] from rows x [n, 4], float64. `norm` stands for
`batch_normalization`: that of `tf.layers` on one device, and `replicate`'s on towers.
"""

import functools
import inspect

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from bodies import control_flow, matching
from contract import ModeKeys
from contract.models import GLOROT, L2, reduce_rows
from replicate.engines import tower_engine

pytestmark = [
    pytest.mark.conformance,
    # In Keras 2 of newer TensorFlows it is a warning of another text.
    pytest.mark.filterwarnings("ignore:`tf.layers"),
]

# The rows have a mean far from 0, and the shards means that differ.
OFFSET = 3.0


def norm_of_tf_layers(x, **kwargs):
    """The norm on one device. Its fused kernel, for images, has another moving variance."""
    return tf.layers.batch_normalization(x, fused=False, **kwargs)


def dense(x, units):
    """Has no bias, whose gradient batch norm would make zero up to rounding."""
    return tf.layers.dense(x, units, use_bias=False, kernel_initializer=GLOROT(seed=1))


def conv(x, channels):
    return tf.layers.conv2d(
        x, channels, 2, padding="same", use_bias=False, kernel_initializer=GLOROT(seed=2)
    )


def as_images(x):
    """Makes images [n, 3, 2, 4] whose pixels all differ."""
    pixels = np.arange(1.0, 7.0).reshape([1, 3, 2, 1])
    return tf.sin(x[:, None, None, :] * pixels)


def two_layers(x, norm, **kwargs):
    for _ in range(2):
        x = tf.tanh(norm(dense(x, 3), training=True, **kwargs))
    return dense(x, 1)


def images(x, norm, axis=-1):
    h = conv(as_images(x), 3)
    if axis == 1:
        h = tf.transpose(h, [0, 3, 1, 2])
    h = tf.nn.relu(norm(h, axis=axis, training=True))
    return dense(tf.layers.flatten(h), 1)


def frozen(x, norm):
    """A layer whose offset and factor are not trained; it goes by the rows at hand all the same."""
    return dense(tf.sin(norm(dense(x, 3), training=True, trainable=False)), 1)


def penalised(x, norm):
    kwargs = {
        "gamma_regularizer": L2(0.1),
        "beta_regularizer": L2(0.2),
        "gamma_constraint": lambda gamma: tf.clip_by_value(gamma, 0.99, 1.01),
        "beta_constraint": lambda beta: tf.maximum(beta, 0.0),
    }
    return two_layers(x, norm, **kwargs)


def partitioned(x, norm):
    with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
        return dense(tf.sin(norm(dense(x, 4), training=True)), 1)


def fed(x, norm):
    training = tf.placeholder_with_default(True, [])
    return dense(tf.sin(norm(dense(x, 3), training=training)), 1)


def every_other_step(x, norm):
    training = tf.equal(tf.train.get_or_create_global_step() % 2, 0)
    return dense(tf.sin(norm(dense(x, 3), training=training)), 1)


def reused(x, norm):
    """One layer for two inputs, the second after the first has updated the moving averages."""
    first = norm(dense(x, 3), training=True, name="shared")
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        second = norm(dense(x**2, 3), training=True, name="shared", reuse=True)
    return dense(tf.sin(first) + second**2, 1)


NETS = {
    "two layers": two_layers,
    "images": images,
    "channels first": functools.partial(images, axis=1),
    "several axes": functools.partial(images, axis=[1, 3]),
    "neither": functools.partial(two_layers, center=False, scale=False),
    "no scale": functools.partial(two_layers, scale=False),
    "numbers": functools.partial(two_layers, momentum=0.5, epsilon=0.1),
    "initializers": functools.partial(
        two_layers,
        beta_initializer=tf.constant_initializer(0.5),
        gamma_initializer=tf.constant_initializer(2.0),
        moving_mean_initializer=tf.constant_initializer(-1.0),
        moving_variance_initializer=tf.constant_initializer(3.0),
    ),
    "frozen": frozen,
    "penalised": penalised,
    "partitioned": partitioned,
    "fed": fed,
    "every other step": every_other_step,
    "reused": reused,
}


def model_fn(net, norm, features, labels, mode, params):
    """Trains `net`; its predictions are in the evaluation as well."""
    tf.train.get_or_create_global_step()
    predictions = net(features["x"] + OFFSET, norm)
    if mode == ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": predictions})
    loss = reduce_rows((predictions - labels) ** 2, params)
    loss += tf.add_n([tf.zeros([], loss.dtype), *tf.losses.get_regularization_losses()])
    optimizer = params["wrap"](contract.OPTIMIZERS[params["optimizer"]])
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
    metrics = {"mean": tf.metrics.mean(predictions)}
    return tf.estimator.EstimatorSpec(mode, {"y": predictions}, loss, train_op, metrics)


ONE_DEVICE = {key: functools.partial(model_fn, net, norm_of_tf_layers) for key, net in NETS.items()}
TOWERS = {
    key: functools.partial(model_fn, net, replicate.batch_normalization)
    for key, net in NETS.items()
}


@pytest.mark.parametrize("optimizer", [pytest.param("sgd", marks=pytest.mark.thorough), "adam"])
@pytest.mark.parametrize("num_towers", [pytest.param(2, marks=pytest.mark.thorough), 3])
@pytest.mark.parametrize("batches", [contract.UNEVEN, contract.DYNAMIC])
def test_towers_train_as_one_device_does(num_towers, optimizer, batches):
    want = contract.record_one_device(ONE_DEVICE["two layers"], batches, optimizer)
    got = contract.record_towers(TOWERS["two layers"], batches, num_towers, optimizer)
    contract.assert_same_run(got, want)


@pytest.mark.parametrize("net", [key for key in NETS if key != "two layers"])
def test_every_argument_means_what_it_does_in_tf_layers(net):
    want = contract.record_one_device(ONE_DEVICE[net], contract.UNEVEN)
    got = contract.record_towers(TOWERS[net], contract.UNEVEN, 3)
    contract.assert_same_run(got, want)


def moving_means(training):
    """Returns the moving mean of a layer of `tf.layers` after each of 40 steps on 3 towers."""

    def plain_model_fn(features, labels, mode, params):
        w = tf.get_variable("w", initializer=np.ones(4))
        y = norm_of_tf_layers(features["x"], training=training(), name="norm")
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(tf.reduce_mean(y * w), tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(y), train_op=train_op)

    run = contract.record_towers(plain_model_fn, contract.Batches(440, 11, True), 3)
    return np.array([variables["norm/moving_mean:0"] for variables in run.variables])


def test_moving_averages_are_merged_after_the_conditions_that_update_them():
    want = moving_means(lambda: True)
    got = moving_means(lambda: tf.placeholder_with_default(True, []))
    contract.assert_close(got, want, 1e-9)


@pytest.mark.parametrize("net", ["images", "penalised"])
def test_losses_may_be_sums(net):
    want = contract.record_one_device(ONE_DEVICE[net], contract.UNEVEN, reduction=contract.SUM)
    got = contract.record_towers(TOWERS[net], contract.UNEVEN, 3, reduction=contract.SUM)
    contract.assert_same_run(got, want)


def graph_of(norm, net):
    """Returns what a training graph without towers computes: all of it but names."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(contract.SEED)
        features, labels = contract.rows_of(5)
        model_fn(net, norm, features, labels, ModeKeys.TRAIN, contract.make_params("adam"))
    position = {op: index for index, op in enumerate(graph.get_operations())}
    return [
        (
            op.type,
            [(position[tensor.op], tensor.value_index) for tensor in op.inputs],
            sorted(position[before] for before in op.control_inputs),
            {
                key: str(op.get_attr(key))
                for key in ("dtype", "T", "value")
                if key in op.node_def.attr
            },
        )
        for op in position
    ]


@pytest.mark.parametrize("net", NETS)
def test_without_towers_the_graph_is_that_of_tf_layers(net):
    got = graph_of(replicate.batch_normalization, NETS[net])
    assert got == graph_of(norm_of_tf_layers, NETS[net])


def test_batch_norm_of_each_tower_is_another_model():
    """Norms of each tower train another model, and the comparison above shows it."""
    want = contract.record_one_device(ONE_DEVICE["two layers"], contract.UNEVEN)
    got = contract.record_towers(ONE_DEVICE["two layers"], contract.UNEVEN, 2, per_tower=True)
    assert np.abs(np.subtract(got.losses, want.losses)).max() > 1e-3 * np.max(want.losses)


def by_mode(key, norm):
    """Returns the `model_fn` of a net that goes by its moving averages but in training."""

    def outer(features, labels, mode, params):
        def norm_in_mode(x, **kwargs):
            return norm(x, **dict(kwargs, training=mode == ModeKeys.TRAIN))

        return model_fn(NETS[key], norm_in_mode, features, labels, mode, params)

    return outer


def make_estimators(key, directory):
    """Returns two Estimators on the same checkpoints, of one device and of 3 towers."""
    one_device, towers = (
        by_mode(key, norm_of_tf_layers),
        by_mode(key, replicate.batch_normalization),
    )
    params = contract.make_params("adam", wrap=replicate.TowerOptimizer)
    return (
        contract.make_estimator(one_device, directory, contract.make_params("adam")),
        contract.make_estimator(contract.replicated(towers, 3), directory, params, 3),
    )


@pytest.mark.thorough
def test_checkpoints_move_both_ways(tmp_path):
    """Trains on either and goes on on the other; evaluates and predicts on both."""

    def input_fn():
        return contract.dataset(contract.DYNAMIC)

    runs = {}
    for first, second in [(0, 0), (0, 1), (1, 0)]:
        directory = tmp_path / f"{first}{second}"
        estimators = make_estimators("two layers", directory)
        for index in (first, second):
            estimators[index].train(input_fn)
        reader = tf.train.load_checkpoint(str(directory))
        values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
        # Goes on where the other stopped, so each looks at what the other saved.
        user = estimators[1 - second]
        runs[first, second] = values, user.evaluate(input_fn), list(user.predict(input_fn))
    values, evaluation, predictions = runs.pop((0, 0))
    assert np.ptp([row["y"] for row in predictions]) > 0.1
    for others in runs.values():
        contract.assert_same_values(others[0], values, 1e-9)
        contract.assert_same_values(others[1], evaluation, 1e-5)  # Averaged in float32.
        for row, other in zip(predictions, others[2]):
            contract.assert_close(other["y"], row["y"], 1e-9)


def normalised(norm, rows, num_towers, mode=ModeKeys.PREDICT, **kwargs):
    """Returns `norm(rows)` of one device or towers, by the moments of the rows, and the averages.

    Args:
        norm: Function of the rows, one `batch_normalization` or another.
        rows: Array of shape [n, ...].
        num_towers: How many towers.
        mode: The mode to build in.
        **kwargs: Handed to `norm`.
    """

    def predicting(features, labels, mode):
        y = norm(features, training=True, **kwargs)
        return tf.estimator.EstimatorSpec(mode, predictions=y, loss=tf.reduce_mean(y))

    with tf.Graph().as_default():
        spec = contract.replicated(predicting, num_towers)(tf.constant(rows), None, mode=mode)
        config = replicate.session_config(contract.device_names(num_towers))
        with tf.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            got = session.run(spec.predictions)
            session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
            return got, session.run({v.name: v for v in tf.global_variables()})


ROWS = np.random.RandomState(3).normal(size=(11, 4)) * [1.0, 2.0, 3.0, 4.0] + OFFSET


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("training", [True, False])
def test_training_may_be_a_tensor_with_either_control_flow(training, version):
    """Without the updates: towers merge those in a `tf.cond` of the second kind alone."""

    def fed(norm):
        def outer(x, training):
            return norm(x, training=tf.placeholder_with_default(value, []))

        value = training
        return outer

    with control_flow(version):
        want, _ = normalised(fed(norm_of_tf_layers), ROWS, 1)
        got, _ = normalised(fed(replicate.batch_normalization), ROWS, 3)
    contract.assert_close(got, want, 1e-9)


@pytest.mark.parametrize("mode", [ModeKeys.EVAL, ModeKeys.PREDICT])
@pytest.mark.parametrize("total", [1, 2, 5])
def test_a_tower_without_rows_does_not_count(total, mode):
    want, _ = normalised(norm_of_tf_layers, ROWS[:total], 1, mode)
    got, _ = normalised(replicate.batch_normalization, ROWS[:total], 3, mode)
    contract.assert_close(got, want, 1e-9)


def test_the_moving_averages_by_hand():
    _, variables = normalised(replicate.batch_normalization, ROWS, 3, momentum=0.75)
    moving_mean = variables["batch_normalization/moving_mean:0"]
    moving_variance = variables["batch_normalization/moving_variance:0"]
    # They start at 0 and 1; the variance is over 11 rows, not 10.
    np.testing.assert_allclose(moving_mean, 0.25 * ROWS.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moving_variance, 0.75 + 0.25 * ROWS.var(axis=0), rtol=1e-12)


@pytest.mark.parametrize("fused", [None, False, True])
def test_images_never_go_through_the_fused_kernel(fused):
    rows = 0.5 + np.sin(np.arange(11 * 3 * 2 * 4, dtype=np.float32)).reshape([11, 3, 2, 4])
    want, averages = normalised(norm_of_tf_layers, rows, 1)
    for num_towers in (1, 3):
        got, others = normalised(replicate.batch_normalization, rows, num_towers, fused=fused)
        contract.assert_close(got, want, 1e-5)
        contract.assert_same_values(others, averages, 1e-6)


def test_a_variance_far_below_the_mean_is_exact():
    rows = (ROWS + 1e5).astype(np.float32)  # E[x²] is 1e10, of which a float32 has units of 1024.
    got, _ = normalised(replicate.batch_normalization, rows, 3)
    exact = rows.astype(np.float64)
    want = (exact - exact.mean(axis=0)) / np.sqrt(exact.var(axis=0) + 1e-3)
    np.testing.assert_allclose(got, want, atol=0.03)  # x itself has units of 1/128.


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_moments_of_16_bits_are_in_32(dtype):
    rows = (ROWS + 300.0).astype(np.float16)  # The square of 300 is no float16.
    rows = rows.astype(dtype.as_numpy_dtype)
    want, variables = normalised(norm_of_tf_layers, rows, 1)
    got, others = normalised(replicate.batch_normalization, rows, 3)
    assert got.dtype == want.dtype == dtype.as_numpy_dtype
    np.testing.assert_allclose(
        got.astype(np.float32), want.astype(np.float32), atol=0.01 if dtype == tf.float16 else 0.1
    )
    for name, value in variables.items():
        assert value.dtype == others[name].dtype == np.float32
        np.testing.assert_allclose(others[name], value, rtol=1e-5)


def masked(layer, mask_of):
    """Returns a `norm` that weights what it takes by `mask_of(x)`, if Keras does."""

    def norm(x, training, **kwargs):
        masked = tf.identity(x)
        masked._keras_mask = mask_of(x)  # As a layer before it leaves it.
        return layer(fused=False, **kwargs)(masked, training=training)

    return norm


MASKS = {
    "of rows": (ROWS, lambda x: x[:, 0] > OFFSET),
    "of steps": (ROWS.reshape([11, 2, 2]), lambda x: x[:, :, 1] > OFFSET),
    "of few rows": (ROWS, lambda x: x[:, 0] > ROWS[:, 0].max() - 1e-3),  # None in two towers.
    "of nothing": (ROWS, lambda x: x[:, 0] > 100.0),
    "of weights": (ROWS, lambda x: tf.abs(x[:, 0])),
}


@pytest.mark.parametrize("mask", MASKS)
def test_masks_count_over_all_towers(mask):
    rows, mask_of = MASKS[mask]
    # Where nothing counts, TensorFlow 2.12 has NaN.
    layers = replicate if mask == "of nothing" else tf.layers
    want, averages = normalised(masked(layers.BatchNormalization, mask_of), rows, 1)
    assert np.isfinite(want).all()
    got, others = normalised(masked(replicate.BatchNormalization, mask_of), rows, 3)
    contract.assert_close(got, want, 1e-9)
    contract.assert_same_values(others, averages, 1e-9)


def test_masked_towers_train_as_one_device_does():
    def net(x, norm):
        layer = (
            tf.layers.BatchNormalization
            if norm is norm_of_tf_layers
            else replicate.BatchNormalization
        )
        norm = masked(layer, lambda h: x[:, 0] > OFFSET)
        return dense(tf.sin(norm(dense(x, 3), training=True)), 1)

    one_device = functools.partial(model_fn, net, norm_of_tf_layers)
    towers = functools.partial(model_fn, net, replicate.batch_normalization)
    want = contract.record_one_device(one_device, contract.UNEVEN)
    got = contract.record_towers(towers, contract.UNEVEN, 3)
    contract.assert_same_run(got, want)


def test_a_layer_is_one_of_tf_layers():
    layer = replicate.BatchNormalization(1, 0.9, name="norm", dtype=tf.float64, trainable=False)
    assert isinstance(layer, tf.layers.BatchNormalization)
    assert (layer.axis, layer.momentum, layer.name, layer.fused) == (1, 0.9, "norm", False)
    for _ in range(2):
        layer(tf.zeros([2, 3], tf.float64), training=True)
    names = [variable.name for variable in tf.global_variables()]
    assert names == [
        f"norm/{name}:0" for name in ("gamma", "beta", "moving_mean", "moving_variance")
    ]
    assert tf.trainable_variables() == []


@pytest.mark.parametrize("training", [True, False])
def test_fused_makes_no_difference(training):
    """Not to rows of another rank than images either, nor to the operations that are made."""
    made = []
    for fused in (None, True):
        layer = replicate.BatchNormalization(fused=fused, name="norm")
        assert layer.fused is False
        with tf.Graph().as_default() as graph:
            layer(tf.zeros([3, 2, 2, 4]), training=training)
            replicate.batch_normalization(tf.zeros([3, 2]), fused=fused, training=training)
            made.append([(op.name, op.type) for op in graph.get_operations()])
    assert made[0] == made[1]
    assert not [name for name, kind in made[0] if "FusedBatchNorm" in kind]


def test_the_arguments_are_those_of_tf_layers():
    own = inspect.signature(replicate.batch_normalization).parameters.values()
    theirs = inspect.signature(tf.layers.batch_normalization).parameters.values()
    assert [(p.name, p.kind) for p in own] == [(p.name, p.kind) for p in theirs]
    for mine, other in zip(own, theirs):
        # Initializers are named here, as functions in a signature are made when it is read.
        assert mine.default == other.default or mine.name.endswith("_initializer")


ACROSS = "Batch norm over all towers cannot have `"


@pytest.mark.parametrize(
    ("kwargs", "phrases"),
    [
        ({"renorm": True}, ACROSS + "…renorm`…is True: …few rows…Leave it out, or call `tf.layers"),
        (
            {"virtual_batch_size": 2},
            ACROSS
            + "…virtual_batch_size`…is 2: …parts of a batch…Leave it out, or call `tf.layers",
        ),
        (
            {"adjustment": lambda shape: (1.0, 0.0)},
            ACROSS + "…adjustment`…is <function…each tower would draw…Leave it out, and scale",
        ),
        (
            {"axis": [0, 1]},
            "Batch norm over all towers takes the moments over rows…not hold 0…is [0, 1] for inputs"
            " of shape (4, 3)…such as -1",
        ),
        ({"axis": -2}, "Batch norm over all towers takes the moments over rows…is [0]"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_errors(kwargs, phrases):
    for make in (
        replicate.batch_normalization,
        lambda x, **kwargs: replicate.BatchNormalization(**kwargs)(x),
    ):
        with pytest.raises(ValueError, match=matching(phrases)):
            make(tf.zeros([4, 3]), **kwargs)


def test_in_a_body_of_a_condition_towers_cannot_meet():
    def model_fn(features, labels, mode):
        y = tf.cond(
            tf.reduce_sum(features) > 0,
            lambda: replicate.batch_normalization(features, training=True),
            lambda: features,
        )
        return tf.estimator.EstimatorSpec(mode, predictions=y)

    replicated = contract.replicated(model_fn, 2, per_tower=True)
    with pytest.raises(RuntimeError, match=r"must not rendezvous in the body of a `tf\.cond`"):
        replicated(tf.constant(ROWS), None, mode=ModeKeys.PREDICT)


def count_rendezvous(net, num_towers, monkeypatch):
    """Returns how many cross-tower sums a program of one tower asks for, forward and back."""
    labels = []
    add = tower_engine.TowerEngine.add

    def counted(self, tensors, label):
        labels.append(label)
        return add(self, tensors, label)

    monkeypatch.setattr(tower_engine.TowerEngine, "add", counted)
    with tf.Graph().as_default():
        batch = tf.data.make_one_shot_iterator(contract.dataset(contract.UNEVEN)).get_next()
        params = contract.make_params(wrap=replicate.TowerOptimizer)
        replicated = contract.replicated(TOWERS[net], num_towers, per_tower=True)
        replicated(*batch, mode=ModeKeys.TRAIN, params=params)
    backward = [label for label in labels if label.startswith("gradient of")]
    return len(labels) - len(backward), len(backward)


@pytest.mark.parametrize("num_towers", [2, 3])
def test_a_layer_costs_two_rendezvous_forward_and_two_backward(num_towers, monkeypatch):
    assert count_rendezvous("two layers", num_towers, monkeypatch) == (4, 4)


def test_in_a_tpu_replica_the_moments_are_cross_replica_sums(fresh_graph):
    def computation(x):
        y = replicate.batch_normalization(x, training=True)
        return tf.gradients(tf.reduce_sum(tf.square(y)), x)

    tf.tpu.shard(computation, [tf.ones([8, 5, 5, 3])], 4)
    sums = [op for op in fresh_graph.get_operations() if op.type == "CrossReplicaSum"]
    # Mean and variance, and their gradients; each with a number for each channel.
    assert [op.outputs[0].shape.as_list() for op in sums] == [[1, 1, 1, 3]] * 4
    assert sum(op.name.startswith("gradients") for op in sums) == 2
    divisors = [tf.get_static_value(op.inputs[0].op.inputs[1]) for op in sums[:2]]
    assert divisors == [4.0, 4.0]
