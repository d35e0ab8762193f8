"""`TowerOptimizer(optimizer, accumulate_steps=k)`: k batches of b rows train as one of k·b rows."""

import functools
import pathlib
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from tensorflow.python.eager import context

import bodies
import contract
import graph_walks
import replicate
import selection
from contract import MEAN, SUM, models
from engines import harness, tpu_graphs, tpu_models
from replicate.graphs import ancestors
from versions import legacy

K = 3
UPDATES = 3
# Over 2 and 3 towers, 5 rows make shards of 3+2 and 2+2+1.
BATCH = contract.Batches(total=UPDATES * K * 5, size=5, static=True)
DYNAMIC = BATCH._replace(static=False)


def accumulating(steps=K, **kwargs):
    return functools.partial(replicate.TowerOptimizer, accumulate_steps=steps, **kwargs)


def train(
    model_fn, towers, batches=BATCH, optimizer="momentum", reduction=MEAN, how=None, **kwargs
):
    """Trains with accumulation; returns the `Run`. Of 0 towers, without `replicate_model_fn`."""
    if towers:
        kwargs = {"reduction": kwargs.pop("loss_reduction", MEAN), **kwargs}
        model_fn = contract.replicated(model_fn, towers, **kwargs)
    how = {"accumulate_reduction": "sum" if reduction == SUM else None} if how is None else how
    params = contract.make_params(optimizer, reduction, accumulating(**how))
    return contract.record(
        model_fn, functools.partial(contract.dataset, batches), params, max(towers, 1)
    )


def train_plainly(model_fn, batches=BATCH, optimizer="momentum", reduction=MEAN):
    """Trains one device, without this library, on batches of k times the rows."""
    whole = batches._replace(size=K * batches.size)
    return contract.record_one_device(model_fn, whole, optimizer, reduction)


ONE = tf.ones_initializer()


def is_extra(name):
    return "accumulated_" in name


def assert_same(got, want, reduction=MEAN, rtol=1e-9, ignore=()):
    """Compares a `Run` that accumulates with one that does not, after every batch."""
    assert len(got.losses) == K * len(want.losses) == K * UPDATES
    losses = np.reshape(got.losses, [UPDATES, K])
    losses = np.sum(losses, axis=1) if reduction == SUM else np.mean(losses, axis=1)
    contract.assert_close(losses, want.losses, rtol, "losses")
    for step, variables in enumerate(got.variables):
        variables = {name: v for name, v in variables.items() if not is_extra(name)}
        update = (step + 1) // K
        before = want.variables[update - 1] if update else {**got.variables[0], **variables}
        before = {name: v for name, v in before.items() if not is_extra(name)}
        contract.assert_same_values(variables, before, rtol, ignore, step)
        if step < K - 1:
            assert variables.get("global_step:0", 0) == 0 or "global_step:0" in ignore
            contract.assert_same_values(
                variables,
                {n: v for n, v in got.variables[0].items() if not is_extra(n)},
                0,
                ignore,
                step,
            )


def every_kind(features, params):
    """Dense gradients, slices of rows that repeat or do not come at all, and no gradient."""
    models.get_variable("unused", [3])
    ids = tf.cast(tf.abs(features["x"][:, :3]) * 7.0, tf.int64)
    table = models.get_variable("table", [40, 2])
    return tf.reduce_sum(tf.nn.embedding_lookup(table, ids), [1, 2])[:, None] + models.two_layers(
        features["x"], models.biased
    )


def by_transformed(loss, params):
    """Signs, which are not linear, and a norm that every gradient exceeds."""

    def signs(pairs):
        return [(tf.sign(g) * 0.1 + g, variable) for g, variable in pairs]

    optimizer = contract.OPTIMIZERS[params["optimizer"]]()
    if params["wrap"] is contract.plain:
        pairs = models.clip(signs(optimizer.compute_gradients(loss)), 0.2)
        return optimizer.apply_gradients(pairs, models.step())
    optimizer = params["wrap"](optimizer, clip_norm=0.2, transform_gradients=signs)
    return optimizer.minimize(loss, models.step())


def by_legacy_keras(loss, params):
    optimizer = params["wrap"](legacy.Adam(0.05))
    optimizer.iterations = models.step()
    return tf.group(*optimizer.get_updates(loss, tf.trainable_variables()))


def in_a_name_scope(loss, params):
    """Trains with an optimizer that names variables by the scope in which it applies gradients."""
    with tf.name_scope("train"):
        return by_legacy_keras(loss, params)


