"""Lets tests import this checkout and their shared modules, and keeps TensorFlow quiet."""

import os
import pathlib
import random
import sys
import warnings as python_warnings
from importlib import util

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Convolutions of channels first have kernels of oneDNN alone, which TensorFlow does not take by
# itself on every processor.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

_TESTS = pathlib.Path(__file__).resolve().parent
# At the end: an installed `replicate` comes first, and so does what `PYTHONPATH` names.
for directory in (_TESTS, _TESTS.parent):
    if str(directory) not in sys.path:
        sys.path.append(str(directory))

# TensorFlow reads it when it is imported. Before 2.16 it has Keras 2 of its own.
if util.find_spec("tf_keras"):
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import pytest  # noqa: E402  # TensorFlow reads the environment when it is imported.

with python_warnings.catch_warnings():  # Which turn into errors; these are TensorFlow 1.15's own.
    python_warnings.simplefilter("ignore")
    import tensorflow.compat.v1 as tf
    from tensorflow.python.training import training_util

import durations  # noqa: E402
import replicate  # noqa: E402
import versions  # noqa: E402

collect_ignore = [] if versions.IS_1 else versions.ONLY_IN_1

tf.logging.set_verbosity(tf.logging.ERROR)
# Each Estimator writes its graph as text, which takes a tenth of its time, and which nothing reads.
training_util.write_graph = lambda graph, logdir, *args, **kwargs: tf.gfile.MakeDirs(logdir)
# Strategies of tf.distribute look their devices up in the eager runtime, which takes them once.
# By the names that every version has.
tf.config.experimental.set_virtual_device_configuration(
    tf.config.experimental.list_physical_devices("CPU")[0],
    [tf.config.experimental.VirtualDeviceConfiguration()] * 4,
)
# Most tests say `tf.estimator`, as users do. The library itself must not: see `test_source.py`.
replicate.compat.install()


def pytest_addoption(parser):
    parser.addoption(
        "--unoptimized",
        action="store_true",
        help="run the conformance table without TensorFlow's graph optimizer, which is quicker",
    )


def pytest_configure(config):
    """Measures fixtures; lets old TensorFlows warn of what Python and NumPy have become since."""
    config.pluginmanager.register(durations.Fixtures())
    if versions.IS_OLD:
        for category in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning"):
            config.addinivalue_line("filterwarnings", f"ignore::{category}")
        # Of some, `tf.layers` makes use of what Keras deprecates.
        config.addinivalue_line("filterwarnings", "ignore:`layer.apply` is deprecated:UserWarning")


# Before xdist looks at the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks what is slow; leaves out, on TensorFlow 1.15, what it cannot do, and says why."""
    others = {"slow", "thorough", "nightly"}
    measured = [item for item in items if not others & {m.name for m in item.iter_markers()}]
    told = [(item.nodeid, item.fixturenames) for item in measured]
    for item, marks in zip(measured, durations.marks(told)):
        for mark in marks:
            item.add_marker(mark)
    together = durations.files_in_one_process()
    for item in items:
        file = item.nodeid.partition("::")[0]
        # Tables of models train all of them in one graph.
        has_table = any(type(value).__name__ == "Table" for value in vars(item.module).values())
        if file in together or (has_table and "tests/partition/" in file):
            item.add_marker(pytest.mark.xdist_group(file))
    for item in items if versions.IS_1 else ():
        reasons = [why for part, why in versions.NOT_IN_1.items() if part in item.nodeid]
        if reasons:
            item.add_marker(pytest.mark.skip(reason=reasons[0]))


@pytest.fixture(autouse=True)
def fresh_graph():
    """Gives each test a default graph of its own, with a seed."""
    random.seed(1)  # The initializers of newer Kerases draw their seeds from it.
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        yield graph


@pytest.fixture
def resource_variables():
    """Lets TensorFlow 1.15 make variables that newer ones make anyway.

    For tests of what is made of them, and of models that on one device depend on chance if what
    reads a variable and what updates it share its memory.
    """
    tf.enable_resource_variables()
    yield


def _choose_variables(path):
    if any(path.match(end) for end in versions.OF_REFERENCES):
        tf.disable_resource_variables()
    else:
        tf.enable_resource_variables()


@pytest.fixture(scope="module", autouse=versions.IS_1)
def variables_of_module(request):
    """Chooses for what fixtures make once for a whole file, which is before the file's tests."""
    _choose_variables(request.path)


@pytest.fixture(autouse=versions.IS_1)
def variables_of_version(request):
    """Begins tests of some files with the variables that TensorFlow 1.15 makes.

    All other tests get those of newer TensorFlows, whichever test was before.
    """
    _choose_variables(request.path)


@pytest.fixture
def warnings(caplog):
    """Function that returns the library's own warnings until now."""
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.WARN)
    yield lambda: [r.getMessage() for r in caplog.records if r.getMessage()[:10] == "replicate:"]
    tf.logging.set_verbosity(verbosity)
