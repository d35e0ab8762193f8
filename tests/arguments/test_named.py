"""Names of objects and flags on the command lines of `compare` and `plan`."""

import functools
import json
import runpy
import signal
import sys
import types

import absl.flags
import pytest
import tensorflow.compat.v1 as tf

from replicate import __main__ as program
from replicate.arguments import named
from replicate.comparing import command as comparing
from replicate.planning import command as planning

MODEL = """
import tensorflow.compat.v1 as tf

{imports}

def model_fn(features, labels, mode, params):
    w = tf.get_variable("w", [2, 1], initializer=tf.ones_initializer())
    loss = {factor} * tf.reduce_mean(tf.square(tf.matmul(features, w) - labels))
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    rows = tf.reshape(tf.range(16.0), [8, 2])
    return tf.data.Dataset.from_tensors((rows, rows[:, :1])).repeat(2)
"""
TWINS = "Python imports one module of a name, but your files are beside "
UNKNOWN_FLAG = "Flags of your program follow `--`, but "
FAILED = "whose import failed"
DEPTH = "must be 0 or more, but is "
NO_FOLDER = "must be in an existing directory, but is "
NOT_WRITABLE = "must be a file that can be written, but "
DEVICES = ["--devices", "/cpu:0", "/cpu:1"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A function that writes a model under a path; what it imports is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["program", "of pytest"])
    flags = absl.flags.FlagValues()  # As in a process of its own.
    define = functools.partial(absl.flags.DEFINE_float, flag_values=flags)
    of_process = types.SimpleNamespace(FLAGS=flags, Error=absl.flags.Error, DEFINE_float=define)
    monkeypatch.setattr(tf, "flags", of_process)
    before = set(sys.modules)

    def write(path, factor="1.0", imports=""):
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(MODEL.format(factor=factor, imports=imports))
        return str(file)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_two_files_of_one_name_are_two_modules(files, capsys):
    new, old = files("new/model.py"), files("old/model.py", factor="100.0")
    names = [f"{new}:model_fn", f"{new}:input_fn", "--steps", "2", *DEVICES]
    assert comparing.main([*names, "--original", f"{old}:model_fn"]) == 1
    assert "DIFFERENT: the loss of step 1" in capsys.readouterr().out
    assert comparing.main([*names, "--original", f"{new}:model_fn"]) == 0
    assert named.find("", f"{new}:model_fn") is named.find("", f"{new}:model_fn")


def test_a_name_that_is_no_identifier(files):
    assert named.find("model_fn", f"{files('v1.2.py')}:model_fn").__name__ == "model_fn"


def test_a_file_that_cannot_be_imported_is_forgotten(files):
    file = files("broken.py", imports="raise ImportError('no such thing')")
    text = f"is in '.*broken.py', {FAILED} at .*broken.py:4: ImportError: no such thing"
    with pytest.raises(ValueError, match=text):
        named.find("model_fn", f"{file}:model_fn")
    assert "broken" not in sys.modules


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("import tensorflow; tensorflow.contribution", "add `--tensorflow_1`"),
        ("from . import layers", "name it as `package.module:name`"),
        ("import no_such_module", "No module named 'no_such_module'. Mend it."),
    ],
)
def test_what_an_import_lacks(files, line, remedy):
    file = files("lacking.py", imports=line)
    with pytest.raises(ValueError, match=remedy):
        named.find("model_fn", f"{file}:model_fn")


def test_a_directory_with_a_colon(files):
    assert named.find("model_fn", f"{files('a dir:1/my model.py')}:model_fn").__name__ == "model_fn"


def test_siblings_of_one_name_are_refused(files, capsys):
    for version in ("new", "old"):
        files(f"{version}/layers.py")
    new, old = (files(f"{version}/model.py", imports="import layers") for version in ("new", "old"))
    names = [f"{new}:model_fn", f"{new}:input_fn", *DEVICES]
    with pytest.raises(SystemExit):
        comparing.main([*names, "--original", f"{old}:model_fn"])
    assert TWINS in capsys.readouterr().err


def test_siblings_of_one_name_that_only_one_directory_imports_are_fine(files):
    for directory in ("new", "data"):
        files(f"{directory}/layers.py")
    model, data = files("new/model.py", imports="import layers"), files("data/input.py")
    assert comparing.main([f"{model}:model_fn", f"{data}:input_fn", *DEVICES]) == 0


FLAGS = "tf.flags.DEFINE_float('rate', 2.0, 'help')"


@pytest.mark.parametrize("given", [[], ["--", "--rate=5"]])
def test_flags_of_a_program(files, given, capsys):
    model = files("flagged.py", factor="tf.flags.FLAGS.rate", imports=FLAGS)
    assert planning.main([f"{model}:model_fn", "--depth", "1", *DEVICES, *given]) == 0
    assert tf.flags.FLAGS.rate == (5.0 if given else 2.0)
    assert sys.argv == ["program", *given[1:]]


