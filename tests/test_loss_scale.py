"""Loss scales: every transition, wherever they are used, and in checkpoints of TensorFlow's own."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from tensorflow.python.eager import context

import bodies
import replicate
from bodies import EVAL, build, matching
from engines import harness, tpu_graphs
from replicate import loss_scale
from replicate.loss_scale import DynamicLossScale, FixedLossScale
from replicate.optimizer import loss_scaling
from scale_steps import NOT_FINITE, after
from versions import mixed_precision

pytestmark = pytest.mark.conformance

LARGEST = np.finfo(np.float32).max
STEPS = 100
START = {"initial_loss_scale": 2.0**100, "increment_period": 2, "multiplier": 1024.0}


@pytest.fixture
def eager():
    with context.eager_mode():
        yield


@pytest.mark.parametrize("count", [0, 1, 2, 3])  # A checkpoint may hold that of a longer period.
@pytest.mark.parametrize("gradient", [0.0, -1e38, *NOT_FINITE])
def test_every_transition(gradient, count, eager):
    is_finite = np.isfinite(gradient)
    for multiplier in (1.7, 2.0):
        dynamic = DynamicLossScale(1024, 3, multiplier)
        for scale in (1.0, 1.5, 2.0**15, LARGEST / 2, LARGEST):
            dynamic.current_loss_scale.assign(scale)
            dynamic.good_steps.assign(count)
            update, answer = dynamic.update([tf.constant([1.0, gradient])])
            assert update is None and answer.numpy() == is_finite
            got = dynamic().numpy(), dynamic.good_steps.numpy()
            assert got == after(scale, count, is_finite, 3, multiplier), (scale, multiplier)


def mix():
    """Returns rows for each step, 3 of them, and the states that they lead to.

    At first few steps have a row that is not finite, so that the scale grows as large as it can;
    then most have one, so that it falls to 1.
    """
    random = np.random.RandomState(3)
    state, steps = (START["initial_loss_scale"], 0), []
    for step in range(STEPS):
        rows = random.normal(size=3).astype(np.float32)
        is_finite = random.uniform() > (0.1 if step < STEPS // 2 else 0.9)
        if not is_finite:
            # The third row is not seen by two replicas.
            rows[random.randint(2)] = NOT_FINITE[random.randint(3)]
        state = after(*state, is_finite, START["increment_period"], START["multiplier"])
        steps.append((rows, (is_finite, *state)))
    return steps


MIX = mix()
CUT = next(step for step in range(20, STEPS) if MIX[step - 1][1][2] == 1)  # In mid-count.
BEFORE = MIX[:CUT]


def test_the_mix_meets_both_limits():
    states = [state for _, state in MIX]
    assert 1 in [scale for _, scale, _ in states]
    assert {count for _, _, count in states} == {0, 1}
    raised = [scale for is_finite, scale, count in states if is_finite and count == 0]
    assert raised.count(2.0**120) > 1  # 1024 times as much is infinite.


def test_it_steps_as_that_of_tensorflow(eager):
    theirs = mixed_precision.DynamicLossScale(**START)
    for rows, (is_finite, scale, _) in MIX:
        _, apply = theirs.update([tf.constant(rows)])
        assert (apply.numpy(), theirs().numpy()) == (is_finite, scale)


def _compiled(fn):
    return tf2.function(fn, jit_compile=True)


@pytest.mark.parametrize("wrap", [lambda fn: fn, tf2.function, _compiled])
def test_random_steps_at_once(wrap, eager):
    dynamic = DynamicLossScale(**START)
    update = wrap(lambda rows: dynamic.update([rows, None])[1])
    for rows, want in MIX:
        is_finite = update(tf.constant(rows))
        got = is_finite.numpy(), dynamic().numpy(), dynamic.good_steps.numpy()
        assert got == want


# Ways to update from a graph: functions of 3 rows that return, for each tower that there is, its
# loss scale and what its `update` returned.


def alone(rows):
    dynamic = DynamicLossScale(**START)
    return [(dynamic, *dynamic.update({"w": rows, "none": None}))]


def _in_towers(update, rows):
    returned = []

    def body(index, features):
        dynamic = DynamicLossScale(**START)
        returned.append((dynamic, *update(dynamic, features)))

    build(body, rows[:, None], num_towers=3)
    assert len(returned) == 1  # It is called once, for all towers.
    return returned


def in_towers(rows):
    return _in_towers(lambda dynamic, features: dynamic.update([None, features]), rows)


def in_merge_functions(rows):
    return _in_towers(lambda dynamic, own: replicate.merge_call(dynamic.update, own), rows)


def reduced_in_towers(rows):
    def update(dynamic, own):
        return replicate.merge_call(
            lambda all_: loss_scaling.update_from_reduced(dynamic, all_), own
        )

    return _in_towers(update, rows)


def in_replicas(strategy, rows, update=DynamicLossScale.update):
    returned = []

    def replica():
        dynamic = DynamicLossScale(**START)
        returned.append((dynamic, *update(dynamic, [rows[replicate.tower_index()]])))

    with strategy.scope():
        strategy.run(replica)
    assert len(returned) == strategy.num_replicas_in_sync
    return returned


def reduced_in_replicas(strategy, rows):
    def update(dynamic, own):
        return loss_scaling.update_from_reduced(dynamic, [replicate.cross_tower_sum(own)])

    return in_replicas(strategy, rows, update)


def across_replicas(strategy, rows):
    with strategy.scope():
        dynamic = DynamicLossScale(**START)
        own = strategy.run(lambda: rows[replicate.tower_index()])
        return [(dynamic, *dynamic.update([own, tf.constant(1.0), None]))]


def check_mix(returned, rows):
    (operation,) = {update for _, update, _ in returned}
    answers = [answer for _, _, answer in returned]
    states = [[one.current_loss_scale.value(), one.good_steps.value()] for one, _, _ in returned]
    in_time = tf.RunOptions(timeout_in_ms=60_000)  # Collective operations may wait for ever.
    with bodies.session() as session:
        session.run(tf.global_variables_initializer())
        for values, (is_finite, *state) in MIX:
            got, _ = session.run([answers, operation], {rows: values}, options=in_time)
            assert got == [is_finite] * len(answers)
            assert session.run(states) == [state] * len(states)


@pytest.mark.parametrize("way", [alone, in_towers, in_merge_functions, reduced_in_towers])
def test_random_steps_in_a_graph(way):
    rows = tf.placeholder(tf.float32, [3])
    check_mix(way(rows), rows)


@pytest.fixture(scope="session")
def collective():
    """A strategy made in eager mode, which adds up by collective operations."""
    assert tf.executing_eagerly()
    return harness.mirrored()


@pytest.mark.parametrize("way", [in_replicas, reduced_in_replicas, across_replicas])
@pytest.mark.parametrize("kind", ["mirrored", "collective", "central_storage"])
def test_random_steps_in_replicas(way, kind, collective):
    rows = tf.placeholder(tf.float32, [3])
    strategy = collective if kind == "collective" else getattr(harness, kind)()
    returned = way(strategy, rows)
    assert [v.op.name for v in tf.global_variables()][:2] == ["current_loss_scale", "good_steps"]
    check_mix(returned, rows)


def test_one_replica_is_alone():
    rows = tf.placeholder(tf.float32, [3])
    check_mix(in_replicas(tf.distribute.MirroredStrategy(["/cpu:0"]), rows[None, :]), rows)


def test_replicas_of_a_function(eager):
    strategy = harness.mirrored()
    with strategy.scope():
        dynamic = DynamicLossScale(**START)

    def replica(rows):
        return dynamic.update([rows[replicate.tower_index()]])[1]

    def copies(variable):
        return [copy.numpy() for copy in strategy.experimental_local_results(variable)]

    update = tf2.function(lambda rows: strategy.run(replica, (rows,)))
    for rows, (is_finite, *state) in MIX:
        answers = strategy.experimental_local_results(update(tf.constant(rows)))
        assert {bool(answer) for answer in answers} == {is_finite}
        assert copies(dynamic.current_loss_scale) == [state[0]] * 2
        assert copies(dynamic.good_steps) == [state[1]] * 2


# Cores of a TPU, of which each computes all that there is.


def shard(computation):
    tf.tpu.shard(computation, [tf.ones([8])], 4)
    tpu_graphs.check_inside(tf.get_default_graph())
    return tpu_graphs.by_type(tf.get_default_graph())


def test_a_core_asks_the_others_once(fresh_graph):
    def computation(x):
        dynamic = DynamicLossScale()
        update, is_finite = dynamic.update([x, 2 * x])
        with tf.control_dependencies([update]):
            return tf.cast(is_finite, tf.float32) * dynamic()

    ops = shard(computation)
    (total,) = ops["CrossReplicaSum"]
    assert total.outputs[0].shape == []
    assert len([op for op in ops["AssignVariableOp"] if tpu_graphs.is_inside(op)]) == 2


def test_reduced_gradients_need_no_other_core(fresh_graph):
    for make in (DynamicLossScale, mixed_precision.DynamicLossScale):

        def computation(x, make=make):
            _, is_finite = loss_scaling.update_from_reduced(make(), [x])
            return tf.cast(is_finite, tf.float32)

        with tf.Graph().as_default():
            assert "CrossReplicaSum" not in shard(computation)


@pytest.mark.parametrize("others", [0, 1])
def test_a_core_heeds_the_others(others, monkeypatch):
    monkeypatch.setattr(tf.tpu, "cross_replica_sum", lambda tensor: tensor + others)
    with tpu_graphs.replicas(4):
        dynamic = DynamicLossScale(8.0)
        fetches = dynamic.update([tf.constant(1.0)])[::-1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(fetches)[0] == (others == 0)
        assert session.run(dynamic.current_loss_scale) == (4.0 if others else 8.0)


# Kinds of gradients.


@pytest.mark.parametrize("bad", [False, True])
def test_nested_gradients_of_every_kind(bad, eager):
    last = tf.constant([1.0, np.nan if bad else 2.0], tf.float16)
    grads = {
        "a": [tf.constant(1.0, tf.float64), None],
        "b": (tf.IndexedSlices(last, tf.constant([0, 5]), tf.constant([9])),),
        "c": tf.zeros([0]),
    }
    assert DynamicLossScale().update(grads)[1].numpy() != bad


@pytest.mark.parametrize("grads", [[], [None], {}])
def test_no_gradients_are_finite(grads, eager):
    dynamic = DynamicLossScale()
    assert dynamic.update(grads)[1].numpy() and dynamic.good_steps.numpy() == 1


def test_a_tower_without_rows_has_no_say():
    answers = []

    def body(index, features):
        dynamic = DynamicLossScale()
        factor = tf.where(tf.equal(index, 0), 1.0, np.nan)  # As of 0/0.
        gradient = tf.reduce_mean(features) * tf.cast(factor, features.dtype)
        answers.append(dynamic.update([gradient])[1])

    build(body, tf.placeholder_with_default(np.ones([1, 1]), [None, 1]), EVAL, 3)
    with bodies.session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(answers) == [True]


# Variables of towers, and checkpoints.


def test_towers_share_the_variables_of_one_device():
    with tf.Graph().as_default():
        with tf.variable_scope("model"):
            alone(tf.ones([3]))
        want = [(v.name, v.dtype, v.shape, v.aggregation) for v in tf.global_variables()]
    assert [name for name, *_ in want] == ["model/current_loss_scale:0", "model/good_steps:0"]
    assert [v[1:] for v in want] == [
        (dtype, [], tf.VariableAggregation.NONE) for dtype in (tf.float32, tf.int64)
    ]
    with tf.variable_scope("model"):
        in_towers(tf.ones([3]))
    assert [(v.name, v.dtype, v.shape, v.aggregation) for v in tf.global_variables()] == want
    assert tf.trainable_variables() == []
    assert all(hasattr(v, "handle") for v in tf.global_variables())


def theirs(rows):
    dynamic = mixed_precision.DynamicLossScale(**START)
    return [(dynamic, *dynamic.update([rows]))]


def theirs_in_an_optimizer(rows):
    return in_their_optimizer(rows, mixed_precision.DynamicLossScale)


def in_their_optimizer(rows, scale=loss_scale.DynamicLossScale):
    dynamic = scale(**START)
    optimizer = mixed_precision.MixedPrecisionLossScaleOptimizer(
        tf.train.GradientDescentOptimizer(0.0), dynamic
    )
    update = optimizer.apply_gradients([(rows, tf.get_variable("w", [3]))])
    return [(dynamic, update, tf.constant(0))]


def test_an_optimizer_of_tensorflow_skips_steps_by_these_scales():
    w, x = tf.get_variable("w", initializer=[1.0, 2.0]), tf.placeholder(tf.float32, [])
    dynamic = loss_scale.DynamicLossScale(initial_loss_scale=4.0, increment_period=2)
    optimizer = mixed_precision.MixedPrecisionLossScaleOptimizer(
        tf.train.GradientDescentOptimizer(0.5), dynamic
    )
    train_op = optimizer.minimize(tf.reduce_sum(w) * x)
    found = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for value in (1.0, 1.0, np.inf, 1.0):
            session.run(train_op, {x: value})
            found.append((session.run(w).tolist(), session.run(dynamic())))
    want = [([0.5, 1.5], 4.0), ([0.0, 1.0], 8.0), ([0.0, 1.0], 4.0), ([-0.5, 0.5], 4.0)]
    assert found == want


@pytest.mark.parametrize(
    ("first", "second"),
    [(alone, in_towers), (in_towers, alone), (theirs, in_towers), (in_towers, theirs)]
    + [(theirs_in_an_optimizer, alone), (in_their_optimizer, alone), (alone, alone)],
)
def test_a_run_that_was_cut_goes_on_from_its_checkpoint(first, second, tmp_path):
    """In the middle of a count; the variables have the same names everywhere."""
    path = str(tmp_path / "model")
    for way, steps in ((first, BEFORE), (second, MIX[CUT:])):
        with tf.Graph().as_default(), bodies.session() as session:
            rows = tf.placeholder(tf.float32, [3])
            returned = way(rows)
            names = {v.op.name: v for v in tf.global_variables() if v.op.name != "w"}
            assert list(names) == ["current_loss_scale", "good_steps"]
            saver = tf.train.Saver(names)
            session.run(tf.global_variables_initializer())
            if steps is not BEFORE:
                saver.restore(session, path)
            for values, (_, *state) in steps:
                session.run(returned[0][1], {rows: values})
                assert session.run(list(names.values())) == state
            saver.save(session, path, write_meta_graph=False)


OURS, THEIRS = DynamicLossScale, mixed_precision.DynamicLossScale


@pytest.mark.parametrize(("saved", "restored"), [(OURS, OURS), (OURS, THEIRS), (THEIRS, OURS)])
@pytest.mark.parametrize("deferred", [False, True])
def test_checkpoints_of_objects(saved, restored, deferred, tmp_path, eager):
    first = saved(**START)
    for rows, _ in BEFORE:
        first.update([tf.constant(rows)])
    path = tf.train.Checkpoint(scale=first).save(str(tmp_path / "objects"))
    names = [name for name, _ in tf.train.list_variables(path)]
    for name in ("current_loss_scale", "good_steps"):
        assert f"scale/{name}/.ATTRIBUTES/VARIABLE_VALUE" in names
    if deferred:
        checkpoint = tf.train.Checkpoint()
        status = checkpoint.restore(path)
        second = checkpoint.scale = restored(**START)
    else:
        second = restored(**START)
        status = tf.train.Checkpoint(scale=second).restore(path)
    status.assert_existing_objects_matched()
    assert second().numpy() == BEFORE[-1][1][1]
    for rows, (is_finite, scale, _) in MIX[CUT : CUT + 10]:
        _, apply = second.update([tf.constant(rows)])
        assert (apply.numpy(), second().numpy()) == (is_finite, scale)


def test_a_checkpoint_of_objects_in_a_graph(tmp_path):
    checkpoint = tf.train.Checkpoint(scale=DynamicLossScale(**START))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(checkpoint.scale.good_steps.assign(5))
        path = checkpoint.save(str(tmp_path / "objects"), session=session)
    with tf.Graph().as_default(), tf.Session() as session:
        dynamic = DynamicLossScale()
        status = tf.train.Checkpoint(scale=dynamic).restore(path)
        status.initialize_or_restore(session)
        assert session.run([dynamic(), dynamic.good_steps]) == [np.float32(2.0**100), 5]


# Subclasses that were made for TensorFlow's base class.


def halving(base):
    """Returns a subclass of `base` that halves its scale in every step, and counts these."""

    class Halving(base):
        def __init__(self, start=1024.0):
            super().__init__()
            self._start = start
            self._scale = self._add_weight(name="scale", initial_value=start, dtype=tf.float32)
            self._steps = self._add_weight("steps", 0)

        def __call__(self):
            return tf.convert_to_tensor(self._scale)

        def update(self, grads):
            del grads
            updates = [self._scale.assign(self._scale / 2), self._steps.assign_add(1)]
            return tf.group(updates), True

        def get_config(self):
            return {"start": self._start}

    return Halving


@pytest.mark.parametrize("num_towers", [1, 2])
def test_a_subclass_made_for_tensorflow_trains(num_towers):
    seen = []

    def body(index, x):
        scale = halving(loss_scale.LossScale)()
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        optimizer = replicate.TowerOptimizer(optimizer, loss_scale=scale)
        train_op = optimizer.minimize(tf.reduce_mean(x) * weight)
        seen.append((scale, weight, scale._scale))
        return bodies.spec("train", train_op=train_op)

    train_op = build(body, tf.constant([[1.0], [2.0], [6.0]]), num_towers=num_towers).train_op
    (_, weight, scale), *_ = seen
    assert not scale.trainable and scale.aggregation == tf.VariableAggregation.NONE
    assert scale.op.name.split("/")[-1] == "scale"
    with tf.Session(config=replicate.session_config(bodies.DEVICES[:num_towers])) as session:
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        session.run(train_op)
        # The mean is 3, and the gradient is that, whatever the scale.
        assert session.run([weight, scale]) == [-3.0, 256.0]


@pytest.mark.parametrize("order", [1, -1], ids=["theirs", "ours"])
def test_checkpoints_of_such_a_subclass_are_read_by_either(order, tmp_path, eager):
    writer, reader = [loss_scale.LossScale, mixed_precision.LossScale][::order]
    first, second = halving(writer)(8.0), halving(reader)(2.0)
    first.update([])
    path = tf2.train.Checkpoint(scale=first).save(str(tmp_path / "objects"))
    status = tf2.train.Checkpoint(scale=second).restore(path)
    status.assert_existing_objects_matched()
    assert (second().numpy(), second._steps.numpy()) == (4.0, 1)


TWICE = "A loss scale has one variable of a name in each graph, but '…scale' was added to Halving"


def test_a_name_is_of_one_variable_in_each_graph():
    made = halving(loss_scale.LossScale)()
    with tf.Graph().as_default() as graph:
        assert made._add_weight("scale", 1.0).graph is graph
    with context.eager_mode():
        made._add_weight("scale", 1.0)
        with pytest.raises(RuntimeError, match=matching(TWICE)):
            made._add_weight("scale", 1.0)
    with pytest.raises(RuntimeError, match=matching(TWICE)):
        made._add_weight("scale", 1.0)


# Arguments, configuration and texts.


def test_a_fixed_scale_never_changes(eager):
    fixed = FixedLossScale(8)
    assert fixed().dtype == tf.float32 and fixed().shape == [] and fixed().numpy() == 8
    assert fixed.update([tf.constant(np.nan)]) == (None, True)
    assert fixed().numpy() == 8


def test_a_fixed_scale_serves_every_graph():
    fixed = FixedLossScale(2.5)
    for _ in range(2):
        with tf.Graph().as_default(), tf.Session() as session:
            update, apply = fixed.update([tf.constant(np.inf)])
            assert apply is True and session.run([fixed(), update]) == [2.5, None]
            assert tf.global_variables() == []


def test_fixed_scales_do_not_meet(fresh_graph):
    def body(index, features):
        before = len(fresh_graph.get_operations())
        assert loss_scale.get(2.0).update([features])[1] is True
        assert {op.type for op in fresh_graph.get_operations()[before:]} <= {"NoOp"}

    build(body)


def test_defaults_and_properties_are_those_of_tensorflow(eager):
    periods = [{"increment_period": period} for period in (2.0, np.float32(3))]
    for kwargs in ({}, {"increment_period": np.int64(3), "multiplier": 3}, *periods):
        ours, their = OURS(**kwargs), THEIRS(**kwargs)
        for name in ("initial_loss_scale", "increment_period", "multiplier"):
            assert getattr(ours, name) == getattr(their, name)
            assert type(getattr(ours, name)) is type(getattr(their, name))
        assert ours.get_config() == their.get_config()
        assert repr(ours) == repr(their)
        assert ours().numpy() == their().numpy()
    assert repr(FixedLossScale(3)) == repr(mixed_precision.FixedLossScale(3))


def test_repr_says_what_is_known():
    config = "initial_loss_scale=8.0, increment_period=2, multiplier=2.0)"
    dynamic = DynamicLossScale(8, 2)
    assert repr(dynamic) == "DynamicLossScale(" + config
    with context.eager_mode():
        assert repr(dynamic) == "DynamicLossScale(" + config
        dynamic = DynamicLossScale(8, 2)
        dynamic.update([1.0])
        now = "current_loss_scale=8.0, num_good_steps=1, "
        assert repr(dynamic) == "DynamicLossScale(" + now + config
        texts = []
        tf2.function(lambda: texts.append(repr(dynamic)))()
        assert texts == ["DynamicLossScale(" + config]


@pytest.mark.parametrize("made", [FixedLossScale(3), functools.partial(DynamicLossScale, 4, 3, 5)])
def test_configuration_goes_round(made):
    scale = made if isinstance(made, FixedLossScale) else made()
    again = type(scale).from_config(scale.get_config())
    assert type(again) is type(scale)
    assert again.get_config() == scale.get_config()


AT_LEAST_1 = "` must be an int or float…of at least 1 that is finite in float32, but is {}…Pass e.g"
NUMBERS = [0.5, 0, -2, np.nan, np.inf, 1e39, 10**400, True, "8", None, [8], np.ones([])]


@pytest.mark.parametrize("value", NUMBERS, ids=str)
def test_scales_must_be_numbers(value):
    for make in (FixedLossScale, DynamicLossScale):
        with pytest.raises(ValueError, match=matching(AT_LEAST_1.format(repr(value)))):
            make(value)


MULTIPLIER = "` must be an int or float…greater than 1 that is finite in float32, but is {}…Pass"
PERIOD = "`increment_period` must be an integer of at least 1 that int64 holds, but is {}…Pass"


@pytest.mark.parametrize("value", [1, 1.0, 1 + 1e-9, *NUMBERS], ids=str)
def test_multipliers_must_be_numbers(value):
    with pytest.raises(ValueError, match=matching(MULTIPLIER.format(repr(value)))):
        DynamicLossScale(multiplier=value)


@pytest.mark.parametrize(
    "value", [0, -1, 2.5, 0.0, np.nan, np.inf, True, "2", None, 2**63], ids=str
)
def test_periods_must_be_integers(value):
    with pytest.raises(ValueError, match=matching(PERIOD.format(repr(value)))):
        DynamicLossScale(increment_period=value)
    assert tf.global_variables() == []


def test_get():
    assert loss_scale.get(None) is None
    for number in (8, 8.0, np.float32(8)):
        fixed = loss_scale.get(number)
        assert type(fixed) is FixedLossScale and fixed.get_config() == {"loss_scale_value": 8.0}
    assert type(loss_scale.get("dynamic")) is DynamicLossScale
    for made in (
        FixedLossScale(2),
        DynamicLossScale(),
        mixed_precision.FixedLossScale(2),
        mixed_precision.DynamicLossScale(),
    ):
        assert loss_scale.get(made) is made


ACCEPTED = (
    "A loss scale must be None, an int or float, 'dynamic', a `replicate.loss_scale.LossScale` or "
    "a `tf.compat.v1.mixed_precision.LossScale`, but is {}…Pass one of these"
)


@pytest.mark.parametrize("identifier", ["static", True, [2.0], DynamicLossScale, np.ones([2])])
def test_get_refuses(identifier):
    with pytest.raises(ValueError, match=matching(ACCEPTED.format(repr(identifier)))):
        loss_scale.get(identifier)


def test_get_refuses_scales_below_1():
    with pytest.raises(ValueError, match=matching(AT_LEAST_1.format("0.5"))):
        loss_scale.get(0.5)


def test_the_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        loss_scale.LossScale()


ELSEWHERE = (
    "A dynamic loss scale has variables, so it must be used where it was made, but …was made {} "
    "and is used {}…Make it inside `model_fn`, or pass 'dynamic'."
)


@pytest.mark.parametrize("use", [lambda scale: scale(), lambda scale: scale.update([1.0])])
def test_a_dynamic_scale_is_of_one_graph(use):
    with context.eager_mode():
        eager = DynamicLossScale()
        use(eager)
        tf2.function(lambda: (use(eager), 0)[1])()
    graph = DynamicLossScale()
    with pytest.raises(ValueError, match=matching(ELSEWHERE.format("eagerly", "in another graph"))):
        use(eager)
    with context.eager_mode(), pytest.raises(
        ValueError, match=matching(ELSEWHERE.format("in a graph", "eagerly"))
    ):
        use(graph)
    with tf.Graph().as_default(), pytest.raises(
        ValueError, match=matching(ELSEWHERE.format("in a graph", "in another graph"))
    ):
        use(graph)


def test_a_function_in_the_graph_is_of_the_graph():
    dynamic = DynamicLossScale(8.0, 1)

    @tf2.function
    def update():
        dynamic.update([tf.constant(1.0)])
        return dynamic()

    now = update()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(now) == 16.0


# Optimizers with a scale.


def test_losses_are_scaled_in_their_type(eager):
    scale = tf.constant(3.0)
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        loss = tf.constant(0.1, dtype)
        scaled = loss_scaling.scaled
        for got in (scaled(loss, scale), scaled(lambda x=loss: x, scale)()):
            assert got.dtype == dtype and got.numpy() == (loss * tf.constant(3.0, dtype)).numpy()


def test_gradients_are_unscaled_in_their_type(eager):
    scale = tf.constant(3.0)
    values = np.linspace(-1, 1, 7)
    for dtype in (tf.float32, tf.float64):
        got = loss_scaling.unscaled(tf.constant(values, dtype), scale)
        np.testing.assert_array_equal(
            got, values.astype(got.numpy().dtype) / got.numpy().dtype.type(3)
        )
        assert got.dtype == dtype
    assert loss_scaling.unscaled(None, scale) is None


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_a_scale_that_float16_lacks_divides_it_all_the_same(dtype, eager):
    scale = tf.constant(2.0**17)
    got = loss_scaling.unscaled(tf.constant([2.0, -(2.0**10)], dtype), scale)
    assert got.dtype == dtype
    np.testing.assert_array_equal(tf.cast(got, tf.float64), [2.0**-16, -(2.0**-7)])


def test_sparse_gradients_stay_sparse(eager):
    slices = tf.IndexedSlices(tf.constant([[3.0], [6.0]]), tf.constant([4, 4]), tf.constant([9, 1]))
    got = loss_scaling.unscaled(slices, tf.constant(3.0))
    assert got.indices is slices.indices and got.dense_shape is slices.dense_shape
    np.testing.assert_array_equal(got.values, [[1.0], [2.0]])


@pytest.mark.parametrize("way", ["alone", "towers", "replicas"])
@pytest.mark.parametrize("fixed", [False, True])
def test_reduced_gradients_update_scales_of_tensorflow(way, fixed):
    made = []

    def update(gradient):
        scale = mixed_precision.FixedLossScale(8) if fixed else mixed_precision.DynamicLossScale(8)
        made.append((scale, *loss_scaling.update_from_reduced(scale, [gradient])))

    if way == "replicas":
        strategy = harness.mirrored()
        with strategy.scope():
            strategy.run(lambda: update(tf.constant(np.nan)))
    elif way == "towers":
        build(lambda index, features: update(replicate.cross_tower_sum(np.nan * features)))
    else:
        update(tf.constant(np.nan))
    assert len(made) == (2 if way == "replicas" else 1)
    with bodies.session() as session:
        session.run(tf.global_variables_initializer())
        session.run(made[0][1])
        for scale, _, apply in made:
            assert session.run([scale(), tf.constant(apply) if fixed else apply]) == (
                [8.0, True] if fixed else [4.0, False]
            )
