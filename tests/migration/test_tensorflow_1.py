"""`install(tensorflow_1=True)`: files that mean TensorFlow 1, beside libraries that do not."""

import os
import pathlib
import shutil
import sys
import types

import pytest

import programs
import versions
from replicate.migration import callers

pytestmark = pytest.mark.conformance
not_on_1 = pytest.mark.skipif(versions.IS_1, reason="it changes nothing on TensorFlow 1.15")
HERE = pathlib.Path(__file__).parent


def run(program, tmp_path, *folders, install="tensorflow_1=True", before=""):
    """Runs a program after `install`; returns what it prints, by lines, and its errors.

    It also imports from `folders`, and does `before` first.
    """
    file = tmp_path / "program.py"
    file.write_text(f"{before}\nimport replicate\nreplicate.compat.install({install})\n{program}")
    paths = [programs.ROOT, tmp_path, *folders, os.environ.get("PYTHONPATH", "")]
    done = programs.run(
        *("-W", "ignore", str(file)), env={"PYTHONPATH": os.pathsep.join(map(str, paths))}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


CODEBASE = """
import tensorflow as tf
import contrib_codebase as code

session = replicate.session_config({devices})
config = tf.estimator.RunConfig({model_dir!r}, tf_random_seed=1, session_config=session)
params = code.DEFAULTS.parse("rate=0.2")
estimator = tf.estimator.Estimator(code.replicated({devices}), params=params, config=config)
estimator.train(code.input_fn)
for name in estimator.get_variable_names():
    print(name, [round(float(v), 4) for v in estimator.get_variable_value(name).flatten()][:3])
for name, value in sorted(estimator.evaluate(code.input_fn).items()):
    print(name, round(float(value), 3))
"""
# Results of TensorFlow 1.15.5 with its `tf.contrib`, on one device.
TRAINED = [
    "dense_1/bias [0.565, 0.565]",
    "dense_1/kernel [-0.0247, -0.0247, 0.0113]",
    "global_step [8.0]",
    "model/dense/bias [-0.0, -0.0001, -0.0]",
    "model/dense/kernel [-0.1733, 0.662, -0.8232]",
    "model/rnn/basic_lstm_cell/bias [0.0004, 0.0001, -0.0043]",
    "model/rnn/basic_lstm_cell/kernel [0.4108, 0.4446, 0.3327]",
    "model/words [-0.9738, -1.0545, -0.9403]",
    "global_step 8.0",
    "loss 144.033",
    "mae 9.911",
]


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param(["/cpu:0"], marks=pytest.mark.thorough, id="1"),
        pytest.param(["/cpu:0", "/cpu:1"], id="2"),
    ],
)
def test_a_codebase_in_every_style_runs_unchanged(tmp_path, devices):
    """Also on TensorFlow 1.15.5 itself."""
    shutil.copytree(HERE / "contrib_codebase", tmp_path / "contrib_codebase")
    program = CODEBASE.format(model_dir=str(tmp_path / "model"), devices=devices)
    install = "replace_ancestor=True, tensorflow_1=True"
    assert run(program, tmp_path, install=install)[0] == TRAINED


LIBRARY = """
import tensorflow as tf
tf.named_by_the_program = 3
import installed_library
print(installed_library.answers())
print(hasattr(tf, "placeholder"), tf.named_by_the_program, hasattr(tf.metrics, "mean_iou"))
"""
OF_2 = {
    "has placeholder": False,
    "names": False,
    "metrics": False,
    "keras": True,
    "layers": True,
    "is of 1": False,
    "named": None,
}
OF_1 = {
    "has placeholder": True,
    "names": True,
    "metrics": True,
    "keras": True,
    "layers": True,
    "is of 1": True,
    "named": 3,
}
KINDS = {
    "of the program": ("", None, (), OF_1),
    "in site-packages": ("site-packages", None, (), OF_2),
    "in dist-packages": ("dist-packages", None, (), OF_2),
    "in a target": ("target", "other-1.0.dist-info", (), OF_2),
    "developed": ("source", "other.egg-info", (), OF_1),
    "named": ("site-packages", None, ("installed_library",), OF_1),
    "another named": ("site-packages", None, ("another",), OF_2),
}


def placed(kind, tmp_path):
    """Copies the library into a folder for files of a kind; returns the folder."""
    folder, beside, _, _ = KINDS[kind]
    place = tmp_path / "env" / folder
    place.mkdir(parents=True)
    if beside:
        (place / beside).mkdir()
    shutil.copy(HERE / "contrib_codebase" / "library.py", place / "installed_library.py")
    return place


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_programs_or_a_librarys(tmp_path, kind, monkeypatch):
    place, (_, _, named, want) = placed(kind, tmp_path), KINDS[kind]
    monkeypatch.setattr(sys, "path", [*sys.path, str(place)])
    monkeypatch.setattr(callers, "_packages", {*named})
    module = types.ModuleType("installed_library")
    module.__file__ = str(place / "installed_library.py")
    assert callers.is_program_module(module) == (want is OF_1)


@not_on_1
@pytest.mark.parametrize("kind", ["of the program", "in site-packages", "named"])
def test_a_file_sees_the_api_that_it_means(tmp_path, kind):
    _, _, named, want = KINDS[kind]
    install = f"tensorflow_1={named or True}"
    found, _ = run(LIBRARY, tmp_path, placed(kind, tmp_path), install=install)
    assert found == [str(want), "True 3 True"]


