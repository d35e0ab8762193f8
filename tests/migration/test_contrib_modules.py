"""`tensorflow.contrib` on TensorFlow 2: how it is imported, what it has, and what it says else."""

import copy
import importlib
import importlib.util
import inspect
import os
import pickle
import pkgutil
import re
import sys
import threading
import types

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

import programs
import replicate
import versions
from replicate.migration import installation
from replicate.migration.contrib import modules, respelling

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(versions.IS_1, reason="TensorFlow 1.15 has the real one"),
]
# Processes find what this one was told to find.
PATH = {"PYTHONPATH": os.pathsep.join([str(programs.ROOT), os.environ.get("PYTHONPATH", "")])}

IMPORTS = [
    "import tensorflow.contrib",
    "import tensorflow.contrib as contrib",
    "import tensorflow.contrib.layers",
    "import tensorflow.contrib.layers as layers",
    "from tensorflow import contrib",
    "from tensorflow.contrib import layers, rnn as rnn_cells",
    "from tensorflow.contrib.layers import xavier_initializer",
    "from tensorflow.contrib.estimator import TowerOptimizer, replicate_model_fn",
    "from tensorflow.contrib.training import HParams",
    "from tensorflow.contrib.training.python.training import hparam",
    "from tensorflow.contrib.training.python.training.hparam import HParams",
    "from tensorflow.contrib.tpu.python.tpu import tpu_config, tpu_estimator, tpu_optimizer",
    "from tensorflow.contrib.layers.python.layers import initializers",
    "import tensorflow.contrib.layers.python.layers.initializers as i; i.xavier_initializer",
    "from tensorflow.contrib.framework import nest; nest.flatten",
    "from tensorflow.contrib.framework.python.framework import checkpoint_utils as c; "
    "c.load_variable",
    "from tensorflow.contrib.data.python.ops import batching; batching.map_and_batch",
    "from tensorflow.contrib.training import *; HParams",
    "from tensorflow.contrib import *; layers.l2_regularizer",
    "from tensorflow.contrib.compiler import xla; xla.compile",
]
OF_SLIM = [
    "import tensorflow.contrib.slim as slim; slim.conv2d",
    "from tensorflow.contrib import slim; slim.arg_scope",
    "from tensorflow.contrib.slim import learning; learning.create_train_op",
    "import tensorflow.contrib.slim.nets as nets; nets.vgg.vgg_16",
    "from tensorflow.contrib.slim.nets import vgg; vgg.vgg_16",
    "from tensorflow.contrib.slim.python.slim.nets import resnet_v1; resnet_v1.resnet_v1_50",
    "from tensorflow.contrib.framework import arg_scope",
    "from tensorflow.contrib.losses.python.metric_learning import metric_loss_ops as m; "
    "m.triplet_semihard_loss",
    "from tensorflow.contrib.framework.python.ops import add_arg_scope",
    "from tensorflow.contrib.framework.python.ops import variables; variables.model_variable",
    "from tensorflow.contrib.layers.python.layers import utils; utils.collect_named_outputs",
    "from tensorflow.contrib.layers.python.layers.layers import batch_norm, conv2d",
    "from tensorflow.contrib.slim import *; conv2d, losses.log_loss, metrics.streaming_mean",
    "from tensorflow.contrib.losses import metric_learning; metric_learning.npairs_loss",
]


@pytest.mark.parametrize("line", [*IMPORTS, *OF_SLIM])
def test_contrib_is_imported_in_every_way(line):
    exec(line, {})


@pytest.mark.parametrize("module", [tf2, tf], ids=["tensorflow", "tensorflow.compat.v1"])
def test_contrib_is_an_attribute(module):
    assert module.contrib is sys.modules["tensorflow.contrib"]
    assert module.contrib.estimator.TowerOptimizer is replicate.TowerOptimizer
    assert module.contrib.estimator.replicate_model_fn is replicate.replicate_model_fn
    assert module.contrib.tpu.RunConfig is tf.estimator.tpu.RunConfig
    assert module.contrib.data.AUTOTUNE == tf.data.experimental.AUTOTUNE
    assert module.contrib.rnn.python.ops.rnn_cell.GRUCell is tf.nn.rnn_cell.GRUCell


