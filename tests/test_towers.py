"""Towers run in lockstep, meet in `merge_call`, and each sees the graph as if it were alone."""

import contextvars
import functools
import sys
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import DEVICES, EVAL, TRAIN, build, session, spec

ROWS = np.arange(6, dtype=np.float32)[:, None]


def run(fetches):
    with session() as running:
        running.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return running.run(fetches)


def towers(body, num_towers=3, mode=TRAIN, **kwargs):
    """Builds towers of `body`; returns what each of its calls returned, in tower order."""
    returned = {}

    def keeping(index, features):
        returned[index] = body(index, features)

    build(keeping, tf.constant(ROWS), mode, num_towers, **kwargs)
    return [returned[index] for index in range(num_towers)]


def _first(values):
    return values[0]


def test_exactly_one_tower_runs_at_a_time_in_tower_order():
    events = []
    running = threading.Lock()  # Whoever runs holds it; two at a time could not both have it.

    def body(index, features):
        for part in "abc":
            assert running.acquire(blocking=False)
            events.append(f"{part}{index}")
            tf.no_op(name=f"{part}{index}")
            running.release()
            if part != "c":
                replicate.merge_call(functools.partial(merge, part))

    def merge(part):
        assert running.acquire(blocking=False)
        events.append(f"merge_{part}")
        running.release()

    towers(body)
    assert events == ["a0", "a1", "a2", "merge_a", "b0", "b1", "b2", "merge_b", "c0", "c1", "c2"]


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


def test_merge_call_gives_every_tower_the_result():
    def merge(indices, nothing):
        assert isinstance(indices, replicate.PerTower)
        calls.append((tuple(indices), tuple(nothing)))
        return "result"

    calls = []
    assert towers(lambda index, x: replicate.merge_call(merge, index, None)) == ["result"] * 3
    assert calls == [((0, 1, 2), (None,) * 3)]


def test_merge_call_gives_each_tower_its_part_of_a_per_tower():
    def merge(indices):
        return replicate.PerTower(10 * index for index in indices)

    assert towers(lambda index, x: replicate.merge_call(merge, index)) == [0, 10, 20]


class _Add:
    def __call__(self, values):
        return sum(values)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: lambda values: sum(values),  # A new function in every tower.
        lambda x: functools.partial(lambda scale, values: sum(values), x),
        lambda x: functools.partial(functools.partial(lambda scale, values: sum(values)), x),
        lambda x: _Add(),
        lambda x: _Add().__call__,
        lambda x: sum,
    ],
    ids=["lambda", "partial", "partial of partial", "object", "method", "builtin"],
)
def test_any_callable_may_merge(make):
    assert towers(lambda index, x: replicate.merge_call(make(x), index)) == [3] * 3  # 0 + 1 + 2


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
    seen = towers(lambda index, x: (replicate.num_towers(), replicate.tower_index(), x.shape[0]))
    assert seen == [(3, 0, 2), (3, 1, 2), (3, 2, 2)]
    assert (replicate.num_towers(), replicate.tower_index()) == (1, 0)
    merged = towers(lambda i, x: replicate.merge_call(lambda: (replicate.num_towers(),)))
    assert merged[0] == (3,)


def test_a_merge_waits_for_the_control_dependencies_of_all_towers():
    def body(index, features):
        own = tf.no_op(name="own")
        with tf.control_dependencies([own]):
            op = replicate.merge_call(lambda: tf.no_op(name="merged"))
        return own, op

    made = towers(body)
    assert set(made[0][1].control_inputs) == {own for own, _ in made}


def test_a_merge_is_in_the_scopes_of_tower_0_on_the_consolidation_device():
    def body(index, features):
        with tf.name_scope("names"), tf.variable_scope("variables"), tf.device("/cpu:1"):
            return replicate.merge_call(
                lambda: (tf.no_op(name="op"), tf.get_variable("v", []), tf.Variable(1.0, name="w"))
            )

    with tf.name_scope("outer"):
        op, v, w = towers(body, consolidation_device="/cpu:2")[2]
    assert op.name == "outer/names/variables/op"
    assert v.name == "variables/v:0"
    assert w.name == "outer/names/variables/w:0"
    assert {op.device, v.device, w.device} == {"/device:CPU:2"}


