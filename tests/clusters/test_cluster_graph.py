"""Where the graph of a worker places what it is made of."""

import collections
import json
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import programs
import replicate
from bodies import matching
from replicate import devices as devices_lib
from replicate import estimator
from replicate.clusters import cluster

_CLUSTER = {
    "chief": ["a.test:1"],
    "worker": ["b.test:1", "c.test:1"],
    "ps": ["d.test:1", "e.test:1"],
}
_DEVICES = ["/cpu:0", "/cpu:1"]
ACCUMULATES = (
    "Each worker of a cluster accumulates its gradients separately, but without …/job:ps/"
    "…Replicate the `model_fn`"
)
NESTED = (
    "Gradients must be summed over towers before they are summed over workers, because …"
    "a `SyncReplicasOptimizer` wraps a `TowerOptimizer`…Write `replicate.TowerOptimizer(tf."
)
NO_GRADIENTS = "A hook for synchronous training runs operations of `apply_gradients`…Call it in"
NO_VALUES = "Variables must have values before workers train together…global_step, w…GLOBAL_"


def model_fn(features, labels, mode, params):
    """Weights with slots, batch norm, a metric in training."""
    hidden = tf.layers.dense(features, 8)
    hidden = tf.layers.batch_normalization(hidden, training=True)
    with tf.variable_scope("own"), tf.device("/cpu:3"):
        own = tf.get_local_variable("seen", [], initializer=tf.zeros_initializer())
    losses = tf.squared_difference(tf.layers.dense(hidden, 1), labels)
    _, update = tf.metrics.mean(losses)
    loss = tf.reduce_mean(losses)
    optimizer = replicate.TowerOptimizer(
        tf.train.AdamOptimizer(0.1), **{"loss_scale": "dynamic", **params}
    )
    with tf.control_dependencies([*tf.get_collection(tf.GraphKeys.UPDATE_OPS), update]):
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, own.assign_add(1)))


@pytest.fixture
def in_cluster(monkeypatch):
    """Returns a function that makes this process a task of the cluster."""

    def become(job="worker", index=1):
        task = {"type": job, "index": index}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": _CLUSTER, "task": task}))
        return estimator.RunConfig("unused", session_config=replicate.session_config(_DEVICES))

    return become


def built(config, devices=_DEVICES, params=None, **kwargs):
    """Builds the graph as an Estimator does; returns the spec."""
    replicated = replicate.replicate_model_fn(model_fn, devices=devices, **kwargs)
    task = f"/job:{config.task_type}/task:{config.task_id}"
    setter = tf.train.replica_device_setter(worker_device=task, cluster=config.cluster_spec)
    with tf.device(setter):
        tf.train.get_or_create_global_step()
        rows = np.ones([5, 3], np.float32), [[1.0]] * 5
        with tf.device("/cpu:0"):
            features, labels = tf.data.make_one_shot_iterator(
                tf.data.Dataset.from_tensors(rows)
            ).get_next()
        return replicated(features, labels, "train", params or {}, config)


def jobs(variables):
    return {tf.DeviceSpec.from_string(v.device).job for v in variables}


def canonical(device):
    spec = tf.DeviceSpec.from_string(device)
    return f"/job:{spec.job}/task:{spec.task}/device:{spec.device_type}:{spec.device_index}"


def test_variables_of_the_model_are_on_parameter_servers(in_cluster):
    built(in_cluster())
    made = [v for v in tf.global_variables() if v is not tf.train.get_global_step()]
    names = {v.op.name: canonical(v.device) for v in made}
    assert set(names.values()) == {f"/job:ps/task:{i}/device:CPU:0" for i in (0, 1)}
    # Slots are where their variables are; batch norm's statistics are variables of the model.
    assert names["dense/kernel/Adam"] == names["dense/kernel"]
    assert "batch_normalization/moving_mean" in names and "current_loss_scale" in names


def test_variables_of_a_step_are_with_the_worker(in_cluster):
    built(in_cluster())
    local = {v.op.name: canonical(v.device) for v in tf.local_variables()}
    # A loss scale's check and metrics are made once: no part of a step is on a server.
    assert {device.partition("/device")[0] for device in local.values()} <= {"/job:worker/task:1"}


def test_accumulators_are_with_the_worker(in_cluster):
    built(in_cluster(), params={"accumulate_steps": 2, "loss_scale": None})
    held = [v for v in tf.local_variables() if "accumulated" in v.name]
    assert {canonical(v.device) for v in held} == {"/job:worker/task:1/device:CPU:0"}


