"""What `replicate` says to models that cannot run as towers; see `bodies.py`.

Bodies get their tower's index and features, and break a rule in one of two towers. After each
failure, `check_failure` looks for what it may have left behind.
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

CREATE = "Towers must create the same variables in the same order"
MEET = "All towers must make the same rendezvous in the same order"
NO_BODY = "Towers must not rendezvous in the body of a `tf.cond`, `tf.while_loop` or function"
NO_MERGE = "A merge function must not rendezvous"
ALIKE = "All towers must return the same structure in `{}`…tower 0 returned {}…tower 1 {}…Make what"


def creates(first, second):
    """Returns a body where towers 0 and 1 create the variables of these names, shapes, dtypes."""

    def body(index, features):
        for arguments in (first, second)[index]:
            tf.get_variable(*arguments)

    return body


def calls(first, second):
    """Returns a body where towers 0 and 1 call these functions."""

    def body(index, features):
        for call in (first, second)[index]:
            call()

    return body


def _one(values):
    return values[0]


def _other(values):
    return values[-1]


def meet_one():
    return replicate.merge_call(_one, 1)


def meet_other():
    return replicate.merge_call(_other, 1)


def add():
    return replicate.cross_tower_sum(1.0)


LAMBDAS = [lambda values: 0, lambda values: 1]  # Told apart by neither name nor line.
A, B = ("a", [2]), ("b", [2])

BODIES = {
    "more variables": (
        creates([A], [A, B]),
        f"{CREATE}…tower 1 creates variable 'variables/b'…tower 0 created no more",
    ),
    "fewer variables": (
        creates([A, B], [A]),
        f"{CREATE}…tower 1 created 1 and tower 0 2…tower 1 lacks variable 'variables/b'",
    ),
    "no variables": (
        creates([A], []),
        f"{CREATE}…tower 1 created 0 and tower 0 1…tower 1 lacks variable 'variables/a'",
    ),
    "other name": (
        creates([A], [B]),
        f"{CREATE}…creates variable 'variables/b'…created variable 'variables/a'…Make what",
    ),
    "other shape": (
        creates([A], [("a", [3])]),
        f"{CREATE}…'variables/a' of shape (3,)…'variables/a' of shape (2,)…Make what",
    ),
    "other dtype": (
        creates([A], [("a", [2], tf.float64)]),
        f"{CREATE}…'variables/a'…float64…'variables/a'…float32…Make what",
    ),
    "other order": (
        creates([("w_1", [2]), ("w_2", [2])], [("w_2", [2]), ("w_1", [2])]),
        f"{CREATE}…creates variable 'variables/w_2'…created variable 'variables/w_1'…Make what",
    ),
    "other function": (
        calls([meet_one], [meet_other]),
        f"{MEET}…tower 0 is at merge_call of _one…test_bad_models.py…tower 1 is at merge_call of "
        "_other…test_bad_models.py…whatever `tower_index()` is",
    ),
    "other lambda of a line": (
        lambda index, features: replicate.merge_call(LAMBDAS[index], 1),
        f"{MEET}…tower 0 is at…tower 1 is at…whatever",
    ),
    "other order of calls": (
        calls([meet_one, add], [add, meet_one]),
        f"{MEET}…tower 0 is at merge_call of _one…tower 1 is at cross-tower sum of float32()",
    ),
    "other number of arguments": (
        calls([meet_one], [lambda: replicate.merge_call(_one, 1, 2)]),
        f"{MEET}…_one…with 1 argument…_one…with 2 arguments",
    ),
    "more calls": (
        calls([], [meet_one]),
        f"{MEET}…tower 0 returned and tower 1 is at merge_call of _one…test_bad_models.py",
    ),
    "fewer calls": (
        calls([meet_one], []),
        f"{MEET}…tower 0 is at merge_call of _one…test_bad_models.py…tower 1 returned",
    ),
    "sums of other shapes": (
        lambda index, features: replicate.cross_tower_sum(tf.ones([2 + index])),
        f"{MEET}…sum of float32(2,)…sum of float32(3,)",
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
    "mean of integers": (
        lambda index, features: replicate.cross_tower_mean(tf.constant(index)),
        "`cross_tower_mean` takes floating or complex tensors…int32…Cast it first",
    ),
    "merge of a shared variable": (
        lambda index, features: replicate.metrics.declare_merge(tf.get_variable("a", []), max),
        "Only variables that each tower has of its own are merged…'variables/a:0'…LOCAL_VARIABLES",
    ),
    "no spec": (
        lambda index, features: features,
        "`model_fn` must return a `tf.estimator.EstimatorSpec`…<tf.Tensor…tower 0",
    ),
    "no spec in tower 1": (
        lambda index, features: "text" if index else None,
        "`model_fn` must return a `tf.estimator.EstimatorSpec`…'text'…tower 1",
    ),
    "replicated twice": (
        lambda index, features: build(good),
        "A model runs as towers once…in tower 0…only where the Estimator is made",
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
@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("flow", list(CONTROL_FLOW.values()), ids=list(CONTROL_FLOW))
def test_a_rendezvous_in_control_flow(flow, failing, version):
    def body(index, features):
        tf.get_variable("w", [])
        (flow if index == failing else replicate.cross_tower_sum)(tf.reduce_mean(features))

    phrases = f"{NO_BODY}…tower {failing} reached…before or after the body"
    with control_flow(version):
        assert "test_bad_models.py" in str(check_failure(body, RuntimeError, phrases))


E = tf.estimator.export
STRUCTURES = [
    ("predictions", lambda i, x: dict(zip("ab"[: i + 1], [x, x])), "{", "{…'b'"),
    ("predictions", lambda i, x: {"a": x} if i else x, "a value", "{'a': a value}"),
    ("export_outputs", lambda i, x: {"xs"[i]: E.PredictOutput(x)}, "{…'x'", "{…'s'"),
    (
        "export_outputs",
        lambda i, x: {"x": (E.PredictOutput if i else E.RegressionOutput)(x)},
        "{…'x': RegressionOutput",
        "{…'x': PredictOutput",
    ),
]


@pytest.mark.parametrize(("field", "make", "first", "second"), STRUCTURES)
def test_other_structures_per_tower(field, make, first, second):
    def body(index, features):
        value = make(index, features)
        both = {"predictions": features, "export_outputs": None, field: value}
        return tf.estimator.EstimatorSpec(PREDICT, **both)

    with pytest.raises((ValueError, TypeError), match=matching(ALIKE.format(field, first, second))):
        build(body, mode=PREDICT)


class _OtherOutput(tf.estimator.export.ExportOutput):
    def as_signature_def(self, receiver_tensors):
        raise NotImplementedError


def _counter(**kwargs):
    collections = [tf.GraphKeys.LOCAL_VARIABLES]
    return tf.get_variable("c", [], collections=collections, trainable=False, **kwargs)


def _metric(index, features):
    counter = _counter()
    metrics = {"c": (counter, counter.assign_add(tf.reduce_sum(features)))}
    return spec(EVAL, eval_metric_ops=metrics)


def _updated_in_a_condition(index, features):
    # A loop or condition of the first kind takes the variable itself through its switches.
    counter = _counter(
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
    )
    mean = tf.reduce_mean(features)
    update = tf.cond(mean > 0, lambda: counter.assign_add(mean), lambda: mean)
    return spec(TRAIN, train_op=tf.group(update))


SPECS = [
    (
        PREDICT,
        lambda i, x: tf.estimator.EstimatorSpec(
            PREDICT, predictions=x, export_outputs={"x": _OtherOutput()}
        ),
        "Export outputs can be merged if they are a…`PredictOutput`…'x' is <…_OtherOutput…Return",
    ),
    (
        EVAL,
        _metric,
        "but nothing says how the towers' values become one…aggregation is NONE"
        "…VariableAggregation.SUM…`replicate.metrics.declare_merge(variable, merge)`",
    ),
    (
        TRAIN,
        _updated_in_a_condition,
        "A variable that each tower has of its own must not be updated in a `tf.cond`…c"
        "…`tf.enable_control_flow_v2()`",
    ),
]


@pytest.mark.parametrize(("mode", "body", "phrases"), SPECS)
def test_specs_that_cannot_be_merged(mode, body, phrases):
    with control_flow(1), pytest.raises((ValueError, TypeError), match=matching(phrases)):
        build(body, mode=mode)


LATE = "The gradient of a cross-tower sum needs the losses of all towers…inside `model_fn`…AddN"


def test_the_gradient_of_a_cross_tower_sum_outside_towers():
    def body(index, features):
        made.append(replicate.cross_tower_sum(features))
        return spec(TRAIN, tf.reduce_sum(made[-1]))

    made, features = [], tf.ones([4, 1])
    build(body, features)
    with pytest.raises(RuntimeError, match=matching(LATE)):
        tf.gradients(made[0], features)
