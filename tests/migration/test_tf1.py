"""Features of TensorFlow 1.15 alone: `tf.contrib` beside one device, and the installed library.

A row is a `model_fn` for `contract`, in the style of the code that runs there today. Newer
TensorFlows do not collect this file: see `versions.ONLY_IN_1`.
"""

import numpy as np
import pytest
import tensorflow as tf1
import tensorflow.compat.v1 as tf

import contract
import programs
import replicate
import selection
from contract import ModeKeys
from contract.models import F64, GLOROT, MODELS, gradients, optimizer, reduce_rows, step

# Its modules warn of much when they are imported.
pytestmark = pytest.mark.filterwarnings("ignore")


def trained(loss, params, train_op=None, mode=ModeKeys.TRAIN):
    train_op = optimizer(params).minimize(loss, step()) if train_op is None else train_op
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def squared(predictions, labels, params):
    return reduce_rows((predictions - labels) ** 2, params)


def layers(features, labels, mode, params):
    """`tf.contrib.layers`: layers with penalties, and `optimize_loss`, which clips."""
    contrib = tf1.contrib.layers
    hidden = contrib.fully_connected(
        features["x"],
        3,
        tf.tanh,
        weights_initializer=GLOROT(),
        weights_regularizer=contrib.l2_regularizer(0.1),
    )
    predictions = contrib.linear(hidden, 1, weights_initializer=GLOROT())
    loss = squared(predictions, labels, params) + tf.losses.get_regularization_loss()
    train_op = contrib.optimize_loss(
        loss, step(), None, optimizer(params), clip_gradients=0.2, learning_rate_decay_fn=None
    )
    return trained(loss, params, train_op)


def slim(features, labels, mode, params):
    """`tf.contrib.slim`: `arg_scope`, and `create_train_op`, which clips and checks."""
    contrib = tf1.contrib.slim
    with contrib.arg_scope([contrib.fully_connected], weights_initializer=GLOROT()):
        hidden = contrib.stack(features["x"], contrib.fully_connected, [4, 3], scope="stack")
        predictions = contrib.fully_connected(hidden, 1, activation_fn=None)
    tf.losses.add_loss(squared(predictions, labels, params))
    loss = tf.losses.get_total_loss()
    train_op = contrib.learning.create_train_op(
        loss, optimizer(params), global_step=step(), clip_gradient_norm=0.2
    )
    return trained(loss, params, train_op)


def rnn(features, labels, mode, params):
    """`tf.contrib.rnn`: a cell of its own in a `dynamic_rnn`."""
    cell = tf1.contrib.rnn.LayerNormBasicLSTMCell(3)
    steps = tf.cast(features["x"], tf.float32)[:, :, None]
    # By seeds of their own: TensorFlow 1.15 takes others from the number of operations, and of a
    # batch of unknown size it makes more.
    with tf.variable_scope("rnn", initializer=GLOROT(seed=1)):
        _, state = tf.nn.dynamic_rnn(cell, steps, dtype=tf.float32)
        predictions = tf.layers.dense(state.h, 1, kernel_initializer=GLOROT(seed=2))
    return trained(squared(predictions, tf.cast(labels, tf.float32), params), params)


def lookup(features, labels, mode, params):
    """`tf.contrib.lookup`: a table of words, whose rows are embedded."""
    contrib = tf1.contrib.lookup
    table = contrib.index_table_from_tensor(["0", "1", "2", "3"], num_oov_buckets=2)
    ids = table.lookup(tf.as_string(features["ids"]))
    words = tf.get_variable("words", [6, 1], F64, GLOROT())
    predictions = tf.reduce_sum(tf.nn.embedding_lookup(words, ids), 1)
    return trained(squared(predictions, labels, params), params)


def opt(make):
    """An optimizer of `tf.contrib.opt`."""

    def model_fn(features, labels, mode, params):
        w = tf.get_variable("w", [4, 1], F64, GLOROT())
        loss = squared(tf.tanh(features["x"] @ w), labels, params)
        train_op = params["wrap"](make()).minimize(loss, step())
        return trained(loss, params, train_op)

    return model_fn


