"""Towers keep the order of one device: writes come after reads, sizes after their waits."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import versions
from bodies import control_flow
from partition import harness
from partition.orders import ROWS, assert_alike, ran_of

pytestmark = pytest.mark.conformance
ModeKeys = tf.estimator.ModeKeys
READS = ("ReadVariableOp", "ResourceGather")
WRITES = ("ApplyGradientDescent", "ResourceApplyGradientDescent", "Assign", "AssignVariableOp")


def ancestors(operation):
    """Returns all operations that run before an operation, and itself."""
    found, pending = set(), [operation]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += [tensor.op for tensor in one.inputs] + list(one.control_inputs)
    return found


def readers(variable, ran):
    """Returns which operations of a step read a variable when they run."""
    if variable.op.type == "VarHandleOp":
        return {one for one in ran if one.type in READS and variable.handle in one.inputs}
    shared = {variable.op}
    for one in sorted(ran, key=lambda one: one._id):
        if one.type == "Identity" and one.inputs[0].op in shared:
            shared.add(one)
    takes = {one for one in ran if any(tensor.op in shared for tensor in one.inputs)}
    return {one for one in takes - shared if one.type not in WRITES}


def by_an_optimizer(loss, h):
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())


def by_hand(loss, h):
    """Updates after the loss, by a control input alone."""
    with tf.control_dependencies([loss]):
        return tf.group(*(tf.assign(v, 0.9 * tf.ones(v.shape)) for v in tf.trainable_variables()))


def by_rows(loss, h):
    """After the loss, of a size that leads to what the loss is made of as well."""
    rows = tf.cast(tf.shape(h)[0], tf.float32)
    with tf.control_dependencies([loss]):
        return tf.group(*(tf.assign(v, tf.ones(v.shape) / rows) for v in tf.trainable_variables()))


def by_rows_after(loss, h):
    """Takes a size that is read after the loss: TensorFlow lets the update wait by it alone."""
    ones = [tf.ones(v.shape) for v in tf.trainable_variables()]
    with tf.control_dependencies([loss]):
        rows = tf.cast(tf.shape(h)[0], tf.float32)
        values = [one / rows for one in ones]
        return tf.group(*map(tf.assign, tf.trainable_variables(), values))


def filled_after(loss, h):
    """Takes as many rows as the batch has, which are filled after the loss."""
    count, part, axis = tf.shape(h)[0], tf.constant(0.9), tf.constant([0, 1, 2])
    with tf.control_dependencies([loss]):
        part = tf.reduce_mean(tf.fill([count, 4, 4], part), axis)
    ones = [tf.ones(v.shape) for v in tf.trainable_variables()]
    return tf.group(*(tf.assign(v, part * one) for v, one in zip(tf.trainable_variables(), ones)))


def after_a_size(loss, h):
    """After the outputs, of which only the size is named."""
    with tf.control_dependencies([tf.shape(h)[0]]):
        return tf.group(*(tf.assign(v, 0.9 * tf.ones(v.shape)) for v in tf.trainable_variables()))


@pytest.mark.parametrize("num_towers", [1, 3])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize(
    "update", [by_an_optimizer, by_hand, by_rows, by_rows_after, filled_after, after_a_size]
)
def test_writes_come_after_reads(update, resource, num_towers):
    def model_fn(features, labels, mode):
        tf.get_variable_scope().set_use_resource(resource)
        h = features
        for layer in range(3):
            h = tf.tanh(tf.matmul(h, tf.get_variable(f"w{layer}", [4, 4])))
        loss = tf.reduce_mean(tf.square(h))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update(loss, h))

    with harness.mechanism(), tf.Graph().as_default():
        tf.train.create_global_step()
        rows = tf.placeholder(tf.float32, [None, 4])
        if num_towers > 1:
            devices = contract.device_names(num_towers)
            model_fn = replicate.replicate_model_fn(model_fn, devices=devices)
        spec = model_fn(rows, None, mode=ModeKeys.TRAIN)
        ran = ancestors(spec.train_op) | ancestors(spec.loss.op)
        assert len({one.device for one in ran}) >= num_towers
        for variable in tf.trainable_variables():
            holder = variable.op.outputs[0]
            writes = [one for one in ran if one.type in WRITES and holder in one.inputs]
            assert len(writes) == 1
            late = readers(variable, ran) - ancestors(writes[0])
            assert not late, f"{variable.op.name} is written before {[one.name for one in late]}"


@pytest.mark.parametrize(
    "passed_on",
    [
        lambda w: tf.add_n([w]),
        lambda w: tf.reduce_sum(w, axis=np.zeros([0], np.int32)),
        lambda w: tf.pad(w, [[0, 0], [0, 0]]),
        lambda w: tf.reshape(tf.concat([tf.reverse(w, np.zeros([0], np.int32))], 0), [4, 4]),
    ],
    ids=["add_n", "sum", "pad", "reverse"],
)
def test_a_variable_is_read_by_whatever_takes_its_memory(passed_on):
    def model_fn(features, labels, mode):
        memory = tf.get_variable("w", [4, 4], use_resource=False)
        weights = passed_on(memory)
        smaller = 0.9 * weights
        loss = tf.reduce_mean(tf.square(features @ weights))
        with tf.control_dependencies([loss]):
            train_op = tf.group(tf.assign(memory, smaller))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with harness.mechanism(), tf.Graph().as_default():
        tf.train.create_global_step()
        rows = tf.placeholder(tf.float32, [None, 4])
        spec = harness.replicated(model_fn, 3)(rows, None, mode=ModeKeys.TRAIN)
        ran = ancestors(spec.train_op)
        products = {one for one in ran if one.type == "MatMul" and "tower" in one.name}
        (write,) = (one for one in ran if one.type == "Assign")
        assert len(products) == 3 and products <= ancestors(write)


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_what_is_fetched_by_name_is_made_of_what_towers_have_read(resource):
    def model_fn(features, labels, mode):
        tf.get_variable_scope().set_use_resource(resource)
        h = tf.nn.relu(features @ tf.get_variable("w", [4, 4]), name="h")
        loss = tf.reduce_mean(tf.square(h @ tf.get_variable("v", [4, 2])))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=by_an_optimizer(loss, h))

    with harness.mechanism(), tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        rows = tf.placeholder(tf.float32, [None, 4])
        harness.replicated(model_fn, 3)(rows, None, mode=ModeKeys.TRAIN)
        ran = ancestors(graph.get_operation_by_name("h"))
        (variable,) = [v for v in tf.trainable_variables() if v.op.name == "w"]
        found = {one.name.partition("/")[0] for one in readers(variable, ran)}
        assert found == ({"matmul"} if resource else {"tower_0", "tower_1", "tower_2"})


def _looked_up(x):
    """A state, [n, 4], by way of variables that each round reads, and all states, [3, n, 4]."""
    table = tf.get_variable("table", [3, 4], use_resource=True)

    def body(t, h, states):
        h = tf.tanh(h + tf.nn.embedding_lookup(table, t))
        return t + 1, h, states.write(t, h)

    states = tf.TensorArray(tf.float32, 3)
    _, h, states = tf.while_loop(lambda t, *_: t < 3, body, (0, x, states))
    return h, states.stack()


def _dropped(x):
    """Likewise, by random numbers."""

    def body(t, h, states):
        h = tf.nn.dropout(h, rate=0.5)
        return t + 1, h, states.write(t, h)

    states = tf.TensorArray(tf.float32, 3)
    _, h, states = tf.while_loop(lambda t, *_: t < 3, body, (0, x, states))
    return h, states.stack()


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")
@pytest.mark.parametrize("version", [1] if versions.IS_1 else [1, 2])  # Of control flow.
@pytest.mark.parametrize("states_of", [_looked_up, _dropped])
def test_what_is_fetched_behind_a_loop_is_made_of_the_towers_loops(states_of, version):
    def model_fn(features, labels, mode):
        h, states = states_of(features * tf.get_variable("w", [4]))
        h, states = tf.square(h, "h"), tf.square(states, "states")
        loss = tf.reduce_mean(tf.square(h)) + tf.reduce_mean(tf.square(states))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=by_an_optimizer(loss, h))

    with harness.mechanism(), tf.Graph().as_default() as graph, control_flow(version):
        tf.train.create_global_step()
        rows = tf.placeholder(tf.float32, [None, 4])
        harness.replicated(model_fn, 3)(rows, None, mode=ModeKeys.TRAIN)
        for name in ("h", "states"):
            ran = ancestors(graph.get_operation_by_name(name))
            rounds = {one.name.partition("/")[0] for one in ran if one.type == "LoopCond"}
            assert rounds == {"tower_0", "tower_1", "tower_2"}


def test_a_size_that_is_fetched_waits_for_what_it_waited_for():
    def model_fn(features, labels, mode):
        logits = features @ tf.get_variable("w", [4, 2], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(logits))
        update = by_an_optimizer(loss, None)
        with tf.control_dependencies([update]):
            train_op = tf.identity(tf.shape(logits)[0])
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    assert_alike(ran_of(model_fn, ROWS, steps=2))


def count(counter):
    with tf.control_dependencies([tf.assign_add(counter, 1.0)]):
        return tf.zeros([3])


@pytest.mark.parametrize("by", ["cond", "while"])
def test_a_size_of_what_a_branch_or_loop_gives_waits_for_it(by):
    def model_fn(features, labels, mode):
        counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer())
        if by == "cond":
            bits = tf.cond(features[0, 0] < 9, lambda: count(counter), lambda: tf.ones([3]))
        else:
            start = (0, tf.ones([3]))
            bits = tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, count(counter)), start)[1]
        rows = tf.shape(features + bits[0])[0]
        loss = tf.reduce_sum(tf.square(features)) / tf.cast(rows, tf.float32)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=loss)

    assert_alike(ran_of(model_fn, ROWS))


def test_what_follows_a_function_by_a_size_still_does():
    def model_fn(features, labels, mode):
        zeros = tf.zeros_initializer()
        seen = tf.get_variable("seen", [], tf.int32, zeros, trainable=False, use_resource=True)

        @tf.function
        def halve():
            return seen.assign(seen.read_value() // 2)

        with tf.control_dependencies([halve()]):
            many = tf.size(features)
        update = seen.assign_add(many, read_value=False)
        loss = tf.reduce_mean((features @ tf.get_variable("w", [4, 1])) ** 2)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(update))

    with harness.mechanism(), tf.Graph().as_default() as graph:
        harness.replicated(model_fn, 3)(tf.placeholder(tf.float32, [None, 4]), None, mode="train")
        (update,) = (op for op in graph.get_operations() if op.type == "AssignAddVariableOp")
        assert "StatefulPartitionedCall" in {op.type for op in ancestors(update)}


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_towers_wait_for_what_the_input_does(resource):
    """An old `input_fn` may update a table, and a model may wait for that."""

    def model_fn(features, labels, mode):
        with tf.control_dependencies([features["updated"]]):
            rows = tf.gather(table, features["ids"])
        loss = tf.reduce_mean((rows @ tf.get_variable("w", [4, 1])) ** 2)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=loss)

    with harness.mechanism(), tf.Graph().as_default() as graph:
        table = tf.get_variable("table", [5, 4], use_resource=resource)
        updated = tf.reduce_sum(tf.assign(table, 2.0 * table))
        features = {"ids": tf.placeholder(tf.int32, [None]), "updated": updated}
        harness.replicated(model_fn, 3)(features, None, mode="train")
        gathered = [op for op in graph.get_operations() if op.type.endswith(("Gather", "GatherV2"))]
        in_towers = [op for op in gathered if op.name.startswith("tower_")]
        assert len(in_towers) == 3
        assert all(updated.op in ancestors(op) for op in in_towers)


def test_a_group_waits_for_what_a_size_in_it_waits_for():
    def model_fn(features, labels, mode):
        logits = features @ tf.get_variable("w", [4, 2], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(logits))
        with tf.control_dependencies([by_an_optimizer(loss, None)]):
            size = tf.identity(tf.shape(logits)[0])
        with tf.control_dependencies([tf.group(logits, size)]):
            train_op = tf.identity(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    assert_alike(ran_of(model_fn, ROWS, steps=2))


def test_axes_that_wait_are_waited_for():
    def model_fn(features, labels, mode):
        counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer())
        with tf.control_dependencies([tf.assign_add(counter, 1.0)]):
            y = tf.reduce_sum(features, axis=np.zeros([0], np.int32))
        loss = tf.reduce_mean(tf.square(y))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=loss)

    assert_alike(ran_of(model_fn, ROWS))


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_what_guards_against_no_rows_does(rows):
    def model_fn(features, labels, mode):
        each = tf.reduce_sum(tf.square(features), 1)
        n = tf.shape(features)[0]
        loss = tf.reduce_sum(each) / tf.cast(tf.maximum(n, 1), tf.float32)
        loss += tf.reduce_sum(each) * tf.cast(tf.minimum(n, 1), tf.float32)
        for guarded in (each, each + 1):
            loss += tf.where(n > 0, tf.reduce_mean(guarded), 0.0)
        return tf.estimator.EstimatorSpec(mode, loss=loss)

    assert_alike(ran_of(model_fn, ROWS[:rows], mode=ModeKeys.EVAL))


@pytest.mark.parametrize("static", [True, False], ids=["static", "unknown"])
def test_nothing_is_counted_once_there_are_no_more_rows(static):
    def model_fn(features, labels, mode):
        counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer())
        for given, by in ((features, 1.0), (2.0 * features, 100.0), (tf.shape(features), 1e4)):
            with tf.control_dependencies([given]):
                counted = tf.assign_add(counter, by)
                tf.add_to_collection("counted", counted.op)
        mean = tf.metrics.mean(features)
        tf.add_to_collection("counted", mean[1].op)
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features), eval_metric_ops={})

    values = []
    for num_towers in (1, 3):
        with harness.mechanism(), tf.Graph().as_default():
            data = tf.data.Dataset.from_tensor_slices(np.concatenate([ROWS, ROWS]))
            rows = tf.data.make_one_shot_iterator(data.batch(7, static)).get_next()
            harness.replicated(model_fn, num_towers)(rows, None, mode=ModeKeys.EVAL)
            with tf.Session(config=harness.session_config(num_towers)) as session:
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
                with pytest.raises(tf.errors.OutOfRangeError):
                    for _ in range(3):
                        session.run(tf.get_collection("counted"))
                values.append(session.run([*tf.global_variables(), *tf.local_variables()]))
    assert_alike(values)


@pytest.mark.parametrize("num_towers", [2, 3])
def test_sizes_that_are_known_late_are_those_of_the_batch(num_towers):
    """The graph knows how many rows there are, but not how long the longest is."""

    def model_fn(features, labels, mode):
        ids = tf.cast(features[:, 0] > 0.0, tf.int32)
        w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
        steps = features[:, : tf.reduce_max(ids) + 3, None] * w
        loss = tf.reduce_mean(tf.batch_gather(steps, ids[:, None]) ** 2)
        (slope,) = tf.gradients(loss, [w])
        train_op = tf.group(tf.assign_sub(w, slope))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    values = []
    for towers in (1, num_towers):
        with harness.mechanism(), tf.Graph().as_default():
            tf.train.create_global_step()
            data = tf.data.Dataset.from_tensor_slices(ROWS)
            rows = tf.data.make_one_shot_iterator(data.batch(7, True)).get_next()
            spec = harness.replicated(model_fn, towers)(rows, None, mode=ModeKeys.TRAIN)
            with tf.Session(config=harness.session_config(towers)) as session:
                session.run(tf.global_variables_initializer())
                values.append(session.run((spec.loss, spec.train_op)))
    assert_alike(values)


def of_the_batch(features):
    """A variable that begins with the mean of the batch's rows."""
    return tf.get_variable("mean", initializer=tf.reduce_mean(features, 0))