EVERY_KIND = models.model_fn(every_kind)
# By name: numbers of towers, the model, and what else differs.
MODELS = {
    "every_kind": ([0, 1, 2, 3], EVERY_KIND, {}),
    "sum": ([1, 3], EVERY_KIND, {"reduction": SUM}),
    "dynamic": ([3], EVERY_KIND, {"batches": DYNAMIC}),
    "spread": ([2], EVERY_KIND, {"variable_placement": "round_robin"}),
    "adam_and_penalties": (
        [0, 3],
        models.MODELS["regularized_get_variable"],
        {"optimizer": "adam"},
    ),
    "zip": ([2], models.MODELS["zip"], {}),
    "hand_written_gradients": ([2], models.by_hand, {"reduction": SUM}),
    "gradients_twice": ([2], models.MODELS["gradients_twice"], {}),
    "transformed": ([3], models.model_fn(train=by_transformed), {}),
    "schedule": ([2], models.MODELS["schedule"], {}),
    "legacy_keras": ([3], models.model_fn(train=by_legacy_keras), {}),
    "in_a_name_scope": ([0], models.model_fn(train=in_a_name_scope), {}),
    "adamw": ([0], models.MODELS["adamw"], {"ignore": ["global_step:0"]}),  # Counted by hand.
    "clipping_optimizer": ([3], models.MODELS["clipping_optimizer"], {}),
    "ref_variable": ([0, 3], models.MODELS["ref_variable"], {}),
    "partitioned_variable": ([2], models.MODELS["partitioned_variable"], {}),
    "optimizer_factory": ([2], models.MODELS["optimizer_factory"], {}),
}
RUNS = [
    *((name, towers, 2) for name in MODELS for towers in MODELS[name][0]),
    ("every_kind", 0, 1),
    *((name, 3, 1) for name in ("every_kind", "legacy_keras", "adamw", "ref_variable")),
]
# Tests of these run on 3 towers, and on one device.
FEWER_TOWERS = [("every_kind", 1), ("every_kind", 2), ("sum", 1)]


@pytest.mark.usefixtures("resource_variables")
@pytest.mark.conformance
@pytest.mark.parametrize(
    ("name", "towers", "version"),
    [selection.cell(*run, is_quick=run[:2] not in FEWER_TOWERS) for run in RUNS],
)
def test_batches_train_as_one_batch_of_all_their_rows(name, towers, version):
    _, model_fn, given = MODELS[name]
    ignore = given.get("ignore", ())
    plainly = {key: given[key] for key in ("batches", "optimizer", "reduction") if key in given}
    spread = {key: given[key] for key in ("variable_placement",) if key in given}
    with bodies.control_flow(version):
        got = train(model_fn, towers, **plainly, **spread)
        want = train_plainly(model_fn, **plainly)
    assert_same(got, want, given.get("reduction"), ignore=ignore)


@pytest.mark.conformance
@pytest.mark.parametrize("towers", [0, 1, 2])
def test_one_worker_that_aggregates_gradients_of_several_steps_accumulates(towers):
    """Every gradient belongs to the variables before the update."""

    def by_sync_replicas(loss, params):
        sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.01), K, 1)
        optimizer = replicate.TowerOptimizer(sync)
        hook = optimizer.make_session_run_hook(is_chief=True)
        return optimizer.minimize(loss, models.step()), [hook]

    def by_accumulation(loss, params):
        optimizer = tf.train.GradientDescentOptimizer(0.01)
        return params["wrap"](optimizer).minimize(loss, models.step())

    got = train(models.model_fn(train=by_sync_replicas), towers)
    want = train(models.model_fn(train=by_accumulation), towers)
    assert len(got.variables) == len(want.variables) == UPDATES * K
    for step, (values, expected) in enumerate(zip(got.variables, want.variables)):
        own = {name: value for name, value in expected.items() if not is_extra(name)}
        contract.assert_same_values(values, own, rtol=1e-12, step=step)
    assert want.variables[-1]["global_step:0"] == UPDATES


