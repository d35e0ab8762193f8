"""The Estimator on every TensorFlow: where it comes from, and what is said where it cannot work."""

import ast
import importlib
import json
import os
import pathlib
import sys
import types

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

import programs
import replicate
import selection
import versions
from bodies import matching
from replicate import __main__ as program
from replicate.compat import environment, estimator_training, revival, session_support

pytestmark = pytest.mark.conformance

HAS_ESTIMATOR = environment.parse(tf.__version__) < environment.FIRST_WITHOUT_ESTIMATOR
PYTHON_3_7, PYTHON_3_9, PYTHON_3_11, PYTHON_3_13 = (3, 7, 16), (3, 9, 18), (3, 11, 7), (3, 13, 0)

PACKAGES = {
    "no TensorFlow": (
        (None, "1.26.4", PYTHON_3_11),
        "needs TensorFlow 1.15 or newer, but none is installed. Run: "
        "pip install 'tensorflow==2.15.*'",
    ),
    "no TensorFlow on a Python of TensorFlow 1": (
        (None, "unknown", PYTHON_3_7),
        "Run: pip install 'tensorflow==1.15.*' 'protobuf<3.21'",
    ),
    "no TensorFlow on a Python that only new ones support": (
        (None, "2.4.6", PYTHON_3_13),
        "Run: pip install tensorflow tf-keras tensorflow-estimator==2.15.0",
    ),
    "an old TensorFlow": (
        ("1.14.0", "1.18.5", PYTHON_3_7),
        "needs TensorFlow 1.15 or newer, but 1.14.0 is installed. Run: pip install",
    ),
    "protobuf too new": (
        ("1.15.5", "1.18.5", PYTHON_3_7, "4.24.4"),
        "TensorFlow 1.15.5 needs protobuf older than 3.21, but protobuf 4.24.4 is installed. "
        "Run: pip install 'protobuf<3.21'",
    ),
    "protobuf too new for an old TensorFlow 2": (
        ("2.8.4", "1.23.5", PYTHON_3_9, "5.29.5"),
        "TensorFlow 2.8.4 needs protobuf older than 3.21, but protobuf 5.29.5 is installed.",
    ),
    "NumPy too new": (
        ("2.15.1", "2.4.6", PYTHON_3_11),
        "TensorFlow 2.15.1 needs NumPy 1, but NumPy 2.4.6 is installed. Run: pip install 'numpy<2'",
    ),
}


@pytest.mark.parametrize("case", PACKAGES)
def test_packages_that_do_not_fit(case):
    found, phrases = PACKAGES[case]
    assert phrases in environment.packages_problem(*found)


@pytest.mark.parametrize(
    "found",
    [
        ("1.15.5", "1.18.5", PYTHON_3_7, "3.20.3"),
        ("2.0.4", "1.18.5", PYTHON_3_7, "3.19.6"),
        ("2.12.0", "1.23.5", PYTHON_3_11),
        ("2.15.1", "1.26.4", PYTHON_3_11),
        ("2.21.0", "2.4.6", PYTHON_3_13),
        ("unknown", "unknown", PYTHON_3_13),
    ],
)
def test_packages_that_fit(found):
    assert environment.packages_problem(*found) is None


NEW = {
    "tensorflow": "2.21.0",
    "estimator": "2.15.0",
    "tf_keras": "2.21.0",
    "is_asked_for": True,
    "was_asked_for": True,
}
OLD = {**NEW, "tensorflow": "2.15.1", "tf_keras": None, "is_asked_for": False}
OLDEST = {**OLD, "tensorflow": "1.15.5", "estimator": "1.15.1"}

