"""One set of variables for all towers, however `model_fn` makes them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import EVAL, TRAIN, build, session, spec

ROWS = np.arange(5, dtype=np.float32)[:, None]  # Over three towers: 2, 2 and 1 rows.
ON_READ = tf.VariableSynchronization.ON_READ
MEAN = tf.VariableAggregation.MEAN
ONES = tf.ones_initializer()
CPU = [f"/device:CPU:{index}" for index in range(3)]


def towers(make, num_towers=3, mode=TRAIN, **kwargs):
    """Builds towers of `make(index, features)`; returns what each of its calls returned."""
    returned = []

    def body(index, features):
        returned.append(make(index, features))

    build(body, tf.constant(ROWS), mode, num_towers, **kwargs)
    return returned


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
    "Variable of TensorFlow 2": lambda i, x: [tf.compat.v2.Variable([1.0], name="v")],
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


@pytest.mark.parametrize("make", list(WAYS.values()), ids=list(WAYS))
def test_every_tower_gets_the_variables_of_tower_0(make):
    names = one_device_names(make)
    with tf.Graph().as_default():
        made = towers(make)
        assert made[0]
        for later in made[1:]:
            assert list(map(id, later)) == list(map(id, made[0]))
        assert [v.name for v in tf.global_variables()] == names
        initialised().close()


def test_collections_of_a_shared_variable_are_those_of_one_device():
    keys = ["variables", "trainable_variables", "model_variables", "mine", "losses"]

    def make(index, x):
        v = tf.get_variable("v", [], collections=["variables", "model_variables", "mine"])
        return [tf.get_collection(key) for key in keys], v

    for collections, v in towers(make):
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

    made = towers(make)
    assert {id(v) for found in made for v in found[:2]} == {id(old)}
    assert len({id(found[2]) for found in made}) == 1
    with tf.variable_scope("before", reuse=True):  # As after an un-replicated model.
        assert tf.get_variable("new", []) is made[0][2]


def test_default_names_go_on_where_the_caller_stopped():
    with tf.variable_scope(None, "block"):
        tf.get_variable("v", [])
    tf.keras.layers.Dense(1)
    made = towers(lambda i, x: (_default_scopes(i, x), tf.keras.layers.Dense(1).name))
    for variables, layer in made:
        assert [v.op.name for v in variables] == ["block_1/v", "block_2/v"]
        assert layer == "dense_1"
    assert tf.keras.layers.Dense(1).name == "dense_2"


def test_a_global_step_made_in_the_model():
    def make(index, x):
        return tf.train.get_or_create_global_step()

    assert len(set(map(id, towers(make)))) == 1
    assert tf.train.get_global_step() is not None


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
    for made in towers(_four, **kwargs):
        assert [v.device for v in made] == [CPU[index] for index in want]


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

    (a, b, c, d), *_ = towers(make, variable_placement=placement)
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
        # What holds the weight and its two slots, and the update that takes all three.
        states = [n for n in nodes if n.name in (name, f"{name}/Adam", f"{name}/Adam_1")]
        (update,) = (n for n in nodes if "ApplyAdam" in n.op and f"update_{name}/" in n.name)
        assert {n.device[-6:] for n in [*states, update]} == {f":CPU:{index}"}


# Variables that stay per tower.


def test_local_variables_are_per_tower():
    def make(index, x):
        count = tf.get_variable("count", [], collections=["local_variables"], trainable=False)
        return count, count.assign_add(index + 1.0, read_value=True), tf.local_variables()

    made = towers(make, mode=EVAL)
    assert [v.name for v, *_ in made] == ["count:0", "tower_1/count:0", "tower_2/count:0"]
    for count, _, listed in made:
        assert listed == [count]
    assert [v.device for v, *_ in made] == CPU
    assert tf.local_variables() == [v for v, *_ in made]
    assert tf.global_variables() == []
    with initialised() as running:
        running.run([v.assign(0) for v, *_ in made])
        assert running.run([update for _, update, _ in made]) == [1, 2, 3]


def _statistic(index, x):
    v = tf.get_variable(
        "v", [], initializer=ONES, synchronization=ON_READ, aggregation=MEAN, trainable=False
    )
    return v, tf.global_variables()


def test_on_read_copies_are_no_part_of_the_model():
    made = towers(_statistic)
    first = made[0][0]
    assert len({id(v) for v, _ in made}) == 3
    for own, listed in made:
        assert listed == [own]  # Each tower finds its own where one device finds it.
    assert tf.global_variables() == [first]
    assert [v.name for v in tf.train.Saver()._var_list] == ["v:0"]
    # The session initialises them, as it does local variables.
    assert set(map(id, tf.local_variables())) == {id(v) for v, _ in made[1:]}


def test_on_read_copies_merge_once_per_step(tmp_path):
    def body(index, x):
        v, _ = _statistic(index, x)
        seen = v.assign(0.5 * v + 0.5 * tf.reduce_mean(x))
        return spec(TRAIN, train_op=tf.group(seen))

    train_op = build(body, tf.constant(ROWS), num_towers=3).train_op
    (v,) = tf.global_variables()
    with initialised() as running:
        for _ in range(3):
            before = running.run(v)
            running.run(train_op)
            # Rows 0 to 4 have the mean 2; tower means 0.5, 2.5 and 4, weighted 2 : 2 : 1, too.
            np.testing.assert_allclose(running.run(v), 0.5 * before + 0.5 * 2, rtol=1e-6)
        path = tf.train.Saver().save(running, str(tmp_path / "model"))
    assert [name for name, _ in tf.train.list_variables(path)] == ["v"]


def test_batch_norm_keeps_one_set_of_statistics():
    def make(index, x):
        tf.layers.batch_normalization(x, training=True)
        return [v.name for v in tf.global_variables()], len(tf.get_collection("update_ops"))

    names = one_device_names(make)
    made = towers(make)
    assert [v.name for v in tf.global_variables()] == names
    assert made[0] == (names, 2)
    assert all(updates == 2 and len(own) == len(names) for own, updates in made)
