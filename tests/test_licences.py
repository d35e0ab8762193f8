"""Licences of what the library brings are known, and ask nobody to publish code."""

import importlib.metadata
import sys

import pytest

from tools import licences

# MPL-2.0 asks to publish changes of its own files only.
ALLOWED = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MPL-2.0", "PSF-2.0"}

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the table lists packages for Python 3.11"
)


class Declared:
    """A distribution as far as its licence is concerned."""

    def __init__(self, **fields):
        self.metadata = self
        self._fields = fields

    def get(self, name):
        return self._fields.get(name.replace("-", "_"))

    def get_all(self, name):
        return self.get(name)


def test_the_page_has_the_packages_and_licences_of_this_environment():
    assert licences.table() in licences.PAGE.read_text(encoding="utf-8")


def test_no_licence_asks_to_publish_code():
    found = {name: licences.licence(one) for name, one in licences.needed().items()}
    others = {name: each for name, each in found.items() if not ALLOWED & set(each.split(" OR "))}
    assert others == {}


def test_dependencies_of_dependencies_are_needed_and_extras_are_not():
    needed = licences.needed()
    assert {"tensorflow", "numpy", "protobuf", "tensorboard", "oauthlib"} <= set(needed)
    assert not {"pytest", "mypy", "matplotlib", "replicate-estimator"} & set(needed)
    assert needed["numpy"].version == importlib.metadata.version("numpy")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"License_Expression": "MIT OR Apache-2.0", "License": "x"}, "MIT OR Apache-2.0"),
        (
            {"Classifier": ["Framework :: IPython", f"{licences._CLASSIFIER}BSD License"]},
            "BSD-3-Clause",
        ),
        ({"License": "MIT License\n\nCopyright (c) somebody"}, "MIT"),
        ({"License": "Sold to you alone"}, "Sold to you alone"),
        ({}, ""),
    ],
)
def test_licences_are_read_where_packages_declare_them(fields, expected):
    assert licences.licence(Declared(**fields)) == expected
