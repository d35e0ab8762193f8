"""Models as their authors publish them train, evaluate and predict in towers as on one device."""

import pytest

import selection
from partition import (
    harness,
    published_canned,
    published_columns,
    published_crf,
    published_losses,
    published_ragged,
    published_recommenders,
    published_sequences,
    published_training,
    tables,
)
from partition.published_inputs import CASES, UNKNOWN

pytestmark = [
    pytest.mark.filterwarnings("ignore:`tf.nn.rnn_cell:UserWarning"),
    pytest.mark.filterwarnings("ignore:`layer.a:UserWarning"),  # Linear columns call it.
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning"),
]
# Columns use float32, and so do all tensors computed from them.
COLUMNS = tables.Table(published_columns.MODELS, 1e-5, batch_norm="batch")
TABLES = {
    "sequences": tables.Table(published_sequences.MODELS),
    # The kernel of this loss rounds its gradient to float32, also for float64: if the input differs
    # by 1e-15, the gradient may by 6e-8.
    "speech": tables.Table(published_sequences.SPEECH, 1e-6),
    "crf": tables.Table(published_crf.MODELS),
    "losses": tables.Table(published_losses.MODELS),
    "recommenders": tables.Table(published_recommenders.MODELS),
    "training": tables.Table(published_training.MODELS),
    "random": tables.Table(published_training.RANDOM, random="batch"),
    "columns": COLUMNS,
    "parsed": tables.Table(published_columns.PARSED, 1e-5),
    "ragged": tables.Table(published_ragged.MODELS),
}
MODELS = [
    pytest.param(table, name, id=f"{kind}-{name}")
    for kind, table in TABLES.items()
    for name in table.models
]
NEW = {"sequences": published_sequences, "crf": published_crf, "training": published_training}
IN_NEW_CONTROL_FLOW = [
    pytest.param(
        tables.Table(
            {name: tables.of_new_control_flow(model)},
            1e-6 if name in published_sequences.SPEECH else 1e-9,
        ),
        name,
        id=name,
    )
    for module in NEW.values()
    for name, model in module.PLAIN.items()
]


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("table, name", MODELS)
def test_published_models_are_trained(table, name, num_towers, batches):
    table.check_training(name, batches, num_towers)


@pytest.mark.parametrize(
    "num_towers, batches",
    [selection.cell(*CASES[0].values, id="3-unknown", is_quick=False), *CASES[1:2]],
)
@pytest.mark.parametrize("table, name", MODELS)
def test_published_models_are_applied(table, name, num_towers, batches):
    table.check_applied(name, batches, num_towers)


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("name", published_canned.MODELS)
def test_canned_estimators_of_sparse_rows(name, num_towers, batches):
    model_fn = published_canned.MODELS[name]
    records = [harness.trained(model_fn, batches, number) for number in (num_towers, 1)]
    harness.assert_trains(records[1]._replace(steps=[]))  # Predictions may be strings.
    harness.assert_same(*records, 1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("table, name", IN_NEW_CONTROL_FLOW)
def test_published_models_of_new_control_flow_are_trained(table, name):
    table.check_training(name, UNKNOWN, 3)
