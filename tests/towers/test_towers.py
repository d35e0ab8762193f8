"""A model is built once, as tower 0, and copied for the others; towers meet in `merge_call`."""

import contextvars
import functools
import sys
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
import versions
from bodies import DEVICES, EVAL, PREDICT, TRAIN, build, control_flow, session, spec

ROWS = np.arange(6, dtype=np.float32)[:, None]
EACH = np.split(ROWS, 3)  # Of three towers.
ONES = tf.ones_initializer()


def run(fetches, num_towers=3):
    with session(num_towers) as running:
        initializers = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        running.run([*initializers, tf.tables_initializer()])
        return running.run(fetches)


def towers(body, num_towers=3, mode=TRAIN, features=ROWS, **kwargs):
    """Builds towers of `body`; returns what it returned."""
    returned = []

    def keeping(index, given):
        returned.append(body(index, given))

    features = tf.constant(features) if isinstance(features, np.ndarray) else features
    build(keeping, features, mode, num_towers, **kwargs)
    (value,) = returned
    return value


def each(body, num_towers=3, **kwargs):
    """Builds towers of `body`; returns the tensors that it returned, a structure for each tower."""
    merged = []

    def merging(index, features):
        replicate.merge_call(merged.extend, body(index, features))

    towers(merging, num_towers, **kwargs)
    assert len(merged) == num_towers
    return merged


def own(tensor):
    """Returns what a tower's tensor is, of which merge functions get an identity."""
    return tensor.op.inputs[0] if tensor.op.name.startswith("replicate/towers/") else tensor


def operations(*types):
    return [op for op in tf.get_default_graph().get_operations() if op.type in types]


def _first(values):
    return values[0]


def test_the_model_is_called_once_where_it_was_called():
    context = contextvars.ContextVar("context", default="default")
    context.set("caller's")

    def body(index, features):
        events.append((context.get(), threading.current_thread()))
        for part in "ab":
            replicate.merge_call(lambda: events.append(part))  # noqa: B023
        context.set("model's")

    events = []
    towers(body)
    assert events == [("caller's", threading.current_thread()), "a", "b"]
    assert context.get() == "model's"  # As after any function.


def test_the_graph_comes_out_the_same_every_time():
    def body(index, features):
        x = tf.matmul(features, tf.get_variable("w", [1, 2]))
        loss = tf.reduce_mean(replicate.cross_tower_sum(x) * x)
        optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer())
        return spec(TRAIN, loss, optimizer.minimize(loss, tf.train.get_global_step()))

    def graph_def():
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(1)
            tf.train.create_global_step()
            build(body, tf.constant(ROWS), num_towers=3)
            return graph.as_graph_def().SerializeToString(deterministic=True)

    assert graph_def() == graph_def()


# Copies of operations.


def test_copies_are_named_by_their_towers_and_on_their_devices():
    def body(index, features):
        x = tf.square(features, name="square")
        with tf.device("/cpu:2"), tf.name_scope("inner"):
            return tf.exp(x, name="chosen")

    with tf.name_scope("outer"):
        first, *later = map(own, each(body))
    assert (first.op.name, first.op.inputs[0].op.name) == ("outer/inner/chosen", "outer/square")
    assert first.op.inputs[0].device == "/device:CPU:0"
    for index, tensor in enumerate(later, 1):
        square = tensor.op.inputs[0].op
        assert tensor.op.name == f"tower_{index}/outer/inner/chosen"
        assert square.name == f"tower_{index}/outer/square"
        assert (tensor.op.device, square.device) == ("/device:CPU:2", f"/device:CPU:{index}")
    for tensor, rows in zip(run([first, *later]), EACH):
        np.testing.assert_allclose(tensor, np.exp(rows**2), rtol=1e-6)


def test_copies_do_not_get_the_names_of_a_models_own_operations():
    def model_fn(features, labels, mode):
        logits = tf.identity(features["x"] @ tf.ones([4, 2]), name="tower_0/logits")
        return tf.estimator.EstimatorSpec(mode, {"y": tf.tanh(logits, name="logits")})

    rows = np.arange(12.0).reshape(3, 4).astype(np.float32) / 9.0
    values = []
    for num_towers in (1, 2):
        with tf.Graph().as_default(), tf.Session() as session:
            devices = DEVICES[:num_towers]
            chosen = replicate.replicate_model_fn(model_fn, devices=devices)
            spec = chosen({"x": tf.constant(rows)}, None, mode=PREDICT)
            values.append(session.run(spec.predictions["y"]))
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6)


