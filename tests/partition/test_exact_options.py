"""The two differences from one device, their log messages, and the options to avoid them."""

import functools
import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import versions
from replicate.partition import coverage_of

pytestmark = pytest.mark.usefixtures("resource_variables")

SIZES = (6, 7, 4)
FLOAT = 4
EXACT = {"batch_norm": "batch", "random": "batch"}


def dataset(is_static):
    """Batches of images, all of six rows if static."""
    sizes = [6] * 3 if is_static else SIZES
    draw = np.random.RandomState(7)
    images = draw.normal(size=(sum(sizes), 4, 4, 2)).astype(np.float32)
    images += np.arange(sum(sizes), dtype=np.float32)[:, None, None, None]
    if is_static:
        return tf.data.Dataset.from_tensor_slices((images, {})).batch(6, drop_remainder=True)
    ends = np.cumsum([0, *sizes])

    def batches():
        for start, end in zip(ends, ends[1:]):
            yield images[start:end]

    made = tf.data.Dataset.from_generator(batches, tf.float32, [None, 4, 4, 2])
    return made.map(lambda rows: (rows, {}))


def model_fn(features, labels, mode, params):
    """A convolution, fused batch norm that updates its moving moments, and dropout."""
    kernel = tf.get_variable("kernel", [2, 2, 2, 3], initializer=tf.random_normal_initializer())
    x = tf.nn.conv2d(features, kernel, [1, 1, 1, 1], "SAME")
    scale = tf.get_variable("scale", [3], initializer=tf.ones_initializer())
    offset = tf.get_variable("offset", [3], initializer=tf.zeros_initializer())
    moving = tf.get_variable("moving", [2, 3], trainable=False)
    x, mean, variance = tf.nn.fused_batch_norm(x, scale, offset, is_training=True)
    x = tf.nn.dropout(x, rate=0.4)
    loss = tf.reduce_mean(tf.square(x - 0.3)) + tf.reduce_mean(tf.square(kernel))
    update = moving.assign(0.5 * moving + 0.5 * tf.stack([mean, variance]))
    with tf.control_dependencies([update]):
        optimizer = tf.train.GradientDescentOptimizer(0.05)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(num_towers, is_static, **options):
    fn = contract.replicated(model_fn, num_towers, **options) if num_towers > 1 else model_fn
    data = functools.partial(dataset, is_static)
    return contract.record(fn, data, contract.make_params(), num_towers)


def differs(got, want):
    return max(abs(a - b) for a, b in zip(got.losses, want.losses)) > 1e-3


@pytest.mark.parametrize("num_towers", [2, 3])
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "unknown"])
def test_with_both_options_all_is_that_of_one_device(is_static, num_towers, warnings):
    want = trained(1, is_static)
    contract.assert_same_run(trained(num_towers, is_static, **EXACT), want, 2e-5)
    assert warnings() == []


@pytest.mark.parametrize("rank", [4] if versions.IS_1 else [4, 5])  # Of volumes since 2.2.
def test_gradients_of_channels_first_are_computed_with_channels_last(rank):
    """The kernel of the gradient takes no others for given moments."""
    last = list(range(1, rank - 1))

    def first(features, labels, mode, params):
        scale, offset = (tf.get_variable(name, [2]) for name in ("scale", "offset"))
        x = tf.transpose(tf.reshape(features, [-1, *[2] * (rank - 1)]), [0, rank - 1, *last])
        layout = {4: "NCHW", 5: "NCDHW"}[rank]
        y, _, _ = tf.nn.fused_batch_norm(x, scale, offset, data_format=layout, is_training=True)
        loss = tf.reduce_mean(tf.square(y - 0.3))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default() as graph:
        rows = tf.ones([6, 2 ** (rank - 1)])
        contract.replicated(first, 2, batch_norm="batch")(rows, None, "train", {})
        found = [op for op in graph.get_operations() if op.type.startswith("FusedBatchNormGrad")]
        found = [op for op in found if op.name.startswith("tower_")]
        assert len(found) == 2
        for op in found:
            assert not op.get_attr("is_training")
            assert op.get_attr("data_format") == {4: b"NHWC", 5: b"NDHWC"}[rank]
            assert op.inputs[1].shape.as_list()[1:] == [2] * (rank - 1)


