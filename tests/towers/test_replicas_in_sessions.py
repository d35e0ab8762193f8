"""Sessions initialise, restore, assign and count around steps. Replicas see all of it."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate

ROWS = np.random.RandomState(1).normal(size=[5, 3]).astype(np.float32)
WAYS = ("consolidation", "replicated", "auto")
SGD = tf.train.GradientDescentOptimizer


def forward(features):
    """Returns an activation and its loss."""
    kernel = tf.get_variable("kernel", [3, 4], initializer=tf.glorot_uniform_initializer(seed=3))
    y = tf.tanh(
        features @ kernel + tf.get_variable("bias", [4], initializer=tf.zeros_initializer())
    )
    return y, tf.reduce_mean(tf.square(y - 0.3))


def spec(mode, loss, train=None, **kwargs):
    step = tf.train.get_or_create_global_step()
    train_op = train(loss, step) if mode == "train" else None
    return tf.estimator.EstimatorSpec(mode, {"loss": loss}, loss, train_op, **kwargs)


def minimize(loss, step, **kwargs):
    return replicate.TowerOptimizer(SGD(0.1), **kwargs).minimize(loss, step)


def clip_after(train_op):
    with tf.control_dependencies([train_op]):
        clipped = [
            variable.assign(tf.clip_by_value(variable, -0.05, 0.05))
            for variable in tf.trainable_variables()
        ]
        return tf.group(*clipped)


def plain(features, labels, mode):
    return spec(mode, forward(features)[1], minimize)


def of_the_step(features, labels, mode):
    step = tf.train.get_or_create_global_step()
    return spec(mode, forward(features)[1] * (1.0 + tf.cast(step, tf.float32)), minimize)


def counting_besides(features, labels, mode):
    def train(loss, step):
        with tf.control_dependencies([minimize(loss, step)]):
            return tf.assign_add(step, 2).op

    step = tf.train.get_or_create_global_step()
    return spec(mode, forward(features)[1] * (1.0 + tf.cast(step, tf.float32)), train)


def initialised_by_a_step(features, labels, mode):
    made = plain(features, labels, mode)
    scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: session.run(made.train_op))
    return made._replace(scaffold=scaffold)


def initialising_what_it_has(features, labels, mode):
    """Local variables that exist when the model is built; replicas are made later."""
    made = plain(features, labels, mode)
    tf.Variable(0.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    own = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
    return made._replace(scaffold=tf.train.Scaffold(local_init_op=own))


def given_up_in_a_condition(features, labels, mode):
    def train(loss, step):
        return clip_after(minimize(loss, step, loss_scale="dynamic"))

    scaffold = tf.train.Scaffold(local_init_op=tf.tables_initializer())
    return spec(mode, forward(features)[1], train, scaffold=scaffold)


def merging(**kwargs):
    """Returns a `model_fn` of a value that is merged, whose weights are clipped."""

    def model_fn(features, labels, mode):
        y, loss = forward(features)
        train_op = minimize(loss, tf.train.get_or_create_global_step(), **kwargs)
        totals = ["totals", tf.GraphKeys.LOCAL_VARIABLES]
        total = tf.get_variable("total", initializer=0.0, trainable=False, collections=totals)
        replicate.metrics.declare_merge([total], lambda values: tf.reduce_sum(values, 0))
        with tf.control_dependencies([tf.assign_add(total, tf.reduce_sum(y)).op]):
            return spec(mode, loss, lambda *_: clip_after(train_op))

    return model_fn


class Restoring(tf.train.SessionRunHook):
    """Restores weights by a saver of its own."""

    def __init__(self, path):
        self._path = path

    def begin(self):
        self._saver = tf.train.Saver(tf.trainable_variables())

    def after_create_session(self, session, coord):
        self._saver.restore(session, self._path)


class Assigning(tf.train.SessionRunHook):
    """Changes weights and the step."""

    def __init__(self, path):
        del path

    def begin(self):
        step = tf.assign(tf.train.get_global_step(), 10)
        self._changes = [step, *(tf.assign(v, -0.5 * v) for v in tf.trainable_variables())]

    def after_create_session(self, session, coord):
        session.run(self._changes)


def save(folder):
    """Saves weights and the step; returns the path."""
    path = str(folder / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        tf.train.create_global_step()
        forward(tf.constant(ROWS))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, path, write_meta_graph=False)
    return path


def run(model_fn, mode, hooks, path, restored=None):
    """Returns what three steps give, and the variables after them."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        tf.train.get_or_create_global_step()
        made = model_fn(tf.constant(ROWS), None, mode)
        own = made.training_hooks if mode == "train" else made.evaluation_hooks
        creator = tf.train.ChiefSessionCreator(
            made.scaffold,
            config=contract.session_config(3),
            checkpoint_filename_with_path=restored,
        )
        with tf.train.MonitoredSession(creator, [*(hook(path) for hook in hooks), *own]) as session:
            fetches = [made.loss, *([made.train_op] if mode == "train" else [])]
            found = [session.run(fetches)[0] for _ in range(3)]
            totals = tf.get_collection("totals")
            return found, session.run([*tf.trainable_variables(), *totals])