def test_what_was_there_before_the_model_is_not_copied():
    before = tf.sqrt(tf.constant(16.0), name="before")
    got = each(lambda index, x: x + before)
    assert operations("Sqrt") == [before.op]
    assert {own(tensor).op.inputs[1] for tensor in got} == {before}
    np.testing.assert_array_equal(run(got), np.array(EACH) + 4)


def test_what_nobody_asks_for_is_not_copied():
    def body(index, features):
        tf.sin(features)
        x = tf.cos(features)
        tf.exp(x)
        return x

    each(body)
    assert [len(operations(kind)) for kind in ("Sin", "Exp", "Cos")] == [1, 1, 3]


def test_a_tensor_is_copied_once_however_often_it_is_asked_for():
    def body(index, features):
        x = tf.sin(features)
        replicate.merge_call(_first, x)
        total = replicate.cross_tower_sum(tf.reduce_sum(x))
        replicate.cross_tower_mean(tf.reduce_mean(x))
        return x, x * total

    by_tower = each(body)
    assert len(operations("Sin")) == 3
    total = np.sin(ROWS).sum()
    for (sine, scaled), rows in zip(run(by_tower), EACH):
        np.testing.assert_allclose(sine, np.sin(rows), rtol=1e-6)
        np.testing.assert_allclose(scaled, np.sin(rows) * total, rtol=1e-5)


def _py_func(index, features):
    return tf.py_func(lambda: np.float32(7), [], tf.float32)


def _iterator(index, features):
    data = tf.data.Dataset.from_tensors(7.0).repeat()
    return tf.data.make_one_shot_iterator(data).get_next()


def _table(index, features):
    keys, values = tf.constant(["a", "b"]), tf.constant([7.0, 8.0])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)
    return table.lookup(tf.where(features > -1, tf.fill([2, 1], "a"), tf.fill([2, 1], "b")))


def _queue(index, features):
    queue = tf.queue.FIFOQueue(9, [tf.float32], shapes=[[]])
    with tf.control_dependencies([queue.enqueue_many([[7.0] * 3])]):
        return queue.dequeue()


def _placeholder(index, features):
    return tf.placeholder_with_default(7.0, [])


def _variable(index, features):
    return tf.get_variable("v", [], initializer=tf.constant_initializer(7.0))


SHARED = {
    "py_func": (_py_func, ["PyFunc"]),
    "iterator": (_iterator, ["OneShotIterator", "IteratorGetNext"]),
    "table": (_table, ["HashTableV2", "LookupTableImportV2"]),
    "queue": (_queue, ["FIFOQueueV2", "QueueEnqueueManyV2", "QueueDequeueV2"]),
    "placeholder": (_placeholder, ["PlaceholderWithDefault"]),
    "variable": (_variable, ["VarHandleOp", "AssignVariableOp", "VariableV2"]),
}


@pytest.mark.parametrize(("make", "types"), list(SHARED.values()), ids=list(SHARED))
def test_state_and_what_no_row_enters_is_shared(make, types):
    with tf.Graph().as_default():
        make(0, tf.constant(EACH[0]))
        alone = len(operations(*types))
    got = each(lambda index, x: x + make(index, x))
    made = [op for op in operations(*types) if not op.name.startswith("replicate/towers/")]
    assert len(made) == alone > 0
    np.testing.assert_array_equal(run(got), np.array(EACH) + 7)


def test_each_tower_calls_functions_of_python_with_its_rows():
    called = []

    def double(x):
        called.append(x.ravel().tolist())
        return 2 * x

    got = each(lambda index, x: tf.py_func(double, [x], tf.float32))
    np.testing.assert_array_equal(run(got), 2 * np.array(EACH))
    assert sorted(called) == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(("size", "number"), [(50, 3), (2000, 1)])
def test_large_constants_are_not_copied_for_what_is_computed_from_them(size, number):
    values = np.linspace(0, 1, size, dtype=np.float32)
    got = each(lambda index, x: x[0, 0] + tf.reduce_sum(tf.constant(values)))
    assert sum(op.outputs[0].shape == [size] for op in operations("Const")) == number
    np.testing.assert_allclose(run(got), values.sum() + np.array([0, 2, 4]), rtol=1e-5)


