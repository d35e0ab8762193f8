"""One model function, every engine: the same weights as on one device."""

import pytest
import tensorflow.compat.v1 as tf

import selection
from engines import harness

pytestmark = pytest.mark.conformance

# These take longer than all the others. `search_step` is a small search, and tests of the example
# train `architecture_search` over towers.
LARGE = {"reversible": "towers_3", "architecture_search": None}


def table():
    """Yields a cell for each model and engine, of which every third always runs.

    Of a large model, one engine runs at most.
    """
    engines = [engine for engine in harness.ENGINES if engine != "one_device"]
    for row, model in enumerate(harness.MODELS):
        for column, engine in enumerate(engines):
            if harness.reference(model, engine):
                is_quick = selection.on_diagonal(row, column, 3)
                if model in LARGE:
                    is_quick = engine == LARGE[model]
                yield selection.cell(model, engine, is_quick=is_quick, id=f"{model}-{engine}")


TRAINED = [name for name, row in harness.MODELS.items() if row.tpu_sums]


@pytest.mark.parametrize("model, engine", list(table()))
def test_weights_are_those_of_one_device(model, engine):
    got, want = harness.run(model, engine), harness.run(model, harness.reference(model, engine))
    row = harness.MODELS[model]
    assert harness.deviation(got, want, row.rounding) <= row.rtol


@pytest.mark.parametrize("model", TRAINED)
def test_every_weight_is_trained(model):
    """Else equal weights would say nothing."""
    run = harness.run(model, "one_device")
    start = tf.train.load_checkpoint(harness.start(model))
    for name, value in run.variables.items():
        assert (value != start.get_tensor(name)).any(), name


@pytest.mark.parametrize("model", TRAINED)
def test_the_graph_for_tpus_has_these_sums(model):
    assert harness.tpu_graph(model) == harness.MODELS[model].tpu_sums
