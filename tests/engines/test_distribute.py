"""Inside replicas of tf.distribute: the vocabulary of towers, and optimizers that apply once."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

import contract
import replicate
import selection
from contract import MEAN, SUM
from contract import models as contract_models
from engines import harness
from engines.harness import train
from versions import legacy

pytestmark = pytest.mark.conformance

F64 = tf.float64
TRAIN = tf.estimator.ModeKeys.TRAIN
MIRRORED = (tf.distribute.MirroredStrategy, tf2.distribute.MirroredStrategy)
ENGINES = ["mirrored", "collective", "central"]
# For trainings: `test_weights_and_losses_are_those_of_one_device` has some on every engine.
mostly_mirrored = pytest.mark.parametrize(
    "make",
    [selection.cell(name, is_quick=name == "mirrored") for name in ENGINES],
    indirect=True,
)


@pytest.fixture(scope="session", params=ENGINES)
def make(request):
    """Returns a function that makes a strategy of two replicas."""
    if request.param == "collective":
        # Made in eager mode, as in a program's main part, it adds up by collective operations;
        # session fixtures are set up before the test's graph.
        assert tf.executing_eagerly()
        strategy = harness.mirrored()
        return lambda: strategy
    return {"mirrored": harness.mirrored, "central": harness.central_storage}[request.param]


def copies_of(variable, strategy):
    """Returns what the replicas have of a variable, as they are now."""
    copies = strategy.experimental_local_results(variable)
    assert len(copies) == (2 if isinstance(strategy, MIRRORED) else 1)
    return [copy.read_value() for copy in copies]


def run(strategy, fn):
    """Calls `fn` in each replica; returns the list of what it returned in each."""
    returned = []

    def replica():
        returned.append(fn())

    with strategy.scope():
        strategy.run(replica)
    return returned


def test_tensorflow_1_is_told_that_replicas_cannot_meet(monkeypatch):
    monkeypatch.setattr(tf, "__version__", "1.15.5")
    message = r"meet on TensorFlow 2 only.*1\.15\.5"
    with harness.mirrored().scope(), pytest.raises(NotImplementedError, match=message):
        replicate.num_towers()


def evaluate(fetches):
    config = replicate.session_config(harness.devices(2))
    in_time = tf.RunOptions(timeout_in_ms=60_000)  # Collective operations may wait for ever.
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, options=in_time)


def own(*values):
    """Returns this replica's of `values`, a float64 tensor."""
    return tf.constant(values[replicate.tower_index()], F64)


def variable(name, value, **kwargs):
    return tf.get_variable(name, [], F64, tf.constant_initializer(value), **kwargs)


def test_replicas_count_as_towers(make):
    def replica():
        return replicate.num_towers(), replicate.tower_index()

    assert run(make(), replica) == [(2, 0), (2, 1)]
    assert run(harness.one_device(), replica) == [(1, 0)]


def test_sums_and_means(make):
    def replica():
        x = own([1.0, 2.0], [10.0, 20.0])
        total, nothing = replicate.cross_tower_sum((x, None))
        assert nothing is None
        count = replicate.cross_tower_sum(replicate.tower_index() + 1)
        return total, count, replicate.cross_tower_mean({"x": x})["x"]

    for total, count, mean in evaluate(run(make(), replica)):
        np.testing.assert_array_equal(total, [11.0, 22.0])
        assert count == 1 + 2
        np.testing.assert_array_equal(mean, [5.5, 11.0])


def test_sums_of_several_types(make):
    def replica():
        x = own(1.0, 10.0)
        return replicate.cross_tower_sum([tf.cast(x, t) for t in ("int32", "float32", "int64")])

    assert evaluate(run(make(), replica)) == [[11, 11.0, 11]] * 2


def test_gradients_are_those_of_all_replicas_losses(make):
    def replica():
        x = variable("x", 3.0) * own(1.0, 10.0)
        return tf.gradients(own(2.0, 3.0) * replicate.cross_tower_sum(x) ** 2, x)

    # d/dx of (2 + 3)·(3 + 30)², the same for either summand: 5 · 2 · 33.
    assert evaluate(run(make(), replica)) == [[330.0], [330.0]]


