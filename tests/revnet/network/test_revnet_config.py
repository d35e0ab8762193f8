"""The published networks, and what is no configuration."""

import dataclasses
import json
import math

import numpy as np
import pytest

from bodies import matching
from examples import revnet
from examples.revnet import RevNet, RevNetConfig, preset
from examples.revnet.network.config import PRESETS

_DEFAULTS = {
    "bottleneck": False,
    "initial_filters": 32,
    "initial_kernel_size": 3,
    "initial_stride": 1,
    "initial_max_pool": False,
    "data_format": "channels_last",
    "dtype": "float32",
    "recompute": True,
    "stored_units": 2,
    "cross_tower_batch_norm": True,
    "batch_norm_momentum": 0.9,
    "batch_norm_epsilon": 1e-3,
    "dropout_rate": 0.0,
    "weight_decay": 2e-4,
    "seed": None,
}
_CIFAR = {**_DEFAULTS, "image_shape": (32, 32, 3), "num_classes": 10, "strides": (1, 2, 2)}
_IMAGENET = {
    **_DEFAULTS,
    "image_shape": (224, 224, 3),
    "num_classes": 1000,
    "filters": (128, 256, 512, 832),
    "strides": (1, 2, 2, 2),
    "bottleneck": True,
    "initial_filters": 128,
    "initial_kernel_size": 7,
    "initial_stride": 2,
    "initial_max_pool": True,
    "weight_decay": 1e-4,
}
_PUBLISHED = {
    "digits": {
        **_DEFAULTS,
        "image_shape": (8, 8, 1),
        "num_classes": 10,
        "units": (3, 3),
        "filters": (32, 64),
        "strides": (1, 2),
    },
    "cifar38": {**_CIFAR, "units": (3, 3, 3), "filters": (32, 64, 112)},
    "cifar110": {**_CIFAR, "units": (9, 9, 9), "filters": (32, 64, 128)},
    "cifar164": {**_CIFAR, "units": (9, 9, 9), "filters": (32, 64, 128), "bottleneck": True},
    "imagenet56": {**_IMAGENET, "units": (2, 2, 2, 2)},
    "imagenet104": {**_IMAGENET, "units": (2, 2, 11, 2)},
}


@pytest.mark.parametrize("name", _PUBLISHED)
def test_presets_are_the_published_networks(name):
    assert set(PRESETS) == set(_PUBLISHED)
    assert dataclasses.asdict(preset(name)) == _PUBLISHED[name]


@pytest.mark.parametrize(
    "name, overrides, depth",
    [
        ("digits", {}, 26),
        ("cifar38", {}, 38),
        ("cifar110", {}, 110),
        ("cifar164", {}, 164),
        ("imagenet104", {}, 104),
        ("imagenet56", {}, 50),
        ("imagenet56", {"units": (2, 2, 3, 2)}, 56),
    ],
)
def test_depth(name, overrides, depth):
    assert preset(name, **overrides).depth == depth


def _parameters_of(config):
    """Counts the trainable parameters by the formulas of their layers."""
    channels = config.image_shape[-1]
    total = (config.initial_kernel_size**2 * channels + 2) * config.initial_filters
    before = config.initial_filters // 2
    for stage, units in enumerate(config.units):
        between, after = config.filters[stage] // 2, config.stage_widths[stage] // 2
        for unit in range(units):
            for inside in (before if unit == 0 else after, after):
                chain = [(3, inside, between), (3, between, after)]
                if config.bottleneck:
                    chain = [(1, inside, between), (3, between, between), (1, between, after)]
                total += sum(side**2 * a * b for side, a, b in chain)
                # Batch norm is before all convolutions but the first of most.
                normed = chain if unit == 0 and stage > 0 else chain[1:]
                total += sum(2 * a for _, a, _ in normed)
        before = after
    return total + 2 * 2 * before + (2 * before + 1) * config.num_classes


# Numbers that the published code counts.
@pytest.mark.parametrize(
    "name, published",
    [("cifar38", 464_026), ("cifar110", 1_725_578), ("imagenet56", 20_553_064)],
)
def test_parameters_are_those_of_the_published_networks(name, published):
    assert _parameters_of(preset(name)) == published


# The paper gives millions for networks that the code does not count.
@pytest.mark.parametrize("name, millions", [("cifar164", 1.75), ("imagenet104", 45.2)])
def test_parameters_are_about_those_of_the_paper(name, millions):
    assert _parameters_of(preset(name)) / 1e6 == pytest.approx(millions, rel=0.11)


@pytest.mark.parametrize(
    "config", [preset("cifar38"), preset("cifar164", units=(2, 1, 1)), preset("digits")]
)
def test_parameters_of_a_network(config):
    model = RevNet(config)
    count = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    assert count == _parameters_of(config)


def test_fields_can_be_overridden_and_are_frozen():
    config = preset("cifar38", num_classes=100, units=[1, 1], filters=[8, 10], initial_filters=8)
    assert (config.num_classes, config.units, config.filters) == (100, (1, 1), (8, 10))
    assert config.strides == (1, 2)
    assert preset("digits", seed=0).seed == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.num_classes = 7


@pytest.mark.parametrize("name", _PUBLISHED)
def test_json_gives_the_same_configuration(name):
    config = preset(name)
    assert RevNetConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config
    assert hash(config) == hash(preset(name))


