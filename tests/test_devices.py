"""Names of devices, which there are, and that looking does not start them."""

from types import SimpleNamespace

import pytest
import tensorflow.compat.v1 as tf

import programs
import replicate
import selection
from bodies import matching
from replicate import devices


@pytest.mark.parametrize(
    ("device", "want"),
    [
        ("/cpu:0", "/device:CPU:0"),
        ("cpu:1", "/device:CPU:1"),
        ("GPU:3", "/device:GPU:3"),
        ("/gpu:10", "/device:GPU:10"),
        ("/device:gpu:2", "/device:GPU:2"),
        ("/physical_device:GPU:1", "/device:GPU:1"),
        ("/job:worker/task:1/gpu:0", "/job:worker/task:1/device:GPU:0"),
        ("/job:worker/replica:0/task:1/device:CPU:0",) * 2,
        (tf.DeviceSpec(device_type="gpu", device_index=1), "/device:GPU:1"),
        (SimpleNamespace(name="/device:CPU:0", device_type="CPU"), "/device:CPU:0"),
        (SimpleNamespace(name="/physical_device:CPU:0"), "/device:CPU:0"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_canonical(device, want):
    assert devices.canonical(device) == want
    assert devices.canonical(want) == want


@pytest.mark.parametrize(
    "device", ["", "/cpu", "/gpu:*", "gpu0", "/cpu:a", 0, None, 1.5, ["/cpu:0"]]
)
def test_what_names_no_device(device):
    phrases = f"A device is named by its type and index, like '/gpu:0', but got {device!r}"
    with pytest.raises(ValueError, match=matching(phrases)):
        devices.canonical(device)


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda names: (name for name in names)])
def test_canonical_list_takes_what_can_be_iterated(kind):
    assert devices.canonical_list(kind(["/cpu:0", "/gpu:1"])) == ["/device:CPU:0", "/device:GPU:1"]


def _host(monkeypatch, **counts):
    """Makes TensorFlow find these devices."""
    found = [
        SimpleNamespace(device_type=kind, name=f"/physical_device:{kind}:{index}")
        for kind, count in counts.items()
        for index in range(count)
    ]
    monkeypatch.setattr(tf.config.experimental, "list_physical_devices", lambda kind=None: found)


CPU, GPU = ["/device:CPU:0"], ["/device:GPU:0", "/device:GPU:1"]


@pytest.mark.parametrize(
    ("host", "config", "want"),
    [
        ({"CPU": 1}, None, CPU),
        ({"CPU": 1}, tf.ConfigProto(), CPU),
        ({"CPU": 1}, tf.ConfigProto(device_count={"CPU": 2}), [*CPU, "/device:CPU:1"]),
        ({"CPU": 1, "GPU": 2}, None, CPU + GPU),
        ({"CPU": 1, "GPU": 2}, tf.ConfigProto(device_count={"GPU": 1}), CPU + GPU[:1]),
        ({"CPU": 1, "GPU": 2}, tf.ConfigProto(device_count={"GPU": 0}), CPU),
        ({"CPU": 1, "GPU": 2}, tf.ConfigProto(device_count={"GPU": 8}), CPU + GPU),
        (
            {"CPU": 1, "GPU": 2},
            tf.ConfigProto(gpu_options=tf.GPUOptions(visible_device_list="1")),
            CPU + GPU[:1],
        ),
        ({"CPU": 1, "TPU": 1}, None, [*CPU, "/device:TPU:0"]),
    ],
)
def test_local(monkeypatch, host, config, want):
    _host(monkeypatch, **host)
    assert devices.local(config) == want


@pytest.mark.parametrize(
    ("available", "want"),
    [(CPU, CPU), (CPU + GPU, GPU), ([*CPU, "/device:CPU:1"], [*CPU, "/device:CPU:1"])],
)
def test_default_is_every_gpu_else_every_cpu(available, want):
    assert devices.default(available) == want


def test_towers_run_on_every_gpu_by_default(monkeypatch):
    _host(monkeypatch, CPU=1, GPU=2)
    seen = []

    def model_fn(features, mode):
        seen.append((tf.no_op().device, tf.get_variable("w", []).device))
        return tf.estimator.EstimatorSpec(mode, predictions=tf.exp(features))

    replicate.replicate_model_fn(model_fn)(tf.ones([4]), None, tf.estimator.ModeKeys.PREDICT)
    assert seen == [(GPU[0], GPU[0])]
    operations = tf.get_default_graph().get_operations()
    copies = [op for op in operations if op.type == "Exp" and op.name.startswith("tower_")]
    assert [op.device for op in copies] == [GPU[0], GPU[1]]


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ({"CPU": 1}, ["replicate: no GPU was found, and `devices` names none, so /device:CPU:0"]),
        ({"CPU": 1, "GPU": 1}, []),
    ],
)
def test_one_device_for_want_of_a_gpu_is_logged(host, told, monkeypatch):
    _host(monkeypatch, **host)
    logged = []
    monkeypatch.setattr(
        tf.logging, "info", lambda message, *values: logged.append(message % values)
    )

    def model_fn(features, mode):
        return tf.estimator.EstimatorSpec(mode, predictions=tf.exp(features))

    replicate.replicate_model_fn(model_fn)(tf.ones([4]), None, tf.estimator.ModeKeys.PREDICT)
    found = [message for message in logged if "no GPU" in message]
    assert found == [f"{start} computes all." for start in told]


