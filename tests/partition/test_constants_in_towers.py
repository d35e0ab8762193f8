"""Constants in towers: each tower computes them, so that none is sent, and waits for no other."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from tests.graph_walks import behind

N = 3
DEVICES = [f"/cpu:{i}" for i in range(N)]
ROWS = np.random.RandomState(5).normal(size=(11, 4))


def mean(outputs, labels):
    """Returns the mean of squares."""
    return tf.reduce_mean(tf.square(outputs - labels))


def quotient(outputs, labels):
    """Returns a sum divided by a count, as `tf.losses` does.

    The sum's gradient waits for the count's, which takes the sum.
    """
    squares = tf.square(outputs - labels)
    return tf.div_no_nan(tf.reduce_sum(squares), tf.reduce_sum(tf.ones_like(squares)))


def model_fn(features, labels, mode, params):
    """Layers between which `params["change"]` changes the hidden rows, trained."""
    hidden = tf.layers.dense(features, 6, kernel_initializer=tf.ones_initializer())
    hidden = params["change"](hidden)
    outputs = tf.layers.dense(hidden, 1, kernel_initializer=tf.ones_initializer())
    loss = params.get("loss", mean)(outputs, labels)
    optimizer = tf.train.GradientDescentOptimizer(0.01)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(change, is_replicated, rows=ROWS, loss=mean):
    """Returns losses and variables of three steps, and the operations of the graph by name."""
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        data = tf.data.Dataset.from_tensors((rows, np.sin(rows[:, :1]))).repeat()
        features, labels = tf.data.make_one_shot_iterator(data).get_next()
        made = (
            replicate.replicate_model_fn(model_fn, devices=DEVICES) if is_replicated else model_fn
        )
        spec = made(features, labels, mode="train", params={"change": change, "loss": loss})
        scaffold = spec.scaffold or tf.train.Scaffold()
        scaffold.finalize()
        seen = []
        with tf.Session(config=replicate.session_config(DEVICES)) as session:
            session.run([scaffold.init_op, scaffold.local_init_op])
            for _ in range(3):
                loss, _ = session.run([spec.loss, spec.train_op])
                seen += [loss, *session.run(tf.global_variables())]
        return seen, {operation.name: operation for operation in graph.get_operations()}


def squared(hidden):
    """Its gradient multiplies by a constant that waits for the gradient of the layer above."""
    return tf.square(tf.transpose(tf.transpose(hidden, [1, 0]), [1, 0])) * 0.1


def with_table(hidden):
    """Adds a table that is computed from constants alone, by several operations."""
    places = tf.cast(tf.range(6), tf.float64)
    sines, cosines = tf.split(tf.sin(places[None, :] * tf.cast([[0.5], [2.0]], tf.float64)), 2)
    return hidden + sines - cosines


def after_a_write(hidden):
    """Multiplies by a constant that waits for an update of a variable."""
    count = tf.get_variable("count", [], tf.float64, tf.zeros_initializer(), trainable=False)
    with tf.control_dependencies([count.assign_add(1.0)]):
        factor, after = tf.constant(0.5, tf.float64), count.read_value()
    return hidden * factor + after


def filled(hidden):
    """Adds a value for each of the 11 rows, a number that the graph knows."""
    return hidden + tf.tile(tf.fill([len(ROWS), 1], tf.cast(0.5, tf.float64)), [1, 6])


def tiled(hidden):
    """Multiplies by repeated weights, one copy for each row, and by as many copies of a row."""
    weights = tf.get_variable("weights", [1, 6], tf.float64, tf.ones_initializer())
    return hidden * tf.tile(weights, [len(ROWS), 1]) - tf.tile(weights * 0.5, [len(ROWS), 1])


def squares_of_weights(hidden):
    """Fills as many entries as there are rows, which are those of weights."""
    weights = tf.get_variable("weights", [len(ROWS), 6], tf.float64, tf.ones_initializer())
    added = weights * tf.fill([len(ROWS), 6], tf.cast(0.5, tf.float64))
    return hidden * tf.reduce_sum(tf.square(added))


def updated(hidden):
    """Waits for updates of two moving averages."""
    updates = []
    for name in ("first", "second"):
        mean = tf.get_variable(name, [6], tf.float64, tf.zeros_initializer(), trainable=False)
        updates.append(mean.assign_sub(0.1 * (mean - tf.reduce_mean(hidden, 0))))
    with tf.control_dependencies(updates):
        return tf.tanh(hidden)


def in_many_steps(hidden):
    """Adds a constant that takes a thousand operations, of which the last ones run once."""
    added = tf.constant(0.5, tf.float64)
    for _ in range(1000):
        added = added * 0.999
    return hidden + added


def in_many_squares(hidden):
    """Multiplies by a constant that leads to itself on 2**40 ways."""
    factor = tf.constant(1.0 + 1e-14, tf.float64)
    for _ in range(40):
        factor = factor * factor
    return hidden * factor


CHANGES = (
    squared,
    with_table,
    in_many_steps,
    in_many_squares,
    after_a_write,
    updated,
    filled,
    tiled,
    squares_of_weights,
)


@pytest.mark.parametrize("loss", [mean, quotient], ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_training_is_that_of_one_device(change, loss):
    want, _ = train(change, False, loss=loss)
    got, _ = train(change, True, loss=loss)
    for mine, other in zip(got, want):
        np.testing.assert_allclose(mine, other, 1e-12, 1e-14)


def in_tower(operations, index):
    return [one for name, one in operations.items() if name.startswith(f"tower_{index}/")]


@pytest.mark.parametrize("change", [squared, with_table], ids=lambda change: change.__name__)
def test_constants_are_not_sent(change):
    _, operations = train(change, True)
    constant = {"Const", "Range", "Cast", "Sin", "Split", "InvertPermutation"}
    for index in range(N):
        there = set(in_tower(operations, index))
        outside = {t.op for one in there for t in one.inputs if t.op not in there}
        assert there and not constant.intersection(one.type for one in outside)


def test_a_tower_waits_for_no_other():
    _, operations = train(squared, True)
    for index in range(N):
        waits = {
            before.name for one in in_tower(operations, index) for before in one.control_inputs
        }
        others = [f"tower_{other}/" for other in range(N) if other != index]
        assert waits and not [name for name in waits if name.startswith(tuple(others))]


@pytest.mark.parametrize("change", [squared, filled, tiled], ids=lambda change: change.__name__)
@pytest.mark.parametrize("loss", [mean, quotient], ids=lambda loss: loss.__name__)
def test_gradients_of_a_tower_take_nothing_of_others(change, loss):
    _, operations = train(change, True, loss=loss)
    for index in range(N):
        found = set().union(*(behind(one) for one in in_tower(operations, index)))
        others = [f"tower_{other}/" for other in range(N) if other != index]
        assert not [one.name for one in found if one.name.startswith(tuple(others))]


@pytest.mark.parametrize("change", [filled, tiled], ids=lambda change: change.__name__)
def test_repeated_values_of_rows_are_made_in_towers(change):
    _, operations = train(change, True)
    for index in range(N):
        there = set(in_tower(operations, index))
        outside = {t.op for one in there for t in one.inputs if t.op not in there}
        assert "Tile" in {one.type for one in there}
        assert not {"Fill", "Tile"}.intersection(one.type for one in outside)


def test_waits_for_several_updates_cross_as_one():
    _, operations = train(updated, True)
    for index in range(N):
        there = set(in_tower(operations, index))
        waits = {before for one in there for before in one.control_inputs} - there
        assert [one.type for one in waits] == ["NoOp"]
        assert len(waits.pop().control_inputs) >= 2


@pytest.mark.parametrize("grouped", [lambda one: one, tf.group], ids=["direct", "grouped"])
def test_a_constant_waits_for_the_assertion_of_its_tower(grouped):
    def checked(hidden):
        small = tf.debugging.assert_less(hidden, tf.cast(1e3, tf.float64))
        with tf.control_dependencies([grouped(small)]):
            return hidden * tf.constant(2.0, tf.float64)

    train(checked, True)
    large = ROWS.copy()
    large[-1] = 1e6
    with pytest.raises(tf.errors.InvalidArgumentError):
        train(checked, True, large)
