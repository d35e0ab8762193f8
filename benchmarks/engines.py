"""Trains one case with one engine in this process and prints its figures as one JSON line.

An *engine* is a way to train an Estimator: `single` (one device, whole batch), `mirrored` and
`central` (tf.distribute's MirroredStrategy and CentralStorageStrategy) and `replicate`. Each runs
as its own process, started by `towers.py`, because thread pools, the allocator and the peak of
resident memory belong to the process.
"""

import collections
import json
import platform
import re
import resource
import sys
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks import cases
from benchmarks.towers import Case


def _adam():
    # The usual epsilon, 1e-8, makes Adam's step independent of the gradient's scale: a gradient N
    # times too large would leave the same losses. With this one the first losses tell.
    return tf.train.AdamOptimizer(learning_rate=1e-2, epsilon=1e-2)


def _run_config(devices, strategy=None):
    """Returns a `RunConfig` that saves and logs nothing, so that steps hold training only.

    The session's configuration is the same on all engines: the Estimator's own default, plus the
    logical devices.
    """
    session_config = tf.ConfigProto(
        allow_soft_placement=True, device_count={"CPU": 1 + max(map(_index, devices))}
    )
    session_config.graph_options.rewrite_options.meta_optimizer_iterations = 1
    return cases.estimator_api().RunConfig(
        tf_random_seed=cases.SEED,
        session_config=session_config,
        train_distribute=strategy,
        save_summary_steps=None,
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        log_step_count_steps=None,
    )


def _index(device):
    return int(device.rsplit(":", 1)[1])


def _single(case, devices):
    del devices
    config = _run_config(["/cpu:0"])
    return cases.make_model_fn(case, _adam), config, 1


def _distributed(case, devices, make_strategy):
    # A strategy looks its devices up in the eager runtime, a session makes its own: both need N.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration() for _ in devices],
    )
    strategy = make_strategy(devices)
    if strategy.num_replicas_in_sync != case.towers:
        raise RuntimeError(
            f"A strategy must hold one replica per tower, {case.towers} of them, but "
            f"{type(strategy).__name__} holds {strategy.num_replicas_in_sync}. Check that "
            f"{devices} are distinct logical devices."
        )
    config = _run_config(devices, strategy)
    return cases.make_model_fn(case, _adam), config, case.towers


def _mirrored(case, devices):
    return _distributed(case, devices, lambda names: tf.distribute.MirroredStrategy(names))


def _central(case, devices):
    return _distributed(
        case,
        devices,
        lambda names: tf.distribute.experimental.CentralStorageStrategy(
            names, parameter_device=names[0]
        ),
    )


def _replicate(case, devices):
    import replicate  # only this engine pays for, and needs, the library

    build = cases.make_model_fn(case, lambda: replicate.TowerOptimizer(_adam()))
    called = []  # When each tower began, and thus when the one before it met its optimizer.

    def noting_model_fn(features, labels, mode):
        called.append(time.perf_counter())
        return build(features, labels, mode)

    model_fn = replicate.replicate_model_fn(noting_model_fn, devices=devices)
    model_fn.called = called
    config = _run_config(devices)
    # What the README tells users to pass; it divides the cores among the towers.
    return model_fn, config.replace(session_config=replicate.session_config(devices)), 1


# engine -> function of (case, devices) that returns (model_fn, RunConfig, elements per batch)
ENGINES = {"single": _single, "mirrored": _mirrored, "central": _central, "replicate": _replicate}


class StepTimer(tf.train.SessionRunHook):
    """Times steps, keeps every loss, and traces which devices compute in one last, untimed step.

    Attributes:
        began: `time.perf_counter()` seconds when the graph of the training loop was complete.
        ops_at_begin: Ops in the graph then, before savers and initialisers are added.
        ops_in_session: Ops in the graph that the session got.
        ended: `time.perf_counter()` seconds at the end of each step.
        cpu: `time.process_time()` seconds, of all threads, at the end of each step.
        losses: The loss that the engine reports, per step, dimensionless.
        peak_rss_mb: Peak resident memory of this process after the last timed step, in MiB.
        kernels: Device name -> number of matrix products and convolutions in the traced step.
    """

    def __init__(self, timed_steps):
        """Makes a hook for `timed_steps` steps, warm-up included, and a traced one after them."""
        self._timed_steps = timed_steps
        self.began = self.ops_at_begin = self.ops_in_session = self.peak_rss_mb = None
        self.ended, self.cpu, self.losses = [], [], []
        self.kernels = collections.Counter()

    def begin(self):
        """Ends the time of graph construction."""
        self.began = time.perf_counter()
        self.ops_at_begin = len(tf.get_default_graph().get_operations())
        # Estimator adds the loss of the whole batch last, on every engine, and fetches it anyway.
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

    def after_create_session(self, session, coord):
        """Counts the ops of the finished graph."""
        self.ops_in_session = len(session.graph.get_operations())

    def before_run(self, run_context):
        """Asks for the loss, and after the timed steps for a trace."""
        options = None
        if len(self.ended) == self._timed_steps:
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        return tf.train.SessionRunArgs(self._loss, options=options)

    def after_run(self, run_context, run_values):
        """Ends the time of a step."""
        self.ended.append(time.perf_counter())
        self.cpu.append(time.process_time())
        self.losses.append(float(run_values.results))
        if len(self.ended) == self._timed_steps:
            # Linux counts in KiB, macOS in bytes. Taken here because tracing needs memory too.
            unit = 1 if sys.platform == "darwin" else 1024
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self.peak_rss_mb = peak * unit / 2**20
        for device in run_values.run_metadata.step_stats.dev_stats:
            for node in device.node_stats:
                if re.search(r"= \w*(MatMul|Conv2D)\w*\(", node.timeline_label):
                    self.kernels[device.device] += 1


