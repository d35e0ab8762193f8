"""Losses of every kind, of rows and of what a batch has in common, are as on one device."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from partition import batch_losses, harness, model_inputs, pair_losses, row_losses, tables
from partition.model_inputs import CASES, UNKNOWN, UNKNOWN_FIRST

# TensorFlow 1.15, on one device, too: of gathered rows whose number the graph does not know.
pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")
ROWS = tables.of_losses(row_losses.LOSSES)
BATCHES = tables.of_losses({**batch_losses.LOSSES, **pair_losses.LOSSES})
LOOPS = tables.of_losses_in_old_control_flow(
    {loss.__name__: loss for loss in (row_losses.while_loop, row_losses.cond, row_losses.map_fn)}
)
# More than Python's limit of recursion.
MANY = tables.of_losses({"many": row_losses.many_terms(1200)})
TRAINED = [
    pytest.param(table, name, id=f"{kind}-{name}")
    for kind, table in {"rows": ROWS, "batch": BATCHES, "tensorflow_1": LOOPS}.items()
    for name in table.models
]


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("table, name", TRAINED)
def test_losses_are_trained(table, name, num_towers, batches):
    table.check_training(name, batches, num_towers)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
def test_a_loss_of_many_terms(num_towers, batches):
    MANY.check_training("many", batches, num_towers)


@pytest.mark.thorough
@pytest.mark.parametrize("name", BATCHES.models)
def test_losses_of_a_batch_are_evaluated(name):
    BATCHES.check_applied(name, UNKNOWN, 3)


def _masked(features, labels, mode, params):
    """A model whose loss has a mask that is drawn row by row, which is looked at."""
    h = model_inputs.hidden(features["x"])
    kept = tf.cast(tf.random.uniform(tf.shape(h), dtype=model_inputs.F64) < 0.5, model_inputs.F64)
    loss = tf.reduce_mean((kept * h - labels["y"]) ** 2) + tf.reduce_max(kept[:, 0])
    return tables.spec_of(mode, {"h": h, "kept": kept, "y": labels["y"]}, loss, params)


@pytest.mark.parametrize("num_towers, batches", CASES)
def test_all_take_the_random_numbers_that_are_seen(num_towers, batches):
    """Towers draw those of their rows; the loss takes the ones that predictions show."""
    for step in harness.trained(_masked, batches, num_towers).steps:
        kept = step["kept"]
        loss = np.mean((kept * step["h"] - step["y"]) ** 2) + np.max(kept[:, 0])
        np.testing.assert_allclose(step["loss"], loss, rtol=1e-12)
        assert len(kept) == 1 or 0 < np.mean(kept) < 1
        assert len(kept) == 1 or np.any(kept[:4] != kept[-4:]), "towers draw the same numbers"