KERAS = {
    "no estimator": (
        {**NEW, "estimator": None},
        "2.21.0 has no Estimator of its own;…but it is not installed. "
        "Run: pip install tensorflow-estimator==2.15.0",
    ),
    "another estimator": (
        {**NEW, "estimator": "2.12.0"},
        "but 2.12.0 is installed. Run: pip install tensorflow-estimator==2.15.0",
    ),
    "no tf-keras": (
        {**NEW, "tf_keras": None},
        "need Keras 2, which for TensorFlow 2.21.0 is in tf-keras 2.21, but it is not installed. "
        "Run: pip install 'tf-keras==2.21.*'",
    ),
    "tf-keras of another TensorFlow": (
        {**NEW, "tf_keras": "2.19.0"},
        "but 2.19.0 is installed. Run: pip install 'tf-keras==2.21.*'",
    ),
    "Keras 3": (
        {**NEW, "is_asked_for": False, "was_asked_for": False},
        "uses Keras 3, with which neither…works, unless TF_USE_LEGACY_KERAS is 1…Run, before "
        "Python: export TF_USE_LEGACY_KERAS=1",
    ),
    "asked for Keras 2 too late": (
        {**NEW, "was_asked_for": False},
        "TF_USE_LEGACY_KERAS must be 1 when TensorFlow is imported, but was set after that. Set it "
        "above the first import of TensorFlow, or run, before Python: export TF_USE_LEGACY_KERAS=1",
    ),
    "asked for what an old TensorFlow has anyway": (
        {**OLD, "is_asked_for": True},
        "TF_USE_LEGACY_KERAS is set, but TensorFlow 2.15.1 has Keras 2 of its own and breaks "
        "without tf-keras then. Run: unset TF_USE_LEGACY_KERAS",
    ),
}


@pytest.mark.parametrize("case", KERAS)
def test_keras_that_does_not_fit(case):
    found, phrases = KERAS[case]
    assert all(phrase in environment.keras_problem(**found) for phrase in phrases.split("…"))


@pytest.mark.parametrize(
    "found",
    [
        NEW,
        OLD,
        {**OLD, "tf_keras": "2.15.1", "is_asked_for": True},
        {**OLD, "estimator": None},
        OLDEST,
        {**OLDEST, "is_asked_for": True},  # It does not know of it.
    ],
)
def test_keras_that_fits(found):
    assert environment.keras_problem(**found) is None


def test_this_environment_fits():
    environment.check_packages()
    environment.check_estimator()


def test_problems_are_import_errors(monkeypatch):
    monkeypatch.setattr(environment, "find", lambda module: False)
    with pytest.raises(ImportError, match=r"none is installed\. Run: pip install"):
        environment.check_packages()


# Wrong environments, each in a process of its own: modules that are hidden, environment variables,
# what the program does first, and the error that a use of the Estimator raises.
LATE = "import os, tensorflow; os.environ['TF_USE_LEGACY_KERAS'] = '1'; "
UNSET = {"TF_USE_LEGACY_KERAS": ""}
if HAS_ESTIMATOR:
    WRONG = {
        "Keras 2 twice": (
            ["tf_keras"],
            {"TF_USE_LEGACY_KERAS": "1"},
            "",
            "Run: unset TF_USE_LEGACY_KERAS",
        )
    }
else:
    WRONG = {
        "Keras 3": ([], UNSET, "", "export TF_USE_LEGACY_KERAS=1"),
        "too late": ([], UNSET, LATE, "was set after that"),
        "no tf-keras": (["tf_keras"], UNSET, "", "Run: pip install 'tf-keras=="),
        "no estimator": (
            ["tensorflow_estimator"],
            {},
            "",
            "pip install tensorflow-estimator==2.15.0",
        ),
    }
ASKING = {
    "the Estimator": "import replicate; replicate.estimator.RunConfig",
    "install": "import replicate; replicate.compat.install()",
    "towers": "import replicate; replicate.replicate_model_fn(lambda features: None)",
}