CASES = [
    (plain, "train", [Restoring], WAYS),
    (plain, "eval", [Restoring], WAYS),
    (plain, "train", [Assigning], WAYS),
    (plain, "eval", [Assigning], WAYS),
    (of_the_step, "train", [Assigning], WAYS),
    (counting_besides, "train", [], WAYS),
    (initialised_by_a_step, "train", [], WAYS),
    (given_up_in_a_condition, "train", [], ("consolidation", "auto")),
    (merging(), "train", [], ("consolidation", "auto")),
    (merging(loss_scale="dynamic"), "train", [], ("consolidation", "auto")),
]


@pytest.mark.parametrize(
    ("model_fn", "mode", "hooks", "way"),
    [(*case, way) for *case, ways in CASES for way in ways],
)
def test_sessions_do_what_they_do_on_one_device(model_fn, mode, hooks, way, as_gpus, tmp_path):
    path = save(tmp_path)
    want = run(model_fn, mode, hooks, path)
    replicated = contract.replicated(model_fn, 3, variable_placement=way)
    got = run(replicated, mode, hooks, path)
    for one, other in zip(tf.nest.flatten(got), tf.nest.flatten(want)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_restores_initialises_replicas(mode, way, as_gpus, tmp_path):
    """It runs only the user's `local_init_op`, which knows no replicas."""
    path = save(tmp_path)
    want = run(initialising_what_it_has, mode, [], path, restored=path)
    replicated = contract.replicated(initialising_what_it_has, 3, variable_placement=way)
    got = run(replicated, mode, [], path, restored=path)
    for one, other in zip(tf.nest.flatten(got), tf.nest.flatten(want)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_replicas_are_updated_after_their_towers_have_read_them():
    """On one device, the update follows the read since its value is made of that."""

    def model_fn(features, labels, mode):
        value = tf.get_variable("w", [3, 1], use_resource=True).value()
        loss = tf.reduce_mean(tf.square(features @ value))
        update = tf.trainable_variables()[0].assign(0.5 * value)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(update, loss))

    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        contract.replicated(model_fn, 3, variable_placement="replicated")(
            tf.placeholder(tf.float32, [None, 3]), None, "train"
        )
        for index in (1, 2):
            (product,) = (op for op in graph.get_operations() if op.name == f"tower_{index}/matmul")
            (update,) = (
                op
                for op in graph.get_operations()
                if op.name.startswith(f"replicate/tower_{index}/update")
                and "Initializer" not in op.name
                and op.type == "AssignVariableOp"
                and op.inputs[1].op.type == "Mul"
            )
            assert product.inputs[1].op in update.control_inputs


def test_what_has_no_value_is_in_no_pack():
    """On one device, nobody reads it."""

    def model_fn(features, labels, mode):
        y, loss = forward(features)
        other = tf.Variable(tf.ones([4]), trainable=False, collections=[], name="other")
        metrics = {"mean": tf.metrics.mean(y)}
        return tf.estimator.EstimatorSpec(mode, {"z": y * other}, loss, eval_metric_ops=metrics)

    found, _ = run(contract.replicated(model_fn, 3), "eval", [], "")
    want, _ = run(model_fn, "eval", [], "")
    np.testing.assert_allclose(found, want, rtol=1e-6)