def test_writes_are_not_copied():
    def body(index, features):
        calls = tf.get_variable("calls", [], initializer=tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([calls.assign_add(1.0)]):
            return calls.read_value() + features

    np.testing.assert_array_equal(run(each(body)), np.array(EACH) + 1)
    assert len(operations("AssignAddVariableOp")) == 1


def test_what_a_copy_waits_for_is_copied():
    def body(index, features):
        small = tf.debugging.assert_less(features, 4.0, message="the last tower has 4")
        with tf.control_dependencies([small]):
            return tf.identity(features)

    first, second, third = each(body)
    np.testing.assert_array_equal(run([first, second]), EACH[:2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="the last tower has 4"):
        run(third)


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "ref"])
def test_what_is_beside_a_shared_variable_stays_there(resource):
    def body(index, features):
        with tf.device("/cpu:1"):
            table = tf.get_variable("table", [6, 2], initializer=ONES, use_resource=resource)
        found = tf.nn.embedding_lookup(table, tf.cast(features[:, 0], tf.int32))
        return found, features * 2

    by_tower = each(body)
    beside = []
    for index, (found, doubled) in enumerate(by_tower):
        assert own(doubled).device == f"/device:CPU:{index}"
        while found.op.type not in ("ResourceGather", "GatherV2"):
            found = found.op.inputs[0]
        beside.append(found.op.device)
    assert beside == ["/device:CPU:1"] * 3
    np.testing.assert_array_equal(run([found for found, _ in by_tower]), np.ones([3, 2, 2]))


def _loop(index, x):
    return tf.while_loop(
        lambda i, _: i < 3,
        lambda i, y: (i + 1, y + tf.reduce_sum(x) * y),
        [0, tf.ones_like(x)],
    )[1]


def _conditions(index, x):
    return tf.cond(tf.reduce_sum(x) > 4, lambda: 2 * x, lambda: tf.map_fn(lambda y: 3 * y, x))


def _function(index, x):
    inner = tf.function(lambda y: tf.reduce_sum(y) * y)
    return tf.function(lambda y: inner(y) + y)(x)


def _scan(index, x):
    return tf.gradients(tf.reduce_sum(tf.scan(lambda a, y: a * y + y, x) ** 2), x)[0]


FLOWS = {"loop": _loop, "conditions": _conditions, "function": _function, "scan": _scan}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("flow", list(FLOWS.values()), ids=list(FLOWS))
def test_loops_conditions_and_functions_are_copied(flow, version):
    with control_flow(version):
        got = each(flow)
        want = [flow(0, tf.constant(rows)) for rows in EACH]
        np.testing.assert_allclose(run(got), run(want), rtol=1e-6)


@pytest.mark.parametrize("flow", list(FLOWS.values()), ids=list(FLOWS))
def test_what_functions_do_is_on_the_towers_own_device(flow):
    with control_flow(2):
        each(flow)
    graph = tf.get_default_graph().as_graph_def()
    bodies = {body.signature.name: body for body in graph.library.function}

    def devices(node):
        """Yields the devices that an operation names, and what it calls."""
        yield node.device
        for attr in node.attr.values():
            for called in (attr.func, *attr.list.func):
                for inner in bodies[called.name].node_def if called.name in bodies else ():
                    yield from devices(inner)

    callers = [n for n in graph.node if any(a.func.name in bodies for a in n.attr.values())]
    assert {n.device for n in callers} == {f"/device:CPU:{index}" for index in range(3)}
    for node in callers:
        assert set(devices(node)) <= {node.device, ""}, node.name


def test_each_copy_of_a_loop_has_a_frame_of_its_own():
    """Two loops with one name in one frame would be one loop."""
    with control_flow(1):
        each(_loop)
    frames = {op.name: op.get_attr("frame_name") for op in operations("Enter")}
    by_tower = [
        {frame for name, frame in frames.items() if name.startswith(prefix)}
        for prefix in ("while/", "tower_1/", "tower_2/")
    ]
    assert [len(found) for found in by_tower] == [1] * 3
    assert len(set.union(*by_tower)) == 3


# Shapes and sizes in the model.


