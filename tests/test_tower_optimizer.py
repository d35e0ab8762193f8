"""`TowerOptimizer` reduces once, transforms once, clips once and applies once."""

import copy

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import TRAIN, build, matching, session, spec

ROWS = np.array([[1.0], [2.0], [3.0], [6.0], [8.0]])  # Of mean 4, over two towers: 3 and 2 rows.
SGD = tf.train.GradientDescentOptimizer


class HandAssigning:
    """The least that an optimizer must have; it assigns variables itself, as BERT's does."""

    def compute_gradients(self, loss, var_list=None):
        var_list = var_list or tf.trainable_variables()
        return list(zip(tf.gradients(loss, var_list), var_list))

    def apply_gradients(self, grads_and_vars, global_step=None):
        updates = [v.assign(v - 0.5 * g) for g, v in grads_and_vars if g is not None]
        return tf.group(updates, [] if global_step is None else global_step.assign_add(1))


def weight(name="w", initial=0.0, shape=()):
    initializer = tf.constant_initializer(initial)
    return tf.get_variable(name, shape, tf.float64, initializer=initializer)


def towers(body, num_towers=2, steps=1):
    """Builds towers of `body(features)`; returns what it returned per tower, and all values.

    `body` returns a train operation, or a tuple that starts with one.
    """
    returned = []

    def model(index, features):
        result = body(features)
        returned.append(result if isinstance(result, tuple) else (result,))
        return spec(TRAIN, train_op=returned[-1][0])

    tf.train.get_or_create_global_step()
    train_op = build(model, tf.constant(ROWS), num_towers=num_towers).train_op
    with session() as running:
        running.run(tf.global_variables_initializer())
        for _ in range(steps):
            running.run(train_op)
        return returned, {v.op.name: running.run(v) for v in tf.global_variables()}


def _loss(x):
    return tf.reduce_mean(x * weight())  # Its gradient for `w` is the mean of the rows, 4.


def _hand_written(x):
    _loss(x)
    return [(tf.reduce_mean(x), tf.trainable_variables()[0])]


def _computed(optimizer, x):
    return optimizer.compute_gradients(_loss(x))


def _gradients(optimizer, x):
    loss, variables = _loss(x), tf.trainable_variables()
    return zip(tf.gradients(loss, variables), variables)


WAYS = {
    "minimize": lambda o, x, s: o.minimize(_loss(x), s),
    "minimize by name": lambda o, x, s: o.minimize(loss=_loss(x), global_step=s, var_list=None),
    "list": lambda o, x, s: o.apply_gradients(_computed(o, x), s),
    "tuple": lambda o, x, s: o.apply_gradients(tuple(_computed(o, x)), s),
    "generator": lambda o, x, s: o.apply_gradients((pair for pair in _computed(o, x)), s),
    "zip of tf.gradients": lambda o, x, s: o.apply_gradients(_gradients(o, x), global_step=s),
    "hand-written": lambda o, x, s: o.apply_gradients(_hand_written(x), s),
}


@pytest.mark.parametrize("num_towers", [1, 2, 3])
@pytest.mark.parametrize("optimizer", [lambda: SGD(0.5), HandAssigning], ids=["sgd", "by hand"])
@pytest.mark.parametrize("way", list(WAYS.values()), ids=list(WAYS))
def test_every_way_to_make_gradients(way, optimizer, num_towers):
    def body(x):
        return way(replicate.TowerOptimizer(optimizer()), x, tf.train.get_global_step())

    made, values = towers(body, num_towers, steps=2)
    np.testing.assert_allclose(values["w"], 2 * -0.5 * 4)
    assert values["global_step"] == 2
    assert len({id(train_op) for (train_op,) in made}) == 1


