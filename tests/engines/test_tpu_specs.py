"""Model functions written for TPUEstimator, as towers: what comes out is one device's."""

import copy
import functools
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from bodies import DEVICES, EVAL, PREDICT, TRAIN, matching
from engines import tpu_models
from engines.tpu_models import ESTIMATORS, TRAIN_BATCH, input_fn, make_estimator, make_model_fn

pytestmark = pytest.mark.conformance

TPUEstimatorSpec = tf.estimator.tpu.TPUEstimatorSpec


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    """Results of the plain `model_fn` on one device, in a TPUEstimator without TPU."""
    model_fn = make_model_fn(wrap=contract.plain)
    return tpu_models.run("TPUEstimator", model_fn, tmp_path_factory.mktemp("one"))


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    "num_towers", [selection.cell(towers, is_quick=towers == 3) for towers in (1, 2, 3)]
)
def test_towers_give_what_one_device_does(kind, num_towers, one_device, tmp_path):
    replicated = contract.replicated(make_model_fn(), num_towers, per_tower_batch_size=False)
    got = tpu_models.run(kind, replicated, tmp_path, num_towers)
    tpu_models.assert_same_run(got, one_device)


@pytest.mark.parametrize("num_towers", [1, 3])
def test_the_host_call_gets_the_rows_of_all_towers_once_per_step(num_towers, tmp_path):
    seen, wanted = [], []
    for found, count in ((seen, num_towers), (wanted, 1)):
        model_fn = make_model_fn(seen=found)
        if found is seen:
            model_fn = contract.replicated(model_fn, count, per_tower_batch_size=False)
        directory = tmp_path / str(found is seen)
        make_estimator("TPUEstimator", model_fn, directory, count).train(input_fn)
    assert len(seen) == len(wanted) == tpu_models.TOTAL // TRAIN_BATCH
    for (_, got), (_, want) in zip(seen, wanted):
        contract.assert_close(got, want, 1e-9)


def test_a_tower_without_rows_adds_nothing_to_the_host_call():
    def model_fn(features, mode):
        calls = [tf.reshape(tf.reduce_sum(features), [1])]
        fields = {"loss": tf.reduce_sum(features), "host_call": (lambda sums: sums, calls)}
        return TPUEstimatorSpec(mode, **fields)

    rows = tf.placeholder_with_default(np.array([5.0, 7.0]), [None])
    spec = contract.replicated(model_fn, 3, per_tower=True)(rows, None, mode=EVAL)
    (hook,) = spec.evaluation_hooks
    with tf.Session(config=replicate.session_config(DEVICES)) as session:
        np.testing.assert_array_equal(session.run(hook.before_run(None).fetches), [5.0, 7.0])


def test_scaffold_and_hooks_are_made_once():
    made, made_hooks = [], []

    def model_fn(features, labels, mode, params):
        total = tf.Variable(0, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="total")
        saver = tf.train.Saver([tf.get_variable("w", [])], max_to_keep=3)

        def scaffold_fn():
            made.append(saver)
            return tf.train.Scaffold(saver=saver, local_init_op=tf.variables_initializer([total]))

        hook = tf.train.SessionRunHook()
        made_hooks.append(hook)
        hooks = {f"{name}_hooks": [hook] for name in ("training", "evaluation", "prediction")}
        update = total.assign_add(1)
        seen_totals.append(total)
        return TPUEstimatorSpec(
            mode, loss=0.0 * tf.reduce_sum(features["x"]), scaffold_fn=scaffold_fn,
            predictions={"update": update}, **hooks
        )  # fmt: skip

    seen_totals = []
    features = {"x": tf.ones([4])}
    spec = contract.replicated(model_fn, 3)(features, None, EVAL, {})
    assert len(made) == len(made_hooks) == 1
    assert type(spec) is tf.estimator.EstimatorSpec
    assert spec.scaffold.saver._max_to_keep == 3
    for hooks in (spec.training_hooks, spec.evaluation_hooks, spec.prediction_hooks):
        assert [hook for hook in hooks if type(hook) is tf.train.SessionRunHook] == made_hooks
    with tf.Session(config=replicate.session_config(DEVICES)) as session:
        session.run(spec.scaffold.local_init_op)
        assert session.run(seen_totals) == [0]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_saved_model_has_neither_towers_nor_devices(kind, tmp_path):
    replicated = contract.replicated(make_model_fn(), 2, per_tower_batch_size=False)
    estimator = make_estimator(kind, replicated, tmp_path / "model", 2)
    estimator.train(input_fn, steps=1)
    placeholders = {"x": tf.placeholder(tf.float64, [None, 3])}
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(placeholders)
    path = estimator.export_saved_model(str(tmp_path / "saved"), receiver)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.saved_model.load(session, ["serve"], path)
        operations = [op for op in graph.get_operations() if "save" not in op.name]
        assert not any("tower" in op.name or op.device for op in operations)


