"""Networks of layers are trained, evaluated and asked in towers as on one device."""

import pytest

from partition import layer_models, sequence_models, tables
from partition.model_inputs import UNKNOWN_FIRST

pytestmark = pytest.mark.filterwarnings("ignore:`tf.nn.rnn_cell:UserWarning")
LAYERS = tables.Table(
    {name: layer_models.model_of(network) for name, network in layer_models.NETWORKS.items()}
)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", layer_models.NETWORKS)
def test_layers_are_trained(name, num_towers, batches):
    LAYERS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", layer_models.NETWORKS)
@pytest.mark.thorough
def test_layers_are_evaluated(name, num_towers, batches):
    LAYERS.check_applied(name, batches, num_towers)


SEQUENCES = tables.Table(
    {name: layer_models.model_of(network) for name, network in sequence_models.NETWORKS.items()}
)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", sequence_models.NETWORKS)
def test_sequences_are_trained(name, num_towers, batches):
    SEQUENCES.check_training(name, batches, num_towers)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", sequence_models.NETWORKS)
@pytest.mark.thorough
def test_sequences_are_evaluated(name, num_towers, batches):
    SEQUENCES.check_applied(name, batches, num_towers)