@pytest.mark.parametrize("num_towers", [1, 2])
def test_it_transforms_then_clips_what_was_reduced(num_towers):
    def transform(grads_and_vars):
        seen.append([v.op.name for _, v in grads_and_vars])
        for gradient, variable in grads_and_vars:  # A generator will do.
            yield (None if gradient is None else gradient * scale[variable.op.name]), variable

    def body(x):
        a, b, unused = weight("a"), weight("b"), weight("unused")
        loss = tf.reduce_mean(x * a - x * b) + 0 * tf.stop_gradient(unused)
        optimizer = replicate.TowerOptimizer(SGD(1.0), clip_norm=2, transform_gradients=transform)
        return optimizer.minimize(loss)

    scale, seen = {"a": 3.0, "b": 4.0}, []
    _, values = towers(body, num_towers)
    # Gathered 4 and -4; transformed 12 and -16, of norm 20; clipped to a tenth.
    np.testing.assert_allclose([values["a"], values["b"]], [-1.2, 1.6])
    assert seen == [["a", "b", "unused"]]


@pytest.mark.parametrize(
    ("clip_norm", "want"),
    [
        (lambda: None, 4),
        (lambda: 5, 4),
        (lambda: 1.0, 1),
        (lambda: np.float32(2), 2),
        (lambda: tf.constant(2.0, tf.float64), 2),
        (lambda: weight("norm", 2.0), 2),
    ],
    ids=["None", "large", "small", "array", "tensor", "variable"],
)
def test_clip_norm_is_in_units_of_the_whole_gradient(clip_norm, want):
    def body(x):
        optimizer = replicate.TowerOptimizer(SGD(1.0), clip_norm=clip_norm())
        return optimizer.minimize(_loss(x), var_list=tf.trainable_variables("w"))

    np.testing.assert_allclose(towers(body)[1]["w"], -want)


def test_clipping_takes_sparse_and_dense_gradients():
    def body(x):
        table, dense = weight("table", shape=[3, 1]), weight("dense")
        loss = tf.reduce_mean(x * (tf.gather(table, tf.cast(x[:, 0], tf.int32) % 3) + dense))
        return replicate.TowerOptimizer(SGD(1.0), clip_norm=1.0).minimize(loss)

    _, values = towers(body)
    # Slices x / 5 for rows 1, 2, 0, 0, 2 of the table, and 4 for `dense`. Slices of one row add up
    # to the gradient of that row: 9/5, 1/5 and 10/5 for rows 0, 1 and 2.
    norm = np.sqrt((9**2 + 1 + 10**2) / 25 + 16)
    np.testing.assert_allclose(values["dense"], -4 / norm)
    np.testing.assert_allclose(values["table"][:, 0], [-9 / 5 / norm, -1 / 5 / norm, -2 / norm])


def test_slots_and_variables_answer_in_every_tower():
    def body(x):
        optimizer = replicate.TowerOptimizer(lambda: tf.train.AdamOptimizer(name="mine"))
        train_op = optimizer.minimize(_loss(x))
        (w,) = tf.trainable_variables()
        slots = [optimizer.get_slot(w, name) for name in optimizer.get_slot_names()]
        return train_op, optimizer.get_name(), optimizer.get_slot_names(), slots, [
            v.op.name for v in optimizer.variables()
        ]  # fmt: skip

    made, _ = towers(body, 3)
    for _, *answers in made:
        assert answers[0] == "mine"
        assert answers[1] == ["m", "v"]
        assert [slot.op.name for slot in answers[2]] == ["w/mine", "w/mine_1"]
        assert [id(slot) for slot in answers[2]] == [id(slot) for slot in made[0][3]]
        assert sorted(answers[3]) == ["beta1_power", "beta2_power", "w/mine", "w/mine_1"]


def test_two_optimizers_of_one_class():
    def body(x):
        a, b = weight("a"), weight("b")
        first = replicate.TowerOptimizer(SGD(1.0)).minimize(tf.reduce_mean(x * a), var_list=[a])
        with tf.control_dependencies([first]):
            second = replicate.TowerOptimizer(SGD(0.25), clip_norm=2.0)
            return second.minimize(tf.reduce_mean(x * b), var_list=[b])

    _, values = towers(body, 3)
    np.testing.assert_allclose([values["a"], values["b"]], [-4, -0.25 * 2])


def test_one_optimizer_twice():
    def body(x):
        optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(1.0, 0.5))
        a, b = weight("a"), weight("b")
        first = optimizer.minimize(tf.reduce_mean(x * a), var_list=[a])
        second = optimizer.minimize(tf.reduce_mean(x * b), var_list=[b])
        return tf.group(first, second)

    _, values = towers(body, 2, steps=2)
    # Momentum: 4, then 4 / 2 + 4.
    np.testing.assert_allclose([values["a"], values["b"]], [-10, -10])
    assert set(values) == {"a", "b", "a/Momentum", "b/Momentum", "global_step"}


