"""Operations of a graph: which are recomputed, how often, and when."""

import collections

import pytest
import tensorflow.compat.v1 as tf

import graph_walks
from examples.revnet import RevNet
from revnet import revnet_networks as networks

# Two stages of 4 and 3 units. In the first, inputs of units 0 and 1 are kept, those of 2 and 3
# reconstructed; of the second, the activations of units 1 and 2 are kept.
_UNITS = (4, 3)


def _counts(by_hand=False, kind="basic", **fields):
    """Returns the numbers of operations by type, without and with gradients."""
    config = networks.config(kind, **{"dtype": "float32", "units": _UNITS, **fields})
    images, labels = networks.batch(config)
    model = RevNet(config)
    logits, saved_hidden = model(tf.constant(images, tf.float32), training=True)
    forward = _by_type()
    if by_hand:
        gradients, _ = model.compute_gradients(saved_hidden, tf.constant(labels))
    else:
        loss = model.training_loss(tf.constant(labels), logits)
        gradients = tf.gradients(loss, model.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    return forward, _by_type()


def _by_type():
    return collections.Counter(op.type for op in tf.get_default_graph().get_operations())


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("bottleneck", [False, True])
def test_nothing_is_computed_more_often_than_it_must(bottleneck, by_hand):
    forward, both = _counts(by_hand, "bottleneck" if bottleneck else "basic")
    layers = 3 if bottleneck else 2
    residuals = 2 * sum(_UNITS)
    convolutions = residuals * layers + 1
    assert forward["Conv2D"] == convolutions
    # The last convolution of F and G gives nothing but what can be told from the outputs: it is
    # done again for the units whose inputs are reconstructed, 2. Kept inputs leave 3 without it.
    recomputed = 2 * 2 * layers + 3 * 2 * (layers - 1)
    stem = 1 if by_hand else 0  # `compute_gradients` computes the stem once more.
    assert both["Conv2D"] == convolutions + recomputed + stem
    assert both["Conv2DBackpropFilter"] == convolutions
    # TensorFlow's tape makes that for images as well; it is pruned when the graph runs.
    assert both["Conv2DBackpropInput"] == convolutions - stem
    # Batch norm is replayed by its statistics, in inference mode, so that none is reduced twice;
    # those of stem and head, too, without a tape. The second stage begins with two more.
    norms = residuals * (layers - 1) + 2 + 2
    fused = [op for op in tf.get_default_graph().get_operations() if "FusedBatchNormV" in op.type]
    training = [op for op in fused if op.get_attr("is_training")]
    ends = 2 if by_hand else 0
    assert len(training) == norms
    assert len(fused) - len(training) == 5 * 2 * (layers - 1) + 2 + ends
    gradients = sum(n for kind, n in both.items() if kind.startswith("FusedBatchNormGrad"))
    assert gradients == norms


@pytest.mark.parametrize("by_hand", [False, True])
def test_stored_activations_are_not_recomputed(by_hand):
    forward, both = _counts(by_hand, recompute=False)
    assert both["Conv2D"] == forward["Conv2D"] + (1 if by_hand else 0)
    assert both["Conv2DBackpropFilter"] == forward["Conv2D"]


@pytest.mark.parametrize("bottleneck", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_inputs_of_layers_save_convolutions(bottleneck):
    kind = "bottleneck" if bottleneck else "basic"
    units = {"units": (1, 7), "filters": (8, 8)}
    forward, both = _counts(kind=kind, stored_units=2, **units)
    with tf.Graph().as_default():
        _, none = _counts(kind=kind, stored_units=0, **units)
    # The memory of 2 units lasts for the inputs of 3; or of 2, and then for all of theirs.
    layers, inputs, whole = (3, 2, 2) if bottleneck else (2, 3, 0)
    # Without, 6 are reconstructed.
    assert none["Conv2D"] - both["Conv2D"] == inputs * 2 * layers
    norms = 2 * 8 * (layers - 1) + 2 + 2
    assert forward["FusedBatchNormV2"] == norms
    assert none["FusedBatchNormV2"] == 2 * norms - 2
    assert none["FusedBatchNormV2"] - both["FusedBatchNormV2"] == whole * 2 * (layers - 1)


def test_what_layers_convolve_is_found_one_after_another():
    """Else all of it would be there at once."""
    forward, _ = _counts(units=(1, 5), filters=(8, 8), stored_units=2)
    operations = tf.get_default_graph().get_operations()
    norms = [op for op in operations if op.type == "FusedBatchNormV2"]
    replayed = norms[forward["FusedBatchNormV2"] :]
    gradients = [op for op in operations if op.type == "Conv2DBackpropInput"]
    of_inputs = replayed[: 3 * 2]  # One of each function, before its second convolution.
    waits = [
        sum(gradient in before for gradient in gradients)
        for op in of_inputs
        for before in [graph_walks.behind(op)]
    ]
    # Each waits for the gradients of the convolutions behind its own.
    assert waits == [2 * number for number in range(len(of_inputs))]


def test_units_are_recomputed_one_after_another():
    forward, _ = _counts()
    operations = tf.get_default_graph().get_operations()
    convolutions = [op for op in operations if op.type == "Conv2D"]
    recomputed = convolutions[forward["Conv2D"] :]
    filters = [op for op in operations if op.type == "Conv2DBackpropFilter"]
    assert len(recomputed) == 5 * 2 + 4
    waits = [
        sum(gradient in before for gradient in filters)
        for op in recomputed
        for before in [graph_walks.behind(op)]
    ]
    # Units 1 and 2 of the second stage, from activations: 4 convolutions each. Then G, F, G, F, …:
    # each has 2, and waits for all gradients before it.
    first = 2 * 4
    stage_1, stage_0 = [first, first + 2], []
    for function in range(2 * 4):
        convolutions_again = 2 if function < 4 else 1
        stage_0 += [first + 4 + 2 * function] * convolutions_again
    assert waits == stage_1 + stage_0


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("by_hand", [False, True])
def test_no_weight_is_read_after_its_update(by_hand, dtype):
    """The gradient must depend on each read of a weight; another read might follow the update."""
    config = networks.config("max_pool", dtype=dtype, units=_UNITS[:1] * 3)
    images, labels = map(tf.constant, networks.batch(config))
    model = RevNet(config)
    logits, saved_hidden = model(images, training=True)
    if by_hand:
        gradients, _ = model.compute_gradients(saved_hidden, labels)
    else:
        loss = model.training_loss(labels, logits)
        gradients = tf.gradients(loss, model.trainable_variables)
    used = graph_walks.behind(tf.group(*gradients))
    for variable, gradient in zip(model.trainable_variables, gradients):
        before = graph_walks.behind(gradient.op)
        reads = [op for op in variable.handle.consumers() if op.type == "ReadVariableOp"]
        late = [op.name for op in reads if op in used and op not in before]
        assert len(reads) > 1 and not late
