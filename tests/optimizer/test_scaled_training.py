"""Training with a loss scale equals training without one, except for skipped steps."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from tensorflow.python.eager import context

import contract
import replicate
from bodies import TRAIN, build, control_flow, matching, session, spec
from conformance.bert_adamw import AdamWeightDecayOptimizer
from conformance.moving_average import MovingAverageOptimizer
from contract import MEAN, SUM
from contract import models as contract_models
from engines import harness, tpu_graphs
from graph_walks import behind
from replicate.loss_scale import DynamicLossScale
from scale_steps import NOT_FINITE, after
from versions import legacy as keras
from versions import mixed_precision

F64 = tf.float64
ROWS = np.array([[1.0], [2.0], [3.0], [6.0], [8.0]])  # Of mean 4, over two towers: 3 and 2 rows.
SGD = tf.train.GradientDescentOptimizer
Wrapping = mixed_precision.MixedPrecisionLossScaleOptimizer

versions = pytest.mark.parametrize("version", [1, 2])  # Of control flow.
START = {"initial_loss_scale": 1000.0, "increment_period": 2, "multiplier": 2.0}
SCALES = {"fixed": lambda: 1000.0, "dynamic": lambda: DynamicLossScale(**START)}
OWN = ("current_loss_scale", "good_steps")


def scaled(scale="dynamic", **kwargs):
    """Returns what wraps an optimizer, with a loss scale that is no power of two."""
    make = SCALES.get(scale, lambda: scale)
    return lambda opt: replicate.TowerOptimizer(opt, loss_scale=make(), **kwargs)


# Whole models, of which each has been run with all of these; a few rows of the table are kept.


def by_get_updates(loss, params):
    optimizer = params["wrap"](keras.Adam(0.1))
    optimizer.iterations = contract_models.step()
    return optimizer.get_updates(loss, tf.trainable_variables())[0]


TABLE = [
    ("get_variable", "adam", 0, 1, "dynamic"),
    ("get_variable", "adam", 2, 1, "dynamic"),
    ("ref_variable", "momentum", 2, 2, "dynamic"),
    ("partitioned_variable", "adam", 3, 2, "dynamic"),
    ("embedding", "momentum", 3, 1, "dynamic"),
    ("first_tower", "momentum", 2, 2, "fixed"),
    ("cross_tower_normalisation", "adam", 3, 2, "fixed"),
    ("optimizer_factory", "adam", 1, 2, "fixed"),
    ("two_optimizers", "sgd", 2, 2, "dynamic"),
    ("adamw", "sgd", 2, 1, "dynamic"),
    ("adamw", "sgd", 3, 2, "dynamic"),
    ("clipping_optimizer", "sgd", 0, 2, "dynamic"),
    ("callable_loss", "momentum", 2, 2, "dynamic"),
    ("get_updates", "adam", 2, 2, "dynamic"),
]
MODELS = {**contract_models.MODELS, "get_updates": contract_models.model_fn(train=by_get_updates)}


def record(model_fn, wrap, optimizer, towers, batches=contract.UNEVEN, reduction=MEAN):
    """Returns a `Run`, on no towers un-replicated, and the states of its scales by step."""
    run = contract.record(
        contract.replicated(model_fn, towers, reduction) if towers else model_fn,
        functools.partial(contract.dataset, batches),
        contract.make_params(optimizer, reduction, wrap),
        max(towers, 1),
    )
    scales = [
        {name: values.pop(name) for name in list(values) if name.startswith(OWN)}
        for values in run.variables
    ]
    return run, scales


@pytest.mark.usefixtures("resource_variables")
@pytest.mark.parametrize(("model", "optimizer", "towers", "version", "scale"), TABLE)
def test_models_train_as_without_a_scale(model, optimizer, towers, version, scale):
    reduction = SUM if towers == 3 else MEAN
    want = contract.record_one_device(MODELS[model], contract.UNEVEN, optimizer, reduction)
    with control_flow(version):
        wrap = scaled(scale)
        got, scales = record(MODELS[model], wrap, optimizer, towers, reduction=reduction)
    contract.assert_same_run(got, want, 1e-12)
    suffixes = ("", "_1") if model == "two_optimizers" else ("",)
    names = [f"{name}{suffix}:0" for suffix in suffixes for name in OWN]
    assert [sorted(one) for one in scales] == [sorted(names * (scale == "dynamic"))] * 3
    if scale == "dynamic":
        states = [[one[name] for name in names[:2]] for one in scales]
        assert states == [[1000.0, 1], [2000.0, 0], [2000.0, 1]]


def test_one_optimizer_serves_all_towers_and_graphs():
    shared = replicate.TowerOptimizer(lambda: tf.train.AdamOptimizer(0.05), loss_scale="dynamic")
    want = contract.record_one_device(MODELS["get_variable"], contract.UNEVEN, "adam")
    for towers in (2, 0):
        got, scales = record(MODELS["get_variable"], lambda _: shared, "adam", towers)
        contract.assert_same_run(got, want, 1e-12)
        assert scales[-1] == {"current_loss_scale:0": 2.0**15, "good_steps:0": 3}


@versions
def test_variables_are_in_the_scopes_that_they_are_in_without_a_scale(version):
    def names(wrap, towers):
        def body(index, features):
            with tf.name_scope("train"), tf.variable_scope("model"):
                w = tf.get_variable("w", [1, 1])
                loss = tf.reduce_sum(features @ w)
                return spec(TRAIN, loss, wrap(tf.train.AdamOptimizer()).minimize(loss))

        with tf.Graph().as_default(), control_flow(version):
            if towers:
                build(body, num_towers=towers)
            else:
                body(0, tf.ones([4, 1]))
            return [v.op.name for v in tf.global_variables() if not v.op.name.endswith(OWN)]

    want = names(contract.plain, 0)
    assert "train/model/beta1_power" in want
    for towers in (0, 2):
        for kwargs in ({}, {"accumulate_steps": 2}):
            got = [n for n in names(scaled(**kwargs), towers) if "accumulated" not in n]
            assert got == want


# Steps that are skipped.


def mix(steps=100):
    """Returns rows for each step, 3 of them, and what variables they lead to, by plain numbers."""
    random = np.random.RandomState(5)
    w, momentum, count = 1.0, 0.0, 0
    state, made = (np.float32(START["initial_loss_scale"]), 0), []
    for step in range(steps):
        rows = random.normal(0.5, size=3)
        is_finite = random.uniform() > (0.15 if step < steps // 2 else 0.7)
        if is_finite:
            momentum = 0.875 * momentum + rows.mean() * w  # The slope of mean(x · w² / 2).
            w -= 0.125 * momentum
            count += 1
        else:
            # The third row is not seen by two replicas.
            rows[random.randint(2)] = NOT_FINITE[random.randint(3)]
        state = after(*state, is_finite, START["increment_period"], START["multiplier"])
        want = dict(zip(OWN, state), w=w, momentum=momentum, global_step=count)
        made.append((rows, want))
    return made


MIX = mix()


def momentum():
    return scaled()(tf.train.MomentumOptimizer(0.125, 0.875))


def weight():
    return tf.get_variable("w", [], F64, tf.ones_initializer())


def half_square(x):
    return tf.reduce_mean(x * weight() ** 2) / 2


def check_mix(train_op, rows, feed=lambda rows: rows):
    """Runs the steps of the mix, and compares all variables after each."""
    names = {"w/Momentum": "momentum"}
    variables = {names.get(v.op.name, v.op.name): v for v in tf.global_variables()}
    variables = {name: v for name, v in variables.items() if "replica_" not in name}
    assert sorted(variables) == sorted(MIX[0][1])
    in_time = tf.RunOptions(timeout_in_ms=60_000)  # Collective operations may wait for ever.
    with session() as running:
        running.run(tf.global_variables_initializer())
        for values, want in MIX:
            running.run(train_op, {rows: feed(values)}, options=in_time)
            contract.assert_same_values(running.run(variables), want, 1e-12)


def test_the_mix_skips_and_grows():
    scales = [want["current_loss_scale"] for _, want in MIX]
    assert min(scales) == 1 and max(scales) > 1e4
    assert 20 < MIX[-1][1]["global_step"] < 80
    assert {want["good_steps"] for _, want in MIX} == {0, 1}


@versions
@pytest.mark.conformance
@pytest.mark.parametrize("towers", [0, 2, 3])
def test_random_steps(towers, version):
    step = tf.train.get_or_create_global_step()
    rows = tf.placeholder(F64, [3, 1])

    def body(index, x):
        loss = half_square(x)
        return spec(TRAIN, loss, momentum().minimize(loss, step))

    with control_flow(version):
        made = build(body, rows, num_towers=towers) if towers else body(0, rows)
    check_mix(made.train_op, rows, lambda values: values[:, None])


@pytest.mark.conformance
@pytest.mark.parametrize("make", [harness.mirrored, harness.central_storage, harness.one_device])
def test_random_steps_in_replicas(make):
    """Outside an Estimator, losses are added up."""
    strategy = make()
    rows = tf.placeholder(F64, [3])
    with strategy.scope():
        step = tf.train.get_or_create_global_step()

        def replica():
            own = {0: rows[:1], 1: rows[1:]}[replicate.tower_index()]
            own = own if strategy.num_replicas_in_sync > 1 else rows
            loss = tf.reduce_sum(own) / 3 * weight() ** 2 / 2
            return momentum().minimize(loss, step)

        train_op = tf.group(strategy.experimental_local_results(strategy.run(replica)))
    check_mix(train_op, rows)


@pytest.mark.conformance
@pytest.mark.parametrize("way", ["eager", "function", "replicas"])
def test_random_steps_at_once(way):
    with context.eager_mode():
        strategy = harness.mirrored() if way == "replicas" else tf.distribute.get_strategy()
        with strategy.scope():
            w = tf.Variable(np.float64(1), use_resource=True)
            step = tf.Variable(np.int64(0), use_resource=True)
            optimizer = momentum()

        def replica(rows):
            own = {0: rows[:1], 1: rows[1:]}[replicate.tower_index()] if way == "replicas" else rows
            optimizer.minimize(lambda: tf.reduce_sum(own) / 3 * w**2 / 2, step, var_list=[w])

        def train(rows):
            strategy.run(replica, (rows,)) if way == "replicas" else replica(rows)

        train = train if way == "eager" else tf2.function(train)
        for rows, want in MIX:
            train(tf.constant(rows))
            got = {
                "w": w,
                "momentum": optimizer.get_slot(w, "momentum"),
                "global_step": step,
                "current_loss_scale": optimizer.loss_scale.current_loss_scale,
                "good_steps": optimizer.loss_scale.good_steps,
            }
            for name, variable in got.items():
                for copy in strategy.experimental_local_results(variable):
                    contract.assert_close(copy.numpy(), want[name], 1e-12, name)


def _average():
    return MovingAverageOptimizer(SGD(0.5), num_updates=tf.train.get_global_step())


# Optimizers, and the variables that they make and change in every step.
STATE = {
    "adam": (tf.train.AdamOptimizer, {"beta1_power", "beta2_power", "w/Adam", "w/Adam_1"}),
    "keras": (keras.Adam, {"Adam/w/m", "Adam/w/v"}),
    "average": (_average, {"w/ExponentialMovingAverage"}),
    "bert": (lambda: AdamWeightDecayOptimizer(0.1, 0.01, []), {"w/adam_m", "w/adam_v"}),
}
# Which of a batch's 5 rows, 3 of tower 0 and 2 of tower 1, are not finite.
BAD = ([0], [4], range(5))


def values():
    return {v.op.name: v for v in tf.global_variables()}


@versions
@pytest.mark.parametrize("name", list(STATE))
def test_a_skipped_step_advances_nothing(name, version):
    make, state = STATE[name]
    step = tf.train.create_global_step()
    rows = tf.placeholder(tf.float32, [5, 1])

    def body(index, x):
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(x * w**2)
        optimizer = replicate.TowerOptimizer(make(), loss_scale="dynamic")
        return spec(TRAIN, loss, optimizer.minimize(loss, step))

    with control_flow(version):
        train_op = build(body, rows).train_op
    changing = {"w", *state} | ({"global_step"} if name != "bert" else set())  # Its caller counts.
    good = np.arange(1.0, 6.0)[:, None]
    scale = 2.0**15
    with session() as running:
        running.run(tf.global_variables_initializer())
        running.run(train_op, {rows: good})
        for where, not_finite in zip(BAD, NOT_FINITE):
            before = running.run(values())
            bad = good.copy()
            bad[list(where)] = not_finite
            running.run(train_op, {rows: bad})
            scale /= 2
            want = dict(before, current_loss_scale=np.float32(scale), good_steps=0)
            contract.assert_same_values(running.run(values()), want, 0)
            running.run(train_op, {rows: good})
            after = running.run(values())
            assert after["good_steps"] == 1 and after["current_loss_scale"] == scale
            assert [name for name in changing if np.any(after[name] == before[name])] == []


def train(body, rows=ROWS, steps=1, **kwargs):
    """Runs steps of towers of `body`; returns all variables after them, by name."""
    with session() as running:
        train_op = build(body, tf.constant(rows), **kwargs).train_op
        running.run(tf.global_variables_initializer())
        for _ in range(steps):
            running.run(train_op)
        return running.run(values())


@pytest.mark.parametrize("reduction", [MEAN, SUM])
def test_a_reduced_gradient_may_overflow_where_those_of_towers_do_not(reduction):
    def body(index, x):
        w = tf.get_variable("w", [], tf.float16, tf.zeros_initializer())
        pairs = [(tf.cast(40000.0 + 0.0 * tf.reduce_sum(x), tf.float16), w)]
        return spec(TRAIN, train_op=scaled()(SGD(2.0**-10)).apply_gradients(pairs))

    got = train(body, loss_reduction=reduction)
    skips = reduction == SUM  # 80000 is infinite in float16.
    assert got["w"] == (0 if skips else np.float16(-40000 / 2**10))
    assert got["current_loss_scale"] == (500 if skips else 1000)


def test_a_fixed_scale_skips_nothing():
    def body(index, x):
        factor = tf.where(tf.equal(index, 0), 1.0, np.nan)
        loss = half_square(x * tf.cast(factor, x.dtype))
        return spec(TRAIN, loss, scaled("fixed")(SGD(1.0)).minimize(loss))

    assert np.isnan(train(body)["w"])


# The order of things.


@versions
def test_gradients_are_transformed_and_clipped_once_they_are_found_finite(version):
    """Counted in variables, because graphs hold what does not run."""

    def body(index, x):
        runs = tf.get_variable("runs", [], tf.int64, tf.zeros_initializer(), trainable=False)
        seen = tf.get_variable("seen", [], F64, tf.zeros_initializer(), trainable=False)

        def transform(pairs):
            ((gradient, variable),) = pairs
            with tf.control_dependencies([runs.assign_add(1), seen.assign(gradient)]):
                return [(3 * gradient, variable)]

        optimizer = scaled(clip_norm=2, transform_gradients=transform)(SGD(1.0))
        w = weight()
        # Of slope 4, but where w is not positive any more.
        loss = tf.reduce_mean(x) * w + tf.where_v2(w > 0, tf.zeros([], F64), np.nan) * w
        return spec(TRAIN, loss, optimizer.minimize(loss))

    with control_flow(version):
        got = train(body, steps=3)
    want = dict(zip(OWN, after(*after(1000.0, 1, False, 2, 2), False, 2, 2)))
    contract.assert_same_values(got, dict(want, runs=1, seen=4.0, w=1.0 - 2.0), 1e-12)


@versions
@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize("batches", [1, 2])
def test_summaries_of_transformed_gradients_are_empty_where_nothing_is_applied(
    batches, towers, version
):
    rows = tf.placeholder(F64, [2, 1])

    def body(index, x):
        def transform(pairs):
            ((gradient, _),) = pairs
            tf.summary.scalar("norm", tf.abs(gradient))
            return pairs

        optimizer = scaled(transform_gradients=transform, accumulate_steps=batches)(SGD(1.0))
        loss = tf.reduce_mean(x) * weight()
        tf.summary.scalar("loss", loss)
        return spec(TRAIN, loss, optimizer.minimize(loss))

    with control_flow(version):
        train_op = build(body, rows, num_towers=towers).train_op
    merged = tf.summary.merge_all()
    tags = []
    with session() as running:
        running.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for value in [1.0, np.nan, 1.0, 3.0]:
            summary, _ = running.run([merged, train_op], {rows: [[value], [1.0]]})
            found = {v.tag: v.simple_value for v in tf.Summary.FromString(summary).value}
            tags.append(found.get("norm"))
            assert "loss" in found
    assert tags == ([1.0, None, 1.0, 2.0] if batches == 1 else [None, None, None, 1.5])


@versions
@pytest.mark.conformance
def test_finiteness_is_checked_once_where_gradients_are_reduced(version, fresh_graph):
    scales, optimizers = [], []

    def body(index, x):
        a, b = (tf.get_variable(name, [], F64) for name in "ab")
        loss = tf.reduce_mean(x * a * b)
        optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(), loss_scale="dynamic")
        train_op = optimizer.minimize(loss)
        optimizers.append(optimizer)
        scales.append(optimizer.loss_scale)
        return spec(TRAIN, loss, train_op)

    with control_flow(version):
        train_op = build(
            body, tf.constant(ROWS), num_towers=3, consolidation_device="/cpu:2"
        ).train_op
    found = [op for op in fresh_graph.get_operations() if op.type == "IsFinite"]
    reduced = [op for op in fresh_graph.get_operations() if op.type == "AddN"]
    totals = {op for op in reduced if op.name.startswith("replicate/reduce")}
    of_gradients = [op for op in found if totals & behind(op, time=False)]
    assert [op.device for op in of_gradients] == ["/device:CPU:2"] * 2  # Of both variables.
    (other,) = set(found) - set(of_gradients)  # Whether a larger scale would be finite.
    assert other.device == "/device:CPU:2"
    assert set(found) <= behind(train_op)
    scales.append(optimizers[0].loss_scale)  # Asked outside of the towers.
    for name in OWN:
        assert len({id(getattr(scale, name)) for scale in scales}) == 1
        assert [v for v in values() if name in v] == [name]


@versions
@pytest.mark.parametrize("towers", [0, 2])
def test_what_waits_for_the_train_operation_sees_the_new_variables(towers, version):
    reads = []

    def body(index, x):
        w = weight()
        table = tf.get_variable("table", [2**18], F64, tf.ones_initializer())
        loss = tf.reduce_mean(x) * (w + tf.reduce_sum(table))
        step = tf.train.get_or_create_global_step()
        train_op = scaled()(tf.train.MomentumOptimizer(1.0, 0.5)).minimize(loss, step)
        with tf.control_dependencies([train_op]):
            reads.append([w.read_value(), table.read_value()[-1], step.read_value()])
        return spec(TRAIN, loss, train_op)

    with control_flow(version):
        build(body, tf.constant(ROWS), num_towers=towers) if towers else body(0, tf.constant(ROWS))
    with session() as running:
        running.run(tf.global_variables_initializer())
        w = 1.0
        for count, slope in enumerate((4.0, 6.0, 7.0, 7.5), 1):
            w -= slope
            for got in running.run(reads[:1]):
                np.testing.assert_allclose(got, [w, w, count], rtol=1e-12)


# Gradients that are made by hand.


def _by_tf_gradients(optimizer, loss, variables):
    return optimizer.unscale(tf.gradients(optimizer.scale_loss(loss()), variables))


def _by_function(optimizer, loss, variables):
    return optimizer.unscale(tf.gradients(optimizer.scale_loss(loss)(), variables))


def _as_keras_does(optimizer, loss, variables):
    grads = tf.gradients(optimizer.get_scaled_loss(loss()), variables)
    return optimizer.get_unscaled_gradients(grads)


def _by_tape(optimizer, loss, variables):
    with tf.GradientTape() as tape:
        scaled_loss = optimizer.scale_loss(loss())
    return optimizer.unscale(tape.gradient(scaled_loss, variables))


def _not_scaled(optimizer, loss, variables):
    return tf.gradients(loss(), variables)


@pytest.mark.parametrize("scale", ["dynamic", 2.0**12, None])
@pytest.mark.parametrize(
    "way", [_by_tf_gradients, _by_function, _as_keras_does, _by_tape, _not_scaled]
)
def test_gradients_that_float16_lacks_survive_by_the_scale(way, scale):
    """Dense ones, slices and None."""

    def body(index, x):
        w, table = (tf.get_variable(name, [2], initializer=tf.zeros_initializer()) for name in "wt")
        unused = tf.get_variable("unused", [2], initializer=tf.zeros_initializer())

        def loss():
            half = tf.cast(w[0], tf.float16) + tf.cast(tf.gather(table, [1])[0], tf.float16)
            return tf.cast(half, tf.float32) * 2.0**-30 * tf.cast(tf.reduce_mean(x), tf.float32)

        optimizer = replicate.TowerOptimizer(SGD(2.0**30), loss_scale=scale)
        grads = way(optimizer, loss, [w, table, unused])
        assert isinstance(grads[1], tf.IndexedSlices) and grads[2] is None
        return spec(TRAIN, train_op=optimizer.apply_gradients(zip(grads, [w, table, unused])))

    got = train(body)
    slope = 0 if scale is None or way is _not_scaled else 4
    np.testing.assert_allclose(got["w"], [-slope, 0], rtol=2e-3)  # As precise as float16.
    np.testing.assert_allclose(got["t"], [0, -slope], rtol=2e-3)
    np.testing.assert_array_equal(got["unused"], 0)


def test_without_a_scale_losses_and_gradients_stay_as_they_are():
    optimizer = replicate.TowerOptimizer(SGD(1.0))
    loss, grads = tf.constant(1.0), [tf.constant(2.0), None]
    assert optimizer.scale_loss(loss) is loss and optimizer.get_scaled_loss(len) is len
    assert [a is b for a, b in zip(optimizer.unscale(iter(grads)), grads)] == [True, True]


# Optimizers of TensorFlow and Keras that scale losses.


def _rewritten(optimizer, scale):
    kwargs = {} if scale == "dynamic" else {"loss_scale": scale}
    try:
        return tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer, **kwargs)
    finally:
        tf.train.experimental.disable_mixed_precision_graph_rewrite()


def _of_keras(optimizer, scale):
    dynamic = scale == "dynamic"
    kind = tf2.keras.mixed_precision.LossScaleOptimizer
    return kind(optimizer, dynamic=dynamic, initial_scale=2**15 if dynamic else scale)


def _of_tensorflow(optimizer, scale):
    return Wrapping(optimizer, scale)


def _momentum():
    return tf.train.MomentumOptimizer(0.125, 0.875)


def _keras_momentum():
    return keras.SGD(0.125, 0.875)


@pytest.mark.parametrize("makes", [False, True], ids=["optimizer", "function"])
def test_what_scales_losses_answers_as_it_was_given(makes):
    kind = tf2.keras.mixed_precision.LossScaleOptimizer
    given = {"initial_scale": 512, "dynamic_growth_steps": 7}
    for kwargs in (given, {"dynamic": False, "initial_scale": 3}, {}):
        theirs = kind(_keras_momentum(), **kwargs)
        optimizer = replicate.TowerOptimizer((lambda theirs=theirs: theirs) if makes else theirs)
        for name in ("dynamic", "initial_scale", "dynamic_growth_steps"):
            assert (
                getattr(optimizer, name)
                == getattr(theirs, name)
                == kwargs.get(name, getattr(kind(_keras_momentum(), **kwargs), name))
            )
        assert optimizer.dynamic_counter is theirs.dynamic_counter
        assert optimizer.inner_optimizer is theirs.inner_optimizer
        assert optimizer.momentum is theirs.inner_optimizer.momentum
        with pytest.raises(AttributeError, match="no_such_name"):
            optimizer.no_such_name  # noqa: B018
    for others in (keras.SGD(0.1), _momentum()):
        with pytest.raises(AttributeError, match="dynamic"):
            replicate.TowerOptimizer(others).dynamic  # noqa: B018


def test_the_counter_is_that_of_the_steps():
    def body(index, x):
        kind = tf2.keras.mixed_precision.LossScaleOptimizer
        optimizer = replicate.TowerOptimizer(kind(keras.SGD(0.1), dynamic_growth_steps=9))
        counters.append(optimizer.dynamic_counter)
        return spec(TRAIN, None, optimizer.minimize(half_square(x)))

    counters = []
    train_op = build(body, tf.ones([5, 1], F64), num_towers=2).train_op
    with session() as running:
        running.run(tf.global_variables_initializer())
        for step in range(3):
            assert running.run(counters[0]) == step
            running.run(train_op)


THEIRS = [
    (_rewritten, _momentum),
    (_rewritten, _keras_momentum),
    (_of_tensorflow, _momentum),
    (_of_keras, _keras_momentum),
]


@pytest.mark.usefixtures("resource_variables")
@pytest.mark.parametrize("scale", ["dynamic", 1000])
@pytest.mark.parametrize(("wrap", "make"), THEIRS)
def test_optimizers_that_scale_losses_are_taken_apart(wrap, make, scale):
    def run(wrapped):
        def body(index, x):
            loss = half_square(x)
            optimizer = wrapped()
            assert "LossScale" not in type(optimizer.optimizer).__name__
            step = tf.train.get_or_create_global_step()
            return spec(TRAIN, loss, optimizer.minimize(loss, step))

        with tf.Graph().as_default(), session() as running:
            rows = tf.placeholder(F64, [3, 1])
            train_op = build(body, rows).train_op
            running.run(tf.global_variables_initializer())
            seen = []
            for values_, _ in MIX[:10]:
                if scale != "dynamic":
                    values_ = np.nan_to_num(values_, posinf=1.0, neginf=1.0)
                running.run(train_op, {rows: values_[:, None]})
                seen.append(running.run(values()))
            return seen

    got = run(lambda: replicate.TowerOptimizer(wrap(make(), scale)))
    want = run(lambda: replicate.TowerOptimizer(make(), loss_scale=scale))
    for one, other in zip(got, want):
        contract.assert_same_values(one, other, 1e-12)
    if scale == "dynamic":
        assert want[-1]["current_loss_scale"] < 2**15 and want[-1]["global_step"] > 3


def _their_run(x, step):
    return Wrapping(_momentum(), "dynamic").minimize(half_square32(x), step)


def half_square32(x):
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    return tf.reduce_mean(x * w**2) / 2


def _in_towers(x, step):
    def body(index, x):
        optimizer = replicate.TowerOptimizer(_momentum(), loss_scale="dynamic")
        loss = half_square32(x)
        return spec(TRAIN, loss, optimizer.minimize(loss, step))

    return build(body, x).train_op


@pytest.mark.parametrize("first, second", [(_their_run, _in_towers), (_in_towers, _their_run)])
def test_checkpoints_of_tensorflows_optimizer_are_ours(first, second, tmp_path):
    path = str(tmp_path / "model")
    with_bad = [np.full([3, 1], value, np.float32) for value in (1.0, np.inf, 0.5, 2.0)]
    runs = []
    for ways in ((first, second), (first, first)):
        for way, batches in zip(ways, (with_bad[:3], with_bad[3:])):
            with tf.Graph().as_default(), session() as running:
                rows = tf.placeholder(tf.float32, [3, 1])
                train_op = way(rows, tf.train.create_global_step())
                saver = tf.train.Saver()
                running.run(tf.global_variables_initializer())
                if len(batches) == 1:
                    saver.restore(running, path)
                    assert running.run(values()["current_loss_scale"]) == 2**14
                for batch in batches:
                    running.run(train_op, {rows: batch})
                saver.save(running, path, write_meta_graph=False)
                last = running.run(values())
        runs.append(last)
    contract.assert_same_values(*runs, 1e-6)
    assert runs[0]["good_steps"] == 2 and runs[0]["global_step"] == 3


TWICE = (
    "A loss is scaled once, but got `loss_scale` …{}… and an optimizer that scales losses, "
    "…Leave one of them out."
)


@pytest.mark.parametrize("as_factory", [False, True])
@pytest.mark.parametrize("scale", ["dynamic", 8])
def test_two_scales_are_refused(scale, as_factory):
    def make():
        return Wrapping(SGD(1.0), "dynamic")

    shown = "dynamic" if scale == "dynamic" else "FixedLossScale(8.0)"
    with pytest.raises(ValueError, match=matching(TWICE.format(shown))):
        made = replicate.TowerOptimizer(make if as_factory else make(), loss_scale=scale)
        made.get_name()


class Own(Wrapping):
    """An optimizer with its own way to apply gradients, which stays as it is."""

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        halves = [(gradient / 2, variable) for gradient, variable in grads_and_vars]
        return super().apply_gradients(halves, *args, **kwargs)


def _float32(predictions, features, labels, params):
    return contract_models.squared(predictions, features, tf.cast(labels, tf.float32), params)


# TensorFlow unscales no gradients in float64.
FLOAT32 = contract_models.model_fn(contract_models.by_float32, _float32)


def test_what_is_derived_from_tensorflows_optimizer_stays():
    def wrap(optimizer):
        wrapped = replicate.TowerOptimizer(Own(optimizer, "dynamic"))
        assert type(wrapped.optimizer) is Own and wrapped.loss_scale is None
        return wrapped

    want, _ = record(FLOAT32, lambda optimizer: Own(optimizer, "dynamic"), "momentum", 0)
    for towers in (2, 0):
        got, scales = record(FLOAT32, wrap, "momentum", towers)
        contract.assert_same_run(got, want, 1e-5)
        assert scales[-1] == {"current_loss_scale:0": 2.0**15, "good_steps:0": 3}


IN_CONDITION = "apply_gradients of MomentumOptimizer…If another optimizer makes the condition, "
IN_CONDITION += "let `TowerOptimizer` wrap that one. `TowerOptimizer` can scale losses and"


def inside_out(optimizer, scale, rewrite=False):
    optimizer = replicate.TowerOptimizer(optimizer)
    return _rewritten(optimizer, scale) if rewrite else Wrapping(optimizer, scale)


@pytest.mark.parametrize(
    ("scale", "towers", "rewrite", "version"),
    [
        (1000, 0, False, 2),
        (1000, 2, False, 1),
        (1000, 2, True, 2),
        ("dynamic", 0, False, 1),
        ("dynamic", 0, True, 2),
    ],
)
def test_the_other_way_round_works_where_nothing_is_conditional(scale, towers, rewrite, version):
    with control_flow(version):
        wrap = functools.partial(inside_out, scale=scale, rewrite=rewrite)
        got, _ = record(FLOAT32, wrap, "momentum", towers)
    contract.assert_same_run(
        got, contract.record_one_device(FLOAT32, contract.UNEVEN, "momentum"), 1e-5
    )


@versions
@pytest.mark.parametrize("rewrite", [False, True])
def test_the_other_way_round_works_in_a_condition(rewrite, version):
    """The outermost optimizer reduces, so that towers need not meet in its condition."""
    with control_flow(version):
        wrap = functools.partial(inside_out, scale="dynamic", rewrite=rewrite)
        got, _ = record(FLOAT32, wrap, "momentum", 2)
    contract.assert_same_run(
        got, contract.record_one_device(FLOAT32, contract.UNEVEN, "momentum"), 1e-5
    )


# Other engines.


@pytest.mark.parametrize(
    ("make", "version"),
    [(harness.mirrored, 1), (harness.mirrored, 2), (harness.central_storage, 2)],
)
def test_the_other_way_round_in_replicas(make, version, monkeypatch):
    want = harness.train(FLOAT32, None)
    original = replicate.TowerOptimizer
    monkeypatch.setattr(replicate, "TowerOptimizer", lambda opt: Wrapping(original(opt), "dynamic"))
    with control_flow(version):
        if version == 1:
            with pytest.raises(RuntimeError, match=matching(IN_CONDITION)):
                harness.train(FLOAT32, make())
            return
        losses, variables = harness.train(FLOAT32, make())
    contract.assert_close(losses, want[0], 1e-5, "losses")
    contract.assert_same_values(without_scales(variables), want[1], 1e-5)


def without_scales(variables):
    return {name: value for name, value in variables.items() if not name.startswith(OWN)}


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("model", "make", "scale"),
    [
        pytest.param("embedding", harness.mirrored, "dynamic", marks=pytest.mark.thorough),
        ("embedding", harness.central_storage, "fixed"),
        pytest.param("adamw", harness.central_storage, "dynamic", marks=pytest.mark.thorough),
        ("clipping_optimizer", harness.mirrored, "dynamic"),
    ],
)
def test_estimators_of_replicas_train_as_without_a_scale(model, make, scale, monkeypatch):
    losses, want = harness.train(MODELS[model], None)
    original = replicate.TowerOptimizer
    monkeypatch.setattr(
        replicate, "TowerOptimizer", lambda opt: original(opt, loss_scale=SCALES[scale]())
    )
    got_losses, got = harness.train(MODELS[model], make())
    contract.assert_close(got_losses, losses, 1e-12, "losses")
    assert sorted(set(got) - set(want)) == sorted(OWN if scale == "dynamic" else ())
    contract.assert_same_values(without_scales(got), want, 1e-12)
    if scale == "dynamic":
        assert (got["current_loss_scale"], got["good_steps"]) == (2000, 1)


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("scale", "dtype"), [("dynamic", tf.float32), (1000.0, tf.float32), (None, tf.bfloat16)]
)
def test_cores_of_a_tpu(scale, dtype, fresh_graph):
    def computation(x):
        a, b = (tf.get_variable(name, [2], initializer=tf.ones_initializer()) for name in "ab")
        loss = tf.reduce_mean(tf.cast(x * tf.cast(a * b, dtype), tf.float32))
        step = tf.train.get_global_step()
        train_op = scaled(scale)(tf.train.AdamOptimizer()).minimize(loss, step)
        with tf.control_dependencies([train_op]):
            return tf.identity(loss)

    tf.train.create_global_step()
    tf.tpu.shard(computation, [tf.ones([8, 2], dtype)], 4)
    tpu_graphs.check_inside(fresh_graph)
    # The reduced gradients need no other core.
    sums = tpu_graphs.everywhere("CrossReplicaSum", fresh_graph)
    assert [op.outputs[0].shape for op in sums] == [[2], [2]]
    finite = tpu_graphs.everywhere("IsFinite", fresh_graph)
    assert len(finite) == (3 if scale == "dynamic" else 0)
    assert len(tpu_graphs.everywhere("ResourceApplyAdam", fresh_graph)) == 2
    assert set(values()) >= ({*OWN} if scale == "dynamic" else set())


# More than one optimizer, and those that other things run.


class RunHook(tf.train.SessionRunHook):
    """Runs an operation before each step, as those of a GAN are."""

    def __init__(self, op):
        self._op = op

    def before_run(self, run_context):
        run_context.session.run(self._op)


@versions
def test_each_of_two_optimizers_skips_by_itself(version):
    """Run by hooks, on a second optimizer's gradient that is finite in every other step."""
    updates = []
    step = tf.train.get_or_create_global_step()

    def body(index, x):
        g, d = (tf.get_variable(name, [], F64, tf.zeros_initializer()) for name in "gd")
        factor = tf.where_v2(step % 2 > 0, tf.constant(np.nan, F64), 1.0)
        losses = tf.reduce_mean(x) * g, tf.reduce_mean(x) * factor * d
        updates.append(
            [scaled()(SGD(1.0)).minimize(loss, var_list=[v]) for loss, v in zip(losses, (g, d))]
        )
        return spec(TRAIN, losses[0], step.assign_add(1))

    with control_flow(version):
        train_op = build(body, tf.constant(ROWS)).train_op
    variables = values()
    creator = tf.train.ChiefSessionCreator(config=replicate.session_config(harness.devices(2)))
    hooks = [RunHook(op) for op in updates[0]]
    with tf.train.MonitoredSession(creator, hooks, stop_grace_period_secs=0) as running:
        for _ in range(4):
            running.run(train_op)
        got = running.run_step_fn(lambda step_context: step_context.session.run(variables))
    # The scales' names are in the order in which they are made.
    state = {"current_loss_scale": 4000.0, "good_steps": 0, "g": -16.0}
    state.update({"current_loss_scale_1": 250.0, "good_steps_1": 0, "d": -8.0, "global_step": 4})
    contract.assert_same_values(got, state, 1e-12)