@pytest.mark.parametrize(
    ("rows", "num_towers", "static", "want"),
    [(6, 3, True, 2), (6, 2, True, 3), (5, 3, True, None), (6, 3, False, None)],
)
def test_static_shapes_are_known_where_all_towers_have_as_many_rows(rows, num_towers, static, want):
    values = np.ones([rows, 4], np.float32)
    features = {"a": tf.constant(values), "b": tf.constant(values[:, 0])}
    if not static:
        features["a"] = tf.placeholder_with_default(values, [None, 4])
        features["b"] = tf.placeholder_with_default(values[:, 0], [None])
    made = towers(lambda index, x: x, num_towers, features=features)
    assert made["a"].shape.as_list() == [want, 4]
    assert made["b"].shape.as_list() == [want]


def test_outside_towers_there_is_one():
    assert (replicate.num_towers(), replicate.tower_index()) == (1, 0)
    merge = lambda values: [type(values), *values]  # noqa: E731
    assert replicate.merge_call(merge, 7) == [replicate.PerTower, 7]
    assert replicate.merge_call(lambda values: replicate.PerTower([8]), 7) == 8
    both = {"a": tf.constant([1.0]), "b": (None, tf.constant(2))}
    summed = replicate.cross_tower_sum(both)
    assert summed["b"][0] is None
    assert run([summed["a"], summed["b"][1]]) == [1.0, 2]
    assert run(replicate.cross_tower_mean(3.0)) == 3.0


def test_towers_know_themselves():
    def body(index, x):
        merged = replicate.merge_call(lambda: (replicate.num_towers(), replicate.tower_index()))
        assert merged == (3, 0)
        return replicate.num_towers(), tf.convert_to_tensor(replicate.tower_index()), index + 0

    got = each(body)
    assert {size for size, *_ in got} == {3}
    assert run([others for _, *others in got]) == [[0, 0], [1, 1], [2, 2]]
    assert (replicate.num_towers(), replicate.tower_index()) == (1, 0)


INDEX = {
    "where": lambda index: tf.where(tf.equal(index, 0), 10, 20),
    "one_hot": lambda index: tf.reduce_sum(tf.one_hot(index, 3, dtype=tf.int32) * [10, 20, 20]),
    "cast": lambda index: tf.cast(tf.sign(tf.cast(index, tf.float32)), tf.int32) * 10 + 10,
    "negative": lambda index: 10 - 10 * tf.sign(-index),
    "gather": lambda index: tf.gather([10, 20, 20], index),
    "truediv": lambda index: tf.cast(tf.math.ceil(index / 2), tf.int32) * 10 + 10,
}


@pytest.mark.parametrize("compute", list(INDEX.values()), ids=list(INDEX))
def test_the_index_is_computed_with(compute):
    assert run(each(lambda index, x: compute(index))) == [10, 20, 20]


