"""`python -m replicate plan`: the parts of a model that towers run, as text, JSON and a page."""

import json
import re

import pytest
import tensorflow.compat.v1 as tf

import programs
from bodies import matching
from replicate.layouts import rule_of
from replicate.planning import command, plan, scopes

MODEL = """
import numpy as np
import tensorflow.compat.v1 as tf
from replicate import estimator


def model_fn(features, labels, mode):
    net = features
    for size in (8, 4):
        net = tf.layers.dense(net, size, tf.tanh, name=f"layer_{size}")
    with tf.name_scope("halves"):
        pairs = tf.reshape(net, [2, 12]) @ tf.get_variable("w", [12, 2])
    loss = tf.reduce_mean(net) + tf.reduce_mean(pairs**2)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    return tf.data.Dataset.from_tensors((np.ones([6, 5], np.float32), np.ones([6], np.float32)))
"""
pytestmark = pytest.mark.filterwarnings("ignore:`tf.layers:UserWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The file of a model."""
    path = tmp_path_factory.mktemp("plan") / "planned_model.py"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def made(model):
    """The `Plan` of the model."""
    names = {}
    exec(compile(model.read_text(), str(model), "exec"), names)
    return plan.make_plan(
        names["model_fn"], names["input_fn"], devices=["/cpu:0", "/cpu:1", "/cpu:2"]
    )


def test_scopes_hold_what_is_computed_in_them(made):
    root = made.root
    coverage = made.coverage
    assert root.work == pytest.approx(
        {"towers": coverage.towers, "one_device": coverage.one_device, "updates": coverage.updates}
    )
    first = root.children["layer_8"]
    # Three products of six rows, and four functions of what the layer gives: bias and tanh, and
    # their gradients.
    assert first.work["towers"] == 3 * (2 * 6 * 5 * 8) + 4 * (6 * 8)
    assert first.share == 1.0 and first.line.endswith("planned_model.py:10")
    halves = root.children["halves"]
    assert halves.share < 0.5 and halves.work["one_device"] > 0
    assert "gradients" not in root.children["layer_4"].children


def test_the_gradient_of_a_scope_is_of_it():
    graph = tf.get_default_graph()
    of_loop = "gradients/refine/while_grad/refine/while_grad/lowered"
    scopes_of = {
        "a/b/MatMul": "a/b",
        "gradients/a/b/MatMul_grad/MatMul_1": "a/b",
        "gradients_1/AddN": "gradients_1",
        "top": "",
        "refine/while/lowered/body/whiten/MatMul": "refine/while/whiten",
        "refine/while/lowered/cond/Less": "refine/while",
        "refine/while/lowered/given_4/Enter": "refine/while",
        "refine/while/lowered/Merge": "refine/while",
        f"{of_loop}/body/gradients/a/MatMul_grad/MatMul": "refine/while/a",
        f"{of_loop}/Enter": "refine/while",
        "cond/lowered/branch_1/layer/Mul": "cond/layer",
        "call/lowered/dense/MatMul": "call/dense",
    }
    found = {}
    for name in scopes_of:
        tf.no_op(name)
        found[name] = "/".join(scopes.path_of(graph.get_operation_by_name(name)))
    assert found == scopes_of


def test_what_meets_is_told(made):
    told = made.as_dict()
    joined = [one for one in told["meetings"] if one["kind"] == "join"]
    assert [one["from"] for one in joined] == ["layer_4"]
    assert joined[0]["bytes"] == 6 * 4 * 4
    sums = {one["from"]: one["bytes"] for one in told["meetings"] if one["kind"] == "sum"}
    assert sums["layer_8"] > 0
    assert told["once"][0]["operation"] == "halves/Reshape"
    assert told["share"] < 1 and told["share_of"] == "the multiplications"
    json.dumps(told)


def test_the_report_names_scopes_and_lines(made):
    text = str(made)
    assert text.startswith("3 towers run ") and " % of the multiplications, " in text
    assert re.search(r"  layer_8  \S*planned_model.py:10\n", text)
    assert "halves/Reshape, Reshape at " in text and "planned_model.py:12: " in text


def parted(features, labels, mode):
    first, _ = tf.dynamic_partition(features, [0, 1, 0, 1], 2)
    loss = tf.reduce_mean(first @ tf.get_variable("w", [9, 1]))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_a_rule_of_sparse_rows_is_no_missing_rule():
    def input_fn():
        return tf.data.Dataset.from_tensor_slices((tf.ones([4, 9]), tf.ones([4]))).batch(4)

    assert rule_of("DynamicPartition") is None
    made = plan.make_plan(parted, input_fn, devices=["/cpu:0", "/cpu:1"])
    (partition,) = made.as_dict()["once"]
    assert (partition["type"], partition["why"]) == ("DynamicPartition", "it needs all rows")


TREES = 'tf.raw_ops.BoostedTreesEnsembleResourceHandleOp(container="", shared_name="")'
WITHOUT_GRADIENTS = MODEL.replace("    loss = ", f"    {TREES}\n    loss = ")


@pytest.mark.parametrize(
    ("text", "options"), [(MODEL, {"per_tower": True}), (WITHOUT_GRADIENTS, {})]
)
def test_the_command_refuses_what_has_no_plan(text, options, tmp_path, capsys):
    model = tmp_path / f"without_a_plan_{len(text)}.py"
    model.write_text(text)
    with pytest.raises(SystemExit) as ended:
        command.main([f"{model}:model_fn", "--options", json.dumps(options)])
    assert ended.value.code == 2
    assert "Only a model that runs in several towers has a plan" in capsys.readouterr().err


def test_the_command_writes_all_three(model, tmp_path):
    out = tmp_path / "plan.html"
    arguments = [f"{model}:model_fn", "--devices", "/cpu:0", "/cpu:1", "--html", str(out)]
    done = programs.run("-m", "replicate", "plan", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["towers"] == 2 and told["scopes"]["children"]
    text = out.read_text()
    assert "planned_model.py:model_fn" in text
    assert json.loads(re.search(r'id="data">(.*)</script>', text)[1]) == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["nowhere.py:model_fn"],
            "`model_fn` must name an object…No such file or directory…nowhere.py",
        ),
        ([".json:dumps"], "relative names have a meaning inside of packages only"),
        (["json:nothing"], "`model_fn` must name an object as `module:name`…has no attribute"),
        (["json:dumps", "--params", "[1]"], "must name an object as `module:name`"),
    ],
)
def test_wrong_arguments_are_refused(arguments, told, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(arguments)
    assert re.search(matching(told), capsys.readouterr().err.replace("\n", " "))


ALONE = "Only a model that runs in several towers has a plan, but this one runs on one device…"


def test_without_params_a_model_gets_an_empty_dict():
    given = []

    def model_fn(features, labels, mode, params):
        given.append(params)
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(features * weight)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    plan.make_plan(model_fn, lambda params: (tf.ones([4, params.get("width", 3)]), None))
    assert given == [{}]


def test_a_model_on_one_device_has_none():
    def model_fn(features, mode):
        loss = tf.reduce_mean(features * tf.get_variable("w", []))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(ValueError, match=matching(ALONE)):
        plan.make_plan(model_fn, lambda: tf.ones([4, 1]), devices=["/cpu:0"])
