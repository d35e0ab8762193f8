"""GPUs, without one: the devices of a graph for GPUs, and the options of its sessions.

TensorFlow is made to find GPUs; the graphs are built, and not run.
"""

import collections
import json
import socket
from types import SimpleNamespace

import pytest
import tensorflow.compat.v1 as tf

import programs
import replicate
from bodies import matching
from replicate import devices
from replicate.batch import sharding
from replicate.reduction import collectives

Physical = type(tf.config.experimental.list_physical_devices("CPU")[0])
Logical = collections.namedtuple("Logical", ["name", "device_type"])
WORKER = "/job:worker/task:1"


@pytest.fixture
def host(monkeypatch):
    """Function that makes TensorFlow find so many GPUs, and a CPU."""

    def find(num_gpus):
        kinds = ["CPU", *["GPU"] * num_gpus]
        found = [
            SimpleNamespace(device_type=kind, name=f"/physical_device:{kind}:{max(0, index - 1)}")
            for index, kind in enumerate(kinds)
        ]
        monkeypatch.setattr(
            tf.config.experimental, "list_physical_devices", lambda kind=None: found
        )

    return find


def model_fn(features, labels, mode):
    hidden = tf.layers.dense(features, 4, tf.nn.relu, name="hidden")
    hidden = tf.layers.batch_normalization(hidden, training=True)
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(hidden, 1, name="last"))
    optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(), reduction=REDUCTION[0])
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


REDUCTION = ["consolidation"]


def placed(names, config=None, **kwargs):
    """Builds a graph; returns the devices of what kinds of operations there are, sets by kind."""
    replicated = replicate.replicate_model_fn(model_fn, devices=names, **kwargs)
    replicated(tf.ones([5, 3]), tf.ones([5, 1]), "train", config=config)
    found = {}
    for op in tf.get_default_graph().get_operations():
        if op.type != "MatMul" or op.name.startswith("tower_"):  # The originals do not run.
            found.setdefault(op.type, set()).add(op.device)
            found.setdefault("all", set()).add(op.device)
        if op.type == "AddN" and op.name.startswith(collectives.SCOPE):
            found.setdefault("sums", set()).add(op.device)
        if op.name.startswith(sharding.SHARD_SCOPE):
            found.setdefault("shards", set()).add(op.device)
            takers = [taker for tensor in op.outputs for taker in tensor.consumers()]
            outside = [op for op in takers if not op.name.startswith(sharding.SHARD_SCOPE)]
            found.setdefault("takers", set()).update(op.device for op in outside)
    found["variables"] = {v.device for v in tf.trainable_variables()}
    return found


# Each names the GPUs 1 and 3.
FORMS = [
    ["/gpu:1", "/gpu:3"],
    ["GPU:1", "gpu:3"],
    ["/device:GPU:1", "/device:gpu:3"],
    ["/job:localhost/replica:0/task:0/device:GPU:1", "/job:localhost/task:0/gpu:3"],
    [tf.DeviceSpec(device_type="GPU", device_index=index) for index in (1, 3)],
    [Physical(f"/physical_device:GPU:{index}", "GPU") for index in (1, 3)],
    [Logical(f"/device:GPU:{index}", "GPU") for index in (1, 3)],
]
ONE, THREE, CPU = "/device:GPU:1", "/device:GPU:3", "/device:CPU:0"


@pytest.mark.parametrize("names", FORMS, ids=lambda names: str(names[0]))
def test_some_of_the_gpus_are_used_and_no_others(host, names):
    host(4)
    found = placed(names)
    assert found["MatMul"] == {ONE, THREE}
    assert found["variables"] == {ONE}
    assert found["sums"] == {ONE}  # Gradients are summed there,
    assert found["ResourceApplyAdam"] == {ONE}  # and applied.
    # Rows are split on the host. Operations that take a shard are on its tower's device.
    assert found["shards"] == {CPU} and found["takers"] == {ONE, THREE}
    assert found["all"] - {ONE, THREE} <= {"", CPU}


@pytest.mark.parametrize(
    ("kwargs", "reduction", "variables", "sums"),
    [
        ({"consolidation_device": "/gpu:3"}, "consolidation", {THREE}, {THREE}),
        ({"consolidation_device": "/cpu:0"}, "consolidation", {CPU}, {CPU}),
        ({"variable_placement": "round_robin"}, "consolidation", {ONE, THREE}, {ONE}),
        ({"variable_placement": "round_robin"}, "round_robin", {ONE, THREE}, {ONE, THREE}),
        # Towers need not be on the device of the sum.
        ({"consolidation_device": "/gpu:2"}, "consolidation", {"/device:GPU:2"}, {"/device:GPU:2"}),
    ],
)
def test_variables_and_sums_are_where_they_are_asked_to_be(
    host, monkeypatch, kwargs, reduction, variables, sums
):
    host(4)
    monkeypatch.setattr("test_gpus.REDUCTION", [reduction])
    found = placed(["/gpu:1", "/gpu:3"], **kwargs)
    assert found["MatMul"] == {ONE, THREE}
    assert found["variables"] == variables
    assert found["ResourceApplyAdam"] == variables
    assert found["sums"] == sums
    assert found["all"] <= {"", CPU, ONE, THREE, *variables}


