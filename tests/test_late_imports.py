"""The library imports TensorFlow when a name that needs it is first asked for, and not before."""

import ast
import pathlib

import pytest

import programs
import replicate

TRAP = "import tensorflow as tf\ntf.placeholder(tf.contrib.seq2seq.BahdanauAttention)\n"
# Code that needs no TensorFlow; each runs in a process in which importing it is an error.
WITHOUT = {
    "import replicate": "",
    "dir": "assert {*replicate.__all__} <= {*dir(replicate)}",
    "the table of tf.contrib": "import replicate.migration.contrib as c; c.find('layers.conv2d')",
    "its former path": "from replicate.compat.contrib import find; find('layers.conv2d')",
    "a name that is none": "assert not hasattr(replicate, 'no_such_name')",
}
START = "import sys; sys.modules['tensorflow'] = sys.modules['numpy'] = None; import replicate; "


@pytest.mark.parametrize("name", WITHOUT)
def test_what_needs_no_tensorflow(name):
    done = programs.run("-c", START + WITHOUT[name])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["scan", "."], 1, "tf.contrib.seq2seq.BahdanauAttention"),
        (["scan", ".", "--fix", "--force"], 1, "+import tensorflow.compat.v1 as tf"),
        (["scan", "--help"], 0, "usage: python -m replicate scan"),
        (["--help"], 0, "usage: python -m replicate"),
    ],
)
def test_commands_that_need_no_tensorflow(words, status, said, tmp_path):
    (tmp_path / "a.py").write_text(TRAP)
    words = [str(tmp_path) if word == "." else word for word in words]
    code = f"import runpy; sys.argv[1:] = {words!r}; "
    done = programs.run("-c", START + code + "runpy.run_module('replicate', None, '__main__')")
    assert (done.returncode, done.stderr) == (status, "")
    assert said in done.stdout


def test_type_checkers_are_told_of_the_same_names():
    tree = ast.parse(pathlib.Path(replicate.__file__).read_text())
    told = next(node for node in tree.body if isinstance(node, ast.If))
    found = {}
    for node in told.body:
        for alias in node.names:
            found[alias.name] = node.module.partition(".")[2]
    found["estimator"] = "compat.estimator"
    assert found == replicate._MODULES
    assert {*found} | {"__version__", "compat"} == {*replicate.__all__}


def test_a_name_that_is_none_is_an_error_of_the_module():
    with pytest.raises(AttributeError, match="module 'replicate' has no attribute 'no_such_name'"):
        replicate.no_such_name  # noqa: B018