@mostly_mirrored
def test_a_replica_that_waits_in_the_middle_of_its_gradients_keeps_the_reduction(make):
    """The gradient of a cross-tower mean is where replicas meet."""

    def model_fn(features, labels, mode, params):
        w = contract_models.get_variable("w", [4, 1])
        x = replicate.cross_tower_mean(tf.reduce_mean(features["x"] @ w))
        loss = tf.reduce_mean((features["x"] @ w - x - labels) ** 2)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=contract_models.by_minimize(loss, params)
        )

    compare(model_fn, make)


def test_a_session_may_need_the_sum_of_one_replica_only(make):
    """Where sums are collective operations, one that is pruned would keep the others waiting."""

    def replica():
        x = variable("x", 2.0) * own(1.0, 2.0)
        total = replicate.cross_tower_sum(x)
        return total, tf.gradients(total, x)[0]

    for one in run(make(), replica):
        assert evaluate(one) == (6.0, 2.0)
        assert evaluate(one[1]) == 2.0


def test_a_merge_function_runs_once_with_the_values_of_all_replicas(make):
    calls = []

    def merge(values, names):
        calls.append((type(values), names, replicate.num_towers(), replicate.tower_index()))
        return replicate.PerTower([2 * value for value in values])

    def replica():
        with tf.name_scope("model"):
            return replicate.merge_call(merge, own(1.0, 10.0), f"{replicate.tower_index()}")

    returned = run(make(), replica)
    assert calls == [(replicate.PerTower, ("0", "1"), 2, 0)]
    assert evaluate(returned) == [2.0, 20.0]


def test_a_merge_function_runs_in_the_scopes_of_the_first_replica(make):
    """So that a variable has the name that it has over towers."""

    def merge(values):
        return tf.Variable(1.0, name="count", trainable=False).op.name, tf.no_op().name

    def replica():
        with tf.variable_scope("model"), tf.name_scope("inner"):
            return replicate.merge_call(merge, own(1.0, 2.0))

    assert run(make(), replica) == [("model/inner/count", "model/inner/NoOp")] * 2


def test_a_variable_that_a_merge_function_assigns_changes_in_all_replicas(make):
    strategy = make()

    def replica():
        count = variable("count", 1.0, trainable=False)
        now = replicate.merge_call(lambda x: count.assign(count + tf.add_n(list(x))), own(1.0, 2.0))
        with tf.control_dependencies([tf.group(now)]):
            return count.read_value(), count

    (first, count), (second, _) = run(strategy, replica)
    assert evaluate([first, second]) == [4.0, 4.0]
    copies_of(count, strategy)


def compare(model_fn, make, rtol=1e-9, **kwargs):
    """Compares losses, as the Estimator reports them, and weights with one device."""
    losses, variables = train(model_fn, make(), **kwargs)
    wanted_losses, wanted = train(model_fn, None, **kwargs)
    assert len(losses) == contract.EVEN.steps
    contract.assert_close(losses, wanted_losses, rtol, "losses")
    contract.assert_same_values(variables, wanted, rtol)


MODELS = {name: row for name, row in contract_models.rows("way").items() if not row.not_in_replicas}


@pytest.mark.parametrize(
    "make, name",
    [
        # `contract/` trains all models over towers. Each strategy trains a sixth of them.
        selection.cell(engine, name, is_quick=selection.on_diagonal(row, column, 6))
        for column, engine in enumerate(ENGINES)
        for row, name in enumerate(MODELS)
    ],
    indirect=["make"],
)
def test_weights_and_losses_are_those_of_one_device(make, name):
    compare(MODELS[name].fn, make, rtol=MODELS[name].rtol)


@mostly_mirrored
@pytest.mark.parametrize("reduction", [MEAN, SUM])
def test_losses_count_as_their_reduction_says(make, reduction):
    model_fn = contract_models.model_fn(contract_models.by_float32, contract_models.tf_loss)
    compare(model_fn, make, rtol=1e-5, optimizer="sgd", reduction=reduction)