@pytest.mark.conformance
@pytest.mark.parametrize("towers", [0, 3])
def test_optimizers_of_a_model_count_by_themselves(towers):
    """Two that play against one another, against plain Python; each has its own k."""
    rates, steps, start = (1 / 128, -1 / 64), (3, 2), np.linspace(-1.0, 1.0, 4)[:, None]

    def model_fn(features, labels, mode, params):
        w, u = (tf.get_variable(name, initializer=tf.constant(start)) for name in "wu")
        error = features["x"] @ (w + u**2) - labels
        loss = tf.reduce_mean(error**2)
        updates = [
            replicate.TowerOptimizer(
                tf.train.GradientDescentOptimizer(rate), accumulate_steps=k
            ).minimize(loss, var_list=[variable])
            for rate, k, variable in zip(rates, steps, (w, u))
        ]
        # In a step in which both update, both see what was there before it.
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(updates))

    got = train(model_fn, towers)
    features, labels = contract.rows_of(BATCH.total)
    values, sums, counts = [start, start], [0.0, 0.0], [0, 0]
    for step, after in enumerate(got.variables):
        own = slice(step * BATCH.size, (step + 1) * BATCH.size)
        w, u = values
        x = features["x"][own]
        slope = 2.0 * x.T @ (x @ (w + u**2) - labels[own]) / BATCH.size
        for index, gradient in enumerate((slope, slope * 2.0 * u)):
            sums[index] = sums[index] + gradient
            counts[index] += 1
            if counts[index] == steps[index]:
                mean = sums[index] / counts[index]
                values[index] = values[index] - rates[index] * mean
                sums[index], counts[index] = 0.0, 0
        for name, value in zip("wu", values):
            contract.assert_close(after[f"{name}:0"], value, 1e-9, f"{name} after {step}")
    if not towers:
        extra = {name for name in after if is_extra(name)}
        assert {"accumulated_batches:0", "accumulated_batches_1:0"} < extra


@pytest.mark.conformance
@pytest.mark.parametrize("towers", [0, 1, 3])
def test_a_gradient_that_is_given_in_two_parts(towers):
    """It is added up by itself, not in a pack, which has one of each variable."""

    def model_fn(features, labels, mode, params):
        w, b, v, u = (tf.get_variable(name, [], models.F64, ONE) for name in "wbvu")
        loss = tf.reduce_mean((features["x"][:, 0] * w + b * v - u - labels[:, 0]) ** 2)
        optimizer = params["wrap"](tf.train.MomentumOptimizer(0.1, 0.5))
        (gw, gb, gv, gu) = tf.gradients(loss, [w, b, v, u])
        pairs = [(gw, w), (gb, b), (gv, v), (gu, u), (gw * 2.0, w)]
        if params["wrap"] is contract.plain:
            pairs = [(gw * 3.0, w), *pairs[1:-1]]
        train_op = optimizer.apply_gradients(pairs, models.step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    got, want = train(model_fn, towers), train_plainly(model_fn)
    assert_same(got, want, rtol=1e-9)


@pytest.mark.conformance
def test_two_optimizers_of_the_same_variables_have_buffers_of_their_own(tmp_path):
    def model_fn(features, labels, mode, params):
        w, b = (tf.get_variable(name, [], models.F64, ONE) for name in "wb")
        loss = tf.reduce_mean((features["x"][:, 0] * w + b - labels[:, 0]) ** 2)
        ops = [
            params["wrap"](tf.train.GradientDescentOptimizer(rate)).minimize(loss, counted)
            for rate, counted in ((0.1, models.step()), (0.2, None))
        ]
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(ops))

    held = []
    for towers in (1, 2):
        params = contract.make_params("sgd", wrap=accumulating())
        estimator = contract.make_estimator(
            contract.replicated(model_fn, towers), str(tmp_path), params, towers
        )
        estimator.train(functools.partial(contract.dataset, BATCH), steps=1)
        held.append(sorted(read(tmp_path)))
    assert held[0] == held[1]
    assert {f"{v}/accumulated_gradient{end}" for v in "wb" for end in ("", "_1")} < {*held[0]}


@pytest.mark.parametrize("towers", [0, 2])
def test_statistics_of_batch_norm_are_those_of_every_batch(towers):
    """Only gradients accumulate; other updates run in every step."""

    def model_fn(features, labels, mode, params):
        x = tf.layers.batch_normalization(features["x"], training=True, momentum=0.5)
        loss = models.squared(x @ models.get_variable("w", [4, 1]), features, labels, params)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates):
            train_op = models.by_minimize(loss, params)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    replicated = contract.replicated(model_fn, towers) if towers else model_fn
    runs = [
        contract.record(
            replicated,
            functools.partial(contract.dataset, BATCH),
            contract.make_params(wrap=accumulating(k)),
            max(towers, 1),
        )
        for k in (K, 1)
    ]
    means = [[v["batch_normalization/moving_mean:0"] for v in run.variables] for run in runs]
    np.testing.assert_allclose(*means, rtol=1e-6)
    assert len({value[0] for value in means[0]}) == K * UPDATES
    assert runs[0].variables[K - 2]["global_step:0"] == 0


