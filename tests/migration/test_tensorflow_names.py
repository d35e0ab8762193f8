"""The table of TensorFlow's names, beside the TensorFlow that is installed."""

import importlib

import pytest
import tensorflow
import tensorflow.compat.v1 as version_1

import pages
import versions
from replicate.migration.scan import tensorflow_names
from tools import tensorflow_names as tool

LINES = [
    line.split()
    for line in tensorflow_names.TABLE.read_text().splitlines()
    if not line.startswith("#")
]


def has(root, name):
    for part in name.split("."):
        try:
            root = getattr(root, part)
        except (AttributeError, ImportError):
            return False
    return True


@pytest.mark.skipif(versions.IS_OLD, reason="the table is for TensorFlow 2.15 and newer")
@pytest.mark.parametrize("status", ["lacks", "means", "new"])
def test_the_table_is_true(status):
    names = [line[1] for line in LINES if line[0] == status]
    assert len(names) > 100
    wanted = {"lacks": (False, True), "means": (True, True), "new": (True, False)}[status]
    # Of one of the two TensorFlows that were asked, a few names are missing.
    wrong = [name for name in names if (has(tensorflow, name), has(version_1, name)) != wanted]
    missing = [name for name in wrong if not has(tensorflow, name) and not has(version_1, name)]
    if status == "new":
        wrong = [name for name in wrong if name not in missing]
    assert wrong == []


@pytest.mark.skipif(versions.IS_OLD, reason="the table is for TensorFlow 2.15 and newer")
def test_what_the_insides_define_is_public():
    names = [one for line in LINES if line[0] == "inside" for one in line[2:]]
    public = {name.partition("=")[2] or name for name in names}
    assert len(public) > 1000
    # This TensorFlow may lack a few names of the newest one.
    assert len([name for name in public if not has(version_1, name)]) < 20
    graph = importlib.import_module(f"{tensorflow.__name__}.python.framework.ops")
    assert tensorflow_names.public(f"{graph.__name__}.get_default_graph") == "get_default_graph"
    assert graph.get_default_graph is version_1.get_default_graph


@pytest.mark.parametrize(
    ("path", "api", "rest"),
    [
        ("tensorflow", "tensorflow", ""),
        ("tensorflow.layers.dense", "tensorflow", "layers.dense"),
        ("tensorflow.compat.v1.layers", "v1", "layers"),
        ("tensorflow.compat.v1.compat.v2.x", "v2", "x"),
        ("tensorflow.contrib.slim", "contrib", "slim"),
        ("tensorflow.compat.v1.contrib", "contrib", ""),
        ("tensorflow_hub.x", "", "tensorflow_hub.x"),
    ],
)
def test_paths(path, api, rest):
    assert tensorflow_names.parse(path) == (api, rest)


def test_what_is_known_of_a_name():
    assert tensorflow_names.known("nn.dropout") == ("nn.dropout", ("means", ("keep_prob",)))
    assert tensorflow_names.known("layers.dense") == ("layers", ("lacks", ()))
    assert tensorflow_names.known("nn.relu") is None


def test_the_table_is_in_the_wheel():
    setup = (pages.ROOT / "setup.py").read_text()
    assert f'"migration/scan/{tensorflow_names.TABLE.name}"' in setup


def test_lines_are_made_of_what_was_asked():
    def asked(version, tf, v1):
        return {"version": version, "tf": tf, "v1": v1}

    one, other, more = ["f", ["a"]], ["g", ["a"]], ["f", ["a", "keep"]]
    first = asked("1.15.5", {"old": one, "same": one, "gone": one, "arg": more}, {})
    old = {"same": one, "old": one, "means": one, "arg": more, "m": one, "m.x": one, "gone": one}
    new = {name: value for name, value in old.items() if name != "gone"}
    tf = {"same": one, "means": other, "arg": one, "two": one, "two.x": one}
    made = tool.lines([first, asked("2.15.1", tf, old), asked("2.21.0", tf, new)])
    wanted = ["means arg keep", "gone gone 2.15", "lacks m", "means means", "lacks old", "new two"]
    assert made == wanted


def test_lines_of_what_the_insides_define():
    def asked(version, **v1):
        return {"version": version, "tf": {}, "v1": {name: [what, []] for name, what in v1.items()}}

    first = asked("1.15.5", f="tensorflow_core.python.a.b.g", gone="tensorflow_core.python.a.b.x")
    last = asked("2.21.0", f="tensorflow.python.c.f", longer="tensorflow.python.c.f", own="keras.f")
    wanted = ["inside tensorflow.python.a.b g=f", "inside tensorflow.python.c f"]
    assert tool.insides([first, last]) == wanted
