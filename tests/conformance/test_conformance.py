"""Model functions of every make train on N towers as on one device; see `conformance/`."""

import functools
import inspect

import numpy as np
import pytest

import selection
from conformance import canned, exporting, harness, program
from contract import models

# Warnings about the rows' code are expected.
pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]


def cells():
    """Over 3 towers shards are uneven in both batches; 2 show what 3 do."""
    for name in models.rows("program"):
        for num_towers in (2, 3):
            is_quick = num_towers == 3 and name not in models.rows("program", "thorough")
            yield selection.cell(name, num_towers, is_quick=is_quick)


@pytest.fixture(autouse=True)
def variables_of_row(request):
    """Lets a row that needs them have resource variables."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    if name in models.rows("resources"):
        request.getfixturevalue("resource_variables")


@pytest.fixture(autouse=True)
def graph_optimizer(request, monkeypatch):
    """With `--unoptimized`, sessions run the graphs as they were built."""
    monkeypatch.setattr(harness, "OPTIMIZED", not request.config.getoption("--unoptimized"))


@pytest.mark.parametrize(("name", "num_towers"), list(cells()))
def test_towers_train_as_one_device(name, num_towers):
    worst = harness.compare(name, num_towers)[0]
    assert worst.passes, worst


@pytest.mark.thorough  # `reduction/test_gather.py` trains models with replicated variables.
@pytest.mark.parametrize("name", models.rows("program"))
def test_replicas_train_as_one_device(name):
    worst = harness.compare(name, 3, "replicated")[0]
    assert worst.passes, worst


def test_most_rows_are_compared_as_users_compare_theirs():
    others = [name for name in models.rows("program") if not program.is_plain(program.load(name))]
    assert others == list(models.rows("own"))


@pytest.mark.parametrize("name", ["ema_restore", "gan_hooks"])
def test_another_model_would_be_seen(name, monkeypatch):
    """A row that the library compares, and one that the harness runs by itself."""
    row = program.load(name)

    def make_other():
        model_fn = (row.make_original or row.make_model_fn)()

        @functools.wraps(model_fn)
        def other_model_fn(*args, **kwargs):
            spec = model_fn(*args, **kwargs)
            return spec if spec.loss is None else spec._replace(loss=spec.loss * 1.001)

        other_model_fn.__signature__ = inspect.signature(model_fn)  # The Estimator looks at it.
        return other_model_fn

    monkeypatch.setattr(program, "load", lambda _: row._replace(make_original=make_other))
    harness._run.cache_clear()
    worst = harness.compare(name, 2)[0]
    harness._run.cache_clear()
    assert not worst.passes


@pytest.mark.parametrize(
    "name",  # Of canned Estimators see below.
    [
        selection.cell(name, is_quick=name in models.rows("unwrapped"))
        for name in models.rows("program")
    ],
)
def test_one_line_is_enough(name):
    worst = harness.compare(name, 2, one_line=True)[0]
    assert worst.value <= worst.tolerance, worst.what


# A cell of each kind that rows above do not have: an Estimator, and a way to say its optimizer.
FIRST = ("v1-LinearEstimator-instance", "v2-BaselineEstimator-default")  # CI runs these.
TELLING = (
    *FIRST,
    "v1-DNNRegressor-RMSProp",
    "v1-BaselineRegressor-decay",
    "v2-DNNEstimator-schedule",
)


def canned_cells():
    """Every fourth of the others is tested, shifted by one from Estimator to Estimator."""
    for version, ways in canned.OPTIMIZERS.items():
        names = [name for name, versions in canned.ESTIMATORS if version in versions]
        for row, name in enumerate(names):
            for column, way in enumerate(ways):
                cell = f"{version}-{name}-{way}"
                if cell in TELLING or selection.on_diagonal(row, column, 4):
                    yield selection.cell(f"canned:{cell}", is_quick=cell in FIRST, id=cell)


@pytest.mark.parametrize("name", list(canned_cells()))
def test_canned_estimators_train_as_one_device(name):
    worst = harness.compare(name, 3, one_line=True)[0]
    assert worst.passes, worst


def test_all_ways_to_say_an_optimizer_are_tried():
    cells = [cell.values[0].split(":")[1] for cell in canned_cells()]
    for version, ways in canned.OPTIMIZERS.items():
        found = [cell.split("-")[1:] for cell in cells if cell.startswith(version)]
        assert {way for _, way in found} == set(ways)
        assert {name for name, _ in found} == {
            name for name, versions in canned.ESTIMATORS if version in versions
        }


def exports():
    """Every row, and every canned Estimator, in which an optimizer makes no difference."""
    quick = models.rows("exported")
    yield from (
        selection.cell(name, is_quick=name in quick, id=name) for name in models.rows("program")
    )
    for name, versions_of_it in canned.ESTIMATORS:
        for version in versions_of_it.split():
            cell = f"canned:{version}-{name}-instance"
            yield selection.cell(cell, is_quick=f"{version}-{name}" in EXPORTED_CANNED, id=cell)


EXPORTED_CANNED = ("v1-DNNEstimator", "v2-BaselineClassifier")


@pytest.mark.parametrize("name", list(exports()))
def test_towers_export_what_one_device_does(name):
    towers, one = exporting.by_both(name)
    assert sorted(towers.served) == sorted(one.served) != []
    for key, array in towers.served.items():
        np.testing.assert_array_equal(array, one.served[key], str(key))
        assert len(array) == key[0]  # As many rows as were asked for.
    assert towers.devices == one.devices
    assert towers.words == ()


def test_another_export_would_be_seen(monkeypatch):
    row = program.load("head_api")

    def make_other():
        model_fn = row.make_model_fn()

        def other_model_fn(features, labels, mode, config):
            return model_fn({"x": features["x"] * 1.001}, labels, mode, config)

        return other_model_fn

    monkeypatch.setattr(program, "load", lambda _: row._replace(make_original=make_other))
    towers, one = exporting.by_both("head_api")
    assert sorted(towers.served) == sorted(one.served)
    key = 5, "predict", "size/predictions"
    assert not np.allclose(towers.served[key], one.served[key], rtol=1e-4)