def test_arithmetic_with_the_index_is_that_of_integers():
    def compute(index):
        some = [3 * (index + 1) - index, 7 // (1 + index), 5 % (index + 1), 2**index, index**2]
        return [*some, -index, 1 - index, (index + 4) // 2]

    got = run(each(lambda index, x: compute(index)))
    assert got == [compute(index) for index in range(3)]


COMPARISONS = {
    "==": lambda index: index == 0,
    "!=": lambda index: index != 0,
    "<": lambda index: index < 1,
    "bool": bool,
    "int": int,
    "list": lambda index: [1, 2, 3][index],
    "format": lambda index: f"{index}",
    "dict": lambda index: {index: 1},
    "range": range,
}


@pytest.mark.parametrize("ask", list(COMPARISONS.values()), ids=list(COMPARISONS))
def test_python_cannot_ask_for_the_index(ask):
    with pytest.raises(TypeError, match=r"called once for all towers.*tf\.where.*merge_call"):
        towers(lambda index, x: ask(index))
    assert replicate.num_towers() == 1


# Meeting.


def test_a_merge_function_takes_the_values_of_all_towers_and_its_result_is_shared():
    def merge(values, parts, nothing, thing):
        assert {type(given) for given in (values, parts, nothing, thing)} == {replicate.PerTower}
        assert list(nothing) == [None] * 3
        assert [one is thing[0] for one in thing] == [True] * 3
        assert [one["name"] for one in parts] == ["part"] * 3
        assert isinstance(parts[1]["sparse"], tf.SparseTensor)
        calls.append(values)
        dense = [tf.sparse.to_dense(one["sparse"]) for one in parts]
        return {"sum": tf.add_n(list(values)), "rows": tf.concat(dense, axis=0), "text": "result"}

    def body(index, features):
        parts = {"sparse": tf.sparse.from_dense(features), "name": "part"}
        made = replicate.merge_call(merge, tf.reduce_sum(features), parts, None, object())
        assert made["text"] == "result"
        return made["sum"] + features, made["rows"]

    calls = []
    got = each(body)
    assert len(calls) == 1
    assert len(operations("ConcatV2")) == 1
    for (plus, rows), own_rows in zip(run(got), EACH):
        np.testing.assert_array_equal(plus, own_rows + 15)
        np.testing.assert_array_equal(rows, ROWS)


def test_merge_call_gives_each_tower_its_part_of_a_per_tower():
    def merge(sums):
        total = tf.add_n(list(sums))
        return replicate.PerTower({"rest": total - own, "same": "text"} for own in sums)

    def body(index, features):
        made = replicate.merge_call(merge, tf.reduce_sum(features))
        assert made["same"] == "text"
        return tf.fill([2], made["rest"]) + features[:, 0] * 0

    got = each(body)
    assert run(got) == pytest.approx(np.array([[14, 14], [10, 10], [6, 6]]))
    assert len(operations("Fill")) == 3


def test_the_parts_of_a_per_tower_come_out_in_predictions():
    def body(index, features):
        top = replicate.merge_call(lambda own: replicate.PerTower(10 * i for i in own), index)
        rows = features[:, 0]
        predictions = {"top": rows * 0 + tf.cast(top, tf.float32), "rows": rows}
        return tf.estimator.EstimatorSpec(PREDICT, predictions)

    made = build(body, tf.constant(ROWS[:5]), PREDICT, 3).predictions
    assert run(made["top"]).tolist() == [0, 0, 10, 10, 20]
    assert run(made["rows"]).tolist() == [0, 1, 2, 3, 4]


def test_the_index_is_that_of_each_tower_in_merge_functions():
    got = towers(lambda index, x: replicate.merge_call(lambda all_: tf.stack(list(all_)), index))
    assert run(got).tolist() == [0, 1, 2]


class _Add:
    def __call__(self, values):
        return sum(values)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: lambda values: sum(values),
        lambda x: functools.partial(lambda scale, values: sum(values), x),
        lambda x: functools.partial(functools.partial(lambda scale, values: sum(values)), x),
        lambda x: _Add(),
        lambda x: _Add().__call__,
        lambda x: sum,
    ],
    ids=["lambda", "partial", "partial of partial", "object", "method", "builtin"],
)
def test_any_callable_may_merge(make):
    got = towers(lambda index, x: replicate.merge_call(make(x), tf.reduce_sum(x)))
    assert run(got) == 15


def test_a_merge_that_is_run_waits_for_what_it_depends_on_in_all_towers():
    def body(index, features):
        with tf.control_dependencies([tf.debugging.assert_less(features, 4.0, name="own")]):
            return spec(TRAIN, train_op=replicate.merge_call(lambda: tf.no_op(name="merged")))

    merged = build(body, tf.constant(ROWS), num_towers=3).train_op
    names = {op.name for op in merged.control_inputs}
    assert {name.partition("/")[0] for name in names} == {"own", "tower_1", "tower_2"}
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(merged)


def test_a_merge_is_in_the_scopes_of_the_model_on_the_consolidation_device():
    def body(index, features):
        with tf.name_scope("names"), tf.variable_scope("variables"), tf.device("/cpu:1"):
            return replicate.merge_call(
                lambda: (tf.no_op(name="op"), tf.get_variable("v", []), tf.Variable(1.0, name="w"))
            )

    with tf.name_scope("outer"):
        op, v, w = towers(body, consolidation_device="/cpu:2")
    assert op.name == "outer/names/variables/op"
    assert v.name == "variables/v:0"
    assert w.name == "outer/names/variables/w:0"
    assert {op.device, v.device, w.device} == {"/device:CPU:2"}


def test_what_a_merge_creates_is_there_in_the_model():
    def create():
        tf.add_to_collection("mine", "merged")
        return tf.get_variable("v", [], collections=["variables", "mine"])

    def body(index, features):
        tf.add_to_collection("mine", "own")
        made = replicate.merge_call(create)
        with tf.variable_scope("", reuse=True):
            assert tf.get_variable("v") is made
        assert made in tf.global_variables()
        assert tf.get_collection("mine") == ["own", "merged", made]

    towers(body)


