"""Lines of the code that makes operations."""

import importlib
import os

import pytest
import tensorflow.compat.v1 as tf

from replicate.graphs import functions

MODULE = "import tensorflow.compat.v1 as tf\n\ndef make():\n    return tf.no_op()\n"


@pytest.mark.parametrize("folder", [b"caf\xc3\xa9", b"caf\xe9"], ids=["utf-8", "latin-1"])
def test_paths_that_are_not_utf_8_have_no_lines(folder, tmp_path, monkeypatch):
    """TensorFlow 2.15 ends the process (SIGSEGV) if it is asked for the traceback."""
    there = os.fsdecode(os.path.join(os.fsencode(str(tmp_path)), folder))
    os.mkdir(there)
    name = f"made_in_{len(folder)}"
    with open(os.path.join(there, f"{name}.py"), "w") as file:
        file.write(MODULE)
    monkeypatch.syspath_prepend(there)
    with tf.Graph().as_default():
        found = functions.line_of(importlib.import_module(name).make())
    is_utf_8 = len(folder) == len("café".encode())
    assert found == (os.path.join(there, f"{name}.py:4") if is_utf_8 else "unknown line")


def test_lines_in_a_directory_that_is_gone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.rmdir(tmp_path)
    with tf.Graph().as_default():
        assert functions.line_of(tf.no_op()).startswith(__file__)