def test_batches_that_wait_are_with_their_towers(in_cluster):
    built(in_cluster(), prefetch_to_devices=True)
    staged = [v for v in tf.local_variables() if v.op.name.startswith("replicate/prefetch/")]
    found = collections.Counter(canonical(v.device) for v in staged)
    # Features and labels of each; on the host those of the batch, and whether there is one.
    assert found == {"/job:worker/task:1/device:CPU:0": 5, "/job:worker/task:1/device:CPU:1": 2}
    jobs_of_prefetching = {
        tf.DeviceSpec.from_string(op.device).job
        for op in tf.get_default_graph().get_operations()
        if op.name.startswith("replicate/prefetch/") and "/Initializer/" not in op.name
    }
    assert jobs_of_prefetching == {"worker"}


def test_towers_compute_on_the_worker(in_cluster):
    built(in_cluster())
    operations = tf.get_default_graph().get_operations()
    products = {
        op.name.split("/")[0]: canonical(op.device) for op in operations if op.type == "MatMul"
    }
    assert products["tower_1"] == "/job:worker/task:1/device:CPU:1"
    assert products["dense"] == "/job:worker/task:1/device:CPU:0"
    # Parameter servers compute nothing but updates.
    on_ps = {op.type for op in operations if "/job:ps" in op.device}
    assert not {kind for kind in on_ps if kind in ("MatMul", "AddN", "Mean", "Sum", "ConcatV2")}
    summed = [op for op in operations if op.type == "AddN"]
    assert summed and {canonical(op.device) for op in summed} <= {
        f"/job:worker/task:1/device:CPU:{index}" for index in (0, 1)
    }


def test_with_towers_on_gpus_variables_are_on_cpus_of_servers(in_cluster, monkeypatch):
    config, gpus = in_cluster(), ["/device:GPU:0", "/device:GPU:1"]
    monkeypatch.setattr(devices_lib, "local", lambda config=None: ["/device:CPU:0", *gpus])
    built(config, gpus)
    made = [v for v in tf.global_variables() if v is not tf.train.get_global_step()]
    assert {canonical(v.device).partition("/device:")[2] for v in made} == {"CPU:0"}
    assert jobs(made) == {"ps"}
    products = [op for op in tf.get_default_graph().get_operations() if op.type == "MatMul"]
    assert {canonical(op.device) for op in products} == {
        f"/job:worker/task:1/device:GPU:{index}" for index in (0, 1)
    }


def test_the_chief_has_its_own_devices(in_cluster):
    built(in_cluster("chief", 0))
    assert jobs(tf.local_variables()) == {"chief"}
    assert jobs(tf.global_variables()) == {"ps"}


def test_without_a_cluster_devices_name_no_job():
    config = estimator.RunConfig("unused", session_config=replicate.session_config(_DEVICES))
    replicated = replicate.replicate_model_fn(model_fn, devices=_DEVICES)
    features, labels = tf.constant(np.ones([5, 3], np.float32)), tf.constant([[1.0]] * 5)
    replicated(features, labels, "train", {}, config)
    variables = [*tf.global_variables(), *tf.local_variables()]
    assert jobs(v for v in variables if v.op.name != "global_step") == {None}


BAD_PLACES = {
    "device": (
        {"devices": ["/cpu:0", "/job:worker/task:1/cpu:1"]},
        "In a cluster, the towers of a worker are on the worker's own devices, so `devices` and "
        "`consolidation_device` must not name a job, but …/job:worker…Pass e.g. '/gpu:0'",
    ),
    "consolidation": (
        {"consolidation_device": "/job:ps/task:0/cpu:0"},
        "In a cluster, the towers of a worker are on the worker's own devices, so `devices` and "
        "`consolidation_device` must not name a job, but …/job:ps…Pass e.g. '/gpu:0'",
    ),
    "placement": (
        {"variable_placement": "round_robin"},
        "In a cluster, variables are on its parameter servers, but got `variable_placement` "
        "…'round_robin'…Leave it out",
    ),
}


@pytest.mark.parametrize(("arguments", "text"), BAD_PLACES.values(), ids=list(BAD_PLACES))
def test_what_cannot_be_placed_in_a_cluster(in_cluster, arguments, text):
    with pytest.raises(ValueError, match=matching(text)):
        built(in_cluster(), **arguments)


def test_accumulation_without_towers_is_refused(in_cluster):
    config, params = in_cluster(), {"accumulate_steps": 2, "loss_scale": None}
    with pytest.raises(ValueError, match=matching(ACCUMULATES)):
        task = f"/job:{config.task_type}/task:{config.task_id}"
        setter = tf.train.replica_device_setter(worker_device=task, cluster=config.cluster_spec)
        with tf.device(setter):
            model_fn(tf.ones([5, 3]), tf.ones([5, 1]), "train", params)