def hparams(features, labels, mode, params):
    """`tf.contrib.training.HParams`, as `params` of an Estimator are there."""
    given = tf1.contrib.training.HParams(units=3, rate=0.02)
    hidden = tf.layers.dense(features["x"], given.units, tf.tanh, kernel_initializer=GLOROT())
    loss = squared(tf.layers.dense(hidden, 1, kernel_initializer=GLOROT()), labels, params)
    chosen = params["wrap"](tf.train.GradientDescentOptimizer(given.rate))
    return trained(loss, params, chosen.minimize(loss, step()))


def head(features, labels, mode, params):
    """A head of `tf.contrib.estimator`."""
    contrib = tf1.contrib.estimator
    logits = tf.layers.dense(
        tf.cast(features["x"], tf.float32), 1, kernel_initializer=GLOROT(), name="logits"
    )
    one = contrib.regression_head(loss_reduction=params["reduction"])
    return one.create_estimator_spec(
        features, mode, logits, tf.cast(labels, tf.float32), optimizer=optimizer(params)
    )


def clipped(features, labels, mode, params):
    """`tf.contrib.estimator.clip_gradients_by_norm`, around an optimizer."""
    contrib = tf1.contrib.estimator
    w = tf.get_variable("w", [4, 1], F64, GLOROT())
    loss = squared(tf.tanh(features["x"] @ w), labels, params)
    inner = contrib.clip_gradients_by_norm(tf.train.GradientDescentOptimizer(0.1), 0.1)
    return trained(loss, params, params["wrap"](inner).minimize(loss, step()))


def by_hand(features, labels, mode, params):
    """Gradients made and applied by hand, gated as reference variables need it."""
    w = tf.get_variable("w", [4, 1], F64, GLOROT())
    loss = squared(tf.tanh(features["x"] @ w), labels, params)
    pairs = zip(gradients(loss, [w]), [w])
    return trained(loss, params, optimizer(params).apply_gradients(pairs, step()))


def normalized(features, labels, mode, params):
    """Batch norm of all towers' rows, which is that of `tf.layers` on one device."""
    norm = replicate.batch_normalization(features["x"], training=mode == ModeKeys.TRAIN)
    loss = squared(tf.layers.dense(norm, 1, kernel_initializer=GLOROT()), labels, params)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return trained(loss, params)


ROWS = {
    "contrib.layers": layers,
    "contrib.slim": slim,
    "contrib.rnn": rnn,
    "contrib.lookup": lookup,
    "contrib.opt, AdaMax": opt(lambda: tf1.contrib.opt.AdaMaxOptimizer(0.05)),
    "contrib.opt, Nadam": opt(lambda: tf1.contrib.opt.NadamOptimizer(0.05)),
    "contrib.opt, LazyAdam": opt(lambda: tf1.contrib.opt.LazyAdamOptimizer(0.05)),
    "contrib.opt, AddSign": opt(lambda: tf1.contrib.opt.AddSignOptimizer(0.05)),
    "contrib.training.HParams": hparams,
    "contrib.estimator, head": head,
    "contrib.estimator, clipping": clipped,
    "gradients by hand": by_hand,
    "batch norm": normalized,
}
REPLICATED = ("contrib.opt, LazyAdam", "contrib.layers", "batch norm")
FLOAT32 = ("contrib.rnn", "contrib.estimator, head")


@pytest.mark.parametrize(
    ("name", "placement"),
    [
        selection.cell(name, placement, is_quick=placement == "consolidation" or name in REPLICATED)
        for name in ROWS
        for placement in ("consolidation", "replicated")
    ],
)
def test_contrib_trains_on_towers_as_on_one_device(name, placement):
    want = contract.record_one_device(ROWS[name], contract.UNEVEN)
    got = contract.record_towers(ROWS[name], contract.UNEVEN, 3, variable_placement=placement)
    contract.assert_same_run(got, want, rtol=1e-5 if name in FLOAT32 else 1e-9)


# Rows of the contract's table about behaviour that newer TensorFlows have by default.
BEHAVIOURS = [
    "get_variable",
    "keras_sequential",
    "cond",
    "while_loop",
    "embedding",
    "callable_loss",
]

