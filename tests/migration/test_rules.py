"""`replicate scan` finds each planted trap once, and nothing in code that only looks like one."""

import pytest

import innocent
import planted
from planted import find
from replicate.migration.scan import RULES, contrib, scan


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(contrib, "_find", find)


@pytest.fixture
def scanned(tmp_path):
    def of(text, name="a.py"):
        (tmp_path / name).write_text(planted.plain(text))
        return scan([str(tmp_path)]).findings

    return of


def places(findings):
    return sorted((one.line, one.rule) for one in findings)


@pytest.mark.parametrize("name", planted.TRAPS)
def test_each_trap_is_found_once_and_nothing_else(scanned, name):
    text = planted.TRAPS[name]
    assert places(scanned(text)) == planted.expected(text)


@pytest.mark.parametrize("name", innocent.INNOCENT)
def test_what_looks_like_one_is_none(scanned, name):
    assert scanned(innocent.INNOCENT[name]) == []


def test_every_rule_is_planted_somewhere():
    others = {"python-2", "unreadable", "notebook"}  # See `test_reading.py`.
    marked = {rule for text in planted.TRAPS.values() for _, rule in planted.expected(text)}
    assert marked | others == set(RULES)


def test_a_comment_ignores_the_rules_that_it_names(scanned):
    text = "import tensorflow.compat.v1 as tf\ntf.contrib.x  # replicate: ignore[star-import]\n"
    assert places(scanned(text)) == [(2, "contrib-none")]
    text = "import tensorflow.compat.v1 as tf\ntf.contrib.x, '# replicate: ignore'\n"
    assert places(scanned(text)) == [(2, "contrib-none")]
    text = "import tensorflow.compat.v1 as tf\nx = 1  # replicate: ignore\ntf.contrib.x\n"
    assert places(scanned(text)) == [(3, "contrib-none")]


def test_a_file_of_a_codebase_of_version_1_means_it_too(tmp_path):
    text = "import tensorflow as tf\ntf.reduce_sum(1, name='x')\n"
    (tmp_path / "a.py").write_text(text)
    assert scan([str(tmp_path)]).findings == []
    (tmp_path / "b.py").write_text("import tensorflow as tf\ntf.placeholder(1)\n")
    found = scan([str(tmp_path)]).findings
    assert [(one.path[-4:], one.rule) for one in found] == [
        ("a.py", "tensorflow-1"),
        ("b.py", "tensorflow-1"),
    ]
    (tmp_path / "a.py").write_text(text + "tf.function\n")
    assert len(scan([str(tmp_path)]).findings) == 1


def test_install_anywhere_is_enough(tmp_path):
    (tmp_path / "a.py").write_text("import tensorflow as tf\ntf.contrib.rnn.LSTMCell\n")
    assert len(scan([str(tmp_path)]).findings) == 1
    (tmp_path / "b.py").write_text("from replicate import compat\ncompat.install()\n")
    assert scan([str(tmp_path)]).findings == []


def test_a_package_is_said_once_where_install_is(tmp_path):
    (tmp_path / "a.py").write_text("import tensorflow as tf\ntf.contrib.slim.a\n" * 2)
    assert [one.rule for one in scan([str(tmp_path)]).findings] == ["contrib-package"] * 2
    (tmp_path / "b.py").write_text("import replicate\nreplicate.compat.install()\n")
    assert [one.rule for one in scan([str(tmp_path)]).findings] == ["contrib-package"]


MODEL_FNS = """\
import functools, wrapped
def make(x, y):
    pass
class Model:
    def of_method(self, x, how):
        pass
def not_given(features, mode):
    pass
def makes_a_spec(features, labels, mode):
    return create_estimator_spec(mode)
tf_estimator.Estimator(model_fn={}, model_dir="x")
"""