@pytest.mark.parametrize("num_towers", [2, 3])
def test_it_applies_once_on_the_consolidation_device(num_towers, fresh_graph):
    def body(x):
        a, b = weight("a"), weight("b")
        return replicate.TowerOptimizer(tf.train.AdamOptimizer()).minimize(
            tf.reduce_mean(x * a * b), tf.train.get_global_step()
        )

    towers(body, num_towers)
    ops = fresh_graph.get_operations()
    assert len([op for op in ops if op.type == "ResourceApplyAdam"]) == 2  # One per variable.
    sums = [op for op in ops if op.type == "AddN" and op.name.startswith("replicate/reduce")]
    assert [op.device for op in sums] == ["/device:CPU:0"]  # Of a and b, packed.
    assert len([op for op in ops if op.type == "VarHandleOp"]) == 2 + 1 + 2 * 2 + 2
    assert not [op.name for op in ops if "Adam" in op.name and "tower_" in op.name]


# Without towers.


def test_without_towers_calls_are_forwarded():
    def trained(wrap):
        with tf.Graph().as_default(), session() as running:
            step = tf.train.get_or_create_global_step()
            optimizer = wrap(tf.train.AdamOptimizer(0.5))
            x = tf.constant(ROWS)
            pairs = optimizer.compute_gradients(_loss(x), aggregation_method=None)
            train_op = optimizer.apply_gradients(pairs, global_step=step, name="update")
            other = wrap(SGD(0.5)).minimize(tf.square(weight("other", 1.0)), name="other_update")
            running.run(tf.global_variables_initializer())
            running.run([train_op, other])
            nodes = [node.name for node in tf.get_default_graph().as_graph_def().node]
            return nodes, [running.run(v) for v in tf.global_variables()]

    assert trained(replicate.TowerOptimizer) == trained(lambda optimizer: optimizer)


def test_a_factory_is_called_once_per_graph():
    made = []

    def factory():
        made.append(SGD(tf.constant(0.5)))  # A tensor belongs to a graph.
        return made[-1]

    optimizer = replicate.TowerOptimizer(factory)
    for count in (1, 2):
        with tf.Graph().as_default():
            optimizer.minimize(_loss(tf.constant(ROWS)))
            assert optimizer.optimizer is made[-1]
            assert len(made) == count


def test_a_class_is_a_factory():
    assert isinstance(
        replicate.TowerOptimizer(tf.train.AdamOptimizer).optimizer, tf.train.AdamOptimizer
    )


def test_what_it_lacks_it_asks_the_wrapped_optimizer_for():
    wrapped = tf.train.SyncReplicasOptimizer(SGD(0.5), 1)
    optimizer = replicate.TowerOptimizer(wrapped)
    assert optimizer.get_chief_queue_runner.__self__ is wrapped
    assert not hasattr(optimizer, "no_such_attribute")
    assert copy.copy(optimizer).optimizer is wrapped
    assert isinstance(optimizer, tf.train.Optimizer)


def test_whether_one_has_been_used_is_asked_of_each_graph():
    """As of `tf.contrib.estimator.TowerOptimizer`, of the class as of any of its optimizers."""
    cls, other = replicate.TowerOptimizer, replicate.TowerOptimizer(SGD(0.1))
    assert cls.has_been_used() is other.has_been_used() is False
    seen = []

    def body(x):
        optimizer = replicate.TowerOptimizer(SGD(0.1))
        seen.append(cls.has_been_used())
        pairs = optimizer.compute_gradients(_loss(x))
        seen.append(optimizer.has_been_used())
        train_op = optimizer.apply_gradients(pairs)
        seen.append(optimizer.has_been_used())
        return train_op

    with tf.Graph().as_default():
        towers(body)
        assert cls.has_been_used() is other.has_been_used() is True
    assert seen == [False, False, True]
    assert not cls.has_been_used()


