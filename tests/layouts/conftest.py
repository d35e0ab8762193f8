"""Leaves what has not been timed on idle cores to `make test-thorough`."""

import pathlib

import pytest

_IN_EVERY_RUN = ("test_registry.py",)


def pytest_collection_modifyitems(items):
    """Marks the tests of this folder, but for those of some files."""
    for item in items:
        path = pathlib.Path(str(item.fspath))
        if path.parent == pathlib.Path(__file__).parent and path.name not in _IN_EVERY_RUN:
            item.add_marker(pytest.mark.thorough)
