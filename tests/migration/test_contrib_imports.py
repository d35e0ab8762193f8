"""Findings about imports of `tf.contrib` agree with `replicate.compat.install()`."""

import pytest

from replicate.migration.scan import scan

UNUSED = "nothing in this file uses it. Delete the import, unless another file takes it from here."


@pytest.fixture
def scanned(tmp_path):
    def of(text, name="a.py"):
        (tmp_path / name).write_text(text)
        return [one for one in scan([str(tmp_path)]).findings if "contrib" in one.rule]

    return of


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("from tensorflow.contrib.image.python.ops import image_ops", "contrib-none"),
        ("from tensorflow.contrib import image as images", "contrib-none"),
        ("import tensorflow.contrib.image.python.ops.image_ops", "contrib-none"),
        ("import tensorflow.contrib.image.python.ops.image_ops as ops", "contrib-none"),
        ("from tensorflow.contrib.training import HParams", "contrib-name"),
        ("from tensorflow.contrib.training.python.training import hparam", "contrib-name"),
        ("from tensorflow.contrib.slim import conv2d", "contrib-package"),
    ],
)
def test_an_import_that_nothing_uses_may_go(scanned, line, rule):
    (found,) = scanned(f"{line}\nimport tensorflow.compat.v1 as tf\ntf.zeros([3])\n")
    assert (found.line, found.rule, found.message) == (1, rule, UNUSED)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from tensorflow.contrib.training import HParams\nHParams()\n", "a.py"),
        ("from tensorflow.contrib.training import HParams\n", "__init__.py"),
        ("from tensorflow.contrib.training import HParams\n__all__ = ['HParams']\n", "a.py"),
        ("from tensorflow.contrib.training import HParams\ndef f():\n  return HParams\n", "a.py"),
    ],
)
def test_an_import_that_something_uses_stays(scanned, text, name):
    (found,) = scanned(text, name)
    assert found.message == "`replicate.compat.install()` in the file that runs first brings it."


@pytest.mark.parametrize("module", ["image.python.ops.image_ops", "seq2seq.python.ops.helper"])
def test_modules_of_a_package_that_has_no_place_are_not_brought(scanned, module):
    package = module.split(".")[0]
    base, _, last = module.rpartition(".")
    (found,) = scanned(f"from tensorflow.contrib.{base} import {last}\nf({last})\n")
    assert (found.rule, found.message.split(":")[0]) == (
        "contrib-none",
        "Nothing replaces it in TensorFlow",
    )
    (found,) = scanned(f"from tensorflow.contrib.{base} import {last}\n{last}.x\n")
    assert found.rule == "contrib-none" and f"tf.contrib.{package}" in found.name


@pytest.mark.parametrize("name", ["gan.gan_loss", "gan.losses", "gan.losses.wargs"])
def test_what_needs_a_package_says_so(scanned, name):
    (found,) = scanned(f"import tensorflow.compat.v1 as tf\nf(tf.contrib.{name})\n")
    assert found.rule == "contrib-package"
    assert found.message.startswith("`tensorflow-gan` has it: `pip install")


def test_the_protocol_buffer_of_hyperparameters_is_none(scanned):
    path = "training.python.training"
    advice = "write hyperparameters as JSON, with `hparams.to_json()`"
    text = f"import tensorflow as tf\ntf.contrib.{path}.hparam_pb2.HParamDef()\n"
    (found,) = scanned(text)
    assert found.rule == "contrib-none" and advice in found.message
    text = f"from tensorflow.contrib.{path} import hparam_pb2\nhparam_pb2.HParamDef()\n"
    (found,) = scanned(text)
    assert (found.line, found.rule) == (2, "contrib-none") and advice in found.message
    text = f"from tensorflow.contrib.{path}.hparam_pb2 import HParamDef\nHParamDef()\n"
    assert advice in scanned(text)[0].message