@pytest.mark.parametrize(
    ("names", "config", "cpus_known"),
    [
        (["/device:GPU:1", "/device:CPU:0"], None, True),
        (["/device:CPU:7"], None, False),
        (["/device:CPU:7"], tf.ConfigProto(device_count={"CPU": 8}), True),
        (["/job:worker/task:3/device:GPU:9"], None, True),
    ],
)
def test_devices_that_exist(monkeypatch, names, config, cpus_known):
    _host(monkeypatch, CPU=1, GPU=2)
    devices.check_exist(names, config, cpus_known)


@pytest.mark.parametrize(
    ("names", "config", "cpus_known", "phrases"),
    [
        (["/device:GPU:2"], None, False, "GPU:2 does not…CPU:0, /device:GPU:0, /device:GPU:1…Pass"),
        (["/device:CPU:1"], None, True, "CPU:1 does not…CPU:0…replicate.session_config(devices)"),
        (
            GPU,
            tf.ConfigProto(device_count={"GPU": 1}),
            True,
            "GPU:1 does not…CPU:0, /device:GPU:0.",
        ),
    ],
)
def test_devices_that_do_not_exist(monkeypatch, names, config, cpus_known, phrases):
    _host(monkeypatch, CPU=1, GPU=2)
    phrases = f"`devices` must exist, but…{phrases}"
    with pytest.raises(ValueError, match=matching(phrases)):
        devices.check_exist(names, config, cpus_known)


# Session configurations.


@pytest.mark.parametrize(
    ("names", "cpus"),
    [(None, 1), (["/cpu:0"], 1), (["/cpu:0", "/cpu:1"], 2), (["/cpu:3"], 4), (["/gpu:1"], 1)],
)
def test_session_config_makes_the_devices_exist(monkeypatch, names, cpus):
    _host(monkeypatch, CPU=1, GPU=2)
    config = replicate.session_config(names)
    assert dict(config.device_count) == {"CPU": cpus}
    assert config.allow_soft_placement
    devices.check_exist(devices.canonical_list(names or GPU), config)


def test_sessions_have_the_devices():
    with tf.Session(config=replicate.session_config(["/cpu:0", "/cpu:2"])) as session:
        kinds = [device.device_type for device in session.list_devices()]
    assert kinds.count("CPU") == 3


def test_session_config_is_the_estimators_default_besides():
    config = replicate.session_config(["/cpu:0"])
    want = tf.ConfigProto(allow_soft_placement=True, device_count={"CPU": 1})
    want.graph_options.rewrite_options.meta_optimizer_iterations = 1
    assert config == want


def rewriting(*names, **kwargs):
    """Returns the options of `session_config` for the graph optimizer."""
    return replicate.session_config(names, **kwargs).graph_options.rewrite_options


def test_towers_on_cpus_go_without_the_graph_optimizer(monkeypatch):
    options = rewriting("/cpu:0", "/cpu:1")
    # Other options keep their defaults.
    assert sorted(field.name for field, _ in options.ListFields()) == [
        "disable_meta_optimizer",
        "meta_optimizer_iterations",
    ]
    given = tf.ConfigProto().graph_options
    assert not rewriting("/cpu:0", "/cpu:1", graph_options=given).disable_meta_optimizer
    given.rewrite_options.layout_optimizer = given.rewrite_options.ON
    options = rewriting("/cpu:0", "/cpu:1", graph_options=given)
    assert (options.layout_optimizer, options.disable_meta_optimizer) == (options.ON, False)
    _host(monkeypatch, CPU=1, GPU=2)
    for names in (["/gpu:0", "/gpu:1"], ["/cpu:0", "/cpu:1", "/gpu:0"], ["/cpu:0"]):
        assert not rewriting(*names).disable_meta_optimizer