@mostly_mirrored
def test_each_optimizer_goes_by_the_loss_that_it_had(make):
    """Gradients of a sum and of a mean, applied after both were computed."""

    def model_fn(features, labels, mode, params):
        first, second = (contract_models.get_variable(name, [4, 1]) for name in "wu")
        optimizers = [contract_models.optimizer(params) for _ in range(2)]
        pairs = []
        for optimizer, w, reduction in zip(optimizers, (first, second), (SUM, MEAN)):
            loss = tf.losses.mean_squared_error(labels, features["x"] @ w, reduction=reduction)
            # A sum over 24 rows has so large a slope.
            scale = 1.0 / 24.0 if reduction == SUM else 1.0
            pairs.append(optimizer.compute_gradients(scale * loss, var_list=[w]))
        updates = [optimizer.apply_gradients(pair) for optimizer, pair in zip(optimizers, pairs)]
        count = tf.assign_add(tf.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(*updates, count))

    compare(model_fn, make, rtol=1e-5)


@mostly_mirrored
def test_gradients_computed_for_people_do_not_change_the_reported_loss(make):
    def train_and_look(loss, params):
        train_op = contract_models.by_minimize(loss, params)
        pairs = contract_models.optimizer(params).compute_gradients(loss)
        tf.summary.scalar("norm", tf.global_norm([gradient for gradient, _ in pairs]))
        return train_op

    compare(contract_models.model_fn(train=train_and_look), make)


def test_outside_an_estimator_losses_are_added_up():
    strategy = harness.mirrored()

    def replica():
        w = variable("w", 1.0)
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0))
        update = optimizer.minimize(own(2.0, 3.0) * w)
        with tf.control_dependencies([update]):
            return w.read_value()

    assert evaluate(run(strategy, replica)) == [1.0 - 5.0, 1.0 - 5.0]


def test_slots_and_other_state_stay_in_step_on_all_replicas(make):
    strategy = make()
    seen = []

    def replica():
        w = tf.get_variable("w", [3], F64, tf.ones_initializer())
        unused = tf.get_variable("unused", [2], F64, tf.ones_initializer())
        optimizer = replicate.TowerOptimizer(lambda: tf.train.AdamOptimizer(0.1))
        update = optimizer.minimize(tf.reduce_sum(own(1.0, 10.0) * w**2), var_list=[w, unused])
        assert optimizer.get_slot(unused, "m") is None
        slots = [optimizer.get_slot(w, name) for name in optimizer.get_slot_names()]
        seen.append([w, *slots, *optimizer.variables()])
        return update

    updates = run(strategy, replica)
    assert [variable.name for variable in seen[0]] == [variable.name for variable in seen[1]]
    assert {variable.op.name for variable in seen[0]} == {
        "w",
        "w/Adam",
        "w/Adam_1",
        "beta1_power",
        "beta2_power",
    }
    copied = [copies_of(variable, strategy) for variable in seen[0]]
    with tf.Session(config=replicate.session_config(harness.devices(2))) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(updates)
        for values in copied:
            copies = session.run(values)
            for copy in copies:
                np.testing.assert_array_equal(copy, copies[0])
        powers = {variable.op.name: values for variable, values in zip(seen[0], copied)}
        beta1_power = session.run(powers["beta1_power"])
        np.testing.assert_allclose(beta1_power, [0.9**4] * len(beta1_power), rtol=1e-6)


def test_a_keras_optimizer():
    """It saves slots of each replica, and `CentralStorageStrategy` refuses that, in TensorFlow."""

    def by_keras(loss, params):
        optimizer = params["wrap"](legacy.Adam(0.1))
        if params["wrap"] is contract.plain:
            optimizer.iterations = contract_models.step()
            return tf.group(optimizer.get_updates(loss, tf.trainable_variables()))
        return optimizer.minimize(loss, contract_models.step())

    model_fn = contract_models.model_fn(train=by_keras)
    losses, variables = train(model_fn, harness.mirrored())
    wanted_losses, wanted = train(model_fn, None)
    contract.assert_close(losses, wanted_losses, 1e-9, "losses")
    for name in wanted:
        contract.assert_close(variables[name], wanted[name], 1e-9, name)