def test_what_a_merge_creates_is_there_in_all_towers():
    def create():
        tf.add_to_collection("mine", "merged")
        return tf.get_variable("v", [], collections=["variables", "mine"])

    def body(index, features):
        tf.add_to_collection("mine", index)
        made = replicate.merge_call(create)
        with tf.variable_scope("", reuse=True):
            assert tf.get_variable("v") is made
        assert made in tf.global_variables()
        return tf.get_collection("mine"), made

    for index, (mine, made) in enumerate(towers(body)):
        assert mine == [index, "merged", made]


def test_collections_are_per_tower():
    def body(index, features):
        before = tf.get_collection("mine")
        tf.add_to_collection("mine", index)
        tf.losses.add_loss(tf.constant(float(index)))
        tf.get_variable("v", [])
        tf.get_variable("l", [], collections=[tf.GraphKeys.LOCAL_VARIABLES])
        tf.summary.scalar("s", 1.0)
        replicate.merge_call(_first, 0)
        counts = [len(c()) for c in (tf.losses.get_losses, tf.global_variables, tf.local_variables)]
        return before, tf.get_collection("mine"), counts

    tf.add_to_collection("mine", "caller's")
    for index, seen in enumerate(towers(body)):
        assert seen == (["caller's"], ["caller's", index], [1, 1, 1])
    # Tower 0's remain, and the local variables of all, for the session to initialise.
    assert tf.get_collection("mine") == ["caller's", 0]
    assert [v.op.name for v in tf.global_variables()] == ["v"]
    assert [v.op.name for v in tf.local_variables()] == ["l", "tower_1/l", "tower_2/l"]
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 1


def test_tables_and_queues_of_all_towers_are_initialised():
    def body(index, features):
        keys = tf.constant(["a"])
        initializer = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([index]))
        table = tf.lookup.StaticHashTable(initializer, -1)
        return table.lookup(keys)

    found = towers(body, mode=EVAL)
    with session() as running:
        running.run(tf.tables_initializer())
        assert [list(value) for value in running.run(found)] == [[0], [1], [2]]


OPEN = {
    "device": lambda index: tf.device(f"/cpu:{2 - index}"),
    "colocation": lambda index: tf.colocate_with(tf.no_op(name="anchor")),
    "override": lambda index: tf.get_default_graph().gradient_override_map(
        {"Identity": f"Override{index}"}
    ),
    "container": lambda index: tf.container(f"container_{index}"),
    "names": lambda index: tf.name_scope(f"scope_{index}"),
    "control": lambda index: tf.control_dependencies([tf.no_op(name=f"before_{index}")]),
    "jit": lambda index: tf.xla.experimental.jit_scope(separate_compiled_gradients=bool(index)),
}


@pytest.mark.parametrize("scope", list(OPEN.values()), ids=list(OPEN))
def test_scopes_open_across_a_rendezvous_stay_with_their_tower(scope):
    """Each tower makes the operation that it would make if there was no rendezvous."""

    def body(meet, index, features):
        with scope(index):
            replicate.merge_call(_first, 0) if meet else None
            inner = tf.identity(features, "inner")
        replicate.merge_call(_first, 0) if meet else None
        return inner, tf.identity(features, "after")

    def nodes(meet):
        with tf.Graph().as_default() as graph:
            made = towers(functools.partial(body, meet))
            made.append([tf.identity(1.0, "caller")])
            assert graph._container == "" and graph._default_original_op is None
            return [str(tensor.op.node_def) for tensors in made for tensor in tensors]

    assert nodes(meet=True) == nodes(meet=False)


def test_a_gradient_with_a_rendezvous_leaves_no_mark_on_operations():
    def body(index, features):
        total = replicate.cross_tower_sum(tf.square(features))
        (gradient,) = tf.gradients(total, features)
        return gradient, tf.identity(features).op

    for _, op in towers(body):
        assert op._original_op is None
    assert tf.no_op()._original_op is None


