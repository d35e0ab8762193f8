"""Summaries: those of the batch, or with `per_tower=True` those that `summaries=...` says.

These are tower 0's, means over towers, or those of every tower.
"""

import glob

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

import contract
import replicate
from bodies import control_flow, matching
from contract import ModeKeys

ROWS = np.arange(1.0, 8.0)  # 7 rows: 4 and 3, or 3, 2 and 2.


def spec_of(mode, loss, **kwargs):
    if mode == ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=loss)
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.125))
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, None, loss, train_op, **kwargs)


def loss_of(x):
    weight = tf.get_variable("w", [], tf.float64, tf.ones_initializer(tf.float64))
    return tf.reduce_mean(x) * weight


def model_fn(features, labels, mode):
    """Summaries of all kinds."""
    x = features
    loss = loss_of(x)
    tf.summary.scalar("loss", loss)
    tf.summary.scalar("rows", tf.shape(x)[0])
    tf.summary.scalar("half", tf.cast(tf.reduce_mean(x), tf.float16), family="types")
    tf.summary.scalar("weight", tf.trainable_variables()[0])
    tf.summary.scalar("all", replicate.cross_tower_mean(tf.reduce_mean(x)))
    tf.summary.histogram("spread", x)
    tf.summary.image("picture", tf.cast(tf.reshape(x, [-1, 1, 1, 1]) * 10, tf.uint8), 1)
    tf.summary.audio("sound", tf.cast(tf.reshape(x, [1, -1]) / 10, tf.float32), 8000, 1)
    tf.summary.text("words", tf.as_string(x[0]))
    tf.summary.histogram("constant", tf.constant([1.0, 2.0]))
    return spec_of(mode, loss)


def parsed(serialized):
    """Returns the values of a summary by tags; of images, texts and so on, what kind they are."""
    found = {}
    for value in tf.Summary.FromString(serialized).value:
        assert value.tag not in found
        kind = value.WhichOneof("value")
        if kind == "simple_value":
            found[value.tag] = value.simple_value
        elif kind == "histo":
            found[value.tag] = value.histo.sum, value.histo.num
        elif kind == "tensor":
            found[value.tag] = tf.make_ndarray(value.tensor).item().decode()
        else:
            found[value.tag] = kind
    return found


def summaries_of(
    model_fn, num_towers, summaries=None, rows=ROWS, mode=ModeKeys.TRAIN, per_tower=True
):
    given = {} if summaries is None else {"summaries": summaries}
    made = contract.replicated(model_fn, num_towers, per_tower=per_tower, **given)
    with tf.Graph().as_default():
        made(tf.placeholder_with_default(rows, [None]), None, mode)
        merged = tf.summary.merge_all()
        if merged is None:
            return None
        config = replicate.session_config(contract.device_names(num_towers))
        with tf.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            return parsed(session.run(merged))


ONCE = {"weight": 1.0, "all": 4.0, "constant": (3.0, 2.0)}
OF_ONE_DEVICE = {
    **ONCE,
    "loss": 4.0,
    "rows": 7,
    "types/types/half": 4.0,
    "spread": (28.0, 7.0),
    "picture/image": "image",
    "sound/audio": "audio",
    "words": "1.000000",
}
FIRST_OF_2 = dict(OF_ONE_DEVICE, loss=2.5, rows=4, spread=(10.0, 4.0), **{"types/types/half": 2.5})


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT])
@pytest.mark.parametrize("summaries", [None, "first", "mean", "all"])
@pytest.mark.parametrize("num_towers", [2, 3])
def test_those_of_a_batch_are_those_of_one_device(num_towers, summaries, mode, warnings):
    got = summaries_of(model_fn, num_towers, summaries, mode=mode, per_tower=False)
    assert got == OF_ONE_DEVICE
    assert warnings() == []


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
@pytest.mark.parametrize("summaries", [None, "first"])
def test_those_of_tower_0(summaries, mode):
    assert summaries_of(model_fn, 2, summaries, mode=mode) == FIRST_OF_2


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_means_over_towers(mode):
    # By rows: (4·4 + 3·3) / 7 rows, rounded; and (3·3 + 2·2 + 2·2) / 7.
    want = dict(FIRST_OF_2, loss=4.0, rows=4, **{"types/types/half": 4.0})
    assert summaries_of(model_fn, 2, "mean", mode=mode) == want
    want = summaries_of(model_fn, 3, "mean", mode=mode)
    assert (want["loss"], want["rows"], want["spread"]) == (4.0, 2, (6.0, 3.0))


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_those_of_every_tower(mode):
    want = dict(ONCE)
    for index, (mean, rows) in enumerate([(2.0, 3), (4.5, 2), (6.5, 2)]):
        own = {
            "loss": mean,
            "rows": rows,
            "types/types/half": mean,
            "spread": (mean * rows, rows),
            "picture/image": "image",
            "sound/audio": "audio",
            "words": ["1.000000", "4.000000", "6.000000"][index],
        }
        want.update({f"tower_{index}/{tag}": value for tag, value in own.items()})
    assert summaries_of(model_fn, 3, "all", mode=mode) == want