@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("accumulate_steps", [1, 2])
def test_minimize_uses_it(num_towers, accumulate_steps):
    def body(x):
        optimizer = replicate.TowerOptimizer(SGD(0.1), accumulate_steps=accumulate_steps)
        return spec(TRAIN, train_op=optimizer.minimize(_loss(x)))

    build(lambda _, features: body(features), tf.constant(ROWS), num_towers=num_towers)
    assert replicate.TowerOptimizer.has_been_used()


def test_a_step_in_a_condition_counts_for_the_graph_around_it():
    optimizer = replicate.TowerOptimizer(SGD(0.1))
    pairs = optimizer.compute_gradients(_loss(tf.constant(ROWS)))
    # replicate: ignore
    tf.cond(tf.constant(True), lambda: optimizer.apply_gradients(pairs), tf.no_op)
    assert replicate.TowerOptimizer.has_been_used()


NO_STATE = "called once for all towers, so the state of a graph has no …'loss_reduction'…only"
NO_COLLECTION = "no collection holds the state of each…Write `TowerOptimizer._graph_state()` for"
SECOND_HALF = "leaves it to the optimizer that it wraps…Call `apply_gradients` in a replica…scale"


@pytest.mark.parametrize("of", [lambda cls: cls, lambda cls: cls(SGD(0.1))], ids=["class", "own"])
def test_the_state_of_a_graph_that_the_ancestor_had(of):
    state = of(replicate.TowerOptimizer)._graph_state()
    assert (state.is_the_last_tower, state.number_of_towers) == (True, 1)
    with pytest.raises(AttributeError, match=matching(NO_STATE)):
        state.loss_reduction  # noqa: B018
    with pytest.raises(AttributeError, match=matching(NO_COLLECTION)):
        replicate.TowerOptimizer.COLLECTION_FOR_GRAPH_STATES  # noqa: B018  # replicate: ignore


@pytest.mark.parametrize("num_towers", [1, 2])
def test_the_state_of_a_graph_counts_towers(num_towers):
    def body(x):
        assert replicate.TowerOptimizer._graph_state().number_of_towers == replicate.num_towers()
        train_op = replicate.TowerOptimizer(SGD(0.1)).minimize(_loss(x))
        return spec(TRAIN, train_op=train_op)

    build(lambda _, features: body(features), tf.constant(ROWS), num_towers=num_towers)


def test_the_second_half_of_apply_gradients_is_the_wrapped_optimizers():
    optimizer = replicate.TowerOptimizer(SGD(0.1))
    with pytest.raises(RuntimeError, match=matching(SECOND_HALF)):
        optimizer._distributed_apply(tf.distribute.get_strategy(), [])


WRAPPED = "reduces the gradients of all towers once, but got an optimizer that it wraps already"
NOT_ALL = (
    "so a `CrossShardOptimizer` in it must take the mean over all replicas, but its reduction is"
)


@pytest.mark.parametrize("nested", ["optimizer", "factory"])
def test_wrapping_twice_is_an_error(nested):
    def make():
        return replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0))

    with pytest.raises(TypeError, match=WRAPPED + r"\. Wrap once"):
        replicate.TowerOptimizer(make() if nested == "optimizer" else make).get_name()


@pytest.mark.parametrize("nested", ["optimizer", "factory"])
def test_a_cross_shard_optimizer_is_unwrapped(nested):
    """`TowerOptimizer` sums gradients itself; the wrapper would need TPU replicas."""
    inner = tf.train.GradientDescentOptimizer(1.0)

    def make():
        return tf.tpu.CrossShardOptimizer(inner)

    optimizer = replicate.TowerOptimizer(make() if nested == "optimizer" else make)
    assert optimizer.optimizer is inner


@pytest.mark.parametrize(
    "kwargs, shown",
    [
        ({"reduction": tf.losses.Reduction.SUM}, "'weighted_sum' and its groups are None"),
        ({"group_assignment": [[0, 1], [2, 3]]}, r"groups are \[\[0, 1\], \[2, 3\]\]"),
    ],
)
def test_a_cross_shard_optimizer_of_another_kind_is_refused(kwargs, shown):
    inner = tf.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(1.0), **kwargs)
    message = NOT_ALL + f".*{shown}.*loss_reduction=tf.losses.Reduction.SUM"
    with pytest.raises(ValueError, match=message):
        replicate.TowerOptimizer(inner)