def merged(make_spec, num_towers=2, **kwargs):
    """Merges the spec that `make_spec(features)` makes of 4 rows."""

    def model_fn(features, labels, mode):
        return make_spec(features)

    replicated = contract.replicated(model_fn, num_towers, per_tower=True, **kwargs)
    return replicated(tf.ones([4, 1]), None, EVAL)


SCALARS = "are concatenated by rows, so they must have an axis 0, but…{}…Sum{}…`tf.reshape(tensor, "


def call(field, value):
    def make_spec(features):
        return TPUEstimatorSpec(EVAL, loss=tf.reduce_sum(features), **{field: value(features)})

    return make_spec


@pytest.mark.parametrize(
    ("make_spec", "error", "phrases"),
    [
        (
            call("eval_metrics", lambda x: (lambda a: {}, {"a": tf.reduce_sum(x)})),
            ValueError,
            "`eval_metrics` " + SCALARS.format("'a'", ""),
        ),
        (
            call("host_call", lambda x: (lambda a, b: [], [x, tf.reduce_sum(x)])),
            ValueError,
            "`host_call` " + SCALARS.format("1", ""),
        ),
    ],
    ids=["metric", "host call"],
)
def test_specs_for_tpus_that_cannot_be_merged(make_spec, error, phrases):
    with pytest.raises(error, match=matching(phrases)):
        merged(make_spec)


# ---- params["batch_size"]


ROWS = 6  # Three shards of 2.
UNEVEN_SHARDS = (
    "is the size of a tower's shard…built once for all towers, but the shards have {} rows…"
    "a multiple of 3 rows, or pass `per_tower_batch_size=False`"
)


def size_of(num_towers=3, rows=ROWS, config=None, mode=EVAL, params=None, static=True, **kwargs):
    """Returns what `model_fn`, which is called once, finds in `params["batch_size"]`."""
    found = []

    def model_fn(features, labels, mode, params, config):
        size = params["batch_size"] if isinstance(params, dict) else params.batch_size
        found.append(size)
        if static:
            assert features.shape[0] == size or size == params.get("whole")
        return tf.estimator.EstimatorSpec(mode, predictions=features, loss=tf.reduce_sum(features))

    params = {"batch_size": rows, "whole": rows} if params is None else params
    features = tf.ones([rows]) if static else tf.placeholder(tf.float32, [None])
    fn = contract.replicated(model_fn, num_towers, **{"per_tower": True, **kwargs})
    fn(features, None, mode, params, config)
    (size,) = found
    return size


def tpu_run_config(num_towers=3):
    devices = contract.device_names(num_towers)
    return tf.estimator.tpu.RunConfig(session_config=replicate.session_config(devices))


def plain_run_config(num_towers=3):
    devices = contract.device_names(num_towers)
    return tf.estimator.RunConfig(session_config=replicate.session_config(devices))


def test_the_batch_size_of_tpu_style_code_is_that_of_the_shard():
    assert size_of(config=tpu_run_config()) == 2
    assert size_of(config=tpu_run_config(), static=False) == 2
    assert size_of(2, 1, tpu_run_config()) == 1  # The second computes on a copy.
    assert size_of(1, config=tpu_run_config()) == ROWS
    assert size_of(config=tpu_run_config(), per_tower_batch_size=False) == ROWS


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize(("rows", "shards"), [(7, "[3, 2, 2]"), (8, "[3, 3, 2]")])
def test_shards_of_tpu_style_code_are_equal(rows, shards, static):
    """The model is built once, with one size for all towers."""
    with pytest.raises(ValueError, match=matching(UNEVEN_SHARDS.format(shards))):
        size_of(rows=rows, config=tpu_run_config(), static=static)
    assert size_of(rows=rows, config=plain_run_config(), static=static) == rows
    assert size_of(rows=rows, config=tpu_run_config(), static=static, per_tower=False) == rows


@pytest.mark.parametrize(
    "read",
    [
        lambda params: params["batch_size"],
        lambda params: params.get("batch_size", 3),
        lambda params: params.pop("batch_size"),
        lambda params: tf.fill([dict(params)["batch_size"]], 1.0),
        lambda params: tf.ones([3]) / dict(**params)["batch_size"],
        lambda params: 2 * next(iter(params.values())),
        lambda params: next(iter(params.values())) == 3,
        lambda params: copy.copy(params)["batch_size"],
    ],
    ids=["item", "get", "pop", "copy", "keywords", "values", "compared", "copied"],
)
def test_uneven_shards_are_refused_where_their_size_is_read(read):
    def model_fn(features, labels, mode, params):
        if reads:
            read(params)
        rate = params["learning_rate"]
        return tf.estimator.EstimatorSpec(mode, loss=rate * tf.reduce_sum(features))

    params = {"batch_size": 7, "learning_rate": 0.1}
    replicated = contract.replicated(model_fn, 3, per_tower=True)
    reads = False
    replicated(tf.ones([7]), None, EVAL, params, tpu_run_config())
    reads = True
    with pytest.raises(ValueError, match=matching(UNEVEN_SHARDS.format("[3, 2, 2]"))):
        replicated(tf.ones([7]), None, EVAL, params, tpu_run_config())
    assert params == {"batch_size": 7, "learning_rate": 0.1}


