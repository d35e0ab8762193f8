"""Training on TPU cores: the graph that is built, for there is no TPU here.

That the computation is right is shown where one can run: compiled by XLA, on the CPU, as one core.
"""

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from bodies import DEVICES, EVAL, PREDICT, TRAIN, matching
from engines import tpu_graphs, tpu_models
from replicate.engines import tpu, tpu_training
from replicate.graphs import ancestors

pytestmark = pytest.mark.conformance

CORES = 4
SUM = tf.losses.Reduction.SUM
TPUS = [f"/job:worker/replica:0/task:0/device:TPU:{index}" for index in range(CORES)]
TPUEstimatorSpec = tf.estimator.tpu.TPUEstimatorSpec


def batch(rows=8):
    features, labels = tpu_models.rows()
    features = {"x": tf.constant(features["x"][:rows]), "scalar": tf.constant(2.0), "none": None}
    return features, tf.constant(labels[:rows])


def make(model_fn, features=None, labels=None, mode=TRAIN, params=None, devices=TPUS, **kwargs):
    """Builds `model_fn` replicated over TPU cores; returns its spec."""
    if features is None:
        features, labels = batch()
    if tf.train.get_global_step() is None:
        tf.train.create_global_step()
    replicated = replicate.replicate_model_fn(model_fn, devices=devices, **kwargs)
    return replicated(features, labels, mode, {} if params is None else params)


def test_one_computation_on_equal_shards(fresh_graph):
    shapes = []

    def model_fn(features, labels, mode, params):
        shapes.extend([features["x"].shape.as_list(), features["scalar"].shape.as_list()])
        shapes.extend([features["none"], labels.shape.as_list()])
        return tpu_models.make_model_fn(seen=[])(features, labels, mode, params)

    spec = make(model_fn)
    assert type(spec) is tf.estimator.EstimatorSpec
    assert shapes == [[2, 3], [], None, [2, 1]]  # `model_fn` was called once.
    ops = tpu_graphs.by_type(fresh_graph)
    (metadata,) = ops["TPUReplicateMetadata"]
    assert metadata.get_attr("num_replicas") == CORES
    inputs = [[list(t.shape) for t in op.inputs] for op in ops["TPUReplicatedInput"]]
    assert inputs == [[[2, 3]] * CORES, [[2, 1]] * CORES]
    # Gradients of weights and bias, summed over the cores, and nothing else.
    assert sorted(list(op.inputs[0].shape) for op in ops["CrossReplicaSum"]) == [[1], [3, 1]]
    tpu_graphs.check_inside(fresh_graph)
    outputs = [list(op.inputs[0].shape) for op in ops["TPUReplicatedOutput"]]
    assert outputs == [[1], [1], [2, 1]]  # loss, step, probabilities


@pytest.mark.parametrize("reduction", [contract.MEAN, SUM])
def test_the_losses_of_the_cores_are_reduced_on_the_host(reduction, fresh_graph):
    loss = make(tpu_models.make_model_fn(), loss_reduction=reduction).loss
    assert loss.op.type == ("Sum" if reduction == SUM else "Mean")
    assert loss.op.inputs[0].shape.as_list() == [CORES]
    assert loss.device.endswith("CPU:0")
    assert loss.shape.rank == 0
    assert not tpu_graphs.is_inside(loss.op)


def test_the_step_counts_once(fresh_graph):
    spec = make(tpu_models.make_model_fn())
    (count,) = tpu_graphs.by_type(fresh_graph)["AssignAddVariableOp"]
    assert count in ancestors([spec.train_op])
    assert tpu_graphs.is_inside(count)  # The cores' writes of a variable are one.


def test_variables_have_the_names_of_one_device(fresh_graph):
    make(tpu_models.make_model_fn())
    names = [variable.name for variable in tf.global_variables()]
    assert names == ["global_step:0", "w:0", "b:0"]
    assert not any(tpu_graphs.is_inside(v.initializer) for v in tf.global_variables())


def test_host_call_and_scaffold_are_made_outside(fresh_graph):
    seen = []

    def scaffold_fn():
        assert not tpu.number_of_shards()
        return tf.train.Scaffold(saver=tf.train.Saver(max_to_keep=7))

    spec = make(tpu_models.make_model_fn(seen=seen, scaffold_fn=scaffold_fn))
    assert spec.scaffold.saver._max_to_keep == 7
    system_hook, host_hook = spec.training_hooks
    assert isinstance(system_hook, tpu_training.SystemHook)
    (fetched,) = tf.nest.flatten(host_hook.before_run(None).fetches)
    assert not tpu_graphs.is_inside(fetched.op)
    assert [list(t.shape) for t in fetched.op.inputs] == [[CORES], [8, 1]]