def moved(towers, **how):
    """Returns by how much the first update changes a weight whose loss is a sum over rows."""
    per_tower = {"loss_reduction": SUM, "per_tower": how.pop("per_tower", False)} if towers else {}
    run = train(models.by_hand, towers, optimizer="sgd", reduction=SUM, how=how, **per_tower)
    np.testing.assert_allclose(run.variables[0]["w:0"], models.SLOPE)
    return run.variables[K]["w:0"] - run.variables[0]["w:0"]


def test_losses_of_batches_are_averaged_or_added_up():
    mean = moved(0)
    np.testing.assert_allclose(moved(0, accumulate_reduction="mean"), mean)
    np.testing.assert_allclose(moved(0, accumulate_reduction="sum"), K * mean)


@pytest.mark.parametrize("towers", [1, 3])
def test_a_loss_reduction_changes_nothing_for_the_whole_batch(towers):
    np.testing.assert_allclose(moved(towers), moved(0))


def test_towers_that_add_their_losses_up_add_up_those_of_batches():
    np.testing.assert_allclose(moved(3, per_tower=True), K * moved(0))
    mean = moved(3, per_tower=True, accumulate_reduction="mean")
    np.testing.assert_allclose(mean, moved(0))


# Estimators.

TABLE = np.linspace(-1.0, 1.0, 40)


def portable(features, labels, mode, params):
    """`EVERY_KIND` that starts alike on all engines, and says how its loss is reduced."""
    ids = tf.cast(tf.abs(features["x"][:, :3]) * 7.0, tf.int64)
    table = models.get_variable("table", [40], initializer=tf.constant_initializer(TABLE))
    w = models.get_variable("w", [4, 1], initializer=tf.ones_initializer())
    b = models.get_variable("b", [1], initializer=tf.ones_initializer())
    if params.get("is_dense"):
        rows = tf.linalg.matvec(tf.one_hot(ids, len(TABLE), dtype=models.F64), table)
    else:
        rows = tf.nn.embedding_lookup(table, ids)
    predictions = tf.reduce_sum(rows, axis=1, keepdims=True) + features["x"] @ w + b
    tf.losses.absolute_difference(labels, predictions, reduction=params["reduction"])
    loss = models.squared(predictions, features, labels, params)
    make_scaffold = params.get("scaffold", tf.train.Scaffold)
    train_op = params.get("train", models.by_minimize)(loss, params)
    loss = tf.where(tf.math.is_finite(loss), loss, tf.zeros_like(loss))  # Hooks look at it.
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=make_scaffold())


STRATEGIES = [harness.mirrored, harness.central_storage]
ROWS = 12  # In each step, whatever the engine.
TOTAL = 5 * K * ROWS