@pytest.mark.parametrize("left_out", sorted(EXACT))
def test_each_option_removes_one_difference(left_out):
    given = {key: value for key, value in EXACT.items() if key != left_out}
    assert differs(trained(2, True, **given), trained(1, True))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, ["draws random numbers for its rows", "moments of each tower's rows"]),
        ({"random": "batch"}, ["moments of each tower's rows"]),
        ({"batch_norm": "batch"}, ["draws random numbers for its rows"]),
        (EXACT, []),
    ],
    ids=["none", "random", "batch_norm", "both"],
)
def test_each_difference_is_said_once_in_a_line(options, said, caplog):
    caplog.set_level(logging.INFO, logger="tensorflow")
    trained(2, True, **options)
    lines = [record.getMessage() for record in caplog.records]
    lines = [line for line in lines if line.startswith("replicate: ") and '="batch"' in line]
    assert len(lines) == len(said)
    assert all(phrase in line for phrase, line in zip(said, lines))
    assert {record.levelname for record in caplog.records if '="batch"' in record.getMessage()} <= {
        "INFO"
    }


@pytest.mark.parametrize("is_static", [True, False], ids=["static", "unknown"])
def test_towers_go_on_with_rows_that_were_made_once(is_static, fresh_graph):
    tf.train.create_global_step()
    features, labels = tf.data.make_one_shot_iterator(dataset(is_static)).get_next()
    contract.replicated(model_fn, 2, **EXACT)(features, labels, "train", contract.make_params())
    copies = [op for op in fresh_graph.get_operations() if op.name.startswith("tower_1/")]
    in_tower = {op.type for op in copies}
    assert in_tower >= {
        "Conv2D",
        "Conv2DBackpropFilter",
        "FusedBatchNormV3",
        "FusedBatchNormGradV3",
        "Square",
    }
    assert "RandomUniform" not in in_tower
    assert not any(op.get_attr("is_training") for op in copies if op.type.startswith("FusedBatch"))
    # Of batch norm, towers meet in numbers for each of three channels.
    met = [one for one in coverage_of(fresh_graph).meetings if "written_out" in one.maker.name]
    assert {one.size for one in met} == {3 * FLOAT}
    assert {one.kind for one in met} == {"sum"}


def twice_normed(dtype):
    """Returns a model of two batch norms, one behind the other, whose moments are in the loss."""

    def model(features, labels, mode, params):
        x = tf.cast(features, dtype)
        scale = tf.get_variable("scale", [2], initializer=tf.ones_initializer())
        offset = tf.get_variable("offset", [2], initializer=tf.zeros_initializer())
        x, mean, variance = tf.nn.fused_batch_norm(x, scale, offset, is_training=True)
        x, _, _ = tf.nn.fused_batch_norm(x, scale, offset, is_training=True)
        loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.cast(x, tf.float32)) - 0.3))
        loss += 0.01 * tf.reduce_mean(mean * variance)
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model


@pytest.mark.parametrize("num_towers", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(tf.float32, 1e-5), (tf.float16, 2e-3), (tf.bfloat16, 2e-2)]
)
def test_moments_are_of_all_rows_in_half_precision_too(dtype, tolerance, num_towers):
    fn, data = twice_normed(dtype), functools.partial(dataset, False)
    want = contract.record(fn, data, contract.make_params(), 1)
    replicated = contract.replicated(fn, num_towers, batch_norm="batch")
    got = contract.record(replicated, data, contract.make_params(), num_towers)
    contract.assert_same_run(got, want, tolerance)