def test_summaries_do_not_reach_the_tpu(fresh_graph, monkeypatch):
    said = []
    monkeypatch.setattr(tf.logging, "warning", lambda text, *args: said.append(text % args))

    def model_fn(features, labels, mode, params):
        tf.summary.scalar("average", tf.reduce_mean(features["x"]))
        tf.summary.histogram("rows", features["x"])
        return tpu_models.make_model_fn()(features, labels, mode, params)

    outside = tf.summary.scalar("outside", 1.0)
    make(model_fn)
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [outside]
    tpu_graphs.check_inside(fresh_graph)
    (said,) = [text for text in said if "makes no summaries" in text]
    assert "average, rows" in said


def test_hooks_and_the_scaffold_of_a_plain_spec_are_passed_on(fresh_graph):
    hook, chief_hook = tf.train.SessionRunHook(), tf.train.SessionRunHook()

    def model_fn(features, labels, mode):
        loss, train_op = weighted(features)
        hooks = {"training_hooks": [hook], "training_chief_hooks": [chief_hook]}
        return tf.estimator.EstimatorSpec(mode, None, loss, train_op, **hooks)

    replicated = replicate.replicate_model_fn(model_fn, devices=TPUS)
    tf.train.create_global_step()
    spec = replicated(*batch(), mode=TRAIN)
    assert spec.training_hooks[1:] == (hook,)
    assert spec.training_chief_hooks == (chief_hook,)


def weighted(features, wrap=replicate.TowerOptimizer):
    w = tf.get_variable("w", [3], tf.float64, use_resource=True)
    loss = tf.reduce_mean(features["x"] * w)
    step = tf.train.get_global_step()
    return loss, wrap(tf.train.GradientDescentOptimizer(1.0)).minimize(loss, step)


@pytest.mark.parametrize("mode", [EVAL, PREDICT])
def test_evaluation_and_prediction_are_on_the_host(mode, fresh_graph):
    spec = make(tpu_models.make_model_fn(), mode=mode)
    assert type(spec) is tf.estimator.EstimatorSpec
    assert not any("TPU" in op.type or op.device for op in fresh_graph.get_operations())
    assert list(spec.predictions or spec.eval_metric_ops)


@pytest.mark.parametrize("per_tower", [None, True])
def test_the_batch_size_of_a_core(per_tower, fresh_graph):
    def model_fn(features, labels, mode, params):
        seen.append(params["batch_size"])
        return tpu_models.make_model_fn()(features, labels, mode, params)

    seen, params = [], {"batch_size": 8}
    make(model_fn, params=params, per_tower_batch_size=per_tower)
    assert seen == [2 if per_tower else 8]


def test_progress_knows_the_whole_batch(fresh_graph):
    make(tpu_models.make_model_fn())
    assert tf.get_static_value(fresh_graph.get_tensor_by_name("replicate/shard/batch_size:0")) == 8


# ---- the sum of the losses


@pytest.mark.parametrize("reduction", [contract.MEAN, SUM])
def test_the_model_is_built_where_the_reduction_is_known(reduction, fresh_graph):
    def model_fn(features, labels, mode, params):
        seen.append(tpu.losses_are_added_up())
        return tpu_models.make_model_fn()(features, labels, mode, params)

    seen = []
    make(model_fn, loss_reduction=reduction)
    assert seen == [reduction == SUM]
    assert not tpu.losses_are_added_up()


@pytest.mark.parametrize("reduction", [contract.MEAN, SUM])
def test_gradients_are_averaged_or_added_up_as_losses_are(reduction, fresh_graph):
    make(tpu_models.make_model_fn(), loss_reduction=reduction)
    sums = tpu_graphs.by_type(fresh_graph)["CrossReplicaSum"]
    divided = [op.inputs[0].op.type == "RealDiv" for op in sums]
    assert divided == [reduction != SUM] * 2


# ---- what is computed


def compiled(model_fn, features, labels):
    """Compiles the computation by XLA, for one core that is a CPU; returns what it puts out."""
    tf.train.create_global_step()
    whole = {"features": features, "labels": labels}

    def model(features, labels):
        return model_fn(features, labels, TRAIN, {})

    computation = tpu_training.Computation(model, whole, summed=False)
    with tpu_graphs.replicas(1):
        return tf.xla.experimental.compile(computation, tpu_training.rows_of(whole))


