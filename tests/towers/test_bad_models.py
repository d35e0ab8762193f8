"""Errors for models that cannot run as towers; see `bodies.py`.

After each failure, `check_failure` looks for what it may have left behind.
"""

import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import (
    PREDICT,
    TRAIN,
    build,
    check_failure,
    control_flow,
    good,
    matching,
    spec,
)

NO_BODY = "Towers must not rendezvous in the body of a `tf.cond`, `tf.while_loop` or function"
NO_MERGE = "A merge function must not rendezvous"
PER_TOWER = "Values of a `PerTower` result that differ between towers must be tensors, because the"
BODY = (
    "With `per_tower=True`, each tower runs a condition, loop or function by itself if its inputs "
    "differ among towers, but…test_bad_models.py…updates a variable there"
)
BY_GRADIENTS = (
    "With `per_tower=True`, trainable variables are updated by gradients of all towers, but"
)
UNCLEAR = "All towers share a variable, but nothing defines how their values become one value of"
INDEX = "`model_fn` is called once for all towers, so Python cannot ask for the index of one."


def _one(values):
    return values[0]


def meet_one():
    return replicate.merge_call(_one, 1)


def add():
    return replicate.cross_tower_sum(1.0)


def _weight():
    return tf.get_variable("w", [], initializer=tf.ones_initializer())


def _counter(**kwargs):
    collections = [tf.GraphKeys.LOCAL_VARIABLES]
    return tf.get_variable("c", [], collections=collections, trainable=False, **kwargs)


def _loop(x, resource=True):
    # A loop of the first kind takes the variable itself through its switches.
    counter = _counter(use_resource=resource)

    def count(i, total):
        with tf.control_dependencies([tf.assign_add(counter, tf.reduce_sum(x))]):
            return i + 1, total + tf.reduce_sum(x)

    return spec(TRAIN, tf.while_loop(lambda i, _: i < 3, count, [0, 0.0])[1])


def _handle_in_a_loop(index, features):
    variable = tf.get_variable("v", [], use_resource=True, trainable=False)

    def body(i, handle, total):
        added = tf.raw_ops.AssignAddVariableOp(resource=handle, value=total)
        with tf.control_dependencies([added]):
            return i + 1, tf.identity(handle), total + 1.0

    first = [0, variable.handle, tf.reduce_sum(features)]
    total = tf.while_loop(lambda i, *_: i < 3, body, first)[2]
    return tf.estimator.EstimatorSpec(PREDICT, {"y": features * total})


BODIES = {
    "index as a condition": (
        lambda index, features: features if index == 0 else features * 2,
        f"{INDEX}…`tf.where(tf.equal(replicate.tower_index(), 0), a, b)`…`replicate.merge_call`",
    ),
    "merge_call in a merge function": (
        lambda index, features: replicate.merge_call(lambda v: meet_one(), 1),
        f"{NO_MERGE}…merge_call of _one…test_bad_models.py…combine them there",
    ),
    "cross_tower_sum in a merge function": (
        lambda index, features: replicate.merge_call(lambda v: add(), 1),
        f"{NO_MERGE}…cross-tower sum…test_bad_models.py…combine them there",
    ),
    "PerTower of another length": (
        lambda index, features: replicate.merge_call(lambda: replicate.PerTower([1, 2, 3])),
        "A `PerTower` result must hold one value for each of…2 towers…holds 3…plain value",
    ),
    "PerTower of Python's own": (
        lambda index, features: replicate.merge_call(lambda: replicate.PerTower([1, 2])),
        f"{PER_TOWER}…merge_call of…<lambda>…returned (1, 2)…Make tensors of them",
    ),
    "mean of integers": (
        lambda index, features: replicate.cross_tower_mean(tf.constant(1)),
        "`cross_tower_mean` takes floating or complex tensors…int32…Cast it first",
    ),
    "no spec": (
        lambda index, features: features,
        "`model_fn` must return a `tf.estimator.EstimatorSpec`…<tf.Tensor…convert it",
    ),
    "replicated twice": (
        lambda index, features: build(good),
        "A model can be replicated once…inside a replicated model…where you create the Estim",
    ),
}