@pytest.fixture(name="without")
def make_without(tmp_path):
    """Returns a function that makes a directory for PYTHONPATH, which hides some modules."""

    def without(*modules, **changes):
        (tmp_path / "sitecustomize.py").write_text(
            "import importlib.util, sys\n"
            f"gone = {modules!r}\n"
            "find = importlib.util.find_spec\n"
            "importlib.util.find_spec = lambda name, *args: (\n"
            "    None if name.split('.')[0] in gone else find(name, *args))\n"
        )
        return {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(programs.ROOT)]), **changes}

    return without


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong, asking",
    [
        selection.cell(wrong, asking, is_quick=selection.on_diagonal(row, column, len(ASKING)))
        for row, wrong in enumerate(WRONG)
        for column, asking in enumerate(ASKING)
    ],
)
def test_a_wrong_environment_is_told_to_whoever_asks(wrong, asking, without):
    hidden, changes, first, message = WRONG[wrong]
    done = programs.run("-c", first + ASKING[asking], env=without(*hidden, **changes))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert message in done.stderr.splitlines()[-1]


def test_python_m_replicate_tells_of_a_problem(monkeypatch, capsys):
    monkeypatch.setattr(environment, "estimator_problem", lambda: "It cannot work. Run: this")
    assert program.main([]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("replicate ")
    assert said.err == "\nProblem: It cannot work. Run: this\n"


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("wrong", [name for name, case in WRONG.items() if not case[2]])
def test_python_m_replicate_diagnoses_it(wrong, without):
    hidden, changes, _, message = WRONG[wrong]
    done = programs.run("-m", "replicate", env=without(*hidden, **changes))
    assert done.returncode == 1
    assert done.stdout.startswith("replicate ")
    assert done.stderr.splitlines()[-1].startswith("Problem: ")
    assert message in done.stderr.splitlines()[-1]


FIRST_NEEDED = [
    ("-c", "import replicate; replicate.replicate_model_fn"),
    ("-c", "from replicate import hooks"),
    ("-c", "import replicate; replicate.compat.install()"),
    ("-m", "replicate"),
    ("-m", "replicate", "bench"),
]


@pytest.mark.parametrize("args", FIRST_NEEDED)
def test_a_missing_tensorflow_is_told_where_it_is_needed(args, without):
    done = programs.run(*args, env=without("tensorflow"))
    assert done.returncode == 1
    assert "but none is installed. Run: pip install " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("args", FIRST_NEEDED)
def test_a_numpy_that_is_too_new_is_told_where_it_is_needed(args, tmp_path):
    # Metadata tells which version is installed; the first on the path counts.
    for name, version in (("numpy", "2.4.6"), ("tensorflow", "2.15.1")):
        directory = tmp_path / f"{name}-{version}.dist-info"
        directory.mkdir()
        (directory / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    path = os.pathsep.join([str(tmp_path), str(programs.ROOT)])
    done = programs.run(*args, env={"PYTHONPATH": path})
    assert done.returncode == 1
    assert "needs NumPy 1, but NumPy 2.4.6 is installed. Run: pip install 'numpy<2'" in done.stderr


WHOLE = (
    *("Estimator", "EstimatorSpec", "EvalSpec", "ModeKeys", "RunConfig", "TrainSpec"),
    *("BaselineClassifier", "DNNClassifier", "DNNLinearCombinedClassifier", "LinearRegressor"),
    *("BestExporter", "FinalExporter", "Head", "LatestExporter", "MultiHead"),
    *("VocabInfo", "WarmStartSettings", "add_metrics", "train_and_evaluate"),
)


def test_the_estimator_is_whole():
    for name in WHOLE:
        assert callable(getattr(replicate.estimator, name))
    assert replicate.estimator.tpu.TPUEstimator.__mro__[1] is replicate.estimator.Estimator
    assert callable(replicate.estimator.experimental.stop_if_no_decrease_hook)
    assert callable(replicate.estimator.inputs.numpy_input_fn)
    assert {"Estimator", "tpu"} <= set(dir(replicate.estimator))
    with pytest.raises(AttributeError):
        replicate.estimator.NoSuchName  # noqa: B018


def test_what_tensorflow_has_is_left_as_it_is():
    """Reviving supplies nothing that can be imported, and a second time nothing at all."""
    first = revival.estimator()
    modules = dict(sys.modules)
    assert revival.estimator() is first
    assert dict(sys.modules) == modules
    for name, substitute in revival.GONE.items():
        owner = importlib.import_module(name)
        assert owner.__name__ == (name if HAS_ESTIMATOR or not substitute else substitute)


def test_install_is_idempotent_and_overwrites_nothing(monkeypatch):
    before = tf.estimator, tf2.estimator, tf.contrib.estimator
    replicate.compat.install()
    assert (tf.estimator, tf2.estimator, tf.contrib.estimator) == before
    assert tf.estimator.Estimator is replicate.estimator.Estimator
    # `tensorflow` itself is version 1 there.
    assert (tf2.estimator.Estimator is tf.estimator.Estimator) == versions.IS_1
    assert issubclass(tf2.estimator.Estimator, tf.estimator.Estimator)
    own = types.SimpleNamespace(replicate_model_fn="own")
    monkeypatch.setattr(tf.contrib, "estimator", own)
    replicate.compat.install()
    assert own.replicate_model_fn == "own"
    assert own.TowerOptimizer is replicate.TowerOptimizer


@pytest.mark.slow
def test_a_program_of_2018_trains(tmp_path):
    done = programs.run("tests/migration/tf1_program.py", f"--model_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    rows = dict(line.split() for line in done.stdout.splitlines())
    assert float(rows["accuracy"]) > 0.9
    assert int(rows["predicted"]) == 600
    # The weights have the names that they had without towers.
    names = {name for name, _ in tf.train.list_variables(str(tmp_path))}
    assert {"conv2d/kernel", "dense_1/bias", "dense/kernel/Momentum", "global_step"} <= names
    assert not any("tower" in name for name in names)


IMPORTS = """
import json, sys, time
import tensorflow.compat.v1 as tf
tf.keras.layers.Layer  # Keras comes with TensorFlow; it is imported when it is first used.
before, start = set(sys.modules), time.perf_counter()
import replicate
replicate.replicate_model_fn, replicate.compare, replicate.hooks
added, imported = set(sys.modules) - before, time.perf_counter()
replicate.estimator.Estimator
seconds = [imported - start, time.perf_counter() - imported]
print(json.dumps([sorted(name.partition(".")[0] for name in added), *seconds]))
"""


@pytest.mark.slow
def test_importing_the_library_imports_nothing_large():
    done = programs.run("-c", IMPORTS)
    assert done.returncode == 0, done.stderr
    added, library, estimator = json.loads(done.stdout)
    print(f"import replicate {library:.3f} s, Estimator {estimator:.3f} s")
    assert "replicate" in added
    assert not {"tensorflow_estimator", "tf_keras", "tqdm", "sklearn"} & set(added)


def test_a_tpu_estimator_trains_on_the_cpu(tmp_path):
    tpu = replicate.estimator.tpu

    def model_fn(features, labels, mode, params):
        assert params["batch_size"] == 4
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean((features * weight - labels) ** 2)
        step = tf.train.get_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn(params):
        rows = tf.data.Dataset.from_tensors((tf.ones([4]), 2 * tf.ones([4])))
        return rows.repeat()

    config = tpu.RunConfig(model_dir=str(tmp_path), log_step_count_steps=None)
    trained = tpu.TPUEstimator(model_fn, config=config, use_tpu=False, train_batch_size=4)
    trained.train(input_fn, max_steps=3)
    # Each step goes 0.2 of the way from 0 to 2.
    assert trained.get_variable_value("w") == pytest.approx(2 * (1 - 0.8**3))


REMOTE = (
    "Every worker of a cluster must run the program with a TF_CONFIG of its own…has a "
    "`remote_cluster`…Leave it out and set TF_CONFIG"
)
TOGETHER = "In a cluster, a strategy trains by `tf.estimator.train_and_evaluate`"
TWICE = "A strategy must be given once, but…has `train_distribute` and…Leave one"
EMBEDDINGS = "Embeddings on TPUs need …, which TensorFlow 2.16 removed. Look embeddings up with"
WATCHDOG = "TF_TPU_WATCHDOG_TIMEOUT is …, but TensorFlow 2.16 and newer cannot watch TPU workers"


class Config:
    """A `RunConfig` with only the attributes that `init_run_config` reads."""

    def __init__(self, train=None, eval=None, experimental=None):
        self._train_distribute, self._eval_distribute = train, eval
        self._experimental_distribute = experimental
        self._cluster_spec = None
        self._distribute_coordinator_mode = "unset"
        self.calls = []

    @property
    def cluster_spec(self):
        return self._cluster_spec

    def _init_distributed_setting_from_environment_var(self, tf_config):
        self.calls.append(tf_config)

    def _maybe_overwrite_session_config_for_distributed_training(self):
        self.calls.append("session_config")


def test_strategies_of_one_host():
    config = Config(train="strategy")
    estimator_training.init_run_config(config, {})
    assert config.calls == [{}, "session_config"]
    assert config._distribute_coordinator_mode is None
    assert not estimator_training.should_run_distribute_coordinator(config)


def test_strategies_given_the_experimental_way():
    experimental = types.SimpleNamespace(
        train_distribute="a", eval_distribute="b", remote_cluster=None
    )
    config = Config(experimental=experimental)
    estimator_training.init_run_config(config, {})
    assert (config._train_distribute, config._eval_distribute) == ("a", "b")
    with pytest.raises(ValueError, match=matching(TWICE)):
        estimator_training.init_run_config(Config(train="a", experimental=experimental), {})


def test_strategies_that_span_a_cluster():
    cluster = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}
    config = Config(train="strategy")
    estimator_training.init_run_config(config, cluster)
    assert estimator_training.should_run_distribute_coordinator(config)
    config = Config(eval="strategy")
    estimator_training.init_run_config(config, cluster)  # It evaluates alone.
    assert not estimator_training.should_run_distribute_coordinator(config)
    remote = types.SimpleNamespace(
        train_distribute="a", eval_distribute=None, remote_cluster="cluster"
    )
    with pytest.raises(NotImplementedError, match=matching(REMOTE)):
        estimator_training.init_run_config(Config(experimental=remote), {})


def test_a_strategy_that_spans_a_cluster_trains_and_evaluates_together():
    for method in ("train", "evaluate"):
        with pytest.raises(ValueError, match=matching(f"{TOGETHER}…Estimator.{method}` was")):
            getattr(estimator_training, f"estimator_{method}")(None, None, None)


def test_embeddings_on_tpus_are_refused_where_they_are_used():
    module = revival.Refusing("tensorflow.python.tpu.tpu_embedding")
    assert not isinstance(3, module.FeatureConfig)
    with pytest.raises(NotImplementedError, match=matching(EMBEDDINGS)):
        module.AdagradParameters(0.1)
    with pytest.raises(AttributeError):
        module.__path__  # noqa: B018


def test_workers_of_a_tpu_are_not_watched():
    hook = session_support.GracefulShutdownHook(
        "model.ckpt", None, [session_support.ResetComputation()]
    )
    hook.after_create_session(None, None)
    with pytest.raises(NotImplementedError, match=matching(WATCHDOG)):
        session_support.start_worker_watchdog(None, shutdown_timeout=5)


def test_the_library_does_not_rely_on_install():
    root = pathlib.Path(replicate.__file__).parent
    for path in root.rglob("*.py"):
        if root / "compat" in path.parents or path == root / "migration" / "installation.py":
            continue
        evaluated = list(_without_annotations(ast.parse(path.read_text())))
        assert "tf.estimator" not in evaluated, path.name


def _without_annotations(tree):
    """Yields the attributes in a syntax tree that are evaluated when its code runs."""
    for field, value in ast.iter_fields(tree):
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and field not in ("annotation", "returns"):
                if isinstance(node, ast.Attribute):
                    yield ast.unparse(node)
                yield from _without_annotations(node)