@pytest.mark.parametrize("seen", [None, []], ids=["alone", "with a host call"])
def test_xla_compiles_the_computation_and_it_trains_as_one_device(seen, monkeypatch):
    # XLA lacks it for CPUs; with one core, the sum is its value.
    monkeypatch.setattr(tf.tpu, "cross_replica_sum", tf.identity)

    def train(build):
        with tf.Graph().as_default() as graph:
            losses = []
            features, labels = batch(24)
            fetches = build(features, labels)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for _ in range(3):
                    losses.append(np.reshape(session.run(fetches)[0], []))
                variables = session.run({v.name: v for v in tf.global_variables()})
            return losses, variables, [op for op in graph.get_operations() if is_compiled(op)]

    def plainly(features, labels):
        tf.train.create_global_step()
        spec = tpu_models.make_model_fn(wrap=contract.plain)(features, labels, TRAIN, {})
        return spec.loss, spec.train_op

    def with_xla(features, labels):
        return compiled(tpu_models.make_model_fn(seen=seen), features, labels)

    def is_compiled(op):
        return "_xla_compile_id" in op.node_def.attr

    got, want = train(with_xla), train(plainly)
    assert {"MatMul", "ResourceApplyGradientDescent"} <= {op.type for op in got[2]}
    assert want[2] == []
    np.testing.assert_allclose(got[0], want[0], rtol=1e-9)
    contract.assert_same_values(got[1], want[1], 1e-9)
    assert got[1]["global_step:0"] == 3


# ---- the TPU system


def test_the_system_starts_after_the_variables_and_before_the_first_step(monkeypatch):
    events = []

    def event(name):
        def make_operation(job):
            graph = tf.get_default_graph()
            graphs[name] = graph
            return tf.py_func(lambda: events.append((name, job)) or np.int64(0), [], tf.int64)

        return make_operation

    graphs = {}
    monkeypatch.setattr(tf.tpu, "initialize_system", event("start"))
    monkeypatch.setattr(tf.tpu, "shutdown_system", event("shut down"))

    def noted(name, value):
        return tf.py_func(lambda: events.append(name) or np.float32(value), [], tf.float32)

    tf.Variable(tf.reshape(noted("variable", 1.0), []), name="v")
    step = noted("step", 0.0)
    graph = tf.get_default_graph()
    hook = tpu_training.SystemHook("worker", tf.ConfigProto())
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(step)
        session.run(step)
    assert events == ["variable", ("start", "worker"), "step", "step", ("shut down", "worker")]
    assert graphs["start"] is not graph  # That of the session is final by then.
    assert graphs["shut down"] is graph


def test_the_job_of_the_cores_is_the_one_that_starts(fresh_graph):
    for hook in make(tpu_models.make_model_fn()).training_hooks:
        if isinstance(hook, tpu_training.SystemHook):
            hook.begin()
    (shut_down,) = tpu_graphs.by_type(fresh_graph)["ShutdownDistributedTPU"]
    assert shut_down.device == "/job:worker/device:TPU_SYSTEM:0"


def test_local_cores_must_exist(monkeypatch, fresh_graph):
    available = ["/device:CPU:0", "/device:TPU:0", "/device:TPU:1"]
    monkeypatch.setattr("replicate.devices.local", lambda config=None: available)
    spec = make(tpu_models.make_model_fn(), devices=["/tpu:0", "TPU:1"])
    assert spec.training_hooks[0]._job is None
    (metadata,) = tpu_graphs.by_type(fresh_graph)["TPUReplicateMetadata"]
    assert metadata.get_attr("num_replicas") == 2
    with pytest.raises(ValueError, match=matching("must exist, but /device:TPU:2 does not")):
        replicate.replicate_model_fn(tpu_models.make_model_fn(), devices=["/tpu:2"])


def test_one_core(fresh_graph):
    make(tpu_models.make_model_fn(), devices=TPUS[:1])
    (metadata,) = tpu_graphs.by_type(fresh_graph)["TPUReplicateMetadata"]
    assert metadata.get_attr("num_replicas") == 1


# ---- what cannot be


MIXTURE = "`devices` must be all TPU cores or none…/device:TPU:0 is and /device:CPU:0 not. A m"
OWN = "TPU cores reduce gradients themselves, and keep variables on their host, but got…Leave them"


@pytest.mark.parametrize(
    ("kwargs", "phrases"),
    [
        ({"devices": ["/tpu:0", "/cpu:0"]}, MIXTURE),
        ({"devices": TPUS, "consolidation_device": "/cpu:0"}, OWN),
        ({"devices": TPUS, "variable_placement": "round_robin"}, OWN),
    ],
)
def test_arguments_that_do_not_go_with_tpus(kwargs, phrases):
    with pytest.raises(ValueError, match=matching(phrases)):
        replicate.replicate_model_fn(tpu_models.make_model_fn(), **kwargs)