@pytest.mark.parametrize(("body", "phrases"), list(BODIES.values()), ids=list(BODIES))
def test_towers_that_break_a_rule(body, phrases):
    check_failure(body, (RuntimeError, ValueError, TypeError), phrases)


def _apply(gradient):
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
    return optimizer.apply_gradients([(gradient, tf.trainable_variables()[0])])


CONTROL_FLOW = {
    "cond": lambda x: tf.cond(x > 0, lambda: replicate.cross_tower_sum(x), lambda: x),
    "while_loop": lambda x: tf.while_loop(
        lambda i: i < 3, lambda i: replicate.cross_tower_mean(i), [x]
    ),
    "function": lambda x: tf.function(lambda y: replicate.merge_call(_one, y))(x),
    "map_fn": lambda x: tf.map_fn(lambda y: replicate.cross_tower_sum(y), tf.stack([x, x])),
    "train": lambda x: tf.cond(x > 0, lambda: _apply(x), tf.no_op),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("flow", list(CONTROL_FLOW.values()), ids=list(CONTROL_FLOW))
def test_a_rendezvous_in_control_flow(flow, version):
    def body(index, features):
        tf.get_variable("w", [])
        flow(tf.reduce_mean(features))

    with control_flow(version):
        error = check_failure(body, RuntimeError, f"{NO_BODY}…one reached…before or after the body")
        assert "test_bad_models.py" in str(error)


def _optimize(index, features):
    loss = tf.reduce_mean(_weight() * features)
    return spec(TRAIN, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss))


def _assign(index, features):
    return spec(TRAIN, train_op=_weight().assign(tf.reduce_mean(features)))


def _scatter(index, features):
    w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
    return spec(TRAIN, train_op=tf.group(tf.scatter_nd_update(w, [[0]], features[0])))


def _in_a_function(index, features):
    w = _weight()

    @tf.function
    def update(x):
        w.assign(tf.reduce_mean(x))
        return w.read_value()

    return spec(TRAIN, train_op=update(features).op)


def _integers(index, features):
    largest = tf.get_variable("largest", [], tf.int32, trainable=False)
    update = largest.assign(tf.cast(tf.reduce_max(features), tf.int32))
    return spec(TRAIN, train_op=tf.group(update))


UPDATES = {
    "optimizer": (
        _optimize,
        f"{BY_GRADIENTS} ResourceApplyGradientDescent…test_bad_models.py…updates w:0 from the "
        "value of a single tower. Wrap the optimizer, as in `replicate.TowerOptimizer(tf.train."
        "Adam…`replicate.cross_tower_mean`",
    ),
    "assignment": (_assign, f"{BY_GRADIENTS} Assign…test_bad_models.py…updates w:0"),
    "slices": (_scatter, f"{BY_GRADIENTS} ResourceScatterNdUpdate…updates w:0"),
    "function": (_in_a_function, f"{BODY} (AssignVariableOp). Update it outside, by a value"),
    "loop": (lambda i, x: _loop(x), f"{BODY} (c:0). Update it outside, by a value"),
    "loop of references": (lambda i, x: _loop(x, resource=False), f"{BODY} (c:0)"),
    "handle in a loop": (_handle_in_a_loop, f"{BODY} (v:0)…a value that the body returns"),
    "integers": (
        _integers,
        f"{UNCLEAR} largest:0, which Assign…test_bad_models.py…`replicate.cross_tower_sum`, or in a"
        " `replicate.merge_call`",
    ),
}


@pytest.mark.parametrize(("body", "phrases"), list(UPDATES.values()), ids=list(UPDATES))
def test_updates_of_what_towers_share(body, phrases):
    with control_flow(1), pytest.raises(ValueError, match=matching(phrases)):
        build(body)


LATE = "The gradient of a cross-tower sum needs the losses of all towers…inside `model_fn`…outside"


def test_the_gradient_of_a_cross_tower_sum_outside_towers():
    def body(index, features):
        made.append(replicate.cross_tower_sum(features))
        return spec(TRAIN, tf.reduce_sum(made[-1]))

    made, features = [], tf.ones([4, 1])
    build(body, features)
    with pytest.raises(RuntimeError, match=matching(LATE)):
        tf.gradients(made[0], features)
