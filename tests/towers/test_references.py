"""Variables that are references, whose readers see what is written there later: nobody is late."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from bodies import TRAIN, build, control_flow, spec

# Their output may be the memory of their input.
PASS_ON = ("Identity", "Switch", "RefSwitch", "Split", "StridedSlice")
ROWS = np.random.RandomState(0).rand(6, 4)


def reference(name, shape, **kwargs):
    return tf.get_variable(name, shape, tf.float64, use_resource=False, **kwargs)


def minimized(loss, optimizer=None):
    optimizer = optimizer or tf.train.MomentumOptimizer(0.1, 0.9)
    return replicate.TowerOptimizer(optimizer).minimize(loss, tf.train.get_global_step())


def layers(x):
    hidden = tf.tanh(x @ reference("w", [4, 3]) + reference("b", [3]))
    loss = tf.reduce_mean((hidden @ reference("u", [3, 1])) ** 2)
    return loss, minimized(loss, tf.train.AdamOptimizer())


def table(x):
    rows = tf.gather(reference("table", [5, 4]), tf.cast(x[:, 0] * 5, tf.int64))
    loss = tf.reduce_mean((rows - x) ** 2)
    return loss, minimized(loss)


def moving_average(x):
    w, moving = reference("w", [4, 1]), reference("moving", [4], trainable=False)
    loss = tf.reduce_mean(((x - moving) @ w) ** 2)
    moved = tf.assign_sub(moving, 0.1 * (moving - tf.reduce_mean(x, 0)))
    with tf.control_dependencies([moved]):
        return loss, minimized(loss)


def now_and_then(x):
    w, kept = reference("w", [4, 1]), reference("kept", [4, 1], trainable=False)
    loss = tf.reduce_mean((x @ w + x @ kept) ** 2)
    with tf.control_dependencies([loss]):  # Which may read it later otherwise.
        even = tf.equal(tf.train.get_global_step() % 2, 0)
    keep = tf.cond(even, lambda: tf.assign(kept, w * 0.5), lambda: tf.identity(kept))
    with tf.control_dependencies([keep]):
        return loss, minimized(loss)


def parts_of_one(x):
    """Splits and slices of a variable are its memory, too."""
    w = reference("w", [8, 1])
    top, rest = tf.split(w, 2)
    loss = tf.reduce_mean((x @ top) ** 2) + tf.nn.l2_loss(rest) + tf.nn.l2_loss(w[2:5])
    return loss, minimized(loss)


MODELS = [layers, table, moving_average, now_and_then, parts_of_one]


def before(op):
    """Returns what an operation waits for, itself included."""
    found, pending = {op}, [op]
    while pending:
        op = pending.pop()
        new = {tensor.op for tensor in op.inputs}.union(op.control_inputs) - found
        found |= new
        pending += new
    return found


def variables_held(op):
    """Returns the reference variables whose memory an operation is given."""
    held = set()
    for tensor in op.inputs:
        while tensor.op.type in PASS_ON:
            tensor = tensor.op.inputs[tensor.op.type == "Split"]
        if tensor.op.type == "VariableV2":
            held.add(tensor.op)
    return held


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@pytest.mark.parametrize(("num_towers", "per_tower"), [(2, False), (2, True), (3, True)])
def test_nothing_is_written_before_all_towers_have_read_it(model, num_towers, per_tower):
    def body(index, features):
        loss, train_op = model(features)
        return spec(TRAIN, loss=loss, train_op=train_op)

    graph = tf.get_default_graph()
    tf.train.create_global_step()
    with control_flow(1):  # Branches of version 2 cannot write to references.
        built = build(body, num_towers=num_towers, features=tf.constant(ROWS), per_tower=per_tower)
    step = before(built.train_op) | before(built.loss.op)
    names = {op.name for op in graph.get_operations() if op.type == "VariableV2"}
    assert names  # They are references indeed.
    writers = [op for op in step if op.inputs and op.inputs[0].dtype.name.endswith("_ref")]
    writers = [op for op in writers if op.type not in ("Identity", "Switch", "RefSwitch")]
    assert writers
    waits = {op: before(op) for op in writers}
    readers = [op for op in step if op not in waits and op.type not in PASS_ON]
    of_towers = set()
    for reader in readers:
        begun = before(reader)
        for variable in variables_held(reader):
            for writer in writers:
                if variable in variables_held(writer):
                    assert reader in waits[writer] or writer in begun, (reader.name, writer.name)
                    of_towers.add(reader.name.split("/")[0])
    assert {f"tower_{index}" for index in range(per_tower, num_towers)} <= of_towers


def chosen_by_rows(x):
    """One branch reads a variable; in steps that take the other, updates happen all the same."""
    scale = reference("scale", [4], initializer=tf.ones_initializer(), trainable=False)
    x = tf.cond(tf.reduce_mean(x) > 0, lambda: x * scale.read_value(), lambda: 1.0 * x)
    loss = tf.reduce_mean((x @ reference("w", [4, 1])) ** 2)
    return loss, minimized(loss)


def chosen_by_step(x):
    half = reference("half", [], initializer=tf.constant_initializer(0.5), trainable=False)
    even = tf.equal(tf.identity(tf.train.get_global_step()) % 2, 0)
    factor = tf.cond(even, lambda: 2.0 * half.read_value(), lambda: tf.constant(3.0, tf.float64))
    loss = factor * tf.reduce_mean((x @ reference("w", [4, 1])) ** 2)
    return loss, minimized(loss)


def read_in_rounds(x):
    scale = reference("scale", [], initializer=tf.ones_initializer(), trainable=False)
    zero = tf.zeros([], tf.float64)
    total = tf.while_loop(
        lambda i, _: i < 3, lambda i, total: (i + 1, total + scale.read_value()), (0, zero)
    )[1]
    loss = total * tf.reduce_mean((x @ reference("w", [4, 1])) ** 2)
    return loss, minimized(loss)


def written_in_rounds(x):
    """The power iteration of a spectral norm; the loss reads the vector from before."""
    w = reference("w", [4, 4], initializer=tf.ones_initializer())
    vector = reference("vector", [1, 4], initializer=tf.ones_initializer(), trainable=False)

    def body(i, _):
        there = tf.nn.l2_normalize(tf.matmul(vector, w, transpose_b=True))
        back = tf.nn.l2_normalize(there @ w)
        with tf.control_dependencies([tf.assign(vector, back)]):
            return i + 1, tf.reduce_sum(there @ w * back)

    start = (0, tf.ones([], tf.float64))
    norm = tf.while_loop(lambda i, _: i < 2, body, start, back_prop=False)[1]
    loss = tf.reduce_mean((x @ (w / tf.stop_gradient(norm))) ** 2)
    return loss, minimized(loss)


IN_CONTROL_FLOW = [chosen_by_rows, chosen_by_step, read_in_rounds, written_in_rounds]


@pytest.mark.parametrize("model", IN_CONTROL_FLOW, ids=lambda model: model.__name__)
def test_variables_that_branches_and_loops_use(model):
    def model_fn(features, labels, mode, params):
        x = features["x"] + tf.constant([[1.0, 0.0, 0.0, 0.0]], tf.float64) * labels
        return spec(TRAIN, *model(x))

    with control_flow(1):
        got, want = (contract.record_plain(model_fn, n, contract.UNEVEN) for n in (3, 1))
    contract.assert_same_run(got, want)


def updated_in_the_midst(features, labels, mode, params):
    """As many GANs: the second gradient takes the weight that the first update has changed."""
    x = features["x"]
    w, v = reference("w", [4, 3]), reference("v", [3, 1])
    out = tf.tanh(x @ w) @ v
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    first = optimizer.minimize(tf.reduce_mean((out - 1) ** 2), var_list=[v])
    with tf.control_dependencies([first]):
        loss = tf.reduce_mean(out**2)
        train_op = optimizer.minimize(loss, tf.train.get_global_step(), var_list=[w])
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_towers_read_again_after_an_update_in_the_midst_of_a_step():
    """On other devices, they have a copy from the beginning of the step."""
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        features = {"x": tf.placeholder(tf.float64, [None, 4])}
        contract.replicated(updated_in_the_midst, 3)(features, None, TRAIN, {})
        operations = graph.get_operations()
        (update,) = (op for op in operations if op.name.endswith("update_v/ApplyGradientDescent"))
        (again,) = (op for op in operations if op.name.startswith("replicate/rereads"))
        assert update in before(again)
        takers = sorted(op.name.partition("/")[0] for op in again.outputs[0].consumers())
        assert takers == ["tower_0", "tower_1", "tower_2"]
        outputs = [op for op in operations if op.name.endswith("matmul_1")]
        assert len(outputs) == 4
        assert all(again not in before(op) for op in outputs)


def test_towers_train_with_an_update_in_the_midst_of_a_step():
    got, want = (
        contract.record_plain(updated_in_the_midst, towers, contract.UNEVEN) for towers in (3, 1)
    )
    contract.assert_same_run(got, want, 1e-9)
