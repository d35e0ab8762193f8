"""One set of variables for all towers, however `model_fn` makes them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

import replicate
from bodies import TRAIN, build, control_flow, matching, session, spec

ROWS = np.arange(5, dtype=np.float32)[:, None]  # Over three towers: 2, 2 and 1 rows.
ON_READ = tf.VariableSynchronization.ON_READ
MEAN = tf.VariableAggregation.MEAN
ONES = tf.ones_initializer()
CHOSEN_BY_ROWS = (
    "With `per_tower=True`, each tower runs a condition, loop or function by itself if…"
    "test_variables.py…Update it outside, by a value that the body returns"
)
UNCLEAR = (
    "All towers share a variable, but nothing defines how their values become one value of v:0, "
    "which Assign…test_variables.py…`replicate.cross_tower_sum`, or in a `replicate.merge_call`"
)
CPU = [f"/device:CPU:{index}" for index in range(3)]


def towers(make, num_towers=3, mode=TRAIN, **kwargs):
    """Builds towers of `make(index, features)`; returns what it returned."""
    returned = []

    def body(index, features):
        returned.append(make(index, features))

    build(body, tf.constant(ROWS), mode, num_towers, **kwargs)
    (made,) = returned
    return made


def initialised():
    running = session()
    running.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return running


def one_device_names(make):
    """Returns the names of all global variables of `make` as it is."""
    with tf.Graph().as_default():
        make(0, tf.constant(ROWS))
        return [v.name for v in tf.global_variables()]


def _keras_model(index, x):
    inputs = tf.keras.Input([1])
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(2)(tf.keras.layers.Dense(3)(inputs)))
    model(x)
    return model.weights


class _Dense(tf.keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight("kernel", [1, 2])
        self.bias = tf.Variable(tf.zeros([2]), name="bias")

    def call(self, x):
        return tf.matmul(x, self.kernel) + self.bias


def _layer(layer, x):
    layer(x)
    return layer.weights


def _custom_getter(index, x):
    def getter(getter, name, *args, **kwargs):
        return getter(name + "_custom", *args, **kwargs)

    with tf.variable_scope("s", custom_getter=getter):
        return [tf.get_variable("v", [2])]


def _auto_reuse(index, x):
    with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
        first, again = tf.get_variable("v", [2]), tf.get_variable("v", [2])
    assert first is again
    return [first, tf.get_variable("w", [])]


def _reuse_variables(index, x):
    first = tf.get_variable("v", [2])
    tf.get_variable_scope().reuse_variables()
    assert tf.get_variable("v", [2]) is first
    return [first]


def _default_scopes(index, x):
    made = []
    for _ in range(2):
        with tf.variable_scope(None, "block"):
            made.append(tf.get_variable("v", []))
    return made


def _partitioned(index, x):
    whole = tf.get_variable("v", [5, 2], partitioner=tf.fixed_size_partitioner(2))
    tf.nn.embedding_lookup(whole, tf.constant([0, 4]))
    return list(whole)


def _trainable(index, x):
    tf.layers.dense(x, 2)
    return tf.trainable_variables()


WAYS = {
    "get_variable": lambda i, x: [tf.get_variable("v", [2, 3])],
    "get_variable of an array": lambda i, x: [
        tf.get_variable("v", initializer=np.array([1.0, 2.0]))
    ],
    "get_variable of a tensor": lambda i, x: [
        tf.get_variable("v", initializer=tf.random.normal([2]))
    ],
    "get_variable of a function": lambda i, x: [
        tf.get_variable("v", initializer=lambda: tf.zeros([2]))
    ],
    "get_variable by reference": lambda i, x: [tf.get_variable("v", [2], use_resource=False)],
    "get_variable frozen": lambda i, x: [tf.get_variable("v", [2], trainable=False)],
    "get_variable constrained": lambda i, x: [tf.get_variable("v", [2], constraint=tf.nn.relu)],
    "Variable": lambda i, x: [tf.Variable(tf.ones([2]), name="v"), tf.Variable([1, 2])],
    "Variable without names": lambda i, x: [tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3)],
    "Variable of a function": lambda i, x: [tf.Variable(lambda: tf.ones([2]), name="v")],
    "Variable of unknown shape": lambda i, x: [
        tf.Variable(tf.placeholder_with_default([1.0], None), validate_shape=False)
    ],
    "Variable of TensorFlow 2": lambda i, x: [tf2.Variable([1.0], name="v")],
    "text": lambda i, x: [tf.get_variable("v", initializer="text", trainable=False)],
    "layers without names": _trainable,
    "layers with names": lambda i, x: (tf.layers.dense(x, 2, name="d"), tf.global_variables())[1],
    "layer objects": lambda i, x: _layer(tf.layers.Dense(2), x),
    "Keras layer": lambda i, x: _layer(tf.keras.layers.Dense(2), x),
    "Keras layer of one's own": lambda i, x: _layer(_Dense(), x),
    "Keras model": _keras_model,
    "Keras sequence": lambda i, x: _layer(
        tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)]), x
    ),
    "custom getter": _custom_getter,
    "AUTO_REUSE": _auto_reuse,
    "reuse_variables": _reuse_variables,
    "default scopes": _default_scopes,
    "partitioned": _partitioned,
}


MAKES_STATE = ("VarHandleOp", "VariableV2", "Variable")


@pytest.mark.parametrize("make", list(WAYS.values()), ids=list(WAYS))
def test_towers_have_the_variables_of_one_device(make):
    def body(index, x):
        made = make(index, x)
        assert made
        with tf.device(None):
            read = [tf.identity(v) for v in made if v.dtype.base_dtype != tf.string]
        sums = [tf.reduce_sum(tf.cast(value, tf.float32)) for value in read]
        replicate.merge_call(totals.extend, tf.add_n([tf.reduce_sum(x), *sums]))
        return made

    totals, names = [], one_device_names(make)
    with tf.Graph().as_default() as graph:
        towers(body)
        assert [v.name for v in tf.global_variables()] == names
        states = [op for op in graph.get_operations() if op.type in MAKES_STATE]
        assert len(states) == len(names)
        with initialised() as running:  # Each tower reads the same ones, beside its rows.
            of_rows = [0 + 1, 2 + 3, 4]
            read = np.array(running.run(totals)) - of_rows
        np.testing.assert_allclose(read, read[0], rtol=1e-4, atol=1e-5)


def test_collections_of_a_shared_variable_are_those_of_one_device():
    keys = ["variables", "trainable_variables", "model_variables", "mine", "losses"]

    def make(index, x):
        v = tf.get_variable("v", [], collections=["variables", "model_variables", "mine"])
        return [tf.get_collection(key) for key in keys], v

    collections, v = towers(make)
    assert collections == [[v], [v], [v], [v], []]
    assert [len(tf.get_collection(key)) for key in keys] == [1, 1, 1, 1, 0]


def test_variables_from_before_are_found():
    with tf.variable_scope("before"):
        old = tf.get_variable("v", [])

    def make(index, x):
        with tf.variable_scope("before", reuse=True):
            found = tf.get_variable("v", [])
        with tf.variable_scope("before", reuse=tf.AUTO_REUSE):
            return found, tf.get_variable("v", []), tf.get_variable("new", [])

    found, again, new = towers(make)
    assert found is again is old
    with tf.variable_scope("before", reuse=True):  # As after an un-replicated model.
        assert tf.get_variable("new", []) is new


def test_default_names_go_on_where_the_caller_stopped():
    with tf.variable_scope(None, "block"):
        tf.get_variable("v", [])
    tf.keras.layers.Dense(1)
    variables, layer = towers(lambda i, x: (_default_scopes(i, x), tf.keras.layers.Dense(1).name))
    assert [v.op.name for v in variables] == ["block_1/v", "block_2/v"]
    assert layer == "dense_1"
    assert tf.keras.layers.Dense(1).name == "dense_2"


def test_a_global_step_made_in_the_model():
    def make(index, x):
        return tf.train.get_or_create_global_step()

    assert towers(make) is tf.train.get_global_step() is not None


# Placement.


def _four(index, x):
    return [tf.get_variable(name, []) for name in "abcd"]


@pytest.mark.parametrize(
    ("kwargs", "want"),
    [
        ({}, [0, 0, 0, 0]),
        ({"consolidation_device": "/cpu:2"}, [2, 2, 2, 2]),
        ({"variable_placement": "round_robin"}, [0, 1, 2, 0]),
        ({"variable_placement": "round_robin", "consolidation_device": "/cpu:1"}, [0, 1, 2, 0]),
    ],
)
def test_placement(kwargs, want):
    assert [v.device for v in towers(_four, **kwargs)] == [CPU[index] for index in want]


@pytest.mark.parametrize("placement", ["consolidation", "round_robin"])
def test_a_device_that_the_model_chooses_is_respected(placement):
    def make(index, x):
        with tf.device("/cpu:2"):
            chosen = tf.get_variable("a", [])
        with tf.device(lambda op: "/cpu:1"):
            by_function = tf.get_variable("b", [])
        with tf.colocate_with(by_function):
            beside = tf.get_variable("c", [], use_resource=False)
        return chosen, by_function, beside, tf.get_variable("d", [])

    a, b, c, d = towers(make, variable_placement=placement)
    assert [a.device, b.device, d.device] == [CPU[2], CPU[1], CPU[0]]
    assert c.op.colocation_groups() == [f"loc:@{b.op.name}".encode()]


@pytest.mark.parametrize("placement", ["consolidation", "round_robin"])
@pytest.mark.parametrize("resource", [True, False])
def test_slots_are_where_their_variables_are(placement, resource):
    def body(index, x):
        a, b, c = (
            tf.get_variable(name, [], initializer=ONES, use_resource=resource) for name in "abc"
        )
        optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer())
        return spec(TRAIN, train_op=optimizer.minimize(tf.reduce_mean(a * b * c * x)))

    train_op = build(body, tf.constant(ROWS), num_towers=3, variable_placement=placement).train_op
    with initialised() as running:
        options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
        running.run(train_op, options=options, run_metadata=metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    for name, index in zip("abc", [0, 0, 0] if placement == "consolidation" else [0, 1, 2]):
        # The variables of the weight and its two slots, and the update that takes all three.
        states = [n for n in nodes if n.name in (name, f"{name}/Adam", f"{name}/Adam_1")]
        (update,) = (n for n in nodes if "ApplyAdam" in n.op and f"update_{name}/" in n.name)
        assert {n.device[-6:] for n in [*states, update]} == {f":CPU:{index}"}


# Variables that the model updates from its rows.


def test_local_variables_are_those_of_one_device():
    def make(index, x):
        with tf.variable_scope("metrics"):
            tf.metrics.mean(x, name="mean")
        return tf.get_variable("count", [], collections=["local_variables"], trainable=False)

    count = towers(make)
    names = ["metrics/mean/total", "metrics/mean/count", "count"]
    assert [v.op.name for v in tf.local_variables()] == names
    assert tf.local_variables()[-1] is count
    assert tf.global_variables() == []


def _statistic(aggregation=MEAN, **kwargs):
    kwargs = {"synchronization": ON_READ, "aggregation": aggregation, **kwargs}
    return tf.get_variable("v", [], initializer=ONES, trainable=False, **kwargs)


def test_a_variable_that_is_kept_per_tower_elsewhere_is_one_here():
    made = towers(lambda index, x: (_statistic(), tf.global_variables()))
    assert made[1] == [made[0]] == tf.global_variables()
    assert [v.name for v in tf.train.Saver()._var_list] == ["v:0"]
    assert tf.local_variables() == []


ONLY_FIRST = tf.VariableAggregation.ONLY_FIRST_REPLICA
SUM = tf.VariableAggregation.SUM
NONE = tf.VariableAggregation.NONE
# Rows 0 to 4 have the mean 2, of which towers have 0.5, 2.5 and 4; the variable starts at 1. The
# last entry is the result of programs of towers, if it differs from that of one device.
UPDATES = {
    "mean, assigned": (MEAN, lambda v, x: v.assign(tf.reduce_mean(x)), None),
    "mean, added": (MEAN, lambda v, x: v.assign_add(tf.reduce_mean(x)), None),
    "mean, subtracted": (MEAN, lambda v, x: v.assign_sub(tf.reduce_mean(x)), None),
    "sum, added": (SUM, lambda v, x: v.assign_add(tf.reduce_sum(x)), None),
    "sum, subtracted": (SUM, lambda v, x: v.assign_sub(tf.reduce_sum(x)), None),
    "sum, of no row": (SUM, lambda v, x: v.assign_add(2.0), 1 + 3 * 2.0),  # One for each tower.
    "first, assigned": (ONLY_FIRST, lambda v, x: v.assign(tf.reduce_mean(x)), 0.5),
    "first, added": (ONLY_FIRST, lambda v, x: v.assign_add(tf.reduce_mean(x)), 1.5),
    "none, a mean": (NONE, lambda v, x: v.assign(0.5 * v + 0.5 * tf.reduce_mean(x)), None),
    "none, a sum": (
        NONE,
        lambda v, x: v.assign_add(tf.reduce_sum(x)),
        1 + 2 / 5 * 1 + 2 / 5 * 5 + 1 / 5 * 4,
    ),
    "mean, the largest": (
        MEAN,
        lambda v, x: v.assign(tf.maximum(v, tf.reduce_max(x))),
        2 / 5 * 1 + 2 / 5 * 3 + 1 / 5 * 4,
    ),
    "none, of no row": (NONE, lambda v, x: v.assign_add(1.0), None),
    "none, a cross-tower mean": (
        NONE,
        lambda v, x: v.assign(replicate.cross_tower_mean(tf.reduce_max(x)) - 1),
        2 / 5 * 1 + 2 / 5 * 3 + 1 / 5 * 4 - 1,
    ),
    "none, merged": (
        NONE,
        lambda v, x: replicate.merge_call(lambda m: v.assign(tf.add_n(list(m))), tf.reduce_max(x)),
        8,
    ),
}


def updated(body, num_towers, **kwargs):
    """Returns the variable of `body` after a step."""
    with tf.Graph().as_default():
        train_op = build(body, tf.constant(ROWS), num_towers=num_towers, **kwargs).train_op
        (v,) = tf.global_variables() or tf.local_variables()
        with initialised() as running:
            running.run(train_op)
            return running.run(v)


@pytest.mark.parametrize("per_tower", [False, True])
@pytest.mark.parametrize("resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize(
    ("aggregation", "update", "of_towers"), list(UPDATES.values()), ids=list(UPDATES)
)
def test_updates_take_the_rows_of_all_towers(
    aggregation, update, of_towers, resource, per_tower, warnings
):
    def body(index, x):
        made = update(_statistic(aggregation, use_resource=resource), x)
        return spec(TRAIN, train_op=tf.group(made))

    want = of_towers if per_tower and of_towers is not None else updated(body, 1)
    assert updated(body, 3, per_tower=per_tower) == pytest.approx(want)
    assert warnings() == []


REFUSED = {
    "sum, assigned": lambda x: _statistic(SUM).assign(tf.reduce_sum(x)),
    "integers": lambda x: tf.get_variable("v", [], tf.int32, trainable=False).assign(tf.size(x)),
    "running maximum": lambda x: _running(tf.maximum, x),
    "running minimum": lambda x: _running(tf.minimum, x),
    "maximum of a list": lambda x: _running(lambda *values: tf.reduce_max(values), x),
    "chosen by rows": lambda x: _running(lambda v, m: tf.where(m > v, m, v + 0.0), x),
    "passed on": lambda x: _running(lambda *values: tf.identity(tf.maximum(*values)), x),
    "metric, assigned": lambda x: _of_metric().assign(tf.reduce_max(x)),
}


def _running(largest, x):
    v = _statistic(tf.VariableAggregation.NONE)
    return v.assign(largest(v, tf.reduce_max(x)))


def _of_metric():
    keys = [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES]
    return tf.get_variable("v", initializer=0.0, trainable=False, collections=keys)


@pytest.mark.parametrize("update", list(REFUSED.values()), ids=list(REFUSED))
def test_updates_of_which_nothing_says_how_they_become_one(update):
    def body(index, x):
        return spec(TRAIN, train_op=tf.group(update(x)))

    with pytest.raises(ValueError, match=matching(UNCLEAR)):
        build(body, tf.constant(ROWS), num_towers=3)
    assert updated(body, 3, per_tower=False) == updated(body, 1)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("aggregation", [MEAN, SUM])
def test_updates_in_a_condition_on_rows(aggregation, version):
    """Programs of towers must not have them."""

    def body(index, x):
        v = _statistic(aggregation, use_resource=True)

        def update():
            with tf.control_dependencies([v.assign_add(8.0, read_value=False)]):
                return tf.constant(0.0)

        made = tf.cond(tf.reduce_sum(x) > 2, update, lambda: tf.constant(1.0))
        return spec(TRAIN, train_op=made.op)

    with control_flow(version):
        with pytest.raises(ValueError, match=matching(CHOSEN_BY_ROWS)):
            build(body, tf.constant(ROWS), num_towers=3)
        assert updated(body, 3, per_tower=False) == updated(body, 1) == 9


def test_statistics_move_once_per_step(tmp_path):
    def body(index, x):
        v = _statistic()
        return spec(TRAIN, train_op=tf.group(v.assign(0.5 * v + 0.5 * tf.reduce_mean(x))))

    train_op = build(body, tf.constant(ROWS), num_towers=3).train_op
    (v,) = tf.global_variables()
    with initialised() as running:
        for _ in range(3):
            before = running.run(v)
            running.run(train_op)
            np.testing.assert_allclose(running.run(v), 0.5 * before + 0.5 * 2, rtol=1e-6)
        path = tf.train.Saver().save(running, str(tmp_path / "model"))
    assert [name for name, _ in tf.train.list_variables(path)] == ["v"]


def test_batch_norm_keeps_one_set_of_statistics():
    def make(index, x):
        tf.layers.batch_normalization(x, training=True)
        return [v.name for v in tf.global_variables()], len(tf.get_collection("update_ops"))

    names = one_device_names(make)
    assert towers(make) == (names, 2)
    assert [v.name for v in tf.global_variables()] == names
    assert tf.local_variables() == []
