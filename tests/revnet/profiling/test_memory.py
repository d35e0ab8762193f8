"""`memory` measures what it says, and recomputed activations do not grow with the units."""

import argparse
import functools
import json

import pytest
import tensorflow.compat.v1 as tf

import programs
from examples.revnet import preset
from examples.revnet.commands import memory
from examples.revnet.network import stored_activations
from examples.revnet.profiling import gradient_costs, gradient_methods, peak_memory
from examples.runs.flags import SettingsError


@functools.lru_cache(maxsize=None)
def activations(way, units, **fields):
    """Returns the bytes that activations of a network of two stages take."""
    widths = {"filters": [8, 16], "initial_filters": 8, "image_shape": [16, 16, 1]}
    config = preset("digits", units=[units, units], **{**widths, **fields})
    with tf.Graph().as_default():
        model, step = gradient_methods.build(config, way, 64)
        peak = peak_memory.peak_bytes([step(), model.updates])
    return peak - sum(4 * each.shape.num_elements() for each in model.trainable_variables)


@pytest.mark.parametrize("bottleneck", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("units", [6, pytest.param(18, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("way", ["recomputed", "by hand"])
def test_recomputed_activations_do_not_grow_with_the_units(way, units, bottleneck):
    fields = {"bottleneck": True} if bottleneck else {}
    few, many = (activations(way, count, **fields) for count in (3, units))
    assert many < 1.03 * few


@pytest.mark.thorough
def test_a_tape_keeps_nothing_that_is_recomputed_eagerly():
    code = """
from examples.revnet.profiling import gradient_costs
widths = {"filters": [16, 16], "initial_filters": 16, "image_shape": [16, 16, 1]}
overrides = {"units": [6, 1], **widths}
case = {"preset": "digits", "overrides": overrides, "batch_size": 64, "engine": "eager"}
for way in ("stored", "recomputed"):
    print(gradient_costs._measured("memory", case, [way], 2)["activations_mb"])
"""
    result = programs.run("-c", code, env={"TF_CPU_ALLOCATOR_USE_BFC": "1"})
    assert result.returncode == 0, result.stderr
    stored, recomputed = map(float, result.stdout.split())
    assert recomputed < 0.6 * stored


def test_stored_units_take_memory():
    none, two = activations("by hand", 3, stored_units=0), activations("by hand", 3)
    assert none < two < activations("stored", 3)


# A unit of the second stage takes twice the memory of one of the third, and inputs of layers two
# thirds of it.
@pytest.mark.parametrize(
    ("stored_units", "units", "expected"),
    [
        (0, [3, 3, 3], [[0, 0, 0], [0, 0, 0]]),
        (1, [3, 3, 3], [[0, 0, 1], [0, 1, 2]]),
        (2, [3, 3, 3], [[0, 2, 2], [0, 2, 2]]),
        (9, [3, 3, 3], [[0, 2, 2], [0, 2, 2]]),
        (2, [3, 1, 3], [[0], [0, 2, 2]]),
        (1, [3, 4, 4], [[0, 0, 0, 0], [0, 2, 2, 2]]),
        (1, [3, 2, 6], [[0, 0], [0, 0, 1, 1, 1, 2]]),
        (2, [1, 6, 6], [[0, 0, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1]]),
    ],
)
def test_what_is_stored(stored_units, units, expected):
    config = preset("cifar110", units=units, stored_units=stored_units)
    assert stored_activations.plan(config) == [[stored_activations.NOTHING] * units[0], *expected]


def test_stored_activations_grow():
    """Else a figure that never changes would say nothing."""
    assert activations("stored", 6) > 1.7 * activations("stored", 3)  # Those of the stem do not.


def parsed(*argv):
    parser = argparse.ArgumentParser()
    memory.add_flags(parser)
    return parser.parse_args(argv)


@pytest.mark.thorough
def test_the_command_writes_a_record_for_each_network_and_way_and_a_plot(tmp_path, capsys):
    out = tmp_path / "memory.jsonl"
    flags = ["--preset", "digits", "--depth", "1", "--filters", "32", "--batch_size", "4"]
    assert memory.main(parsed(*flags, "--rounds", "2", "--out", str(out))) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["way"] for record in records] == list(gradient_costs.WAYS)
    for record in records:
        assert record["layers"] == 6
        for figure in ("activations_mb", "gradients_mb", "variables_mb", "peak_rss_mb"):
            assert record[figure] > 0
        assert record["step_ms"]["median"] > 0
        assert record["gradient_difference"] < 1e-4
        assert {"tf", "numpy", "python", "cpu", "cores", "load_average"} <= set(record)
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "| 6 | recomputed |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--out", "no/such/file"], "--out must be a file in a directory that is there, .* but is"),
        (["--out", "."], "--out must be a file in a directory that is there, .* but is '.'"),
        (["--out", "plot.png"], "--out must be .* no .png, which is the plot's, but is 'plot.png'"),
        (["--preset", "digits", "--filters", "7"], "`filters` must be .* but is"),
        (["--preset", "digits", "--image_size", "1"], "Images must have a pixel for every stride"),
    ],
)
def test_what_cannot_be_measured_is_told_before(flags, message):
    with pytest.raises(SettingsError, match=message):
        memory.main(parsed(*flags))