_EVEN = "since channels are split in halves, but is…"
_WRONG = [
    ({"filters": (32, 63)}, "`filters` must be 2 even numbers…" + _EVEN + "(32, 63)"),
    ({"filters": (32,)}, "`filters` must be 2 even numbers, one for each stage…(32,)"),
    ({"filters": 32}, "`filters` must be 2 even numbers…32"),
    ({"filters": "32"}, "`filters` must be 2 even numbers…'32'"),
    ({"filters": (32.0, 64.0)}, "`filters` must be 2 even numbers…(32.0, 64.0)"),
    ({"filters": (32, 64, 64)}, "`filters` must be 2 even numbers…(32, 64, 64)"),
    ({"filters": (32, 0)}, "`filters` must be 2 even numbers…(32, 0)"),
    ({"initial_filters": 31}, "`initial_filters` must be an even number…" + _EVEN + "31"),
    ({"initial_filters": True}, "`initial_filters` must be an even number…True"),
    ({"units": ()}, "`units` must be whole numbers from 1 on, one for each stage…()"),
    ({"units": (3, 0)}, "`units` must be whole numbers from 1 on…(3, 0)"),
    ({"units": (3, True)}, "`units` must be whole numbers from 1 on…(3, True)"),
    ({"units": 3}, "`units` must be whole numbers from 1 on…3"),
    ({"units": "33"}, "`units` must be whole numbers from 1 on…'33'"),
    ({"units": None}, "`units` must be whole numbers from 1 on…None"),
    ({"strides": (1, 2, 2)}, "`strides` must be 2 whole numbers from 1 on…(1, 2, 2)"),
    ({"strides": (1, 0)}, "`strides` must be 2 whole numbers from 1 on…(1, 0)"),
    ({"image_shape": (8, 8)}, "`image_shape` must be height, width and channels…(8, 8)"),
    ({"image_shape": (8, 8, 0)}, "`image_shape` must be height, width and channels…(8, 8, 0)"),
    ({"image_shape": None}, "`image_shape` must be height, width and channels…None"),
    ({"num_classes": 1}, "`num_classes` must be a whole number from 2 on…1"),
    ({"num_classes": 10.0}, "`num_classes` must be a whole number from 2 on…10.0"),
    ({"num_classes": "10"}, "`num_classes` must be a whole number from 2 on…'10'"),
    ({"initial_kernel_size": 0}, "`initial_kernel_size` must be a whole number from 1 on…0"),
    ({"initial_stride": 1.5}, "`initial_stride` must be a whole number from 1 on…1.5"),
    ({"bottleneck": "no"}, "`bottleneck` must be True or False…'no'"),
    ({"stored_units": -1}, "`stored_units` must be a whole number from 0 on…-1"),
    ({"recompute": 0}, "`recompute` must be True or False…0"),
    ({"data_format": "NCHW"}, "`data_format` must be one of channels_last, channels_first…'NCHW'"),
    ({"dtype": "int32"}, "`dtype` must be one of float32, float64, bfloat16, float16…'int32'"),
    ({"batch_norm_momentum": 1}, "`batch_norm_momentum` must be a number from 0 on and below 1…1"),
    ({"dropout_rate": -0.1}, "`dropout_rate` must be a number from 0 on and below 1…-0.1"),
    ({"dropout_rate": "0.5"}, "`dropout_rate` must be a number from 0 on and below 1…'0.5'"),
    ({"dropout_rate": math.nan}, "`dropout_rate` must be a number from 0 on and below 1…nan"),
    ({"batch_norm_epsilon": 0}, "`batch_norm_epsilon` must be a positive number…0"),
    ({"batch_norm_epsilon": None}, "`batch_norm_epsilon` must be a positive number…None"),
    ({"weight_decay": -1e-4}, "`weight_decay` must be a number from 0 on…-0.0001"),
    ({"weight_decay": math.inf}, "`weight_decay` must be a number from 0 on…inf"),
    ({"seed": -1}, "`seed` must be None or a whole number from 0 on…-1"),
    ({"seed": 0.5}, "`seed` must be None or a whole number from 0 on…0.5"),
    (
        {"filters": (64, 32)},
        "Stages must not become narrower…stage 1 has 32 after 64…Change `filters`",
    ),
    ({"initial_filters": 34}, "Stages must not become narrower…stage 0 has 32 after 34"),
    (
        {"image_shape": (8, 1, 1)},
        "Images must have a pixel for every stride, 2 in each…`image_shape` is (8, 1, 1)…Resize",
    ),
    (
        {"initial_stride": 2, "initial_max_pool": True, "strides": (1, 3)},
        "Images must have a pixel for every stride, 12 in each…lower `strides`, `initial_stride`",
    ),
    ({"width": 3, "depth": 4}, "A RevNet has no depth, width…Options are: image_shape"),
]


@pytest.mark.parametrize("overrides, text", _WRONG)
def test_what_is_no_configuration(overrides, text):
    with pytest.raises(ValueError, match=matching(text)):
        preset("digits", **overrides)


def test_what_the_package_has():
    with pytest.raises(AttributeError, match=r"'examples\.revnet' has no attribute"):
        revnet.ResNet  # noqa: B018


def test_unknown_preset():
    text = "A preset is one of digits, cifar38, cifar110…but got 'cifar39'"
    with pytest.raises(ValueError, match=matching(text)):
        preset("cifar39")


def test_the_smallest_image():
    config = preset("digits", image_shape=(2, 2, 1))
    assert config.total_stride == 2
    assert preset("imagenet104").total_stride == 32


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_what_tensorflow_computes_on_gpus_alone(dtype):
    text = f"TensorFlow convolves {dtype} in `data_format` 'channels_first' on GPUs only…Take 'chan"
    with pytest.raises(ValueError, match=matching(text)):
        RevNet(preset("digits", data_format="channels_first", dtype=dtype))


def test_numbers_of_numpy():
    made = preset("digits", num_classes=np.int64(5), dropout_rate=np.float32(0.5), seed=np.int32(1))
    assert json.loads(json.dumps(dataclasses.asdict(made)))["num_classes"] == 5
    assert made == preset("digits", num_classes=5, dropout_rate=0.5, seed=1)
