"""Programs in four styles give the same on every TensorFlow, with another file that runs first."""

import functools
import itertools

import numpy as np
import pytest

import codebases
import environments
import runs_once
import selection

# The first test of a codebase waits for all of its runs.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tests/moving/test_programs.py")]

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}  # Relative to the largest entry.
KINDS = ("training", "evaluation", "weights", "predictions")
WAYS = [
    selection.cell(name, way, is_quick=codebase.is_quick)
    for name, codebase in codebases.CODEBASES.items()
    for way in codebase.ways
]


@pytest.fixture
def root(tmp_path_factory, name):
    """Where the codebase `name` has been run, once for all processes of pytest."""
    run = functools.partial(codebases.run_everywhere, name=name)
    return runs_once.folder(tmp_path_factory, f"programs-{name}", run)


def deviations(got, want):
    """Yields by how much arrays deviate that are more than rounding apart, of the largest entry."""
    assert sorted(got) == sorted(want) and got
    for name in want:
        one, other = np.asarray(got[name]), np.asarray(want[name])
        assert one.shape == other.shape and one.dtype == other.dtype, name
        if one.dtype.kind != "f":
            assert (one == other).all(), name
            continue
        largest = np.max(np.abs(other), initial=0)
        deviation = np.max(np.abs(one - other), initial=0) / max(largest, 1e-30)
        if deviation > TOLERANCE[str(other.dtype)]:
            yield name, float(deviation)


@pytest.mark.parametrize("version", codebases.WANTED)
def test_on_every_tensorflow(version):
    if version not in environments.PYTHONS:
        pytest.skip(f"*** NOT RUN on TensorFlow {version}: its environment is not beside this one")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("devices", codebases.DEVICES)
@pytest.mark.parametrize(("name", "way"), WAYS)
@pytest.mark.parametrize("version", codebases.VERSIONS)
def test_a_program_gives_the_same_everywhere(root, version, name, way, devices, kind):
    got = codebases.found(root, version, name, way, devices)[kind]
    want = codebases.found(root, codebases.OLDEST, name, way, devices)[kind]
    # Events have float32 alone, whatever was computed; they are rounded to it, and kept as float64.
    if kind in ("training", "evaluation"):
        got, want = ({key: np.float32(value) for key, value in x.items()} for x in (got, want))
    assert list(deviations(got, want)) == []


@pytest.mark.parametrize(("name", "way"), WAYS)
@pytest.mark.parametrize("version", codebases.VERSIONS)
def test_towers_give_what_one_device_does(root, version, name, way):
    one, towers = (
        codebases.found(root, version, name, way, devices) for devices in codebases.DEVICES
    )
    for found in (one, towers):  # Summaries of rows are tower 0's.
        found["training"] = {
            key: np.float32(value)
            for key, value in found["training"].items()
            if key.startswith("loss ")
        }
        found["evaluation"] = {key: np.float32(x) for key, x in found["evaluation"].items()}
    differing = [kind for kind in KINDS if list(deviations(towers[kind], one[kind]))]
    if way in codebases.CODEBASES[name].differs_on_towers:
        assert "weights" in differing
    else:
        assert differing == []


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_programs_train(root, name, way):
    losses = [
        value
        for key, value in codebases.found(root, codebases.OLDEST, name, way, "one")[
            "training"
        ].items()
        if key.startswith("loss ")
    ]
    assert len(losses) >= 6 and np.ptp(losses) > 0.05


@pytest.mark.skipif("1.15" not in environments.PYTHONS, reason="TensorFlow 1.15 is not here")
def test_the_first_runs_are_without_this_library(tmp_path):
    """All runs are compared with TensorFlow 1.15 alone, on one device."""
    plans = [codebases.of_version(tmp_path, "1.15", name) for name in codebases.CODEBASES]
    for plan in itertools.chain(*plans):
        assert plan["is_moved"] == ("--num_gpus=2" in plan["flags"])
    for path in (codebases.FOLDER / "styles").rglob("*.py"):
        assert "replicate." not in path.read_text().replace("replicate.py", "")


@pytest.mark.parametrize("change", [lambda x: x * (1 + 1e-4), lambda x: x + [0, 1e-3]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_deviations_are_found(dtype, change):
    want = {"a": np.array([1.0, 10.0], dtype), "b": np.int64(3)}
    assert list(deviations(want, want)) == []
    assert [n for n, _ in deviations({**want, "a": change(want["a"]).astype(dtype)}, want)] == ["a"]


@pytest.mark.parametrize("got", [{}, {"b": np.int64(4)}, {"b": np.float32(3)}, {"a": 1, "b": 3}])
def test_other_names_types_and_counts_are_errors(got):
    with pytest.raises(AssertionError):
        list(deviations(got, {"b": np.int64(3)}))