SECOND = """
import sys; sys.path.append("tests")
import tensorflow.compat.v1 as tf
tf.enable_v2_behavior()
import contract
from contract import models
for name in {names}:
    model_fn = models.MODELS[name]
    want = contract.record_one_device(model_fn, contract.DYNAMIC, "momentum")
    got = contract.record_towers(model_fn, contract.DYNAMIC, 3, "momentum")
    contract.assert_same_run(got, want)
    print(name)
assert tf.executing_eagerly() and tf.resource_variables_enabled()
assert tf.control_flow_v2_enabled()
"""


def test_the_contract_holds_with_the_behaviour_of_tensorflow_2():
    """Eager, with resource variables and control flow of the second kind."""
    assert set(BEHAVIOURS) < set(MODELS)
    done = programs.run("-W", "ignore", "-c", SECOND.format(names=BEHAVIOURS))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == BEHAVIOURS


# A file as in a codebase of today; only the lines that install the library are new.
CODEBASE = """
import replicate
replicate.compat.install(replace_ancestor=True)

import tensorflow as tf
from tensorflow.contrib.estimator import TowerOptimizer

def model_fn(features, labels, mode):
    logits = tf.contrib.layers.fully_connected(features, 1, activation_fn=None)
    loss = tf.losses.mean_squared_error(labels, logits)
    optimizer = TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

def input_fn():
    x = tf.reshape(tf.range(6.0), [6, 1])
    return tf.data.Dataset.from_tensors((x, 2.0 * x)).repeat(2)

devices = ["/cpu:0", "/cpu:1"]
model_fn = tf.contrib.estimator.replicate_model_fn(model_fn, devices=devices)
config = tf.estimator.RunConfig(session_config=replicate.session_config(devices))
tf.estimator.Estimator(model_fn, config=config).train(input_fn)
print(TowerOptimizer.__module__)
"""
LEFT_ALONE = """
import replicate
replicate.compat.install()

import tensorflow as tf
print(tf.contrib.estimator.TowerOptimizer.__module__)
"""
INSTALLED = {CODEBASE: "replicate", LEFT_ALONE: "tensorflow"}


@pytest.mark.parametrize("program", INSTALLED, ids=["replaced", "left alone"])
def test_a_codebase_with_contrib_trains(program):
    done = programs.run("-W", "ignore", "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1].startswith(INSTALLED[program])


def test_a_codebase_with_one_import_changed_trains_as_on_one_device(tmp_path):
    before = (programs.ROOT / "tests" / "migration" / "tf1_codebase.py").read_text()
    of_contrib = "from tensorflow.contrib.estimator import TowerOptimizer, replicate_model_fn\n"
    assert before.count(of_contrib) == 1
    after = before.replace(of_contrib, "from replicate import TowerOptimizer, replicate_model_fn\n")
    found = []
    for num_towers, code in ((1, before), (2, after)):
        program = tmp_path / f"on_{num_towers}.py"
        program.write_text(code)
        flags = [f"--num_towers={num_towers}", f"--model_dir={tmp_path / str(num_towers)}"]
        done = programs.run("-W", "ignore", str(program), *flags, f"--out={program}.npz")
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(np.load(f"{program}.npz"))
    one, towers = found
    assert sorted(one) == sorted(towers)
    # 61 rows in batches of 10: the last has one, and the second tower none.
    assert one["global_step"] == towers["global_step"] == 14
    for name in one:
        # Losses and metrics are float32.
        rtol = 1e-12 if towers[name].dtype == np.float64 else 1e-6
        np.testing.assert_allclose(towers[name], one[name], rtol, rtol, err_msg=name)


def test_a_file_that_was_fixed_runs_here_too():
    """`scan --fix` lets it import `tensorflow.compat.v1`, which has no `contrib` of its own."""
    program = "import replicate; replicate.compat.install(); import tensorflow.compat.v1 as tf; "
    done = programs.run("-W", "ignore", "-c", program + "print(tf.contrib.layers.__name__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "tensorflow.contrib.layers"


def test_the_estimator_is_tensorflows_own():
    assert replicate.estimator is tf.estimator is tf1.estimator