NO_CELL = (
    "tf.contrib.rnn.ConvLSTMCell has no exact replacement in TensorFlow 2. Nothing replaces it: "
    "derive your own cell from `tf.nn.rnn_cell.RNNCell`."
)
NO_NCCL = (
    "tf.contrib.nccl has no exact replacement in TensorFlow 2. Write `tf.distribute.NcclAllReduce`."
)
NO_MODULE = "No module named 'tensorflow.contrib.layers.l2_regularizer': it is no module, but "
REFUSED = {
    "from tensorflow.contrib.rnn import ConvLSTMCell": NO_CELL,
    "from tensorflow.contrib.rnn import LSTMCell, ConvLSTMCell": NO_CELL,
    "from tensorflow.contrib.rnn.python.ops.rnn_cell import ConvLSTMCell": NO_CELL,
    "import tensorflow.contrib.nccl": NO_NCCL,
    "import tensorflow.contrib.nccl as nccl": NO_NCCL,
    "from tensorflow.contrib import nccl": NO_NCCL,
    "from tensorflow.contrib.nccl import all_sum": NO_NCCL,
    "import tensorflow.contrib.layers.l2_regularizer": NO_MODULE,
    "from tensorflow.contrib import nosuch": "TensorFlow 1.15 has no tf.contrib.nosuch, either.",
}


@pytest.mark.parametrize("again", range(2))
def test_a_function_hides_the_module_of_its_name(again):
    names = {}
    exec("from tensorflow.contrib.framework.python.ops.arg_scope import add_arg_scope", names)
    exec("from tensorflow.contrib.framework.python.ops import arg_scope", names)
    exec("import tensorflow.contrib.framework.python.ops.arg_scope", names)
    assert names["arg_scope"] is tf2.contrib.framework.arg_scope
    assert names["add_arg_scope"] is tf2.contrib.framework.add_arg_scope
    assert callable(names["tensorflow"].contrib.framework.python.ops.arg_scope)


@pytest.mark.parametrize("line", REFUSED)
def test_an_import_without_a_place_says_what_to_write(line):
    for _ in range(2):  # The first time leaves nothing behind.
        with pytest.raises(ImportError, match=re.escape(REFUSED[line])):
            exec(line, {})
    assert tf2.contrib.rnn.LSTMCell is tf.nn.rnn_cell.LSTMCell


@pytest.mark.parametrize(
    "name,message", [("rnn.ConvLSTMCell", NO_CELL), ("nccl", NO_NCCL), ("nccl.all_sum", NO_NCCL)]
)
def test_an_attribute_without_a_place_says_what_to_write(name, message):
    with pytest.raises(AttributeError, match=re.escape(message)):
        eval(f"tf.contrib.{name}", {"tf": tf2})


def test_python_asks_contrib_without_errors():
    contrib = tf2.contrib
    assert not hasattr(contrib, "nccl") and not hasattr(contrib.rnn, "ConvLSTMCell")
    assert getattr(contrib.rnn, "ConvLSTMCell", 3) == 3
    assert not hasattr(contrib, "__wrapped__") and not hasattr(contrib.layers, "__file__")
    assert isinstance(contrib.layers, types.ModuleType)
    assert {"layers", "training", "__name__"} <= {*dir(contrib)} and "nccl" not in dir(contrib)
    assert {"HParams", "parse_values"} <= {*dir(contrib.training)}
    assert "create_train_op" in dir(contrib.training)
    assert list(pkgutil.iter_modules(contrib.__path__)) == []
    assert inspect.getmodule(contrib.training.HParams).__name__.startswith("replicate.")
    assert inspect.unwrap(contrib.layers) is contrib.layers
    assert importlib.util.find_spec("tensorflow.contrib.layers").name == "tensorflow.contrib.layers"
    with pytest.raises(TypeError, match="cannot pickle 'Contrib' object"):
        copy.copy(contrib)
    made = contrib.training.HParams(a=1)
    assert pickle.loads(pickle.dumps(made)).values() == copy.deepcopy(made).values() == {"a": 1}
    assert repr(contrib.layers).startswith("<module 'tensorflow.contrib.layers'")


def test_contrib_can_be_reloaded():
    layers = tf2.contrib.layers
    assert importlib.reload(layers) is layers
    assert importlib.reload(tf2.contrib) is tf2.contrib
    assert tf2.contrib.layers.l2_regularizer(0.0)(3) is None


def test_threads_see_the_same():
    sys.modules.pop("tensorflow.contrib.lookup", None)
    vars(tf2.contrib).pop("lookup", None)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(tf2.contrib.lookup.HashTable))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len({*found}) == 1


def test_a_second_install_changes_nothing():
    before = tf2.contrib, list(sys.meta_path), dict(vars(tf2.contrib))
    replicate.compat.install()
    assert (tf2.contrib, list(sys.meta_path), dict(vars(tf2.contrib))) == before