def test_collections_are_those_of_one_device():
    def body(index, features):
        before = tf.get_collection("mine")
        tf.add_to_collection("mine", "model's")
        tf.losses.add_loss(tf.reduce_sum(features))
        tf.get_variable("v", [])
        tf.metrics.mean(features, name="mean")
        tf.summary.scalar("s", tf.reduce_sum(features))
        replicate.merge_call(_first, 0)
        counts = [len(c()) for c in (tf.losses.get_losses, tf.global_variables, tf.local_variables)]
        return before, tf.get_collection("mine"), counts

    tf.add_to_collection("mine", "caller's")
    assert towers(body) == (["caller's"], ["caller's", "model's"], [1, 1, 2])
    assert tf.get_collection("mine") == ["caller's", "model's"]
    assert [v.op.name for v in tf.global_variables()] == ["v"]
    assert [v.op.name for v in tf.local_variables()] == ["mean/total", "mean/count"]
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 1


OPEN = {
    "device": lambda: tf.device("/cpu:2"),
    "colocation": lambda: tf.colocate_with(tf.no_op(name="anchor")),
    "override": lambda: tf.get_default_graph().gradient_override_map({"Identity": "Override"}),
    "container": lambda: tf.container("container"),
    "names": lambda: tf.name_scope("scope"),
    "control": lambda: tf.control_dependencies([tf.no_op(name="before")]),
    "jit": lambda: tf.xla.experimental.jit_scope(separate_compiled_gradients=True),
}


@pytest.mark.parametrize("scope", list(OPEN.values()), ids=list(OPEN))
def test_scopes_open_across_a_rendezvous_stay(scope):
    """The model makes the operation that it would make if there was no rendezvous."""

    def body(meet, index, features):
        with scope():
            replicate.merge_call(_first, 0) if meet else None
            inner = tf.identity(features, "inner")
        replicate.merge_call(_first, 0) if meet else None
        return inner, tf.identity(features, "after")

    def nodes(meet):
        with tf.Graph().as_default() as graph:
            made = [*map(own, sum(each(functools.partial(body, meet)), ()))]
            made.append(tf.identity(1.0, "caller"))
            assert graph._container == "" and graph._default_original_op is None
            return [str(tensor.op.node_def) for tensor in made]

    assert nodes(meet=True) == nodes(meet=False)


def test_a_gradient_with_a_rendezvous_leaves_no_mark_on_operations():
    def body(index, features):
        total = replicate.cross_tower_sum(tf.square(features))
        (gradient,) = tf.gradients(total, features)
        return gradient, tf.identity(features).op

    assert towers(body)[1]._original_op is None
    assert tf.no_op()._original_op is None


def test_variable_scopes_nest_in_those_of_the_caller():
    def body(index, features):
        with tf.variable_scope("inner"):
            return tf.get_variable("v", []), tf.get_variable_scope().reuse

    with tf.name_scope("names"), tf.variable_scope("outer", reuse=tf.AUTO_REUSE):
        variable, reuse = towers(body)
        assert tf.no_op(name="op").name == "names/outer/op"
    assert variable.name == "outer/inner/v:0"
    assert reuse == tf.AUTO_REUSE


def _calls(function):
    """Returns how many functions `function` calls, directly or not."""
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(frame) if event == "call" else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return len(calls)


@pytest.mark.parametrize("meet", [False, True])
def test_comparing_variables_costs_less_in_towers_than_outside(meet):
    """For each new weight, `tf.layers` compares all others: that was most of a tower's cost."""

    def body(index, features):
        if meet:
            replicate.merge_call(_first, 0)
        variable = tf.get_variable("v", [])
        with tf.get_default_graph().as_default(), tf.name_scope("layer"):  # As Keras layers do.
            return _calls(lambda: hash(variable))

    inside = towers(body)
    (variable,) = tf.global_variables()
    outside = _calls(lambda: hash(variable))
    assert inside < outside / 2