DENSE = "A TPU takes dense tensors of numbers…features/x is…{}…`tf.sparse.to_dense`"
STATIC = "Batches for TPUs must have a static shape…features/x has {}…`drop_remainder=True`"
EQUAL = "TPU cores take shards of equal size…multiple of 4, but features/x has 6…`drop_remainder=Tr"


@pytest.mark.parametrize(
    ("x", "error", "phrases"),
    [
        (lambda: tf.sparse.from_dense(tf.ones([8, 1])), TypeError, DENSE.format("SparseTensor")),
        (
            lambda: tf.RaggedTensor.from_row_lengths(tf.ones([8]), [1] * 8),
            TypeError,
            DENSE.format("RaggedTensor"),
        ),
        (lambda: tf.constant(["a"] * 8), TypeError, DENSE.format("string")),
        (lambda: np.array(["a"] * 8), TypeError, DENSE.format("'a'")),
        (lambda: tf.placeholder(tf.float32, [None, 3]), ValueError, STATIC.format("(None, 3)")),
        (lambda: tf.placeholder(tf.float32), ValueError, STATIC.format("<unknown>")),
        (lambda: tf.ones([6, 3]), ValueError, EQUAL),
        (lambda: np.ones([6, 3]), ValueError, EQUAL),
    ],
    ids=["sparse", "ragged", "string", "strings", "rows", "rank", "divisible", "array"],
)
def test_batches_that_tpus_do_not_take(x, error, phrases):
    with pytest.raises(error, match=matching(phrases)):
        make(lambda features, labels, mode, params: pytest.fail("too late"), {"x": x()})


def test_other_batches_need_none_of_this(fresh_graph):
    # Also if the tensors of a batch have different rows, it is an error of all devices.
    with pytest.raises(ValueError, match="same number of rows"):
        make(tpu_models.make_model_fn(), {"x": tf.ones([8]), "y": tf.ones([4])})


KIND = "On TPUs `model_fn` must return an `EstimatorSpec` or a `TPUEstimatorSpec`, but returned…"
HELD = "The operations of a scaffold must be made outside…has one with saver…`scaffold_fn`"
SCALAR = (
    "The tensors of `host_call` are concatenated by rows…0 is the scalar…`tf.reshape(tensor, [1])`"
)
REFERENCE = (
    "Variables of a model on TPUs must be resource variables, but…`tf.enable_resource_variables"
)
ALONE = (
    "Every optimizer in a `model_fn` that runs on several TPU cores must be…'w:0'…TowerOptimizer"
)


def returning(make_fields, kind=tf.estimator.EstimatorSpec, wrap=replicate.TowerOptimizer):
    def model_fn(features, labels, mode, params):
        loss, train_op = weighted(features, wrap)
        return kind(mode, loss=loss, train_op=train_op, **make_fields(loss))

    return model_fn


@pytest.mark.parametrize(
    ("model_fn", "error", "phrases"),
    [
        (lambda features, labels, mode, params: "spec", TypeError, KIND + "'spec'"),
        (
            returning(lambda loss: {"scaffold": tf.train.Scaffold(saver=tf.train.Saver())}),
            ValueError,
            HELD,
        ),
        (
            returning(lambda loss: {"host_call": (lambda x: x, [loss])}, TPUEstimatorSpec),
            ValueError,
            SCALAR,
        ),
        (returning(lambda loss: {}, wrap=contract.plain), ValueError, ALONE),
    ],
    ids=["kind", "scaffold", "scalar", "unwrapped"],
)
def test_models_that_do_not_run_on_tpus(model_fn, error, phrases):
    with pytest.raises(error, match=matching(phrases)):
        make(model_fn)


def test_an_update_that_is_the_same_on_all_cores_needs_no_optimizer(fresh_graph):
    def model_fn(features, labels, mode, params):
        loss, train_op = weighted(features)
        (w,) = tf.trainable_variables()
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=tf.group(train_op, w.assign(w * 0.9))
        )

    make(model_fn)


def test_a_global_step_that_is_no_resource():
    with contextlib.ExitStack() as stack:
        stack.enter_context(tf.variable_scope("", use_resource=False))
        tf.get_variable(
            "global_step", [], tf.int64, tf.zeros_initializer(), trainable=False,
            collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP],
        )  # fmt: skip
        with pytest.raises(ValueError, match=matching(REFERENCE)):
            make(tpu_models.make_model_fn())


def test_without_tpus_their_rules_do_not_hold():
    # Uneven, on CPUs.
    features, labels = batch(5)
    make(tpu_models.make_model_fn(), features, labels, devices=DEVICES)