def test_uneven_shards_are_refused_where_hparams_have_their_size():
    with pytest.raises(ValueError, match=matching(UNEVEN_SHARDS.format("[3, 2, 2]"))):
        size_of(rows=7, config=tpu_run_config(), params=HParams(batch_size=7))


def test_the_batch_size_of_what_names_the_spec_of_tpus_is_that_of_the_shard():
    found = []

    def model_fn(features, labels, mode, params):
        found.append(params["batch_size"])
        spec = tf.estimator.tpu.TPUEstimatorSpec
        return spec(mode, loss=tf.reduce_sum(features))

    @functools.wraps(model_fn)
    def decorated(*args, **kwargs):
        return model_fn(*args, **kwargs)

    for wrapped in (model_fn, functools.partial(model_fn), decorated):
        contract.replicated(wrapped, 3, per_tower=True)(
            tf.ones([ROWS]), None, EVAL, {"batch_size": ROWS}
        )
        assert found == [2]
        del found[:]


def test_the_batch_size_of_a_plain_estimator_is_the_users():
    assert size_of() == ROWS
    assert size_of(config=plain_run_config()) == ROWS
    assert size_of(config=plain_run_config(), per_tower_batch_size=True) == 2
    assert size_of(params={"batch_size": np.int64(ROWS)}, per_tower_batch_size=True) == 2


class HParams(types.SimpleNamespace):
    """Stands for those of `tf.contrib.training`, which take no items; this cannot be copied."""

    def get(self, key):
        return getattr(self, key, None)

    def set_hparam(self, key, value):
        setattr(self, key, value)

    def __deepcopy__(self, memo):
        raise TypeError("cannot be copied")


def test_the_batch_size_in_hparams():
    params = HParams(batch_size=ROWS)
    assert size_of(config=tpu_run_config(), params=params) == 2
    assert params.batch_size == ROWS  # The caller's own stay as they are.


@pytest.mark.parametrize("size", ["all", 7.0, True])
def test_a_batch_size_that_is_no_integer(size):
    params = {"batch_size": size, "whole": size}
    assert size_of(config=tpu_run_config(), params=params) is size
    phrases = "splits `params['batch_size']`, which must be an integer, but is…Make it one"
    with pytest.raises(TypeError, match=matching(phrases)):
        size_of(params={"batch_size": size}, per_tower_batch_size=True)


KEYWORD = "`per_tower_batch_size` must be True, False or None, but is…`params['batch_size']`"
INTEGER = "splits `params['batch_size']`, which must be an integer"


@pytest.mark.parametrize("value", [128, "yes", 1])
def test_the_keyword_takes_no_size(value):
    with pytest.raises(TypeError, match=matching(KEYWORD)):
        replicate.replicate_model_fn(make_model_fn(), per_tower_batch_size=value)


def test_the_size_of_the_batch_is_that_of_one_device_whatever_is_asked(warnings):
    for config in (plain_run_config(), tpu_run_config()):
        for own in (None, False, True):
            given = {"per_tower": False, "per_tower_batch_size": own}
            assert size_of(rows=7, config=config, **given) == 7
    assert warnings() == []


# ---- in a TPU computation


def test_in_a_tpu_computation_the_wrapper_steps_aside(monkeypatch):
    def model_fn(features, labels, mode, params):
        seen.append((replicate.num_towers(), features.shape.as_list(), params))
        return made

    seen, made, params = [], object(), {"batch_size": 3}
    monkeypatch.setattr("replicate.devices.local", lambda *_: pytest.fail("devices"))
    replicated = replicate.replicate_model_fn(model_fn)

    def computation(x):
        assert replicated(x, None, TRAIN, params) is made
        return tf.reduce_sum(x)

    tf.tpu.shard(computation, [tf.ones([8, 3])], 4)
    assert seen == [(4, [2, 3], params)]
    assert seen[0][2] is params


def test_predict_and_export_of_one_device_are_plain_specs():
    model_fn = make_model_fn()
    spec = contract.replicated(model_fn, 1)({"x": tf.ones([2, 3], tf.float64)}, None, PREDICT, {})
    assert type(spec) is tf.estimator.EstimatorSpec


def test_a_spec_that_was_replaced_keeps_its_own_host_calls():
    def model_fn(features, mode):
        spec = call("eval_metrics", lambda x: (lambda a: {"a": tf.metrics.mean(a)}, [x]))
        return spec(features)._replace(
            eval_metrics=(lambda a: {"b": tf.metrics.mean(a)}, [features])
        )

    for num_towers in (1, 2):
        spec = contract.replicated(model_fn, num_towers)(tf.ones([4, 1]), None, mode=EVAL)
        assert list(spec.eval_metric_ops) == ["b"]