@pytest.mark.parametrize("summaries", ["mean", "all"])
def test_towers_without_rows_have_no_part(summaries):
    got = summaries_of(model_fn, 8, summaries, ROWS[:2], ModeKeys.EVAL)
    if summaries == "mean":
        assert (got["loss"], got["rows"]) == (1.5, 1)
        return
    towers = {tag.split("/")[0] for tag in got if tag.startswith("tower_")}
    assert towers == {"tower_0", "tower_1"}
    assert (got["tower_0/loss"], got["tower_1/loss"]) == (1.0, 2.0)
    assert got["tower_1/spread"] == (2.0, 1.0)


@pytest.mark.parametrize("summaries", ["first", "mean", "all"])
def test_one_device_makes_no_difference(summaries):
    assert summaries_of(model_fn, 1, summaries) == OF_ONE_DEVICE


def test_tags_that_are_computed_and_many_in_one():
    def model_fn(features, labels, mode):
        loss = loss_of(features)
        kind = tf.strings.join(["kind_", tf.as_string(tf.constant(3))])
        tags = tf.stack([kind, "second"])
        summary = tf.raw_ops.ScalarSummary(tags=tags, values=[loss, features[-1]])
        tf.add_to_collection(tf.GraphKeys.SUMMARIES, summary)
        spread = tf.raw_ops.HistogramSummary(tag=tf.strings.join([kind, "_h"]), values=features)
        merged = tf.summary.merge([spread], collections=[])  # Before it is known what it becomes.
        tf.add_to_collection(tf.GraphKeys.SUMMARIES, merged)
        return spec_of(mode, loss)

    got = summaries_of(model_fn, 2, "mean")
    want = {"kind_3": 4.0, "second": (4.0 * 4 + 7.0 * 3) / 7, "kind_3_h": (10.0, 4.0)}
    assert got == pytest.approx(want, rel=1e-6)
    want = {"kind_3": (2.5, 6.0), "second": (4.0, 7.0), "kind_3_h": ((10.0, 4.0), (18.0, 3.0))}
    want = {f"tower_{i}/{tag}": own for tag, both in want.items() for i, own in enumerate(both)}
    assert summaries_of(model_fn, 2, "all") == want


def events_of(directory):
    """Returns lists of steps and parsed summaries."""
    found = []
    for path in sorted(glob.glob(f"{directory}/events*")):
        for event in tf.train.summary_iterator(path):
            if event.HasField("summary"):
                found.append((event.step, parsed(event.summary.SerializeToString())))
    return found


@pytest.mark.parametrize("summaries", ["mean", "all"])
def test_what_the_estimator_writes(tmp_path, summaries):
    def given():
        return tf.data.Dataset.from_tensors(ROWS).repeat(2)

    made = contract.replicated(model_fn, 2, per_tower=True, summaries=summaries)
    config = tf.estimator.RunConfig(
        str(tmp_path),
        save_summary_steps=1,
        session_config=replicate.session_config(contract.device_names(2)),
    )
    estimator = tf.estimator.Estimator(made, config=config)
    estimator.train(given)
    (step, first), *_ = [event for event in events_of(tmp_path) if len(event[1]) > 2]
    assert step == 1
    if summaries == "mean":
        # The Estimator finds the model's `loss`, and adds none.
        assert first == dict(FIRST_OF_2, loss=4.0, rows=4, **{"types/types/half": 4.0})
    else:
        assert first["tower_0/loss"] == 2.5 and first["tower_1/loss"] == 6.0
        assert not {"loss", "spread"} & set(first)
        assert first["loss_1"] == 4.0  # The Estimator's, of the batch.
        assert first["tower_1/spread"] == (18.0, 3.0)


def test_hooks_and_scaffolds_save_them(tmp_path):
    """A hook is given a summary by itself, another one merged ones, the scaffold one, too."""
    seen = {}

    def model_fn(features, labels, mode):
        loss = loss_of(features)
        spread = tf.summary.histogram("spread", features)
        scalar = tf.summary.scalar("average", loss)
        hooks = [
            tf.train.SummarySaverHook(1, None, str(tmp_path / "one"), None, None, spread),
            tf.train.SummarySaverHook(1, None, str(tmp_path / "list"), None, None, [spread]),
            tf.train.SummarySaverHook(1, None, str(tmp_path / "scalar"), None, None, scalar),
            tf.train.SummarySaverHook(
                1, None, str(tmp_path / "merged"), None, None, tf.summary.merge_all()
            ),
        ]
        scaffold = tf.train.Scaffold(summary_op=spread)
        seen["scaffold"] = scaffold
        return spec_of(mode, loss, training_hooks=hooks, scaffold=scaffold)

    made = contract.replicated(model_fn, 2, per_tower=True, summaries="all")
    config = tf.estimator.RunConfig(
        str(tmp_path / "model"),
        save_summary_steps=1,
        session_config=replicate.session_config(contract.device_names(2)),
    )
    tf.estimator.Estimator(made, config=config).train(
        lambda: tf.data.Dataset.from_tensors(ROWS).repeat(2)
    )
    spread = {"tower_0/spread": (10.0, 4.0), "tower_1/spread": (18.0, 3.0)}
    assert events_of(tmp_path / "one")[0][1] == spread
    assert events_of(tmp_path / "list")[0][1] == spread
    scalars = {"tower_0/average": 2.5, "tower_1/average": 6.0}
    assert events_of(tmp_path / "scalar")[0][1] == scalars
    assert events_of(tmp_path / "merged")[0][1] == {**spread, **scalars}
    assert spread in [found for _, found in events_of(tmp_path / "model")]


