"""Fixtures of the tests of towers."""

import pytest

from replicate.partition import placement


@pytest.fixture
def as_gpus(monkeypatch):
    """Lets logical CPU devices count as GPUs, which have memory of their own."""
    monkeypatch.setattr(placement, "_type_of", lambda device: "GPU")