def test_entering_a_graph_means_in_towers_what_it_means_outside():
    """Whatever is entered in between, `init_scope` and the graph lead back to where they do."""

    def body(index, features):
        graph = tf.get_default_graph()
        made = []

        def make(name, of=graph):
            with tf.init_scope():
                made.append((tf.get_default_graph() is of, tf.no_op(name=name).device))
            made.append((tf.get_default_graph() is of, tf.executing_eagerly()))

        make("plain")
        with tf.device("/cpu:2"), graph.as_default() as entered:
            make("device")
            assert entered is graph
        with tf.device(None):
            anchor = tf.no_op(name="anchor")
        with tf.colocate_with(anchor):  # One that has no device to give.
            make("colocated")
            with graph.as_default():
                make("colocated_entered")
        with tf.Graph().as_default() as other:
            make("other", other)
            with graph.as_default():
                make("back")
        function = tf.function(lambda: make("function"))
        function.get_concrete_function()
        make("last")
        return [*made, tf.get_default_graph() is graph]

    with tf.Graph().as_default():
        got = towers(body)
    with tf.Graph().as_default(), tf.device("/device:CPU:0"):
        assert got == body(0, None)


def test_tower_0_draws_what_one_device_draws():
    def body(index, features):
        before = tf.random.uniform([4])
        replicate.merge_call(lambda: tf.random.uniform([4]))
        weight = tf.get_variable("w", [4])
        return before, tf.nn.dropout(tf.ones([100]), rate=0.5), tf.identity(weight)

    def draws(num_towers):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            made = each(body, num_towers) if num_towers > 1 else [towers(body, 1)]
            return run([*made, tf.random.uniform([4])])

    one, after_one = draws(1)
    first, second, third, after = draws(3)
    # One device calls the merge function, too, where tower 0 does.
    for got, want in zip(first, one):
        np.testing.assert_array_equal(got, want)
    if not versions.IS_1:  # It takes the number of the last operation for a seed, and sees copies.
        np.testing.assert_array_equal(after, after_one)
    for other in (second, third):
        np.testing.assert_array_equal(other[2], first[2])  # The weight is shared.
    for index in range(2):
        draws_of = [tuple(tower[index]) for tower in (first, second, third)]
        assert len(set(draws_of)) == 3


def test_cross_tower_sum_takes_integers_beside_floats():
    def body(index, features):
        weight = tf.get_variable("w", [], initializer=ONES)
        rows = replicate.cross_tower_sum({"sum": tf.reduce_sum(weight * features), "n": len(ROWS)})
        loss = rows["sum"] / tf.cast(rows["n"], tf.float32)
        return loss, replicate.cross_tower_mean(tf.gradients(loss, weight)[0])

    # The loss is (0 + ... + 5) / (3 * 6) · w in every tower, and so is the mean of all three. Its
    # gradient is made of those for each tower's rows.
    loss, gradient = run(towers(body))
    np.testing.assert_allclose([loss, gradient], 15 / 18, rtol=1e-6)


def test_the_model_gets_params_as_they_were_given():
    def model_fn(features, mode, params):
        seen.append((params.pop("once"), params["list"]))
        params["list"].append("changed")
        return spec(mode)

    seen, params = [], {"once": 1, "list": ["given"]}
    replicated = replicate.replicate_model_fn(model_fn, devices=DEVICES, per_tower=True)
    replicated(tf.ones([4]), None, TRAIN, params)
    assert seen == [(1, ["given", "changed"])]
    assert params == {"once": 1, "list": ["given"]}  # It changed its own.


@pytest.mark.parametrize("reduction", [tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN])
def test_a_penalty_made_in_a_merge_counts_once(reduction):
    def create():
        return tf.get_variable("w", [], initializer=ONES, regularizer=lambda w: 8 * w)

    def body(index, features):
        replicate.merge_call(create)
        return spec(EVAL, tf.losses.get_regularization_loss())

    loss = build(body, tf.constant(ROWS), EVAL, 3, loss_reduction=reduction).loss
    np.testing.assert_allclose(run(loss), 8)


@pytest.mark.parametrize(("reduction", "times"), [("weighted_sum", 3), ("weighted_mean", 1)])
def test_a_penalty_is_part_of_each_towers_loss(reduction, times):
    def body(index, features):
        tf.get_variable("w", [], initializer=ONES, regularizer=lambda w: 8 * w)
        return spec(EVAL, tf.losses.get_regularization_loss() + 0 * tf.reduce_sum(features))

    loss = build(body, tf.constant(ROWS), EVAL, 3, loss_reduction=reduction).loss
    np.testing.assert_allclose(run(loss), 8 * times)