def test_name_scopes_nest_in_those_of_the_caller():
    def body(index, features):
        with tf.name_scope("inner"):
            return tf.no_op(name="op").name

    with tf.name_scope("outer"):
        names = towers(body)
        assert tf.no_op(name="op").name == "outer/op"
    inner = ["outer/inner/op", "outer/tower_1/inner/op", "outer/tower_2/inner/op"]
    assert names == inner


def test_variable_scopes_nest_in_those_of_the_caller():
    def body(index, features):
        with tf.variable_scope("inner"):
            return tf.get_variable("v", []), tf.get_variable_scope().reuse

    with tf.variable_scope("outer", reuse=tf.AUTO_REUSE):
        made = towers(body)
    assert {v.name for v, _ in made} == {"outer/inner/v:0"}
    assert {reuse for _, reuse in made} == {tf.AUTO_REUSE}


def test_towers_see_the_context_of_their_caller():
    context = contextvars.ContextVar("context", default="default")

    def body(index, features):
        seen = context.get()
        context.set(index)
        replicate.merge_call(_first, 0)
        return seen, context.get()

    context.set("caller's")
    assert towers(body) == [("caller's", 0), ("caller's", 1), ("caller's", 2)]


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
    assert all(calls < outside / 2 for calls in inside)


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
    for index, each in enumerate(got):
        with tf.Graph().as_default(), tf.device(f"/device:CPU:{index}"):
            assert each == body(index, None)


def test_tower_0_draws_what_one_device_draws():
    def body(index, features):
        before = tf.random.uniform([4])
        replicate.merge_call(lambda: tf.random.uniform([4]))
        weight = tf.get_variable("w", [4])
        return before, tf.nn.dropout(tf.ones([100]), rate=0.5), weight

    def draws(num_towers):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            made = towers(body, num_towers)
            return run([*made, tf.random.uniform([4])])

    one, *_, after_one = draws(1)
    first, second, third, after = draws(3)
    # One device calls the merge function, too, where tower 0 does.
    for got, want in zip([*first, after], [*one, after_one]):
        np.testing.assert_array_equal(got, want)
    for other in (second, third):
        np.testing.assert_array_equal(other[2], first[2])  # The weight is shared.
    for index in range(2):
        draws_of = [tuple(tower[index]) for tower in (first, second, third)]
        assert len(set(draws_of)) == 3


def test_cross_tower_sum_takes_integers_beside_floats():
    def body(index, features):
        weight = tf.get_variable("w", [], initializer=tf.ones_initializer())
        rows = replicate.cross_tower_sum({"sum": tf.reduce_sum(weight * features), "n": len(ROWS)})
        loss = rows["sum"] / tf.cast(rows["n"], tf.float32)
        return loss, tf.gradients(loss, weight)[0]

    # The loss is (0 + ... + 5) / (3 * 6) in every tower. Each has the gradient for its own rows,
    # and its part of the three equal losses' sum: Σⱼ (wⱼ/wᵢ)·dyⱼ = 3 dy.
    losses, grads = zip(*run(towers(body)))
    np.testing.assert_allclose(losses, 15 / 18)
    want = [3 * (0 + 1) / 18, 3 * (2 + 3) / 18, 3 * (4 + 5) / 18]
    np.testing.assert_allclose(grads, want, rtol=1e-6)


def test_each_tower_gets_params_as_they_were_given():
    def model_fn(features, mode, params):
        seen.append((params.pop("once"), params["list"]))
        params["list"].append("changed")
        return spec(mode)

    seen, params = [], {"once": 1, "list": ["given"]}
    replicate.replicate_model_fn(model_fn, devices=DEVICES)(tf.ones([4]), TRAIN, params)
    assert seen == [(1, ["given", "changed"])] * 3  # Each changed its own.


@pytest.mark.parametrize("reduction", [tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN])
def test_a_penalty_made_in_a_merge_counts_once(reduction):
    def create():
        ones = tf.ones_initializer()
        return tf.get_variable("w", [], initializer=ones, regularizer=lambda w: 8 * w)

    def body(index, features):
        replicate.merge_call(create)
        return spec(EVAL, tf.losses.get_regularization_loss())

    loss = build(body, tf.constant(ROWS), EVAL, 3, loss_reduction=reduction).loss
    np.testing.assert_allclose(run(loss), 8)
