"""Model functions of every make train on N towers as on one device; see `conformance/`."""

import pytest

from conformance import harness

# What people's code makes TensorFlow warn of is not at issue here.
pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("num_towers", [2, 3])
@pytest.mark.parametrize("name", harness.ROWS)
def test_towers_train_as_one_device(name, num_towers):
    worst = harness.compare(name, num_towers)[0]
    assert worst.value <= worst.tolerance, worst.what