@pytest.mark.parametrize("summaries", ["mean", "all", "first"])
@pytest.mark.parametrize("version", [1, 2])
def test_what_is_made_in_a_condition_stays_tower_0s_and_is_said(version, summaries, warnings):
    def model_fn(features, labels, mode):
        step = tf.train.get_or_create_global_step()
        loss = loss_of(features)
        summary = tf.cond(
            step < 5, lambda: tf.summary.scalar("inside", loss, []), lambda: tf.constant("")
        )
        tf.add_to_collection(tf.GraphKeys.SUMMARIES, summary)
        tf.summary.scalar("outside", loss)
        return spec_of(mode, loss)

    with control_flow(version):
        got = summaries_of(model_fn, 2, summaries)
    assert [value for tag, value in got.items() if tag.endswith("inside")] == [2.5]
    assert got.get("outside") == {"mean": 4.0, "first": 2.5}.get(summaries)
    if summaries == "first":
        assert warnings() == []
    else:
        (text,) = warnings()
        assert f"summaries='{summaries}' does not reach" in text and "cond" in text


def test_what_writes_by_itself_stays_tower_0s_and_is_said(tmp_path, warnings):
    writes = []

    def model_fn(features, labels, mode):
        loss = loss_of(features)
        with writer.as_default():
            tf.raw_ops.WriteScalarSummary(
                writer=writer._resource,
                step=tf.constant(0, tf.int64),
                tag="written",
                value=tf.cast(loss, tf.float32),
            )
            writes.append(tf.get_default_graph().get_operations()[-1])
        return spec_of(mode, loss)

    made = contract.replicated(model_fn, 2, per_tower=True, summaries="mean")
    writer = tf2.summary.create_file_writer(str(tmp_path))
    made(tf.constant(ROWS), None, ModeKeys.TRAIN)
    with tf.Session(config=replicate.session_config(contract.device_names(2))) as session:
        session.run([tf.global_variables_initializer(), writer.init()])
        session.run(writes)
        session.run(writer.flush())
    assert events_of(tmp_path) == [(0, {"written": 2.5})]
    (text,) = warnings()
    assert "WriteScalarSummary" in text


UNKNOWN = "`summaries` must be one of …'first', 'mean', 'all', but is {}: tower 0's"
ON_TPUS = "On TPU cores, summaries are made by `host_call`…`summaries` is 'mean'. Leave it out."


@pytest.mark.parametrize("given", [None, "sum", 1, True, ["first"]])
def test_an_unknown_choice(given):
    with pytest.raises(ValueError, match=matching(UNKNOWN.format(repr(given)))):
        replicate.replicate_model_fn(model_fn, summaries=given)


def test_tpu_cores_take_host_calls(monkeypatch):
    monkeypatch.setattr("replicate.devices.check_exist", lambda *args, **kwargs: None)
    with pytest.raises(ValueError, match=matching(ON_TPUS)):
        replicate.replicate_model_fn(model_fn, devices=["/tpu:0", "/tpu:1"], summaries="mean")


@pytest.mark.parametrize(
    "options", [{}, {"per_tower": True}, {"summaries": "mean"}, {"summaries": "all"}]
)
def test_a_summary_that_a_model_calls_loss_is_written(options, tmp_path):
    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(features * tf.get_variable("w", initializer=1.0))
        tf.summary.scalar("loss", 100.0 * loss)
        train_op = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.0)).minimize(
            loss, tf.train.get_global_step()
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    options = {**options, "per_tower": bool(options)}
    devices = contract.device_names(2)
    fn = replicate.replicate_model_fn(model_fn, devices=devices, **options)
    config = tf.estimator.RunConfig(session_config=replicate.session_config(devices))
    estimator = tf.estimator.Estimator(fn, str(tmp_path), config)
    estimator.train(lambda: tf.data.Dataset.from_tensors([1.0, 2.0, 5.0, 6.0]))
    (events,) = tmp_path.glob("events*")
    written = [e.summary.value for e in tf.train.summary_iterator(str(events))]
    values = {value.tag: value.simple_value for each in written for value in each}
    want = {"loss": 150.0 if options["per_tower"] and "summaries" not in options else 350.0}
    if options.get("summaries") == "all":
        want = {"tower_0/loss": 150.0, "tower_1/loss": 550.0}
    assert {tag: values[tag] for tag in want} == pytest.approx(want)
