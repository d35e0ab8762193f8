"""One unit at a time: what it computes, its inverse, and its gradients by hand."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from examples.revnet.network.reversible_units import DownsamplingUnit, Unit
from revnet import revnet_networks as networks
from revnet.revnet_networks import eager, error

_KINDS = {
    "basic": {},
    "bottleneck": {"bottleneck": True},
    "dropout": {"dropout_rate": 0.3},
    "one row": {},
}


def config_of(kind, **fields):
    return networks.config(**{"weight_decay": 0.0, **_KINDS[kind], **fields})


def unit_of(config, cls=Unit):
    """Returns a unit of four channels; one that downsamples gives eight."""
    arguments = (4, 4, 4, 1) if cls is Unit else (4, 8, 6, 2)
    unit = cls(config, *arguments, "stage_0/unit_0")
    networks.scatter(unit)
    return unit


def pair(channels=2, size=(5, 7), rows=3, seed=0, dtype=np.float64):
    random = np.random.RandomState(seed)
    halves = [random.normal(size=(rows, *size, channels)).astype(dtype) for _ in range(2)]
    return tuple(map(tf.constant, halves))


def transposed(halves):
    return tuple(tf.transpose(half, [0, 3, 1, 2]) for half in halves)


@pytest.mark.conformance
@pytest.mark.parametrize("kind", _KINDS)
def test_inverse(kind):
    with eager():
        unit = unit_of(config_of(kind))
        x, dy = pair(rows=1 if kind == "one row" else 3), pair(rows=1 if kind == "one row" else 3)
        y, kept, _ = unit.forward(x, unit.values())
        found, _, _ = unit.backward(None, y, dy, kept)
        assert error(found, x) < 1e-12
        assert error(y, x) > 1e-3


def test_inverse_through_many_units():
    with eager():
        config = config_of("basic")
        units = [unit_of(config) for _ in range(16)]
        x = y = pair(rows=4)
        passes = []
        for unit in units:
            y, kept, _ = unit.forward(y, unit.values())
            passes.append(kept)
        dy = pair(rows=4, seed=1)
        for unit, kept in zip(reversed(units), reversed(passes)):
            y, dy, _ = unit.backward(None, y, dy, kept)
        assert error(y, x) < 1e-9


def _gradients(unit, x, dy):
    """Returns TensorFlow's own gradients, for the input and for the weights."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, kept, activations = unit.forward(x, unit.values())
    dx, d_weights = tape.gradient(y, [x, unit.trainable_weights], dy)
    return y, kept, activations, dx, d_weights


@pytest.mark.parametrize(
    "given", ["y", "x and y", "activations", "inputs of layers", "no statistics", "nothing kept"]
)
@pytest.mark.parametrize("kind", ["basic", "bottleneck", "dropout"])
@pytest.mark.parametrize("cls", [Unit, DownsamplingUnit])
def test_gradients(cls, kind, given):
    with eager():
        unit = unit_of(config_of(kind), cls)
        x, dy = pair(), pair(seed=1)
        if cls is DownsamplingUnit:
            dy = pair(4, size=(3, 4), seed=1)
        y, kept, activations, dx, d_weights = _gradients(unit, x, dy)
        inputs = [[each._replace(z=None) for each in function] for function in activations]
        arguments = {
            "y": (None, y, dy, kept),
            "x and y": (x, y, dy, kept),
            "activations": (x, y, dy, kept, activations),
            "inputs of layers": (x, y, dy, kept, inputs),
            "no statistics": (x, y, dy),
            "nothing kept": (None, y, dy),
        }[given]
        if cls is DownsamplingUnit and arguments[0] is None:
            text = "The first unit of a stage cannot be inverted…but `x` is None…Pass what it was"
            with pytest.raises(ValueError, match=matching(text)):
                unit.backward(*arguments)
            return
        if kind == "dropout" and len(arguments) == 3:
            text = "A unit with dropout must be told what it dropped…`dropout_rate` is 0.3…Pass"
            with pytest.raises(ValueError, match=matching(text)):
                unit.backward(*arguments)
            return
        found_x, found_dx, found_weights = unit.backward(*arguments)
        assert error(found_x, x) < 1e-12
        assert error(found_dx, dx) < 1e-12
        assert error(found_weights, d_weights) < 1e-12
        assert len(found_weights) == len(unit.trainable_weights) > 0


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_what_a_unit_computes(kind):
    with eager():
        unit = unit_of(config_of(kind), DownsamplingUnit)
        x = x1, x2 = pair()
        weights = {networks.place(v): tf.convert_to_tensor(v) for v in unit.variables}
        plain = networks.Plain(config_of(kind), weights)
        y1 = networks.shortcut(x1, 2, 2) + plain.residual(x2, "stage_0/unit_0/f", 2, True)
        y2 = networks.shortcut(x2, 2, 2) + plain.residual(y1, "stage_0/unit_0/g", 1, True)
        assert error(unit(x, training=True), [y1, y2]) < 1e-12
        y1 = networks.shortcut(x1, 2, 2) + plain.residual(x2, "stage_0/unit_0/f", 2, False)
        y2 = networks.shortcut(x2, 2, 2) + plain.residual(y1, "stage_0/unit_0/g", 1, False)
        assert error(unit(x), [y1, y2]) < 1e-12


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
@pytest.mark.parametrize("cls", [Unit, DownsamplingUnit])
def test_channels_first(cls, kind):
    """On a CPU in float32, with strides that divide the images."""
    with eager():
        last, first = (
            unit_of(config_of(kind, dtype="float32", data_format=data_format), cls)
            for data_format in ("channels_last", "channels_first")
        )
        for source, target in zip(last.variables, first.variables):
            target.assign(source)
        x, dy = pair(size=(6, 4), dtype=np.float32), pair(size=(6, 4), seed=1, dtype=np.float32)
        if cls is DownsamplingUnit:
            dy = pair(4, size=(3, 2), seed=1, dtype=np.float32)
        y, kept, _ = last.forward(x, last.values())
        expected = last.backward(x, y, dy, kept)
        y_first, kept, _ = first.forward(transposed(x), first.values())
        given = None if cls is Unit else transposed(x)
        found = first.backward(given, y_first, transposed(dy), kept)
        assert error(y_first, transposed(y)) < 1e-5
        assert error(found[0], transposed(x)) < 1e-5
        assert error(found[1], transposed(expected[1])) < 1e-4
        assert error(found[2], expected[2]) < 1e-4


@pytest.mark.parametrize("cls", [Unit, DownsamplingUnit])
@pytest.mark.parametrize("form", ["tensor", "pair"])
def test_gradients_as_the_published_block_gives_them(form, cls):
    with eager():
        unit = unit_of(config_of("basic"), cls)
        x, dy = pair(), pair(seed=1)
        if cls is DownsamplingUnit:
            dy = pair(4, size=(3, 4), seed=1)
        y, _, _, dx, d_weights = _gradients(unit, x, dy)

        def formed(halves):
            return tf.concat(halves, 3) if form == "tensor" else halves

        given = {"x": formed(x)} if cls is DownsamplingUnit else {}
        found_x, found_dx, found = unit.backward_grads(
            formed(y), formed(dy), training=True, **given
        )
        assert tf.is_tensor(found_x) == tf.is_tensor(found_dx) == (form == "tensor")
        assert error(found_x, formed(x)) < 1e-12
        assert error(found_dx, formed(dx)) < 1e-12
        assert error(found, d_weights) < 1e-12
        with pytest.raises(ValueError, match=r"`training` is False\. Pass True"):
            unit.backward_grads(formed(y), formed(dy), training=False)