@pytest.mark.parametrize(
    ("given", "also"),
    [
        ("make", [(2, "make")]),
        ("functools.partial(make, 1)", [(2, "make")]),
        ("wrapped(functools.partial(model_fn=make))", [(2, "make")]),
        ("Model().of_method", [(5, "of_method")]),
        ("lambda x, y: x", [(11, "lambda")]),
        ("wrapped.make", []),
        ("unknown()", []),
    ],
)
def test_model_fns_are_listed(tmp_path, given, also):
    (tmp_path / "a.py").write_text(MODEL_FNS.replace("{}", given))
    listed = scan([str(tmp_path)]).model_fns
    assert [one[1:] for one in listed] == sorted([(9, "makes_a_spec"), *also])


def test_a_model_fn_that_has_another_name_is_listed(tmp_path):
    text = MODEL_FNS.replace("tf_est", "given = make\ntf_est").format("given")
    (tmp_path / "a.py").write_text(text)
    assert [one[2] for one in scan([str(tmp_path)]).model_fns] == ["make", "makes_a_spec"]


def test_findings_come_in_the_order_of_rules(tmp_path):
    (tmp_path / "a.py").write_text("import tensorflow as tf\ntf.placeholder\ntf.contrib.eager.x\n")
    (tmp_path / "b.py").write_text("print 1\n")
    found = [one.rule for one in scan([str(tmp_path)]).findings]
    assert found == ["python-2", "contrib-none", "tensorflow-1"]


def test_what_is_said_names_the_source_and_the_way_out(scanned):
    text = "import tensorflow as tf\ntf.contrib.rnn.LSTMCell(3)\ntf.placeholder(1)\n"
    alias, version = scanned(text)
    assert (alias.line, alias.column, alias.name) == (2, 1, "tf.contrib.rnn.LSTMCell")
    assert alias.replacement == "tf.nn.rnn_cell.LSTMCell"
    assert "`tf.nn.rnn_cell.LSTMCell` of `tensorflow.compat.v1` is the same" in alias.message
    assert version.message == (
        "version 2 lacks tf.placeholder (line 3). Write `import tensorflow.compat.v1 as tf`, or "
        "call `replicate.compat.install(tensorflow_1=True)` in the file that runs first."
    )


def test_private_paths_are_said_with_what_is_public(scanned):
    text = planted.TRAPS["private paths"]
    said = {one.name: one for one in scanned(text) if one.rule == "private-path"}
    assert said["tensorflow.python.framework.ops"].message == (
        "it is private to TensorFlow, and may move in another version. Publicly, "
        "`tf.compat.v1.get_default_graph` is get_default_graph (line 6), `tf.compat.v1.Graph` is "
        "Graph (line 6)."
    )
    cell = said["tensorflow.python.ops.rnn_cell_impl.RNNCell"]
    assert cell.replacement == "tf.compat.v1.nn.rnn_cell.RNNCell"
    assert said["tensorflow.python.client.device_lib"].message.endswith("version.")
    assert said["tensorflow.python.framework.ops.Graph"].replacement == "tf.compat.v1.Graph"


def test_what_is_gone_is_said_with_what_to_write(scanned):
    said = [one.message for one in scanned(planted.TRAPS["mixed precision that Keras had"])]
    assert all("replicate.loss_scale" in one and "TowerOptimizer(" in one for one in said)
    text = "import tensorflow as tf\ntf.keras.mixed_precision.experimental.{}\n"
    for name in ("DynamicLossScale", "FixedLossScale", "LossScale"):
        (one,) = scanned(text.format(name))
        assert one.name == f"tf.keras.mixed_precision.experimental.{name}"
        assert f"Write `replicate.loss_scale.{name}` or `tf.compat.v1.mixed" in one.message
    (one,) = scanned(text.format("LossScaleOptimizer"))
    assert "Policy" not in one.message and "TowerOptimizer(" in one.message
    (one,) = scanned("import tensorflow.examples.tutorials as t\n")
    assert "tf.keras.datasets.mnist.load_data()" in one.message
    (*_, one) = scanned(planted.TRAPS["the state of towers' graphs"])
    assert "Write `TowerOptimizer._graph_state()`" in one.message
