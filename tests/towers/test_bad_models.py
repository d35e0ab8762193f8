"""What `replicate` says to models that cannot run as towers; see `bodies.py`.

After each failure, `check_failure` looks for what it may have left behind.
"""

import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import (
    EVAL,
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
PER_TOWER = (
    "What a `PerTower` result holds for each tower must be tensors, since the model is built"
)
LOOP = "What a loop changes in each of its rounds, each tower's loop would change by itself"
OF_RESOURCE = (
    "What a function or loop changes must be a resource variable for each tower to have its"
)
MIXED = (
    "Gradients of variables are those of the whole batch from where they are made, so what is done"
)
TWICE = "Gradients of variables are gathered from all towers where they are made, and have no gradi"
DECLARED = "A variable with a declared merge is updated by one assignment, but"
INDEX = "`model_fn` is called once for all towers, so Python cannot ask for the index of one."


def _one(values):
    return values[0]


def meet_one():
    return replicate.merge_call(_one, 1)


def add():
    return replicate.cross_tower_sum(1.0)


def _weight():
    return tf.get_variable("w", [], initializer=tf.ones_initializer())


def _divided_by_norm(index, features):
    w = _weight()
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
    ((gradient, _),) = optimizer.compute_gradients(tf.reduce_sum(w * features), [w])
    norm = tf.reduce_sum(features)
    return spec(TRAIN, train_op=optimizer.apply_gradients([(gradient / norm, w)]))


def _twice(index, features):
    w = _weight()
    (gradient,) = tf.gradients(tf.reduce_mean(tf.square(w * features)), w)
    tf.gradients(tf.square(gradient), w)


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


def _queue_in_a_loop(index, features):
    def body(i, total):
        queue = tf.queue.FIFOQueue(1, [tf.float32], shapes=[[]])
        with tf.control_dependencies([queue.enqueue(total)]):
            return i + 1, total + queue.dequeue()

    total = tf.while_loop(lambda i, _: i < 3, body, [0, tf.reduce_sum(features)])[1]
    return tf.estimator.EstimatorSpec(PREDICT, {"y": features * total})


def _handle_in_a_loop(index, features):
    variable = tf.get_variable("v", [], use_resource=True, trainable=False)

    def body(i, handle, total):
        added = tf.raw_ops.AssignAddVariableOp(resource=handle, value=total)
        with tf.control_dependencies([added]):
            return i + 1, tf.identity(handle), total + 1.0

    first = [0, variable.handle, tf.reduce_sum(features)]
    total = tf.while_loop(lambda i, *_: i < 3, body, first)[2]
    return tf.estimator.EstimatorSpec(PREDICT, {"y": features * total})


def _declared_twice(index, features):
    peak = _counter()
    replicate.metrics.declare_merge(peak, tf.reduce_max)
    ops = [peak.assign(tf.reduce_max(features)), peak.assign_add(tf.reduce_max(features))]
    return spec(EVAL, eval_metric_ops={"peak": (peak, tf.group(ops))})


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
    "merge of a shared variable": (
        lambda index, features: replicate.metrics.declare_merge(tf.get_variable("a", []), max),
        "Only variables of metrics are merged, which are local…'variables/a:0'…LOCAL_VARIABLES",
    ),
    "no spec": (
        lambda index, features: features,
        "`model_fn` must return a `tf.estimator.EstimatorSpec`…<tf.Tensor…convert it",
    ),
    "replicated twice": (
        lambda index, features: build(good),
        "A model runs as towers once…inside of one…only where the Estimator is made",
    ),
    "gradients and rows": (
        _divided_by_norm,
        f"{MIXED}…'variables/w:0'…RealDiv…test_bad_models.py…`replicate.cross_tower_sum`",
    ),
    "gradients of gradients": (
        _twice,
        f"{TWICE}…asked for at…test_bad_models.py…Compute what is to be differentiated twice",
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


E = tf.estimator.export


class _OtherOutput(tf.estimator.export.ExportOutput):
    def as_signature_def(self, receiver_tensors):
        raise NotImplementedError


def _metric(index, features):
    counter = _counter()
    update = counter.assign(tf.maximum(counter, tf.reduce_prod(features)))
    return spec(EVAL, eval_metric_ops={"c": (counter, update)})


SPECS = {
    "export output": (
        PREDICT,
        lambda i, x: tf.estimator.EstimatorSpec(
            PREDICT, predictions=x, export_outputs={"x": _OtherOutput()}
        ),
        "Export outputs can be merged if they are a…`PredictOutput`…'x' is <…_OtherOutput…Return",
    ),
    "metric": (
        EVAL,
        _metric,
        "but nothing says how the towers' values become one…aggregation is NONE"
        "…VariableAggregation.SUM…`replicate.metrics.declare_merge(variable, merge)`",
    ),
    "declared merge": (EVAL, _declared_twice, f"{DECLARED} 'c:0' is by…Compute what it becomes"),
    "loop of queues": (
        PREDICT,
        _queue_in_a_loop,
        f"{OF_RESOURCE}…test_bad_models.py…changes while/fifo_queue…Change it outside",
    ),
    "handle in a loop": (
        PREDICT,
        _handle_in_a_loop,
        f"{LOOP}, but AssignAdd…changes state…test_bad_models.py…by what the loop returns",
    ),
    "loop of references": (
        TRAIN,
        lambda i, x: _loop(x, resource=False),
        f"{OF_RESOURCE}…changes c…Change it outside, by what the function or loop returns",
    ),
}


@pytest.mark.parametrize(("mode", "body", "phrases"), list(SPECS.values()), ids=list(SPECS))
def test_specs_that_cannot_be_merged(mode, body, phrases):
    with control_flow(1), pytest.raises((ValueError, TypeError), match=matching(phrases)):
        build(body, mode=mode)


KEPT_APART = (
    "Gradients that are kept apart, of batches or of towers, are added up later if `loss_reduction`"
    " is `SUM`, else averaged, but …Sum (…test_bad_models.py…is a sum over rows. Pass "
    "`replicate_model_fn(model_fn, loss_reduction=tf.losses.Reduction.SUM)`."
)


@pytest.mark.parametrize("own", [False, True], ids=["accumulate_steps", "own_gradients"])
def test_gradients_of_a_sum_that_are_averaged_later(own):
    def body(index, features):
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        loss = tf.reduce_sum(_weight() * features)
        if not own:
            return replicate.TowerOptimizer(optimizer, accumulate_steps=2).minimize(loss)
        with replicate.own_gradients():
            return optimizer.compute_gradients(loss)

    check_failure(body, ValueError, KEPT_APART)


LATE = "The gradient of a cross-tower sum needs the losses of all towers…inside `model_fn`…AddN"


def test_the_gradient_of_a_cross_tower_sum_outside_towers():
    def body(index, features):
        made.append(replicate.cross_tower_sum(features))
        return spec(TRAIN, tf.reduce_sum(made[-1]))

    made, features = [], tf.ones([4, 1])
    build(body, features)
    with pytest.raises(RuntimeError, match=matching(LATE)):
        tf.gradients(made[0], features)


# `test_variables.py` meets it.
CHOSEN_BY_ROWS = "An update that rows choose must be in a `tf.cond` of the second kind"