def _check_devices(engine, case, kernels):
    """Raises a `RuntimeError` unless `kernels`, counts per device, are equal on all N devices."""
    devices = 1 if engine == "single" else case.towers
    if len(kernels) != devices or len(set(kernels.values())) != 1:
        raise RuntimeError(
            f"An engine must compute equally on each of its devices, here {devices}, but "
            f"`{engine}` ran these numbers of matrix products and convolutions: {dict(kernels)}. "
            "Check the devices given to it in `benchmarks/engines.py`."
        )


def measure(case, engine, warmup, steps):
    """Trains `case` with `engine` and returns its figures.

    Args:
        case: The `Case` to train.
        engine: A key of `ENGINES`.
        warmup: Steps before the first timed one, at least 1.
        steps: Number of timed steps.

    Returns:
        A dict ready for JSON. `step_ms_*` are percentiles over the timed steps of the time from
        the end of one step to the end of the next; `cores_used` is the CPU time of all threads
        per time of a timed step, dimensionless; `build_s` is the time from the call of `train`
        to the first call of a hook, the session not yet made; `tower_s_first` is the part of it
        in which tower 0 is built up to its optimizer, and `tower_s_later` the median of the other
        towers', None for engines that do not build towers one by one and for fewer than 3;
        `loss_*_pass` are means over the first and last pass over the data; the rest is as in
        `StepTimer`.

    Raises:
        ValueError: If `warmup + steps` is less than two passes over the data.
        RuntimeError: If the engine does not use each of its devices, or its loss does not fall.
    """
    if warmup + steps < 2 * cases.GLOBAL_BATCHES:
        raise ValueError(
            f"`warmup + steps` must be at least {2 * cases.GLOBAL_BATCHES}, two passes over the "
            f"data, but is {warmup + steps}. Raise `steps`."
        )
    # The first device of the process fixes its thread pool, and strategies make theirs before any
    # session: without this line they alone would ignore `intra_op_threads`.
    tf.config.threading.set_intra_op_parallelism_threads(case.intra_op_threads)
    devices = [f"/cpu:{i}" for i in range(case.towers)]
    model_fn, config, shares = ENGINES[engine](case, devices)
    threads = case.intra_op_threads or config.session_config.intra_op_parallelism_threads
    config.session_config.intra_op_parallelism_threads = threads
    input_fn, timer = cases.make_input_fn(case, shares), StepTimer(warmup + steps)
    with tempfile.TemporaryDirectory() as model_dir:
        estimator = cases.estimator_api().Estimator(model_fn, model_dir, config)
        start = time.perf_counter()
        estimator.train(input_fn, hooks=[timer], steps=warmup + steps + 1)
    _check_devices(engine, case, timer.kernels)
    # Whole passes over the same batches: without updates both means would be equal.
    first = float(np.mean(timer.losses[: cases.GLOBAL_BATCHES]))
    last = float(np.mean(timer.losses[-cases.GLOBAL_BATCHES :]))
    if not last < 0.999 * first:
        raise RuntimeError(
            f"The loss must fall by 0.1%, but with `{engine}` its mean over the data went from "
            f"{first} to {last}. Raise `--steps`, or look for updates that are lost."
        )
    timed = slice(warmup - 1, warmup + steps - 1)
    step_ms = 1e3 * np.diff(timer.ended)[timed]
    cpu_ms = 1e3 * np.diff(timer.cpu)[timed]
    p10, p50, p90 = np.percentile(step_ms, [10, 50, 90])
    tower_s = np.diff(getattr(model_fn, "called", ()))
    return {
        "step_ms_p50": p50,
        "step_ms_p10": p10,
        "step_ms_p90": p90,
        "cores_used": cpu_ms.sum() / step_ms.sum(),
        "build_s": timer.began - start,
        "tower_s_first": tower_s[0] if len(tower_s) > 1 else None,
        "tower_s_later": np.median(tower_s[1:]) if len(tower_s) > 1 else None,
        "ops_at_begin": timer.ops_at_begin,
        "ops_in_session": timer.ops_in_session,
        "peak_rss_mb": timer.peak_rss_mb,
        "losses": timer.losses,
        "loss_first_pass": first,
        "loss_last_pass": last,
        "tf": tf.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "replicate": getattr(sys.modules.get("replicate"), "__version__", None),
    }


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(measure(Case(**request.pop("case")), **request)))