def test_gpus_of_a_task_are_used_without_being_looked_for(host):
    host(0)
    found = placed([f"{WORKER}/gpu:0", f"{WORKER}/device:GPU:7"])
    want = {f"{WORKER}/device:GPU:0", f"{WORKER}/device:GPU:7"}
    assert found["MatMul"] == want
    assert found["all"] - want <= {"", f"{WORKER}/device:CPU:0", CPU}


@pytest.mark.parametrize("name", ["/GPU:*", "/device:GPU:*", "/gpu", WORKER])
def test_what_names_no_one_device(host, name):
    host(2)
    phrases = f"A device is named by its type and index, like '/gpu:0', but got {name!r}"
    for kwargs in ({"devices": [name]}, {"consolidation_device": name}):
        with pytest.raises(ValueError, match=matching(phrases)):
            replicate.replicate_model_fn(model_fn, **kwargs)


# Which GPUs a process sees.


@pytest.mark.parametrize(("visible", "count"), [("1", 1), ("2,0", 2)])
def test_gpus_are_numbered_among_those_that_are_visible(host, monkeypatch, visible, count):
    """TensorFlow lists the GPUs that CUDA shows, and numbers them from 0."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    host(count)
    assert devices.default(devices.local()) == [f"/device:GPU:{i}" for i in range(count)]
    phrases = "/device:GPU:2 does not. Those that do: /device:CPU:0, /device:GPU:0…Pass"
    with pytest.raises(ValueError, match=matching(phrases)):
        replicate.replicate_model_fn(model_fn, devices=["/gpu:0", "/gpu:2"])


VISIBLE = """
import os
import tensorflow.compat.v1 as tf
from replicate import __main__, devices
from replicate.bench import command

print(devices.local(), repr(os.environ["CUDA_VISIBLE_DEVICES"]))
try:
    __main__.report()
    command._devices(None)
except ValueError as error:
    print(str(error)[:40])
(cpu,) = tf.config.list_physical_devices("CPU")
half = tf.config.LogicalDeviceConfiguration()
tf.config.set_logical_device_configuration(cpu, [half, half])  # Refused once devices are made.
print(len(tf.config.list_logical_devices()))
"""


ALSO = [pytest.param(visible, marks=pytest.mark.thorough) for visible in ("", "-1", "1")]


@pytest.mark.parametrize("visible", ["2,0", *ALSO])
def test_whatever_is_visible_a_host_without_gpus_has_none_and_looking_starts_nothing(visible):
    done = programs.run("-c", VISIBLE, env={"CUDA_VISIBLE_DEVICES": visible})
    assert done.stdout.splitlines() == [
        f"['/device:CPU:0'] {visible!r}",
        "Without `--devices`, every GPU is used, ",
        "2",
    ], done.stderr


# Options of sessions for GPUs.

OPTIONS = {
    "allow_growth": True,
    "per_process_gpu_memory_fraction": 0.25,
    "visible_device_list": "2,0",
}


def test_options_of_gpus_are_kept(host):
    host(3)
    options = tf.GPUOptions(**OPTIONS)
    config = replicate.session_config(["/gpu:0", "/gpu:1"], gpu_options=options)
    assert config.gpu_options == options
    run_config = tf.estimator.RunConfig(session_config=config)
    before = config.SerializeToString(deterministic=True)
    found = placed(["/gpu:0", "/gpu:1"], run_config)
    assert found["MatMul"] == {"/device:GPU:0", "/device:GPU:1"}
    assert run_config.session_config.SerializeToString(deterministic=True) == before


def test_towers_are_on_the_gpus_that_sessions_see(host):
    """A session numbers the GPUs of its `visible_device_list` from 0."""
    host(3)
    config = replicate.session_config(["/gpu:0"], gpu_options=tf.GPUOptions(**OPTIONS))
    run_config = tf.estimator.RunConfig(session_config=config)
    assert placed(None, run_config)["MatMul"] == {"/device:GPU:0", "/device:GPU:1"}
    phrases = "/device:GPU:2 does not. Those that do: /device:CPU:0, /device:GPU:0, /device:GPU:1."
    with pytest.raises(ValueError, match=matching(phrases)):
        placed(["/gpu:1", "/gpu:2"], run_config)


SERVER = """
import tensorflow.compat.v1 as tf
import replicate
from replicate.compat import servers

servers.install()  # It brings the Estimator back where it is gone.
from tensorflow_estimator.python.estimator import training

options = tf.GPUOptions(
    allow_growth=True, per_process_gpu_memory_fraction=0.25, visible_device_list="2,0")
sessions = replicate.session_config(["/cpu:0"], gpu_options=options)
config = replicate.estimator.RunConfig(session_config=sessions)
server = training._TrainingExecutor._start_std_server(None, config)
assert server.server_def.default_session_config.gpu_options == options
print("kept")
"""


def test_servers_of_clusters_keep_the_options_of_gpus():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    cluster = {"ps": ["localhost:1"], "chief": [address]}
    task = {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    done = programs.run("-c", SERVER, env={"TF_CONFIG": json.dumps(task)})
    assert done.stdout.split() == ["kept"], done.stderr