def of_other_weights(features):
    """A variable that begins with the spread of what others give of the batch."""
    w = tf.get_variable("w", [4, 4], initializer=tf.ones_initializer())
    spread = tf.reduce_mean(tf.square(features @ w), 0)
    scale = tf.get_variable("scale", initializer=spread)
    return tf.reduce_mean(features @ w, 0) / scale


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("beginning", [of_the_batch, of_other_weights])
def test_variables_begin_with_what_the_batch_gives(beginning, resource):
    values = []
    for num_towers in (1, 3):

        def model_fn(features, labels, mode):
            tf.get_variable_scope().set_use_resource(resource)
            shift = beginning(features)
            v = tf.get_variable("v", [4, 3], initializer=tf.ones_initializer())
            loss = tf.reduce_mean(tf.square((features - shift) @ v))
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=by_an_optimizer(loss, 0))

        with harness.mechanism(), tf.Graph().as_default():
            tf.train.create_global_step()
            rows = tf.constant(ROWS)
            spec = harness.replicated(model_fn, num_towers)(rows, None, mode=ModeKeys.TRAIN)
            with tf.Session(config=harness.session_config(num_towers)) as session:
                for variable in tf.global_variables():  # Those that follow have no value then.
                    session.run(variable.initializer)
                made = session.run((spec.loss, spec.train_op))
                values.append((made, session.run(tf.global_variables())))
    assert_alike(values)
