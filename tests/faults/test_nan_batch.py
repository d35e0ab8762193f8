"""A batch whose gradients are not finite ends training before anything is lost, or is skipped."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bodies
import replicate
from bodies import matching
from faults import training
from replicate import TowerOptimizer, estimator, loss_scale
from replicate.faults import loss_scale_hook

ALL_SKIPPED = "Steps whose gradients are not finite are skipped, but now every step is"
FOR_TOWERS = "`check_finite` is for towers, and for a model that runs without them"
BAD = 4  # The batch that follows this global step is bad.


def with_nan(step, rows):
    """Returns batches as they are, but one whose last row, of the last tower, is none."""
    features, labels = rows
    if step == BAD:
        features[-1] = np.nan
    return features, labels


def bad_data(start):
    return lambda: training.dataset(start, change=with_nan)


def said(names):
    return ", ".join(f"{name}:0" for name in names)


@pytest.mark.conformance
@pytest.mark.parametrize("settings", [{}, {"loss_scale": 128}, {"accumulate_steps": 2}], ids=str)
@pytest.mark.parametrize("devices", [training.DEVICES, None], ids=["towers", "plain"])
def test_an_error_names_towers_and_variables_before_the_update(tmp_path, settings, devices):
    optimizer = {"check_finite": True, **settings}
    made = training.make_estimator(tmp_path, devices, 1, optimizer=optimizer)
    record = training.Record()
    names = ["model/hidden", "model/output"]
    expected = re.escape(
        "Gradients must be finite, but these are not: "
        f"{said(names)}. No variable was updated. Check this "
        "batch and the learning rate, or skip such steps with a dynamic loss scale."
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        made.train(bad_data(0), steps=9, hooks=[record])
    updates = BAD // settings.get("accumulate_steps", 1)
    assert len(record.losses) == BAD
    whole = training.read(tmp_path)
    assert whole["global_step"] == updates
    assert all(np.isfinite(value).all() for value in whole.values())


def test_an_only_replica_checks_what_it_accumulates(tmp_path):
    config = estimator.RunConfig(
        str(tmp_path), train_distribute=tf.distribute.OneDeviceStrategy("/cpu:0")
    )
    params = {"optimizer": {"check_finite": True, "accumulate_steps": 2}}
    made = estimator.Estimator(training.model_fn, config=config, params=params)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Gradients must be finite"):
        made.train(bad_data(0), steps=9)


@pytest.mark.conformance
def test_without_the_bad_batch_training_goes_on_as_if_it_had_not_been(tmp_path):
    optimizer = {"check_finite": True}
    made = training.make_estimator(tmp_path / "bad", save_steps=1, optimizer=optimizer)
    with pytest.raises(tf.errors.InvalidArgumentError):
        made.train(bad_data(0), steps=9)
    losses = training.train(tmp_path / "bad", 9, made=made)
    reference = training.train(tmp_path / "good", 9)
    assert losses == reference[BAD:]
    training.assert_same(training.read(tmp_path / "bad"), training.read(tmp_path / "good"))


def test_in_a_session_variables_keep_their_values():
    features, labels = (tf.placeholder(tf.float32, [None, size]) for size in (3, 1))
    params = {"optimizer": {"check_finite": True}}
    spec = training.model_fn(features, labels, "train", params)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(tf.global_variables())
        for _ in range(20):  # Updates run side by side.
            rows = with_nan(BAD, training.batch(BAD))
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(spec.train_op, dict(zip((features, labels), rows)))
        after = session.run(tf.global_variables())
        for old, new in zip(before, after):
            np.testing.assert_array_equal(old, new)


def with_zeros(step, rows):
    """Returns batches as they are, but one in which a row has a finite loss, and no gradient."""
    features, labels = rows
    if step == BAD:
        features[-1] = 0
    return features, labels


def without_bad_batch():
    batches = training.dataset(0).enumerate().filter(lambda step, _: tf.not_equal(step, BAD))
    return batches.map(lambda _, rows: rows)


@pytest.mark.conformance
@pytest.mark.parametrize("check_finite", [False, True])
def test_a_dynamic_loss_scale_skips_gradients_that_are_not_finite(tmp_path, check_finite):
    optimizer = {"loss_scale": "dynamic", "check_finite": check_finite}
    made = training.make_estimator(tmp_path / "bad", optimizer=optimizer)
    record = training.Record()
    made.train(lambda: training.dataset(0, change=with_zeros), max_steps=9, hooks=[record])
    assert [step for step, _ in record.losses] == [1, 2, 3, 4, 4, 5, 6, 7, 8, 9]
    made = training.make_estimator(tmp_path / "good", optimizer=optimizer)
    others = training.Record()
    made.train(without_bad_batch, max_steps=9, hooks=[others])
    del record.losses[BAD]
    assert record.losses == others.losses
    bad, good = (training.read(tmp_path / name) for name in ("bad", "good"))
    assert bad.pop("current_loss_scale") == good.pop("current_loss_scale") / 2
    assert bad.pop("good_steps") == good.pop("good_steps") - BAD
    training.assert_same(bad, good)


def test_of_a_loss_that_is_none_a_dynamic_scale_saves_nothing(tmp_path):
    """The Estimator itself ends training at such a loss; the update was skipped by then."""
    optimizer = {"loss_scale": "dynamic"}
    made = training.make_estimator(tmp_path, save_steps=1, optimizer=optimizer)
    with pytest.raises(tf.train.NanLossDuringTrainingError):
        made.train(bad_data(0), max_steps=9)
    saved = training.read(tmp_path)
    assert saved["global_step"] == BAD
    assert all(np.isfinite(value).all() for value in saved.values())


@pytest.mark.conformance
@pytest.mark.parametrize("accumulate_steps", [1, 3])
def test_training_that_skips_every_step_ends(tmp_path, monkeypatch, accumulate_steps):
    monkeypatch.setattr(loss_scale_hook, "LIMIT", 10)
    optimizer = {"loss_scale": "dynamic", "accumulate_steps": accumulate_steps}
    made = training.make_estimator(tmp_path, optimizer=optimizer)

    def zeros(step, rows):
        return np.zeros_like(rows[0]), rows[1]

    record = training.Record()
    text = f"{ALL_SKIPPED}…none of the last 10 was finite, with the loss scale at its minimum, 1"
    with pytest.raises(RuntimeError, match=matching(text)):
        made.train(lambda: training.dataset(0, 500, zeros), max_steps=9, hooks=[record])
    # 15 updates halve the scale from 2**15 to 1. It is read beside the update, before or after it.
    assert (15 + 9) * accumulate_steps <= len(record.losses) <= (15 + 12) * accumulate_steps


def two_scales(tmp_path, devices, apply_second, counts_first=True):
    """Returns an Estimator with two scales; a function applies the second, of the minimum scale."""

    def model_fn(features, labels, mode):
        step = tf.train.get_global_step()
        w, v = (tf.get_variable(name, [training.FEATURES, 1]) for name in "wv")
        loss = tf.losses.mean_squared_error(labels, features @ w + features @ v)
        sgd = tf.train.GradientDescentOptimizer(0.01)
        first = TowerOptimizer(sgd, loss_scale="dynamic")
        second = TowerOptimizer(sgd, loss_scale=loss_scale.DynamicLossScale(1))
        counted = (step, None) if counts_first else (None, step)
        pairs = second.compute_gradients(loss, var_list=[v])
        update = first.minimize(loss, counted[0], var_list=[w])
        # In this order, so that `apply_second` reads the step after it was counted.
        with tf.control_dependencies([update]):
            train_op = apply_second(
                lambda factor: second.apply_gradients(
                    [(gradient * factor, variable) for gradient, variable in pairs], counted[1]
                )
            )
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    if devices:
        model_fn = replicate.replicate_model_fn(model_fn, devices=devices)
    config = estimator.RunConfig(
        str(tmp_path), tf_random_seed=1, session_config=replicate.session_config(training.DEVICES)
    )
    return estimator.Estimator(model_fn, config=config)


def later(apply):
    step = tf.train.get_global_step().read_value()
    return tf.cond(step > 25, lambda: tf.group(apply(1.0)), tf.no_op)


def never_finite(apply):
    return apply(np.nan)


@pytest.mark.parametrize("devices", [training.DEVICES, training.DEVICES[:1]], ids=str)
@pytest.mark.parametrize("apply_second", [later, never_finite])
def test_training_that_goes_on_does_not_end(tmp_path, monkeypatch, devices, apply_second):
    """One scale is at its minimum, unused or with steps to skip, and the other one trains."""
    monkeypatch.setattr(loss_scale_hook, "LIMIT", 10)
    made = two_scales(tmp_path, devices, apply_second)
    made.train(lambda: training.dataset(0), max_steps=30)
    assert made.get_variable_value("global_step") == 30
    finite = [made.get_variable_value(name) for name in ("good_steps", "good_steps_1")]
    assert sorted(finite) == [5 if apply_second is later else 0, 30]


def test_training_ends_if_what_counts_its_steps_skips_them(tmp_path, monkeypatch):
    monkeypatch.setattr(loss_scale_hook, "LIMIT", 10)
    made = two_scales(tmp_path, training.DEVICES, never_finite, counts_first=False)
    with pytest.raises(RuntimeError, match=matching(ALL_SKIPPED)):
        made.train(lambda: training.dataset(0, 100), max_steps=30)


def test_embeddings_are_checked(tmp_path):
    table = tf.get_variable("table", [4, 2])
    optimizer = TowerOptimizer(tf.train.GradientDescentOptimizer(1.0), check_finite=True)
    rows = tf.gather(table, [1, 2])
    step = optimizer.minimize(tf.reduce_sum(rows * [[1.0], [float("inf")]]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="table:0"):
            session.run(step)


BAD_PARTS = complex(1.0, np.nan), complex(np.inf, 1.0)


@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("settings", [{"check_finite": True}, {"loss_scale": "dynamic"}], ids=str)
def test_both_parts_of_complex_gradients_are_checked(num_towers, sparse, settings):
    values = tf.placeholder(tf.complex64, [2])
    variables = []

    def body(index, features):
        z = tf.get_variable("z", initializer=tf.ones([2], tf.complex64))
        gradient = tf.IndexedSlices(values, tf.range(2), tf.constant([2])) if sparse else values
        optimizer = TowerOptimizer(tf.train.GradientDescentOptimizer(0.5), **settings)
        train_op = optimizer.apply_gradients([(gradient, z)])
        variables.append(z)
        return bodies.spec("train", train_op=train_op)

    train_op = bodies.build(body, num_towers=num_towers).train_op
    with bodies.session(num_towers) as session:
        session.run(tf.global_variables_initializer())
        for bad in BAD_PARTS:
            if "check_finite" in settings:
                with pytest.raises(tf.errors.InvalidArgumentError, match="z:0"):
                    session.run(train_op, {values: [1, bad]})
            else:
                session.run(train_op, {values: [1, bad]})
            np.testing.assert_array_equal(session.run(variables[0]), [1, 1])
        session.run(train_op, {values: [2, 2j]})
        moved = 1 - session.run(variables[0])
    np.testing.assert_allclose(moved, moved[0] * np.array([1, 1j]))
    assert moved[0].real > 0


def test_replicas_of_a_strategy_are_not_checked():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

    def step():
        weight = tf.get_variable("weight", [])
        optimizer = TowerOptimizer(tf.train.GradientDescentOptimizer(1.0), check_finite=True)
        return optimizer.minimize(weight * 2.0)

    with strategy.scope(), pytest.raises(ValueError, match=FOR_TOWERS):
        strategy.extended.call_for_each_replica(step)