def test_a_merge_function_must_not_meet(make):
    def meets(values):
        return replicate.cross_tower_sum(values[0])

    def applies(values):
        optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer())
        return optimizer.apply_gradients([(values[0], tf.get_variable("w", []))])

    def merges(values):
        return replicate.merge_call(meets, values[0])

    reached = {meets: "a cross-tower sum", applies: "`apply_gradients`", merges: "merge_call of"}
    for fn, what in reached.items():
        message = f"Towers meet in replicas, but {what}.* was reached in the cross-replica context"
        with pytest.raises(RuntimeError, match=message):
            run(make(), lambda fn=fn: replicate.merge_call(fn, own(1.0, 2.0)))


def test_gradients_are_not_applied_in_a_strategys_scope():
    message = (
        r"Towers meet in replicas, but `apply_gradients` was reached in the cross-replica context "
        r"of MirroredStrategy\w*, at .*test_distribute.py:\d+: in `strategy.scope\(\)` or a merge "
        r"function, .* Call it in the function that `strategy.run` or the Estimator runs"
    )
    with harness.mirrored().scope():
        w = tf.get_variable("w", [2])
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0))
        assert replicate.num_towers() == 2
        with pytest.raises(RuntimeError, match=message):
            optimizer.apply_gradients([(tf.ones([2]), w)])
        with pytest.raises(RuntimeError, match=message.replace("apply", "compute")):
            optimizer.minimize(tf.reduce_sum(w))


def test_replicas_must_make_the_same_calls(make):
    def replica():
        if replicate.tower_index():
            return replicate.cross_tower_sum(own(1.0, 2.0))
        return replicate.merge_call(lambda values: values[0], own(1.0, 2.0))

    message = (
        "All towers must make the same rendezvous in the same order, but replica 0 is at "
        "merge_call of .* and replica 1 at cross-tower sum of float64.*in every replica"
    )
    with pytest.raises(RuntimeError, match=message):
        run(make(), replica)


def test_replicas_must_differentiate_the_same_sums(make):
    """Sums of one shape: what else would tell one from the other?"""

    def replica():
        x = own(1.0, 2.0)
        sums = [replicate.cross_tower_sum(x), replicate.cross_tower_sum(2.0 * x)]
        return tf.gradients(sums[replicate.tower_index()], x)

    message = (
        "replica 0 is at gradient of cross_tower_sum of .*1 at gradient of cross_tower_sum_1 of "
    )
    with pytest.raises(RuntimeError, match=message):
        run(make(), replica)


NO_GRADIENT = (
    "At least one variable must have a gradient, but in no replica has one of ",
    r"\['w:0'\].* Check that the loss depends on them",
)
TYPES = ("gradients of 'w:0' must be of one type, but ", "tower 0 gave float64 and tower 1 float32")
NO_TENSOR = ("A gradient must be a tensor, a `tf.IndexedSlices`", ".*'w:0' on tower 0 is <object")


@pytest.mark.parametrize(
    ("gradients", "error", "message"),
    [
        ((None, None), ValueError, NO_GRADIENT),
        ((tf.float64, tf.float32), TypeError, TYPES),
        ((object(), object()), TypeError, NO_TENSOR),
    ],
)
def test_gradients_that_cannot_be_applied(gradients, error, message, make):
    def replica():
        w = tf.get_variable("w", [2], F64, tf.zeros_initializer())
        gradient = gradients[replicate.tower_index()]
        gradient = tf.ones([2], gradient) if isinstance(gradient, tf.DType) else gradient
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0))
        return optimizer.apply_gradients([(gradient, w)])

    with pytest.raises(error, match="".join(message)):
        run(make(), replica)


IN_BODY = "Towers must not rendezvous in the body of a `tf.cond` or `tf.while_loop`, which"


