"""A global step that a `model_fn` counts up itself, and what reads it."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from bodies import matching, variables
from graph_walks import behind

NO_BOOL = "` must be True or False, but is …1"
ROWS = np.arange(6.0)


@pytest.fixture(autouse=True, params=["references", "resources"])
def is_reference(request):
    """Whether variables are those of TensorFlow 1.15."""
    of_references = request.param == "references"
    with variables(of_references):
        yield of_references


def model_fn(features, labels, mode, params):
    """Reads the step for a learning rate, as BERT does."""
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [], tf.float64, tf.ones_initializer())
    loss = tf.reduce_mean(features * w)
    rate = tf.cast(tf.train.polynomial_decay(0.5, step, 10), tf.float64)
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(rate))
    if params["by_optimizer"]:
        train_op = optimizer.minimize(loss, step)
    else:
        train_op = tf.group(optimizer.minimize(loss), step.assign(step + 1))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def uses(step):
    """Returns the operations that read or write the step."""
    if hasattr(step, "handle"):
        return [one for one in step.handle.consumers() if one.type.startswith(("Read", "Assign"))]
    (read,) = (one for one in step.op.outputs[0].consumers() if one.type == "Identity")
    writes = [one for one in step.op.outputs[0].consumers() if one.type.startswith("Assign")]
    return [*read.outputs[0].consumers(), *writes]


def orders(num_towers, per_tower=False, by_optimizer=False, **kwargs):
    """Returns of each read of a training step whether the step's assignment waits for it."""
    params = {"by_optimizer": by_optimizer}
    with tf.Graph().as_default() as graph:
        step = tf.train.get_or_create_global_step()
        fn = contract.replicated(model_fn, num_towers, per_tower=per_tower, **kwargs)
        spec = fn(tf.constant(ROWS), None, "train", params)
        train_op = getattr(spec.train_op, "op", spec.train_op)
        running = {train_op, *behind(train_op)}
        of_step = [op for op in uses(step) if op in running]
        (write,) = (op for op in of_step if op.type.startswith("Assign"))
        reads = [op for op in of_step if op is not write]
        with tf.Session(graph=graph, config=contract.session_config(num_towers)) as session:
            session.run(tf.global_variables_initializer())
            rates = []
            for _ in range(3):
                session.run(spec.train_op)
                rates.append(session.run(tf.trainable_variables()[0]))
            assert session.run(step) == 3
        return [read in behind(write) for read in reads], rates


@pytest.mark.parametrize("per_tower", [False, True])
@pytest.mark.parametrize("num_towers", [1, 2])
def test_reads_come_first_if_asked_for(num_towers, per_tower, caplog):
    waits, weights = orders(num_towers, per_tower, read_step_first=True)
    assert len(waits) > 1
    assert all(waits)
    steps = -np.diff([1.0, *weights]) / ROWS.mean()
    np.testing.assert_allclose(steps, [0.5, 0.45001, 0.40002], rtol=1e-4)
    assert "neither waits" not in caplog.text


@pytest.mark.parametrize("num_towers", [1, 2])
def test_the_log_names_reads_that_do_not(num_towers, is_reference, caplog):
    tf.logging.set_verbosity(tf.logging.INFO)
    waits, _ = orders(num_towers)
    assert all(waits) == (is_reference and num_towers > 1)
    (line,) = [r.getMessage() for r in caplog.records if "neither waits" in r.getMessage()]
    here = r"\S*test_step_reads.py:\d+\S*( \(.*\))?"
    assert re.search(f"step is written at {here} and read at {here}, and neither waits", line)
    where = "on one device; towers read the old one" if is_reference else "on one device as well"
    assert f"the old or the new value, {where}. " in line
    assert line.endswith("replicate_model_fn(read_step_first=True) reads before.")


@pytest.mark.parametrize("first", [False, True])
def test_steps_that_an_optimizer_counts_are_left_alone(first, caplog):
    tf.logging.set_verbosity(tf.logging.INFO)
    waits, _ = orders(2, by_optimizer=True, read_step_first=first)
    assert all(waits)
    assert "neither waits" not in caplog.text


@pytest.mark.parametrize("num_towers", [1, 2])
def test_steps_that_are_written_twice_and_read_in_between(num_towers):
    def twice(features, labels, mode):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [], tf.float64, tf.ones_initializer())
        rate = tf.cast(tf.train.polynomial_decay(0.5, step, 10), tf.float64)
        loss = tf.reduce_mean(features * w)
        done = [tf.train.GradientDescentOptimizer(rate).minimize(loss)]
        for _ in range(2):
            with tf.control_dependencies([tf.assign_add(step, 1)]):
                done.append(tf.cast(step.read_value(), tf.float64) * 2.0)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(done))

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        fn = contract.replicated(twice, num_towers, read_step_first=True)
        spec = fn(tf.constant(ROWS), None, "train")
        with tf.Session(config=contract.session_config(num_towers)) as session:
            session.run(tf.global_variables_initializer())
            session.run(spec.train_op)
            assert session.run(step) == 2
            weight = session.run(tf.trainable_variables()[0])
    np.testing.assert_allclose(weight, 1 - 0.5 * ROWS.mean())


def test_it_is_true_or_false():
    with pytest.raises(TypeError, match=matching(f"`read_step_first{NO_BOOL}")):
        replicate.replicate_model_fn(model_fn, read_step_first=1)