@pytest.fixture
def as_it_was():
    """Takes away what a test puts in the place of `tf.contrib`."""
    kept = {name: module for name, module in sys.modules.items() if modules.ROOT in name}
    yield
    for name in [name for name in sys.modules if modules.ROOT in name]:
        del sys.modules[name]
    sys.modules.update(kept)
    tf2.contrib = tf.contrib = kept[modules.ROOT]


def test_what_somebody_else_has_put_there_stays(as_it_was):
    for name in [name for name in sys.modules if modules.ROOT in name]:
        del sys.modules[name]
    tf2.contrib = theirs = types.ModuleType("theirs")
    theirs.layers = types.SimpleNamespace(xavier_initializer=3)
    theirs.mine = 4
    tf.contrib = None
    sys.modules[modules.ROOT] = types.ModuleType("others")
    sys.modules[modules.ROOT].theirs_too = 5
    replicate.compat.install()
    contrib = tf2.contrib
    assert contrib is tf.contrib is sys.modules[modules.ROOT]
    assert (contrib.mine, contrib.theirs_too, contrib.layers.xavier_initializer) == (4, 5, 3)
    assert contrib.layers.l2_regularizer(0.0)(3) is None
    from tensorflow.contrib.layers import xavier_initializer

    assert xavier_initializer == 3


FAILED_BEFORE = """
try:
    import tensorflow.contrib.layers
except ImportError as error:
    assert str(error) == "No module named 'tensorflow.contrib'", error
import replicate
replicate.compat.install()
import tensorflow.contrib.layers as layers
print(layers.l2_regularizer(0.0)(3))
"""


def test_contrib_can_be_imported_after_it_failed():
    done = programs.run("-W", "ignore", "-c", FAILED_BEFORE)
    assert (done.stdout, done.returncode) == ("None\n", 0), done.stderr


NOT_INSTALLED = """
import sys
sys.path[:] = [path for path in sys.path if "slim" not in path]
import importlib.abc
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tf_slim":
            raise ModuleNotFoundError(name, name="tf_slim")
import replicate
from replicate.migration.contrib import modules, respelling
modules._is_installed = lambda target: not target.startswith("tf_slim")
replicate.compat.install()
import tensorflow as tf
for line in [
    "tf.contrib.layers.conv2d", "import tensorflow.contrib.slim.nets",
    "from tensorflow.contrib.framework import arg_scope", "import tensorflow.contrib.slim as slim",
]:
    try:
        exec(line)
    except (AttributeError, ImportError) as error:
        print(type(error).__name__, error)
print(tf.contrib.layers.xavier_initializer.__name__)
from tensorflow.contrib.layers import *
"""
MISSING = (
    "tf.contrib.{} is {} now, in the package tf-slim, which is not installed. Run: pip install "
    '"replicate-estimator[contrib]"'
)


def test_a_package_that_is_not_installed_is_named():
    done = programs.run("-W", "ignore", "-c", NOT_INSTALLED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "AttributeError " + MISSING.format("layers.conv2d", "tf_slim.conv2d"),
        "ModuleNotFoundError " + MISSING.format("slim", "tf_slim"),
        "ModuleNotFoundError " + MISSING.format("framework.arg_scope", "tf_slim.arg_scope"),
        "ModuleNotFoundError " + MISSING.format("slim", "tf_slim"),
        "xavier_initializer",
    ]


def test_a_target_that_tensorflow_lacks_is_named(monkeypatch):
    place = modules.table.Place("data.gone", "alias", "tf.data.gone", "", "")
    monkeypatch.setattr(modules.table, "find", lambda name: place)
    message = f"tf.contrib.data.gone is tf.data.gone now, which TensorFlow {tf.__version__} cannot "
    with pytest.raises(AttributeError, match=re.escape(message)):
        modules.lookup("data.gone")


def test_arguments_in_another_order_go_by_name():
    def function(labels, predictions, weights=None):
        return labels, predictions, weights

    made = respelling.respelled(function, "streaming", "guesses=predictions labels weights")
    assert made(1, 2) == (2, 1, None)
    assert made(labels=2, guesses=1, weights=3) == made(1, 2, 3) == (2, 1, 3)


@pytest.mark.parametrize("given", ["mypackage", 3, (), ("a-b",), (3,), None], ids=repr)
def test_what_is_written_for_tensorflow_1_is_named_well(given):
    message = (
        "tensorflow_1 is True, False, or a tuple of names of installed packages that are written "
        f"for TensorFlow 1, such as ('mypackage',), got {given!r}."
    )
    with pytest.raises(TypeError, match=re.escape(message)):
        replicate.compat.install(tensorflow_1=given)
    assert installation._packages(False) is None
    assert installation._packages(True) == ()
    assert installation._packages(["a", "b"]) == ("a", "b")