def test_the_inverse_nesting_is_refused():
    variable = tf.get_variable("w", [3])
    optimizer = tf.train.SyncReplicasOptimizer(
        replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1)), 2, 2
    )
    loss = tf.reduce_sum(variable**2)
    with pytest.raises(ValueError, match=matching(NESTED)):
        optimizer.minimize(loss, tf.train.get_or_create_global_step())
    sparse = tf.reduce_sum(tf.gather(variable, [1]))
    with pytest.raises(ValueError, match=matching(NESTED)):
        optimizer.minimize(sparse, tf.train.get_or_create_global_step())


def test_the_hook_of_synchronous_training_needs_gradients():
    sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2, 2)
    hook = replicate.TowerOptimizer(sync).make_session_run_hook(is_chief=True)
    with pytest.raises(ValueError, match=matching(NO_GRADIENTS)):
        hook.begin()


def test_the_hook_of_synchronous_training_needs_values():
    sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1, 1)
    optimizer = replicate.TowerOptimizer(sync)
    loss = tf.reduce_sum(tf.get_variable("w", [3]) ** 2)
    optimizer.minimize(loss, tf.train.get_or_create_global_step())
    hook = optimizer.make_session_run_hook(is_chief=False)
    hook.begin()
    with tf.Session() as session, pytest.raises(RuntimeError, match=matching(NO_VALUES)):
        hook.after_create_session(session, tf.train.Coordinator())


def test_an_optimizer_without_a_hook_has_none():
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
    with pytest.raises(AttributeError, match="make_session_run_hook"):
        optimizer.make_session_run_hook(is_chief=True)


@pytest.mark.parametrize(
    ("job", "index", "filters"),
    [
        ("chief", 0, ["/job:ps", "/job:chief"]),
        ("worker", 1, ["/job:ps", "/job:worker/task:1"]),
        ("ps", 0, []),
        ("evaluator", 0, []),
    ],
)
def test_sessions_wait_for_parameter_servers_alone(in_cluster, job, index, filters):
    assert list(in_cluster(job, index).session_config.device_filters) == filters


@pytest.mark.parametrize(
    ("job", "index", "jobs", "expected"),
    [
        ("chief", 0, ("chief", "worker"), True),
        ("worker", 0, ("chief", "worker"), False),
        ("worker", 0, ("worker",), True),
        ("worker", 1, ("worker",), False),
    ],
)
def test_who_saves_where_a_strategy_trains(monkeypatch, job, index, jobs, expected):
    """There, the `RunConfig` of every worker says that it is the chief."""
    config = types.SimpleNamespace(is_chief=True)
    environment = {"cluster": {name: ["a.test:1"] * 2 for name in jobs}}
    environment["task"] = {"type": job, "index": index}
    monkeypatch.setenv("TF_CONFIG", json.dumps(environment))
    assert cluster.is_chief(config) == expected
    monkeypatch.delenv("TF_CONFIG")
    assert cluster.is_chief(config)
    config.is_chief = False
    assert not cluster.is_chief(config)


@pytest.mark.parametrize("text", ["", "{}", "nonsense", "[1]", '{"task": {"index": "x"}}'])
def test_other_settings_of_the_environment_are_left_to_the_estimator(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    assert not replicate.session_config(_DEVICES).device_filters


def test_a_server_has_the_devices_of_its_sessions():
    code = """
import json, os
import tensorflow.compat.v1 as tf
import replicate
from replicate import estimator
cluster = {"chief": ["127.0.0.1:0"], "ps": ["127.0.0.1:1"]}
os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})
devices = ["/cpu:0", "/cpu:1", "/cpu:2"]
config = estimator.RunConfig("unused", session_config=replicate.session_config(devices))
replicate.replicate_model_fn(lambda features, labels, mode: None, devices=devices)
from tensorflow_estimator.python.estimator import training
server = training._TrainingExecutor._start_std_server(None, config)
filters = tf.ConfigProto(device_filters=["/job:chief"])
with tf.Session(server.target, config=filters) as session:
    print(*(device.name for device in session.list_devices() if device.device_type == "CPU"))
os._exit(0)
"""
    result = programs.run("-u", "-c", code)
    assert result.stdout.split() == [
        f"/job:chief/replica:0/task:0/device:CPU:{index}" for index in range(3)
    ], result.stderr
