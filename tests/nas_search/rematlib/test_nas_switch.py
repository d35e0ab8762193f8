"""A Switch equals the masked sum of its options, but runs only those that are active."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import layers as lib
from nas_search import nas_layers

CHANNELS = 4
SHAPE = [2, 5, 5, CHANNELS]


class Sum(lib.Layer):
    """The reference of `Switch`, as plain arithmetic: no conditional, no custom gradient."""

    def __init__(self, mask, options):
        super().__init__()
        self._mask = mask
        self._options = [self.track(option) for option in options]

    def _setup(self, input_shape):
        shapes = [option.build(input_shape) for option in self._options]
        return shapes[0]

    def _call(self, inputs, run):
        return tf.add_n(
            [
                option(inputs, run) * tf.cast(self._mask[i], inputs.dtype)
                for i, option in enumerate(self._options)
            ]
        )


def square(x):
    return 0.05 * tf.nn.l2_loss(x)


def conv(kernel_size=1, **kwargs):
    return lib.Conv2D(CHANNELS, kernel_size, kernel_regularizer=square, use_bias=True, **kwargs)


def nested(kind, outer, inner):
    """A network with a choice in a choice, and a layer that two options share."""
    shared = conv()
    choice = kind(inner, [lib.DepthwiseConv2D(3), lib.DepthwiseConv2D(5), lib.Identity()])
    bottleneck = lib.Sequential(
        [conv(), lib.BatchNorm(stateful=False), lib.Swish6(), choice, lib.Sigmoid(), shared]
    )
    options = [bottleneck, lib.Sequential([shared, lib.ELU()]), lib.Zeros(), lib.Identity()]
    return lib.Sequential([conv(), lib.ParallelSum([kind(outer, options), lib.Identity()])])


def differentiate(kind, outer, inner, x, dtype):
    """Value, gradients by x and all weights, and the weights, of a loss of the network."""
    with tf.variable_scope(kind.__name__, dtype=dtype):  # The weights take the type of the scope.
        network = nested(kind, outer, inner)
        network.build(x.shape)
    y = network.apply(x, training=True)
    loss = tf.reduce_sum(tf.sin(y))
    variables = network.trainable_variables()
    return [y, *tf.gradients(loss, [x, *variables])], variables


ONE_HOT = list(np.eye(4, dtype=np.float32))
MASKS = [*ONE_HOT, [0.25] * 4, [0.5, 0, 0.25, -2], [0, 0, 0, 0]]


@pytest.mark.parametrize("rows", [2, None], ids=["known_batch", "unknown_batch"])
def test_value_and_gradients_are_those_of_the_masked_sum(control_flow, rows):
    x = tf.placeholder(tf.float64, [rows, *SHAPE[1:]])
    outer, inner = tf.placeholder(tf.float32, [4]), tf.placeholder(tf.float32, [3])
    got, variables = differentiate(lib.Switch, outer, inner, x, tf.float64)
    want, plain_variables = differentiate(Sum, outer, inner, x, tf.float64)
    assert len(variables) == len(plain_variables) == 10  # 3 convs with bias, 2 depthwise, 1 norm
    assert got[0].shape.as_list() == [rows, *SHAPE[1:]]
    with nas_layers.session() as session:
        for each in (variables, plain_variables):
            nas_layers.randomize(session, each)
        for mask in MASKS:
            for inner_mask in ([1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]):
                feed = {
                    x: nas_layers.images(*SHAPE, dtype="float64"),
                    outer: mask,
                    inner: inner_mask,
                }
                for a, b in zip(*session.run([got, want], feed)):
                    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_only_active_options_run_and_run_anew_for_gradients(control_flow):
    def option(kernel_size, number):
        convs = [lib.Conv2D(CHANNELS, kernel_size) for _ in range(number)]
        return lib.Sequential([each for conv in convs for each in (conv, lib.Sigmoid())])

    mask = tf.placeholder(tf.float32, [4])
    network = lib.Switch(mask, [option(1, 1), option(3, 2), option(5, 4), lib.Zeros()])
    x = tf.placeholder(tf.float32, SHAPE)  # Constants would be computed before the step.
    network.build(x.shape)
    y = network.apply(x, training=True)
    gradients = tf.gradients(y, [x, *network.trainable_variables()])
    with nas_layers.session() as session:

        def count(fetches, active, *types):
            executed = nas_layers.executed(session, fetches, {mask: active, x: np.ones(SHAPE)})
            return [executed[name] for name in types]

        # The options have 1, 2 and 4 convolutions, so that a sum tells which of them ran.
        for active, number in [([1, 0, 0, 0], 1), ([0, 0, 1, 0], 4), ([0.5, 0.5, 0, 0.2], 3)]:
            assert count(y, active, "Conv2D", "Sigmoid") == [number, number]
            # Backward, the whole option has to run once more: every activation is needed, that of
            # the last convolution for the gradient of its sigmoid.
            assert count([y, gradients], active, "Conv2D", "Sigmoid") == [2 * number] * 2
            backward = "Conv2DBackpropInput", "Conv2DBackpropFilter"
            assert count([y, gradients], active, *backward) == [number, number]
        assert count([y, gradients], [0, 0, 0, 1], "Conv2D", "Sigmoid") == [0, 0]


def test_nested_options_run_only_where_both_choices_are_active(control_flow):
    outer, inner = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
    first, one, three = (lib.Conv2D(CHANNELS, size) for size in (1, 1, 3))
    choice = lib.Switch(inner, [one, lib.Sequential([three, lib.Sigmoid()])])
    network = lib.Switch(outer, [lib.Sequential([first, choice, lib.Sigmoid()]), lib.Zeros()])
    x = tf.placeholder(tf.float32, SHAPE)  # Constants would be computed before the step.
    network.build(x.shape)
    y = network.apply(x, training=True)
    gradients = tf.gradients(y, [x, *network.trainable_variables()])
    with nas_layers.session() as session:

        def count(outer_mask, inner_mask):
            feed = {outer: outer_mask, inner: inner_mask, x: np.ones(SHAPE)}
            return nas_layers.executed(session, [y, gradients], feed)["Conv2D"]

        assert count([0, 1], [1, 0]) == 0
        # Two forward and two in the outer option's second run; the inner one is linear, so that
        # the gradient does not need its value.
        assert count([1, 0], [1, 0]) == 4
        # The inner one runs a third time, within that second run, for its sigmoid.
        assert count([1, 0], [0, 1]) == 5


def test_no_activation_leaves_a_branch():
    """Conditionals give out only the sum forward, and only gradients backward."""
    network = lib.Switch(tf.constant([0.0, 1.0]), [conv(1), lib.Sequential([conv(3), lib.ELU()])])
    x = tf.zeros(SHAPE)
    network.build(x.shape)
    y = network.apply(x, training=True)
    tf.gradients(y, [x, *network.trainable_variables()])
    operations = tf.get_default_graph().get_operations()
    shapes = [op.outputs[0].shape.as_list() for op in operations if op.type == "Merge"]
    kernels = [[1, 1, CHANNELS, CHANNELS], [3, 3, CHANNELS, CHANNELS]]
    gradients = [shape for kernel in kernels for shape in (SHAPE, kernel, [CHANNELS])]
    assert shapes == [SHAPE, SHAPE, *gradients]


def test_runs_of_the_backward_pass_wait_for_the_gradient():
    """Else they could all run at once, early, and their activations be kept until needed."""
    network = lib.Switch(tf.constant([1.0]), [lib.Sequential([conv(1), lib.ELU()])])
    x = tf.zeros(SHAPE)
    network.build(x.shape)
    y = network.apply(x, training=True)
    tf.gradients(y, x)
    operations = tf.get_default_graph().get_operations()
    forward, again = (op for op in operations if op.type == "Conv2D")

    def waits(op):
        """Whether what leads to it waits for the upstream gradient times the share."""
        upstream = [before for before in op.control_inputs if before.type == "Mul"]
        return bool(upstream) or any(waits(tensor.op) for tensor in op.inputs)

    assert all(waits(tensor.op) for tensor in again.inputs)
    assert not any(waits(tensor.op) for tensor in forward.inputs)


def test_the_mask_gets_no_gradient_not_even_from_variables(control_flow):
    logits = tf.get_variable("logits", [2], use_resource=True)
    network = lib.Switch(tf.nn.softmax(logits), [conv(1), conv(3)])
    x = tf.zeros(SHAPE)
    network.build(x.shape)
    y = network.apply(x, training=True)
    assert tf.gradients([y, network.regularization_loss()], logits) == [None]
    assert logits not in network.trainable_variables()


def test_updated_weights_are_seen_by_the_next_apply(control_flow):
    """Each apply of a root reads again, under the control dependencies that it finds."""
    initializer = tf.constant_initializer(1.0)
    option = lib.Conv2D(1, 1, kernel_initializer=initializer)
    inner = lib.Switch(tf.constant([1.0, 0.0]), [option, lib.Identity()])
    network = lib.Sequential([lib.Switch(tf.constant([0.0, 1.0]), [lib.Identity(), inner])])
    x = tf.ones([1, 1, 1, 1])
    network.build(x.shape)
    before = network.apply(x, training=True)
    (weight,) = network.trainable_variables()
    (gradient,) = tf.gradients(tf.square(before), [weight])
    with tf.control_dependencies([weight.assign_sub(0.125 * gradient)]):
        after = network.apply(x, training=False)
    with nas_layers.session() as session:
        # d w²/dw = 2, so w falls from 1 to 1 − 0.125 · 2.
        assert [value.item() for value in session.run([before, after])] == [1, 0.75]
        assert session.run(after).item() == pytest.approx(0.75 - 0.125 * 2 * 0.75)


def test_random_numbers_are_the_same_in_both_passes(control_flow):
    """Where an element is dropped its gradient is 0, and elsewhere it is the scale."""
    mask = tf.constant([1.0, 0.0])
    inner = lib.Switch(mask, [lib.Sequential([lib.Dropout(0.5), lib.Identity()]), lib.Identity()])
    network = lib.Switch(mask, [inner, lib.Identity()])
    x = tf.ones([1, 40, 5, 1])
    network.build(x.shape)
    y = network.apply(x, training=True)
    with nas_layers.session() as session:
        first, gradient = session.run([y, tf.gradients(y, x)[0]])
        np.testing.assert_array_equal(first, gradient)
        assert set(np.unique(first)) == {0, 2}
        assert (first != session.run(y)).any()


def test_penalties_are_multiplied_with_the_mask_and_count_once():
    ones = {"kernel_initializer": tf.ones_initializer()}
    shared, own, always = conv(1, **ones), conv(3, **ones), conv(5, **ones)
    mask = tf.placeholder(tf.float32, [3])
    options = [shared, lib.Sequential([shared, own]), lib.Sequential([always, shared])]
    network = lib.Sequential([always, lib.Switch(mask, options)])
    network.build(SHAPE)
    penalty = network.regularization_loss()
    gradients = tf.gradients(penalty, [layer.weight("kernel").variable for layer in options[:1]])
    one = 0.05 * CHANNELS**2 / 2  # of a 1×1 kernel of ones: 0.05 / 2 · 4 · 4
    with nas_layers.session() as session:
        for active in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [0.25, 0.75, 0], [0, 0, 0]):
            # `shared` counts with the largest of its shares, `always` is outside as well.
            share = max(active)
            want = one * (share + 9 * active[1] + 25)
            got, (gradient,) = session.run([penalty, gradients], {mask: active})
            assert got == pytest.approx(want, rel=1e-6)
            np.testing.assert_allclose(gradient, np.full(gradient.shape, 0.05 * share), rtol=1e-6)


def test_an_accelerated_compiler_can_take_it():
    """XLA, which TPUs need, knows no control dependencies but all the rest."""
    x, masks = tf.constant(nas_layers.images(*SHAPE)), [tf.constant([0.25] * 4), tf.ones([3])]

    def computation(*inputs):
        return differentiate(lib.Switch, inputs[1], inputs[2], inputs[0], tf.float32)[0]

    got = tf.xla.experimental.compile(computation, [x, *masks])
    want, plain_variables = differentiate(Sum, *masks, x, tf.float32)
    with nas_layers.session() as session:
        variables = [v for v in tf.trainable_variables() if v not in plain_variables]
        for each in (variables, plain_variables):
            nas_layers.randomize(session, each)
        for a, b in zip(*session.run([got, want])):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("mask", "options", "message"),
    [
        ([1.0], 2, "`mask` must have an entry for each option, at least one, but has shape (1,)"),
        ([], 0, "for 0 options"),
        ([[1.0, 0.0]], 2, "has shape (1, 2) for 2 options"),
    ],
)
def test_the_mask_must_fit_the_options(mask, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        lib.Switch(tf.constant(mask), [lib.Identity() for _ in range(options)])


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        ([lib.Identity, lambda: lib.MaxPool(3, 2)], SHAPE, "they have (5, 5, 4), (3, 3, 4)"),
        ([lib.Identity] * 2, [2, None, 5, 4], "same, known height"),
    ],
)
def test_options_must_have_outputs_of_one_known_shape(options, shape, message):
    network = lib.Switch(tf.ones([2]), [make() for make in options])
    with pytest.raises(ValueError, match=re.escape(message)):
        network.build(shape)


def test_options_that_update_something_are_refused():
    network = lib.Switch(tf.ones([1]), [lib.BatchNorm()])
    network.build(SHAPE)
    network.apply(tf.zeros(SHAPE), training=False)  # It only reads the moving averages.
    with pytest.raises(ValueError, match=r"must not update anything.*AssignAdd.*`stateful=False`"):
        network.apply(tf.zeros(SHAPE), training=True)


def test_a_choice_that_was_made_needs_no_switch():
    layer = lib.Identity()
    assert lib.maybe_switch_v2(None, [layer]) is layer
    assert isinstance(lib.maybe_switch_v2(tf.ones([2]), [layer, layer]), lib.Switch)
    with pytest.raises(ValueError, match="one option `mask` can be None, but there are 2"):
        lib.maybe_switch_v2(None, [layer, layer])


def test_a_mask_of_one_entry_multiplies():
    kernel = lib.Conv2D(1, 1, kernel_initializer=tf.ones_initializer(), kernel_regularizer=square)
    scale = tf.placeholder(tf.float32, [1])
    layer = lib.maybe_switch_v2(scale, [kernel])
    layer.build([1, 1, 1, 1])
    x = tf.constant([[[[2.0]]]])
    y = layer.apply(x, training=True)
    gradients = tf.gradients(y, [x, *layer.trainable_variables()])
    with nas_layers.session() as session:
        for value in (0.0, 1.25):
            got = session.run([y, *gradients, layer.regularization_loss()], {scale: [value]})
            # y = scale · w · x at w = 1, x = 2; the penalty 0.05 / 2 · w² is not of the path.
            want = [2 * value, value, 2 * value, 0.025]
            assert [each.item() for each in got] == pytest.approx(want)