@pytest.mark.parametrize(("cores", "cpus", "threads"), [(8, 2, 4), (8, 3, 2), (2, 8, 1), (8, 1, 0)])
def test_logical_cpus_share_the_cores(cores, cpus, threads, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    config = replicate.session_config([f"/cpu:{index}" for index in range(cpus)])
    assert config.intra_op_parallelism_threads == threads  # 0 leaves it to TensorFlow.


def test_fields_given_have_precedence():
    config = replicate.session_config(
        ["/cpu:0", "/cpu:1"],
        intra_op_parallelism_threads=3,
        allow_soft_placement=False,
        device_count={"CPU": 5},
        gpu_options=tf.GPUOptions(allow_growth=True),
    )
    assert config.intra_op_parallelism_threads == 3
    assert not config.allow_soft_placement
    assert config.device_count["CPU"] == 5
    assert config.gpu_options.allow_growth
    assert config.graph_options.rewrite_options.meta_optimizer_iterations == 1


def test_what_users_have_set_is_kept():
    base = tf.ConfigProto(
        device_count={"CPU": 1, "GPU": 0},
        intra_op_parallelism_threads=3,
        gpu_options=tf.GPUOptions(allow_growth=True),
        device_filters=["/job:ps"],
    )
    base.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    before = base.SerializeToString()
    config = replicate.session_config(["/cpu:0", "/cpu:1"], base)
    assert base.SerializeToString() == before
    assert dict(config.device_count) == {"CPU": 2, "GPU": 0}
    assert config.intra_op_parallelism_threads == 3
    assert config.gpu_options.allow_growth and config.allow_soft_placement
    assert list(config.device_filters) == ["/job:ps"]
    assert config.graph_options.optimizer_options.global_jit_level == tf.OptimizerOptions.ON_1
    assert config.graph_options.rewrite_options.disable_meta_optimizer

    base.graph_options.rewrite_options.layout_optimizer = 1
    options = replicate.session_config(["/cpu:0", "/cpu:1"], base).graph_options.rewrite_options
    assert options.layout_optimizer == 1 and not options.disable_meta_optimizer
    # Keyword arguments take precedence.
    config = replicate.session_config(["/cpu:0"], base, intra_op_parallelism_threads=0)
    assert config.intra_op_parallelism_threads == 0


BASE = "`base` must be a `tf.ConfigProto`, or None, but is …'a'…. Pass the one that…without towers."


def test_a_base_is_a_configuration():
    with pytest.raises(TypeError, match=matching(BASE)):
        replicate.session_config(["/cpu:0"], {"a": 1})


# A process has one set of threads for its kernels, made with its first device. In an Estimator that
# is not the session's, so the number must be the process's.
THREADS = """
import os
os.cpu_count = lambda: 2
import tensorflow.compat.v1 as tf
import replicate

{before}
config = replicate.session_config(["/cpu:0", "/cpu:1"])
print(tf.config.threading.get_intra_op_parallelism_threads())
"""


@pytest.mark.parametrize(
    ("before", "threads"),
    [
        ("", 1),
        selection.cell(
            "tf.config.threading.set_intra_op_parallelism_threads(2)", 2, is_quick=False
        ),
        ("tf.config.experimental.list_logical_devices()", 0),
        selection.cell(
            "replicate.session_config(intra_op_parallelism_threads=3)", 3, is_quick=False
        ),
    ],
    ids=["default", "already-chosen", "devices-made", "given"],
)
def test_the_cores_are_shared_in_estimators_too(before, threads):
    done = programs.run("-c", THREADS.format(before=before))
    assert done.stdout.split() == [str(threads)], done.stderr


# TensorFlow refuses to change how devices are made once they are: sound, and public.
LISTING = """
import tensorflow.compat.v1 as tf
import replicate
from replicate import devices

replicate.session_config(["/cpu:0", "/cpu:1"])
devices.local(), devices.default(devices.local())
replicated = replicate.replicate_model_fn(
    lambda features, mode: replicate.estimator.EstimatorSpec(mode, predictions=features),
    devices=["/cpu:0", "/cpu:1"],
)
with tf.Graph().as_default():
    replicated(tf.ones([2]), None, replicate.estimator.ModeKeys.PREDICT)
    replicate.replicate_model_fn(replicated)(tf.ones([2]), None, "infer")
"""
SPLIT = """
(cpu,) = tf.config.experimental.list_physical_devices("CPU")
half = tf.config.experimental.VirtualDeviceConfiguration()
tf.config.experimental.set_virtual_device_configuration(cpu, [half, half])
"""


@pytest.mark.parametrize(
    ("script", "starts"),
    [
        pytest.param(LISTING, False, id="listing"),
        pytest.param(
            LISTING + "tf.config.experimental.list_logical_devices()",
            True,
            id="control",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_listing_devices_does_not_start_them(script, starts):
    done = programs.run("-c", script + SPLIT)
    refused = "cannot be modified after being initialized" in done.stderr
    assert (done.returncode != 0) == refused == starts, done.stderr