@pytest.mark.parametrize("num_towers", [2, 3])
def test_gradients_in_half_precision_are_rounded_once(num_towers):
    """Both terms of this gradient are infinite in half precision, and cancel."""

    def model(features, labels, mode, params):
        weight = tf.get_variable("weight", [2], initializer=tf.ones_initializer())
        x = tf.cast(1e-3 * features[..., :2] * weight, tf.float16)
        y, _, _ = tf.nn.fused_batch_norm(x, tf.ones([2]), tf.zeros([2]), epsilon=1.001e-5)
        loss = tf.reduce_mean(tf.cast(y, tf.float32)) * 1e6
        train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    replicated = contract.replicated(model, num_towers, batch_norm="batch")
    data = functools.partial(dataset, False)
    got = contract.record(replicated, data, contract.make_params(), num_towers)
    # Except for rounding, the gradient is 0, since batch norm takes any factor away.
    np.testing.assert_allclose(got.variables[-1]["weight:0"], 1, atol=0.2)


def normed(features, mode):
    """A convolution and batch norm that is written out; its sizes are those of the batch."""
    x = tf.layers.conv2d(features, 3, 2, use_bias=False)
    x = tf.layers.batch_normalization(x, training=True, fused=False)
    loss = tf.reduce_mean(tf.square(x - 0.3))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        optimizer = tf.train.GradientDescentOptimizer(0.05)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_batch_norm_that_is_written_out_meets_in_two_moments(fresh_graph):
    tf.train.create_global_step()
    features = tf.placeholder(tf.float32, [None, 4, 4, 2])
    contract.replicated(normed, 2)(features, None, "train")
    meetings = coverage_of(fresh_graph).meetings
    forward = [one for one in meetings if not one.maker.name.startswith("gradients/")]
    assert [(one.kind, one.maker.name, one.size) for one in forward] == [
        ("mean", "batch_normalization/moments/mean", 3 * 4),
        ("mean", "batch_normalization/moments/variance", 3 * 4),
        ("mean", "Mean", 4),
    ]
    # Backward, too, sums of a number per channel, and the kernel's gradient; nothing is joined.
    backward = [one for one in meetings if one not in forward]
    assert {one.kind for one in backward} == {"sum"}
    assert sorted({one.size for one in backward}) == [3 * 4, 2 * 2 * 2 * 3 * 4]


@pytest.mark.parametrize("num_towers", [2, 3])
def test_a_norm_whose_gradient_is_in_a_loss_takes_the_moments_of_all_rows(num_towers, caplog):
    """TensorFlow's gradient of its gradient has means over all rows, and must fit to the norm."""
    caplog.set_level(logging.INFO, logger="tensorflow")

    def penalized(features, labels, mode, params):
        w = tf.get_variable("w", [2, 3], initializer=tf.glorot_uniform_initializer(seed=1))
        x = tf.reshape(features, [-1, 2])
        y, _, _ = tf.nn.fused_batch_norm((x @ w)[:, None, None], tf.ones([3]), tf.zeros([3]))
        gradient = tf.gradients(tf.reduce_sum(tf.tanh(y)), x)[0]
        loss = tf.reduce_mean(tf.reduce_sum(tf.square(gradient), 1))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    data = functools.partial(dataset, False)
    got, want = (
        contract.record(fn, data, contract.make_params(), towers)
        for fn, towers in (
            (contract.replicated(penalized, num_towers), num_towers),
            (penalized, 1),
        )
    )
    contract.assert_same_run(got, want, 1e-4)
    assert "takes the moments of all rows (1 operations), since a loss" in caplog.text


@pytest.mark.parametrize("name", ["batch_norm", "random"])
def test_there_are_two_ways(name):
    with pytest.raises(ValueError, match=f"`{name}` must be 'tower' or 'batch', but is 'exact'"):
        replicate.replicate_model_fn(model_fn, **{name: "exact"})