ASKED = """
import copy, importlib, inspect, pickle, sys, threading, types
from unittest import mock
import tensorflow as tf
import tensorflow.compat.v1 as v1
import tensorflow.keras.layers as keras_layers
from tensorflow import keras
from tensorflow.keras.applications import vgg16
from tensorflow.keras.applications.vgg16 import VGG16
import tensorflow.layers, tensorflow.logging, tensorflow.nn.rnn_cell

assert isinstance(tf, types.ModuleType) and sys.modules["tensorflow"] is tf
assert tf.__name__ == "tensorflow" and tf.__version__ == v1.__version__
assert tf.compat.v1 is v1 and tf.compat.v2.__name__
names = {}
exec("from tensorflow import *", names)
assert tf.placeholder is v1.placeholder is names["placeholder"] is vars(tf)["placeholder"]
assert "placeholder" in dir(tf) and "contrib" in dir(tf)
assert not tf.executing_eagerly() and not tf.resource_variables_enabled()
assert tf.python.ops.array_ops is importlib.import_module("tensorflow.python.ops.array_ops")
assert importlib.util.find_spec("tensorflow") and importlib.util.find_spec("tensorflow.layers")
assert tensorflow.layers.dense is tf.layers.dense
assert tensorflow.nn.rnn_cell.GRUCell is tf.nn.rnn_cell.GRUCell

# Keras is that of version 1, however it is imported.
assert keras_layers.BatchNormalization is v1.keras.layers.BatchNormalization
assert keras.optimizers.Adam is v1.keras.optimizers.Adam
assert vgg16.VGG16 is VGG16 is v1.keras.applications.vgg16.VGG16
assert isinstance(keras.layers.Dense(1), v1.keras.layers.Layer)

# The file sees attributes that are set or patched, and they are restored afterwards.
real = tf.placeholder
for patch in (mock.patch("tensorflow.placeholder", 3), mock.patch.object(tf, "placeholder", 3)):
    with patch:
        assert tf.placeholder == 3
    assert tf.placeholder is real
with mock.patch("tensorflow.keras.layers.Dense") as dense:
    assert keras_layers.Dense is dense
tf.mine = 3
assert tf.mine == 3
del tf.mine
assert not hasattr(tf, "mine") and getattr(tf, "mine", 4) == 4

# Python's own questions.
assert importlib.reload(tf) is tf
assert pickle.loads(pickle.dumps(tf.float32)) is tf.float32
assert pickle.loads(pickle.dumps(tf.TensorShape([1]))) == [1]
assert inspect.getmodule(tf.placeholder).__name__.startswith("tensorflow.")
assert inspect.ismodule(tf) and repr(tf)
seen = []
thread = threading.Thread(target=lambda: seen.append(tf.placeholder))
thread.start(), thread.join()
assert seen == [real]
assert list(map(getattr, [tf], ["placeholder"])) == [real]
try:
    tf.nosuch
except AttributeError as error:
    print(error)
try:
    import tensorflow.nosuch
except ImportError as error:
    print(error)

# A function that AutoGraph converts.
@tf.function
def doubled(x):
    if tf.reduce_sum(x) > 0:
        x = tf.to_float(x) * 2
    return x
with tf.Session() as session:
    print(session.run(doubled(tf.constant([3.0]))))
"""


@not_on_1
def test_python_asks_tensorflow_without_errors(tmp_path):
    found, errors = run(ASKED, tmp_path)
    assert found[0].endswith("has no attribute 'nosuch'")
    assert found[1:] == ["No module named 'tensorflow.nosuch'", "[6.]"]
    assert "replicate:" not in errors


@not_on_1
def test_it_can_be_asked_again_and_for_more(tmp_path):
    place = tmp_path / "site-packages"
    place.mkdir()
    shutil.copy(HERE / "contrib_codebase" / "library.py", place / "installed_library.py")
    again = (
        "import sys, tensorflow\nreplicate.compat.install()\n"
        "replicate.compat.install(tensorflow_1=True)\nprint(len(sys.meta_path))\n"
        "replicate.compat.install(tensorflow_1=('installed_library',))\nprint(len(sys.meta_path))\n"
    )
    found, _ = run(again + LIBRARY, tmp_path, place)
    assert found[0] == found[1]
    assert found[2:] == [str(OF_1), "True 3 True"]


EARLY = """
import tensorflow as tf
import before_it
tf.constant(3) + 4
"""


@not_on_1
def test_what_was_before_it_is_named(tmp_path):
    (tmp_path / "before_it.py").write_text("import tensorflow as tf\n")
    _, errors = run("", tmp_path, before=EARLY)
    lines = [line[line.index("replicate:") :] for line in errors.splitlines() if "cate:" in line]
    assert lines == [
        "replicate: __main__, before_it imported TensorFlow before "
        "replicate.compat.install(tensorflow_1=True), and go on with version 2's names. Call it "
        "first.",
        "replicate: TensorFlow ran eagerly before replicate.compat.install(tensorflow_1=True), "
        "which turns eager mode off: eager tensors and variables cannot be used in a graph. "
        "Call it first.",
    ]


@not_on_1
def test_without_it_tensorflow_is_what_it_was(tmp_path):
    program = "import tensorflow as tf\nprint(type(tf).__name__, hasattr(tf, 'placeholder'))"
    assert run(program, tmp_path, install="")[0] == ["module False"]


def test_it_changes_nothing_on_tensorflow_1(tmp_path):
    program = "import tensorflow as tf\nprint(type(tf).__module__.split('.')[0], tf.contrib.layers)"
    found, _ = run(program, tmp_path)
    assert ("replicate" in found[0]) != versions.IS_1
