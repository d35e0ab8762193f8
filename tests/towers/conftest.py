"""What tests of towers share."""

import pytest

from replicate.towers import placement


@pytest.fixture
def as_gpus(monkeypatch):
    """Lets logical CPU devices be taken for GPUs, which have memory of their own.

    No model is small for them.
    """
    monkeypatch.setattr(placement, "OF_HOST", ())
    monkeypatch.setattr(placement, "SMALL", 0)