LEFT_OUT = "A `SyncReplicasOptimizer` waits for the gradients of every step…`loss_scale` {}…leaves"


@pytest.mark.parametrize("as_factory", [False, True])
@pytest.mark.parametrize("way", ["dynamic", "instance", "theirs"])
def test_a_synchronising_optimizer_needs_every_step(way, as_factory):
    def make():
        optimizer = tf.train.SyncReplicasOptimizer(SGD(1.0), 1)
        return Wrapping(optimizer, "dynamic") if way == "theirs" else optimizer

    scale = {"dynamic": "dynamic", "instance": DynamicLossScale(**START), "theirs": None}[way]
    shown = "'dynamic'" if way == "dynamic" else "DynamicLossScale("
    with pytest.raises(ValueError, match=matching(LEFT_OUT.format(shown))):
        replicate.TowerOptimizer(make if as_factory else make(), loss_scale=scale).get_name()


# TensorFlow's own queue runner dies of the end of its session, on one device, too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_synchronising_optimizer_takes_a_fixed_scale():
    model_fn = MODELS["sync_replicas"]
    want = contract.record_one_device(model_fn, contract.UNEVEN, "momentum")
    got, _ = record(model_fn, scaled("fixed"), "momentum", 2)
    contract.assert_same_run(got, want, 1e-12)


NO_PAIRS = "`unscale` takes a list of gradients, but one is …Leave out the variables"


def test_pairs_cannot_be_unscaled():
    optimizer = replicate.TowerOptimizer(SGD(1.0), loss_scale=8)
    pairs = optimizer.compute_gradients(weight() * 3.0)
    with pytest.raises(TypeError, match=matching(NO_PAIRS)):
        optimizer.unscale(pairs)
