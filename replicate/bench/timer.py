"""The hook that times an Estimator's steps in benchmarks."""

from __future__ import annotations

import collections
import re
import time
from typing import Any, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.bench import harness, traffic

_IS_ARITHMETIC = re.compile(r"= \w*(MatMul|Conv2D)\w*\(")
_IS_DEVICE = re.compile(r"device:(CPU|GPU):\d+$")  # Excludes streams of a GPU.


class StepTimer(tf.train.SessionRunHook):
    """Times steps, keeps every loss, and traces devices in a last step that is not timed.

    Attributes:
        began: `time.perf_counter()` seconds when the graph of the training loop was complete.
        created: The same when the session existed and variables were initialised.
        ops_at_begin: Number of ops in the graph at `began`, before savers and initialisers.
        ops_in_session: Number of ops in the graph of the session.
        ops_run: Number of ops that the traced step ran, as `traffic.operations_run` counts them.
        ended: `time.perf_counter()` seconds at the end of each step.
        cpu: `time.process_time()` seconds, of all threads, at the end of each step.
        losses: The loss that the engine reports, one per step.
        peak_rss: Peak resident memory of this process after the last timed step, in bytes.
        peak_gpu: The largest peak memory of tensors on one of the GPUs, in bytes; None if `devices`
            has no GPU, or TensorFlow does not measure it.
        kernels: Number of matrix products and convolutions in the traced step, by device name.
        sent: Tensors that the traced step sent between devices, a list of `traffic.Sent`.
        all_reduced: Sizes of its all-reduced tensors, as `traffic.all_reduced` returns them.
    """

    def __init__(self, timed_steps: int, devices: Sequence[str]) -> None:
        """Makes a hook for `timed_steps` steps, warm-up included, and a traced one after them."""
        self._timed_steps, self._devices = timed_steps, devices
        self.began: Any = None
        self.created: Any = None
        self.peak_rss: Any = None
        self.peak_gpu: Any = None
        self.ops_at_begin: int | None = None
        self.ops_in_session: int | None = None
        self.ops_run: int | None = None
        self.ended: list[float] = []
        self.cpu: list[float] = []
        self.losses: list[float] = []
        self.sent: list[traffic.Sent] = []
        self.all_reduced: list[int | None] = []
        self.kernels: Any = collections.Counter()

    def begin(self) -> None:
        """Ends the timing of graph construction."""
        self.began = time.perf_counter()
        self.ops_at_begin = len(tf.get_default_graph().get_operations())
        # Estimator adds the loss of the whole batch last, on every engine, and fetches it anyway.
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Counts the ops of the finished graph, and ends the timing of initialisation."""
        self.created = time.perf_counter()
        self.ops_in_session = len(session.graph.get_operations())

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the loss, and a trace after the timed steps."""
        options = None
        if len(self.ended) == self._timed_steps:
            options = tf.RunOptions(**traffic.OPTIONS)
        return tf.train.SessionRunArgs(self._loss, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the timing of a step."""
        self.ended.append(time.perf_counter())
        self.cpu.append(time.process_time())
        self.losses.append(float(run_values.results))
        if len(self.ended) == self._timed_steps:  # Before the trace, which needs memory too.
            self.peak_rss, self.peak_gpu = harness.peak_rss(), _peak_gpu(self._devices)
        if len(self.ended) > self._timed_steps:
            self._take_apart(run_values.run_metadata)

    def _take_apart(self, metadata: tf.RunMetadata) -> None:
        for device in metadata.step_stats.dev_stats:
            for node in device.node_stats if _IS_DEVICE.search(device.device) else ():
                if _IS_ARITHMETIC.search(node.timeline_label):
                    self.kernels[device.device] += 1
        self.ops_run = traffic.operations_run(metadata)
        self.sent = traffic.tensors_sent(metadata)
        self.all_reduced = traffic.all_reduced(metadata)


def _peak_gpu(devices: Iterable[str]) -> int | None:
    gpus = [name.rpartition("device:")[2] for name in devices if "GPU" in name.upper()]
    info = getattr(tf.config.experimental, "get_memory_info", None)
    return max(info(name)["peak"] for name in gpus) if gpus and info else None