def fit(directory, engine, first, steps, reduction=MEAN, bad=(), **params):
    """Trains an Estimator on `steps` batches from number `first` on.

    Args:
        directory: Where its checkpoints are.
        engine: Number of towers, 0 for none, or a function that makes a strategy of 2 replicas.
        first: The first batch.
        steps: How many.
        reduction: That of the loss.
        bad: Batches of whose rows the last is not finite.
        **params: More `params`.
    """
    strategy = engine() if callable(engine) else None
    model_fn, towers = portable, 2
    if not strategy:
        towers = max(engine, 1)
        model_fn = contract.replicated(portable, engine) if engine else portable
    config = tf.estimator.RunConfig(
        model_dir=str(directory),
        tf_random_seed=contract.SEED,
        train_distribute=strategy,
        session_config=replicate.session_config(contract.device_names(towers)),
        **params.pop("saves", {}),
    )
    parts = 2 if strategy else 1
    params = {**contract.make_params("momentum", reduction, accumulating()), **params}
    start = params.pop("start", None)
    estimator = tf.estimator.Estimator(model_fn, None, config, params, warm_start_from=start)

    def spoil(index, rows):
        features, labels = rows
        ends = [parts * (batch + 1) - 1 for batch in bad]
        is_last = np.arange(ROWS // parts)[:, None] == ROWS // parts - 1
        return features, tf.where(
            tf.reduce_any(tf.equal(index, ends)) & is_last, labels * np.nan, labels
        )

    def input_fn():
        data = contract.dataset(contract.Batches(TOTAL, ROWS // parts, static=True))
        data = data.enumerate().map(spoil) if bad else data
        return data.skip(first * parts).take(steps * parts)

    estimator.train(input_fn)
    return read(directory)


def read(directory):
    """Returns what the latest checkpoint holds, by name."""
    if tf.train.latest_checkpoint(str(directory)) is None:
        return {}
    reader = tf.train.load_checkpoint(str(directory))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@functools.lru_cache(maxsize=None)
def plain_fit(updates, reduction=MEAN, ends=None, **params):
    """Returns what one device has, without this library, after so many batches of K · ROWS."""
    ends = ends or tuple(K * ROWS * (update + 1) for update in range(updates))

    def input_fn():
        x, y = contract.rows_of(TOTAL)
        for end in ends:
            own = slice(end - K * ROWS, end)
            yield {name: value[own] for name, value in x.items()}, y[own]

    def as_dataset():
        given = contract.dataset(contract.Batches(TOTAL, K * ROWS, True))
        kinds = tf.data.get_output_types(given), tf.data.get_output_shapes(given)
        return tf.data.Dataset.from_generator(input_fn, *kinds)

    params.update(contract.make_params("momentum", reduction))
    run = contract.record(portable, as_dataset, params)
    return {name.partition(":")[0]: value for name, value in run.variables[-1].items()}


EXTRA = [
    "accumulated_batches",
    "b/accumulated_gradient",
    "table/accumulated_rows",
    "table/accumulated_slices",
    "w/accumulated_gradient",
]


@pytest.mark.conformance
def test_any_engine_goes_on_in_the_middle(tmp_path):
    want, at = plain_fit(5), 0
    for engine, steps in zip((3, 1, 0, 2, *STRATEGIES), (2, 2, 3, 3, 3, 2)):
        got = fit(tmp_path, engine, at, steps)
        at += steps
        assert sorted(got) == sorted([*want, *EXTRA])
        assert (got["global_step"], got["accumulated_batches"]) == divmod(at, K)
        assert len(got["table/accumulated_rows"]) == 3 * ROWS * (at % K)
        assert len(got["table/accumulated_slices"]) == 3 * ROWS * (at % K)
        assert np.any(got["w/accumulated_gradient"]) == (at % K > 0)
    contract.assert_same_values({name: got[name] for name in want}, want, 1e-9)


@pytest.mark.conformance
def test_packs_go_on_as_other_packs(tmp_path):
    """In a checkpoint each variable has its own, whatever it is packed with."""
    want, at = plain_fit(3), 0
    by_itself = accumulating(reduction=replicate.Reduction(pack_bytes=0))
    two_bytes = accumulating(reduction=replicate.Reduction(small_bytes=8))
    for wrap, steps in [(by_itself, 2), (accumulating(), 3), (two_bytes, 3), (accumulating(), 1)]:
        got = fit(tmp_path, 2, at, steps, wrap=wrap)
        at += steps
        assert sorted(got) == sorted([*want, *EXTRA])
        assert np.any(got["b/accumulated_gradient"]) == (at % K > 0)
    contract.assert_same_values({name: got[name] for name in want}, want, 1e-9)


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("make", "version", "reduction"),
    [
        selection.cell(make, *run, is_quick=selection.on_diagonal(row, column, 2))
        for row, make in enumerate(STRATEGIES)
        for column, run in enumerate([(1, MEAN), (2, SUM)])
    ],
)
def test_replicas_train_as_one_device(make, version, reduction, tmp_path):
    with bodies.control_flow(version):
        got = fit(tmp_path, make, 0, 2 * K, reduction)
    want = plain_fit(2, reduction)
    contract.assert_same_values({name: got[name] for name in want}, want, 1e-9)


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("train", "is_dense", "make"),
    [
        (by_transformed, True, harness.mirrored),
        (models.by_adamw, True, harness.central_storage),
        (models.by_clipping_optimizer, False, harness.mirrored),
    ],
)
def test_replicas_whose_gradients_are_changed_by_those_of_all(train, is_dense, make, tmp_path):
    """The last does not add up slices of one row before it takes a norm."""
    got = fit(tmp_path, make, 0, 2 * K, train=train, is_dense=is_dense)
    want = plain_fit(2, train=train, is_dense=is_dense)
    contract.assert_same_values({n: got[n] for n in want}, want, 1e-9, ignore=["global_step"])


def counted_saves(monkeypatch):
    """Returns a list that grows with every checkpoint."""
    saves, save = [], tf.train.Saver.save
    monkeypatch.setattr(
        tf.train.Saver, "save", lambda *args, **kwargs: saves.append(1) or save(*args, **kwargs)
    )
    return saves


NEVER = {"save_checkpoints_secs": None, "save_checkpoints_steps": None}


@pytest.mark.conformance
def test_training_ends_with_a_checkpoint_if_one_lacks_batches(monkeypatch, tmp_path):
    saves = counted_saves(monkeypatch)
    for steps in (2, K + 1):
        del saves[:]
        got = fit(tmp_path / str(steps), 2, 0, steps)
        assert len(saves) == 2  # At the start and at the end.
        assert got["accumulated_batches"] == steps % K
    del saves[:]
    # Every step is saved when it begins, so later batches would not be saved.
    got = fit(tmp_path / "often", 2, 0, K + 2, saves={"save_checkpoints_steps": 1})
    assert got["accumulated_batches"] == 2
    assert len(saves) == 3
    del saves[:]
    assert fit(tmp_path / "never", 2, 0, 2, saves=NEVER) == {}
    assert saves == []


def with_local(**kwargs):
    """A user's own `Scaffold`, which initialises what is the user's."""
    own = tf.get_local_variable("own", [], initializer=tf.zeros_initializer())
    return tf.train.Scaffold(local_init_op=own.initializer, **kwargs)


def test_a_scaffold_of_the_user(tmp_path):
    fit(tmp_path, 2, 0, 2, scaffold=with_local)
    got = fit(tmp_path, 3, 2, 1, scaffold=with_local)
    want = plain_fit(1)
    contract.assert_same_values({name: got[name] for name in want}, want, 1e-9)


def with_saver():
    kept = [variable for variable in tf.global_variables() if not is_extra(variable.op.name)]
    return tf.train.Scaffold(saver=tf.train.Saver(kept))


def test_a_saver_of_the_user_that_leaves_out_what_is_accumulated(tmp_path):
    """Then a new accumulation begins: neither its count nor its sums continue."""
    got = fit(tmp_path, 2, 0, K + 2, scaffold=with_saver)
    assert not [name for name in got if is_extra(name)]
    got = fit(tmp_path, 2, 2 * K, K, scaffold=with_saver)
    want = plain_fit(2, ends=(K * ROWS, 3 * K * ROWS))
    contract.assert_same_values(got, want, 1e-9)


@pytest.mark.parametrize("engine", [1, 2])
def test_a_warm_start_as_documented_goes_on_from_a_checkpoint_without_them(engine, tmp_path):
    docs = pathlib.Path(__file__).parents[2] / "docs" / "mixed_precision.md"
    (pattern,) = re.findall(r'^rest = \[r"(.*)"\]', docs.read_text(), re.MULTILINE)
    before = fit(tmp_path / "old", engine, 0, 2, wrap=accumulating(1))
    start = tf.estimator.WarmStartSettings(str(tmp_path / "old"), [pattern])
    wrap = accumulating(loss_scale="dynamic")
    got = fit(tmp_path / "new", engine, 2, 1, wrap=wrap, start=start)
    assert before["global_step"] == 2 and got["accumulated_batches"] == 1
    contract.assert_same_values({name: got[name] for name in before}, before, 0)


@pytest.mark.conformance
@pytest.mark.parametrize(
    "engine",
    [
        0,
        3,
        harness.mirrored,
        pytest.param(harness.central_storage, marks=pytest.mark.thorough),
    ],
)
def test_a_batch_that_is_not_finite_skips_the_whole_update(engine, tmp_path):
    """At each of the k positions once, and on the last tower or replica only."""
    got = fit(tmp_path, engine, 0, 15, bad=(3, 7, 14), wrap=accumulating(loss_scale="dynamic"))
    want = plain_fit(2, ends=(K * ROWS, 4 * K * ROWS))
    assert want["global_step"] == 2
    contract.assert_same_values({name: got[name] for name in want}, want, 1e-9)
    assert {*got} - {*want} == {*EXTRA, "current_loss_scale", "good_steps"}
    assert (got["current_loss_scale"], got["good_steps"]) == (2.0**15 / 2**3, 0)


# Replicas of a TPU.


@pytest.mark.conformance
def test_tpu_replicas_reduce_in_every_step_and_update_in_some(fresh_graph):
    """Outside of conditions, because all of a TPU's cores must reach a cross-replica sum."""
    model_fn = tpu_models.make_model_fn(accumulating())
    tf.train.create_global_step()
    features, labels = tpu_models.rows()
    devices = [f"/job:worker/replica:0/task:0/device:TPU:{index}" for index in range(4)]
    spec = replicate.replicate_model_fn(model_fn, devices=devices)(
        {"x": tf.constant(features["x"])}, tf.constant(labels), "train", {}
    )
    tpu_graphs.check_inside(fresh_graph)

    def places(kind):
        return [op.graph is fresh_graph for op in tpu_graphs.everywhere(kind, fresh_graph)]

    assert places("CrossReplicaSum") == [True] * 2
    assert places("ResourceApplyGradientDescent") == [False] * 2
    # Two gradients and the count of batches; the global step with the update.
    assert sorted(places("AssignAddVariableOp")) == [False] + [True] * 3
    (branch,) = [op for op in tpu_graphs.everywhere("If", fresh_graph) if tpu_graphs.is_inside(op)]
    assert branch in ancestors([spec.train_op])
    sums = {op for op in graph_walks.behind(branch) if op.type == "AssignAddVariableOp"}
    assert len(sums) == 3
    assert sum(op.type == "CrossReplicaSum" for op in graph_walks.behind(branch)) == 2
    assert [v.op.name for v in tf.global_variables()] == [
        "global_step",
        "w",
        "b",
        "accumulated_batches",
        "w/accumulated_gradient",
        "b/accumulated_gradient",
    ]


# Eager mode.


@pytest.fixture
def eager():
    with context.eager_mode():
        yield


class Eager:
    """Training in eager mode: a model, an optimizer, and a checkpoint with both."""

    def __init__(self, wrap, function=lambda fn: fn):
        def variable(value):
            return tf.Variable(value, use_resource=True)

        self.w, self.table = variable(np.ones([4, 1])), variable(np.linspace(-1, 1, 6)[:, None])
        self.step = variable(np.int64(0))
        self.optimizer = wrap(tf.train.AdamOptimizer(0.125))
        self.checkpoint = tf.train.Checkpoint(
            w=self.w, table=self.table, step=self.step, optimizer=self.optimizer
        )
        self._train = function(self._minimize)

    def _minimize(self, x, ids, y):
        def loss():
            rows = tf.reduce_sum(tf.nn.embedding_lookup(self.table, ids), axis=1)
            return tf.reduce_mean((x @ self.w + rows - y) ** 2)

        self.optimizer.minimize(loss, self.step, [self.w, self.table])

    def train(self, first, count, size=BATCH.size):
        features, labels = contract.rows_of(BATCH.total)
        for index in range(first, first + count):
            own = slice(index * size, (index + 1) * size)
            # Rows 4 and 5 of the table come in the second update only.
            ids = np.minimum(features["ids"][own], 5 if 3 <= index * size // 5 < 6 else 3)
            self._train(*map(tf.constant, (features["x"][own], ids, labels[own])))

    def state(self):
        slots = [
            self.optimizer.get_slot(variable, name)
            for name in self.optimizer.get_slot_names()
            for variable in (self.w, self.table)
        ]
        powers = [variable for variable in self.optimizer.variables() if variable.shape.rank == 0]
        assert len(slots) == 4 and len(powers) == 2
        variables = [self.w, self.table, self.step, *slots, *powers]
        return np.concatenate([np.ravel(variable.numpy()) for variable in variables])


@pytest.mark.conformance
@pytest.mark.parametrize("function", [lambda fn: fn, tf2.function], ids=["at_once", "function"])
def test_eager_mode(function, eager):
    one, other = Eager(accumulating(), function), Eager(contract.plain)
    for update in range(UPDATES):
        one.train(K * update, K - 1)
        assert one.step.numpy() == update
        one.train(K * update + K - 1, 1)
        other.train(update, 1, K * BATCH.size)
        contract.assert_close(one.state(), other.state(), 1e-9)


@pytest.mark.conformance
@pytest.mark.parametrize("function", [lambda fn: fn, tf2.function], ids=["at_once", "function"])
@pytest.mark.parametrize("used", [0, 1], ids=["deferred", "at_once"])
def test_checkpoints_of_objects_hold_what_is_accumulated(used, function, eager, tmp_path):
    wrap = accumulating(loss_scale="dynamic")
    whole, saved, restored = (Eager(wrap, function) for _ in range(3))
    whole.train(0, 3 * K)
    whole.optimizer.loss_scale.current_loss_scale.assign(64.0)
    saved.train(0, K + 2)
    saved.optimizer.loss_scale.current_loss_scale.assign(64.0)
    path = saved.checkpoint.save(str(tmp_path / "model"))
    restored.train(0, used)
    status = restored.checkpoint.restore(path)
    restored.train(K + 2, 2 * K - 2)
    status.assert_consumed()
    contract.assert_close(restored.state(), whole.state(), 1e-9)
    assert restored.optimizer.loss_scale().numpy() == 64.0


# Types.


@pytest.mark.conformance
@pytest.mark.parametrize("towers", [0, 2])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_gradients_of_16_bits_are_added_up_in_32(dtype, towers):
    """A sum in 16 bits would overflow, or lose a small gradient that is added to a large one."""
    count = 64

    def body(index, features):
        large, small = (
            tf.get_variable(name, [], dtype, tf.zeros_initializer()) for name in ("large", "small")
        )
        grads = [tf.cast(features[0, i], dtype) for i in range(2)]
        optimizer = accumulating(count)(tf.train.GradientDescentOptimizer(1.0))
        return bodies.spec("train", None, optimizer.apply_gradients(zip(grads, (large, small))))

    features = tf.placeholder(tf.float32, [2, 2])
    spec = bodies.build(body, features, num_towers=towers) if towers else body(0, features)
    with bodies.session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for step in range(count):
            rows = [[60_000.0, 1.0 if step == 0 else 2.0**-11]] * 2
            session.run(spec.train_op, {features: rows})
        got = np.float32(session.run([tf.cast(v, tf.float32) for v in tf.trainable_variables()]))
    mean = [60_000.0, (1.0 + (count - 1) * 2.0**-11) / count]
    np.testing.assert_allclose(
        got, np.negative(mean), rtol=2.0**-8 if dtype == tf.bfloat16 else 1e-3
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_function_that_makes_the_optimizer_is_called_once(version):
    made = []

    def factory():
        made.append(tf.train.MomentumOptimizer(0.5, 0.5))
        return made[-1]

    with bodies.control_flow(version):
        w = tf.get_variable("w", [2])
        optimizer = accumulating()(factory)
        optimizer.minimize(tf.reduce_sum(w**2))
    assert [optimizer.optimizer] == made
    assert optimizer.get_slot(w, "momentum").op.name == "w/Momentum"


# Errors.

POSITIVE = "`accumulate_steps` must be the number of batches…but is {}. Pass e.g. 4, or 1…"


@pytest.mark.parametrize("steps", [0, -1, 2.0, True, "2", None])
def test_a_number_of_batches(steps):
    with pytest.raises(ValueError, match=bodies.matching(POSITIVE.format(repr(steps)))):
        replicate.TowerOptimizer(tf.train.AdamOptimizer(), accumulate_steps=steps)


@pytest.mark.parametrize("steps", [np.int32(2), np.int64(1)])
def test_numbers_of_batches_of_numpy(steps):
    replicate.TowerOptimizer(tf.train.AdamOptimizer(), accumulate_steps=steps)


REDUCTION = "`accumulate_reduction` must say how the losses of batches…but is {}. Pass 'sum' for…"


@pytest.mark.parametrize("reduction", [SUM, "Sum", True])
def test_a_reduction_of_batches(reduction):
    with pytest.raises(ValueError, match=bodies.matching(REDUCTION.format(repr(reduction)))):
        replicate.TowerOptimizer(tf.train.AdamOptimizer(), accumulate_reduction=reduction)


STATIC = "Gradients are accumulated for variables of static shape, but…'any:0'…(None,)…at 1"


@pytest.mark.parametrize("towers", [0, 2])
def test_a_variable_of_unknown_shape(towers):
    def body(index, features):
        any_shape = tf.Variable(
            [1.0], name="any", shape=tf.TensorShape([None]), validate_shape=False, use_resource=True
        )
        loss = tf.reduce_sum(features) * tf.reduce_sum(any_shape)
        optimizer = accumulating()(tf.train.GradientDescentOptimizer(0.5))
        return bodies.spec("train", loss, optimizer.minimize(loss))

    with pytest.raises(ValueError, match=bodies.matching(STATIC)):
        bodies.build(body, num_towers=towers) if towers else body(0, tf.ones([4, 1]))


SYNC = "A `SyncReplicasOptimizer` waits for the gradients of every step…`accumulate_steps` leaves"


@pytest.mark.parametrize("made", [lambda make: make, lambda make: make()])
def test_an_optimizer_that_needs_every_step(made):
    def make():
        return tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(), 1, 1)

    with pytest.raises(ValueError, match=bodies.matching(SYNC)):
        accumulating()(made(make)).get_name()


def test_in_eager_mode_variables_that_are_updated_together_count_together(eager):
    first, second = (tf.Variable(0.0, use_resource=True) for _ in range(2))
    sgd = tf.train.GradientDescentOptimizer(1.0)
    optimizer = replicate.TowerOptimizer(sgd, accumulate_steps=2)
    for step in range(2):
        for variable in (first, second):
            assert variable.numpy() == 0.0
            optimizer.apply_gradients([(tf.constant(1.0 + step), variable)])
    assert (first.numpy(), second.numpy()) == (-1.5, -1.5)
