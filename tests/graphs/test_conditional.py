"""Operations of optimizers that run only in some steps, and their cost."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

import bodies
from replicate.graphs import run_if

versions = pytest.mark.parametrize("version", [1, 2])  # Of control flow.
TIMES = [True, False, True, True, False]


def variable(name="v", **kwargs):
    return tf.get_variable(name, [], tf.float64, tf.zeros_initializer(), **kwargs)


# Each returns a variable, and a function that makes the operation which adds 1 to it. Inputs of the
# operation are made before, and do not wait for the condition.


def by_assignment():
    x, one = variable(use_resource=True), tf.constant(1.0, tf.float64)
    return x, lambda: x.assign_add(one)


def by_assignment_of_a_reference():
    x, one = variable(use_resource=False), tf.constant(1.0, tf.float64)
    return x, lambda: tf.assign_add(x, one)


def by_a_read():
    x = variable(use_resource=True)
    return x, lambda: x.assign(x + 1.0)


def by_an_outside_read():
    x = variable(use_resource=True)
    plus = x + 1.0
    return x, lambda: x.assign(plus)


def by_an_optimizer():
    x = variable(use_resource=True)
    gradient = tf.constant(-1.0, tf.float64)
    optimizer = tf.train.MomentumOptimizer(1.0, 0.0)
    return x, lambda: optimizer.apply_gradients([(gradient, x)])


def by_an_optimizer_of_rows():
    x = tf.get_variable("v", [3], tf.float64, tf.zeros_initializer(), use_resource=True)
    rows = tf.IndexedSlices(-tf.ones([2], tf.float64), tf.constant([2, 0]), tf.constant([3]))
    return x, lambda: tf.train.AdagradOptimizer(1.0, 1e-12).apply_gradients([(rows, x)])


def by_a_loop():
    x, size = variable(use_resource=True), tf.constant(0.25, tf.float64)

    def run():
        start = [0, tf.zeros([], tf.float64)]
        count, total = tf.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, y + size), start)
        return x.assign_add(total), count

    return x, run


def by_a_loop_that_assigns():
    x, size = variable(use_resource=True), tf.constant(0.25, tf.float64)

    def body(index):
        with tf.control_dependencies([x.assign_add(size, read_value=False)]):
            return index + 1

    return x, lambda: tf.while_loop(lambda index: index < 4, body, [0])


def by_a_condition():
    x, one = variable(use_resource=True), tf.constant(1.0, tf.float64)
    return x, lambda: tf.cond(x < 10.0, lambda: x.assign_add(one), lambda: x.assign_add(-one))


def by_a_condition_that_does_not_hold():
    x, one = variable(use_resource=True), tf.constant(1.0, tf.float64)
    return x, lambda: tf.cond(x > 10.0, lambda: x.assign_add(-one), lambda: x.assign_add(one))


def by_a_condition_in_it():
    x, one = variable(use_resource=True), tf.constant(1.0, tf.float64)
    return x, lambda: run_if(x >= 0.0, lambda: run_if(x < 10.0, lambda: x.assign_add(one)))


def by_a_function():
    x, one = variable(use_resource=True), tf.constant(1.0, tf.float64)
    return x, lambda: tf2.function(lambda given: x.assign_add(given))(one)


def by_python():
    found = np.zeros([])
    x = variable(use_resource=True)

    def add(one):
        found[...] += one
        return found

    one = tf.constant(1.0, tf.float64)
    return x, lambda: x.assign(tf.reshape(tf.py_func(add, [one], tf.float64), []))


def by_a_control_dependency():
    x, one = variable(use_resource=True), tf.constant(1.0, tf.float64)

    def run():
        with tf.control_dependencies([tf.print("", output_stream="file:///dev/null")]):
            return x.assign_add(one)

    return x, run


WAYS = [
    by_assignment,
    by_assignment_of_a_reference,
    by_a_read,
    by_an_outside_read,
    by_an_optimizer,
    by_an_optimizer_of_rows,
    by_a_loop,
    by_a_loop_that_assigns,
    by_a_condition,
    by_a_condition_that_does_not_hold,
    by_a_condition_in_it,
    by_a_function,
    by_python,
    by_a_control_dependency,
]


@versions
@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_it_runs_in_those_steps_alone(way, optimized, version):
    # TensorFlow 1.15 cannot have a loop of the second kind on several devices.
    is_loop = way in (by_a_loop, by_a_loop_that_assigns) and version == 2
    elsewhere = "/cpu:0" if is_loop and tf.__version__.startswith("1.") else "/cpu:1"
    options = None if optimized else tf.GraphOptions(rewrite_options=_off())
    with bodies.control_flow(version), tf.Graph().as_default():
        holds = tf.placeholder(tf.bool, [])
        with tf.device("/cpu:0"):
            x, run = way()
        with tf.device(elsewhere):
            step = run_if(tf.identity(holds), run)
        config = tf.ConfigProto(device_count={"CPU": 2}, graph_options=options)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for number, time in enumerate(TIMES, 1):
                assert session.run(step, {holds: time}) is None
                once = session.run(x)
                assert np.max(once) == pytest.approx(sum(TIMES[:number]), rel=0.5)
                assert way is by_an_optimizer_of_rows or once == sum(TIMES[:number])


def _off():
    rewrite = tf.GraphOptions().rewrite_options
    rewrite.disable_meta_optimizer = True
    return rewrite


@versions
def test_nothing_enters_but_the_condition(version):
    """However many variables an update takes, none is switched."""
    with bodies.control_flow(version), tf.Graph().as_default() as graph:
        variables = [variable(f"v{index}", use_resource=True) for index in range(20)]
        grads = [tf.ones([], tf.float64) for _ in variables]
        optimizer = tf.train.AdamOptimizer(0.1)
        run_if(
            tf.reduce_all([tf.math.is_finite(g) for g in grads]),
            lambda: optimizer.apply_gradients(zip(grads, variables)),
        )
        found = collections.Counter(op.type for op in graph.get_operations())
    assert found["Switch"] == 1 and found["Merge"] == 1
    assert not found["If"] + found["StatelessIf"]
    assert found["ResourceApplyAdam"] == 20


@versions
def test_what_follows_waits_for_it(version):
    with bodies.control_flow(version), tf.Graph().as_default():
        holds = tf.placeholder(tf.bool, [])
        x = variable(use_resource=True)
        step = run_if(holds, lambda: x.assign_add(tf.reduce_sum(tf.ones([200, 200], tf.float64))))
        with tf.control_dependencies([step]):
            after = x.read_value()
        with tf.Session() as session:
            session.run(x.initializer)
            assert [session.run(after, {holds: time}) for time in TIMES] == [
                40000.0 * sum(TIMES[:number]) for number in range(1, 6)
            ]


@versions
def test_variables_that_are_made_there_are_initialised_in_any_step(version):
    with bodies.control_flow(version), tf.Graph().as_default():
        holds = tf.placeholder(tf.bool, [])
        x = variable(use_resource=True)
        optimizer = tf.train.AdamOptimizer(1.0)
        with tf.name_scope("train"):
            step = run_if(holds, lambda: optimizer.apply_gradients([(tf.ones_like(x), x)]))
        assert "v/Adam" in [v.op.name for v in tf.global_variables()]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(step, {holds: False})
            assert session.run(x) == 0
            session.run(step, {holds: True})
            assert session.run(x) == pytest.approx(-1)


@versions
def test_an_exported_graph_runs_as_it_did(version):
    with bodies.control_flow(version), tf.Graph().as_default():
        holds = tf.placeholder(tf.bool, [], name="holds")
        x = variable(use_resource=True)
        tf.group(run_if(holds, lambda: x.assign_add(1.0)), name="step")
        meta_graph = tf.train.export_meta_graph()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta_graph)
        session.run(tf.global_variables_initializer())
        for time in TIMES:
            session.run("step", {"holds:0": time})
        assert session.run("v/Read/ReadVariableOp:0") == sum(TIMES)


def test_in_a_function_it_is_a_condition_of_functions():
    with tf.Graph().as_default(), tf.Session() as session:
        x = variable(use_resource=True)

        @tf2.function
        def step(holds):
            run_if(holds, lambda: x.assign_add(1.0))
            return holds

        holds = tf.placeholder(tf.bool, [])
        done = step(holds)
        session.run(x.initializer)
        for time in TIMES:
            session.run(done, {holds: time})
        assert session.run(x) == sum(TIMES)