def test_an_unknown_flag_of_a_program(files, capsys):
    model = files("flagged.py", imports=FLAGS)
    for main, names in ((planning.main, []), (comparing.main, [f"{model}:input_fn"])):
        with pytest.raises(SystemExit):
            main([f"{model}:model_fn", *names, "--", "--speed=5"])
        assert UNKNOWN_FLAG + "['--speed=5'] cannot be read" in capsys.readouterr().err


def test_a_flag_that_is_needed_only_elsewhere(files):
    needed = "absl.flags.mark_flag_as_required('rate', tf.flags.FLAGS)"
    empty = FLAGS.replace("2.0", "None")
    model = files("needing.py", imports=f"import absl.flags; {empty}; {needed}")
    assert planning.main([f"{model}:model_fn", *DEVICES]) == 0
    assert not tf.flags.FLAGS.is_parsed()


def test_arguments_of_a_program_that_parses_them_itself(files):
    imports = "import sys; assert sys.argv[1:] == ['--rate', '3'], sys.argv"
    model = files("parsing.py", imports=imports)
    assert planning.main([f"{model}:model_fn", *DEVICES, "--", "--rate", "3"]) == 0


INPUTS = """
import functools

table = []

def make(params, mode):
    table.append((dict(params), mode))
    params.pop("rate", None)
    keys = tf.constant([0, 1] * 4, tf.int64)
    pairs = tf.lookup.KeyValueTensorInitializer([0, 1], [1.0, 2.0], tf.int64, tf.float32)
    labels = tf.reshape(tf.lookup.StaticHashTable(pairs, -1.0).lookup(keys), [8, 1])
    return tf.data.Dataset.from_tensors((tf.ones([8, 2]), labels)).repeat(2)

bound = functools.partial(make, params={"files": "a"}, mode="infer")

def changing(params, mode):
    return make(params, mode)
"""


@pytest.mark.parametrize("main", [planning.main, comparing.main], ids=["plan", "compare"])
@pytest.mark.parametrize("name", ["bound", "changing"])
def test_an_input_gets_what_an_estimator_gives(files, main, name):
    """Arguments that are not bound, and a copy of the parameters; and it may read a table."""
    model = files("inputs.py", factor="params['rate']", imports=INPUTS)
    params = ["--params", '{"rate": 2.0}']
    assert main([f"{model}:model_fn", f"{model}:{name}", *params, *DEVICES]) == 0
    want = ({"files": "a"}, "infer") if name == "bound" else ({"rate": 2.0}, "train")
    table = named.find("", f"{model}:table")
    assert table[0] == want


def test_an_input_without_params_gets_an_empty_dict(files):
    model = files("inputs.py", imports=INPUTS)
    assert comparing.main([f"{model}:model_fn", f"{model}:changing", *DEVICES]) == 0


@pytest.mark.parametrize("main", [planning.main, comparing.main], ids=["plan", "compare"])
def test_json_is_all_that_is_printed(files, main, capsys):
    model = files("printing.py", factor="print('in the model') or 1.0", imports="print('here')")
    assert main([f"{model}:model_fn", f"{model}:input_fn", "--json", *DEVICES]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)


def test_a_model_that_cannot_be_built_leaves_no_page(files, tmp_path):
    model, page = files("model.py", factor="no_such_name"), tmp_path / "page.html"
    arguments = [f"{model}:model_fn", f"{model}:input_fn", *DEVICES, "--html", str(page)]
    with pytest.raises(NameError):
        planning.main(arguments)
    assert not page.exists()


def test_a_command_that_is_ended_leaves_nothing(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["replicate", "--help"])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit):
            runpy.run_path(program.__file__, run_name="__main__")
        with pytest.raises(SystemExit) as ended:  # As an exception, so that scopes are left.
            signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
        assert ended.value.code == 143
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--devices", "/cpu:0", "/gpu:7"], "/device:GPU:7 does not"),
        (["--depth", "-1"], DEPTH + "'-1'"),
        (["--depth", "two"], DEPTH + "'two'"),
        (["--devices", "/cpu:0"], "Only a model that runs in several towers has a plan"),
        (["--options", '{"bogus": 1}'], "bogus"),
        (["--tensorflow_1", "my-package"], "my-package"),
        (["--html", "nowhere/page.html"], "`--html` " + NO_FOLDER),
        (["--html", "."], "`--html` " + NOT_WRITABLE),
    ],
)
def test_wrong_arguments_of_plan(files, arguments, text, capsys):
    model = files("model.py")
    with pytest.raises(SystemExit) as ended:
        planning.main([f"{model}:model_fn", *arguments])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_lines_are_told_in_a_directory_that_has_the_name_of_a_package(files, capsys):
    model = files("tensorflow/lines.py", factor="tf.cumsum(features)[0, 0]")
    assert planning.main([f"{model}:model_fn", *DEVICES]) == 0
    assert "tensorflow/lines.py:8" in capsys.readouterr().out