@pytest.mark.parametrize(
    "version, message",
    [
        (1, IN_BODY + ".*a replica reached cross-tower sum.*before or after"),
        (2, "`merge_call` called while defining a new graph or a tf.function"),  # TensorFlow's own
    ],
)
def test_replicas_do_not_meet_in_control_flow(version, message):

    def replica():
        x = own(1.0, 2.0)
        return tf.cond(x > 0, lambda: replicate.cross_tower_sum(x), lambda: x)

    before = tf.control_flow_v2_enabled()
    (tf.disable_control_flow_v2 if version == 1 else tf.enable_control_flow_v2)()
    try:
        with pytest.raises(RuntimeError, match=message):
            run(harness.mirrored(), replica)
    finally:
        (tf.enable_control_flow_v2 if before else tf.disable_control_flow_v2)()


def test_a_result_for_other_towers_is_refused():
    def replica():
        return replicate.merge_call(lambda x: replicate.PerTower([1, 2, 3]), own(1.0, 2.0))

    with pytest.raises(ValueError, match="one value for each of 2 towers, but holds 3"):
        run(harness.mirrored(), replica)


def test_autograph_leaves_the_library_alone():
    """Estimators let it rewrite what `model_fn` calls, which adds local variables."""
    returned = []

    def replica():
        x = tf.reshape(own([1.0, 3.0], [5.0, 7.0]), [2, 1])
        returned.append(replicate.batch_normalization(x, momentum=0.5, training=True))

    strategy = harness.mirrored()
    with strategy.scope():
        strategy.extended.call_for_each_replica(replica)
    # 1, 3, 5 and 7 have mean 4 and variance 5.
    want = (np.array([[[1.0], [3.0]], [[5.0], [7.0]]]) - 4.0) / np.sqrt(5.0 + 1e-3)
    np.testing.assert_allclose(evaluate(returned), want, rtol=1e-12)


def by_batch_norm(features, params):
    x = features["x"] @ contract_models.get_variable("w", [4, 3])
    x = replicate.batch_normalization(x, momentum=0.6, training=params["mode"] == TRAIN)
    return tf.tanh(x) @ contract_models.get_variable("v", [3, 1])


def batch_norm_model_fn(features, labels, mode, params):
    def train(loss, params):
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            return contract_models.by_minimize(loss, params)

    model_fn = contract_models.model_fn(by_batch_norm, train=train)
    return model_fn(features, labels, mode, dict(params, mode=mode))


@mostly_mirrored
def test_a_checkpoint_of_batch_norm_moves_between_engines(make, tmp_path):
    """Trains in replicas, goes on over towers, evaluates everywhere; one device does all of it."""

    def estimator(directory, strategy=None, towers=0):
        config = tf.estimator.RunConfig(
            model_dir=str(tmp_path / directory),
            tf_random_seed=contract.SEED,
            train_distribute=strategy,
            eval_distribute=strategy,
            session_config=replicate.session_config(harness.devices(2)),
        )
        wrap = replicate.TowerOptimizer if strategy or towers else contract.plain
        model_fn = batch_norm_model_fn
        if towers:
            model_fn = contract.replicated(model_fn, towers)
        params = contract.make_params("momentum", wrap=wrap)
        return tf.estimator.Estimator(model_fn, config=config, params=params)

    def batches(parts):
        even = contract.EVEN
        return lambda: contract.dataset(even._replace(size=even.size // parts))

    def values(estimator):
        return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}

    alone = estimator("one_device").train(batches(1))
    replicas = estimator("engines", strategy=make()).train(batches(2))
    want = values(alone)
    assert {"batch_normalization/moving_mean", "batch_normalization/gamma"} < set(want)
    contract.assert_same_values(values(replicas), want, 1e-9)

    wanted = alone.evaluate(batches(1))
    others = [estimator("engines"), estimator("engines", towers=2)]
    for evaluated in [
        *(other.evaluate(batches(1)) for other in others),
        replicas.evaluate(batches(2)),
    ]:
        contract.assert_same_values(evaluated, wanted, 1e-6)  # The Estimator reports float32.

    alone.train(batches(1))
    others[1].train(batches(1))
    contract.assert_same_values(values(others[1]), values(alone), 1e-9)
    replicas.train(batches(2))
    alone.train(batches(1))
    contract.assert_same_values(values(replicas), values(alone), 1e-9)
