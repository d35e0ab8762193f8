"""The hook that measures towers while they train, for TensorBoard and for those who read logs."""

from __future__ import annotations

import datetime
import json
import sys
import time
from typing import Any, Sequence, TextIO

import tensorflow.compat.v1 as tf

from replicate.batch import rows_per_shard
from replicate.clusters import is_chief
from replicate.faults import config_of
from replicate.reports import progress_values, report, step_times
from replicate.reports.progress_log import TAG, Mark

_TIMES_SLOW = 2  # Measurements in a row after which a slow tower is named: one may be by chance.


class TowerMonitorHook(tf.train.SessionRunHook):
    """Measures what each tower does: events for TensorBoard, a JSON line a minute, slow towers.

    ```python
    estimator.train(input_fn, max_steps=1000, hooks=[replicate.hooks.TowerMonitorHook()])
    ```

    At the second step, and then every `every_secs`, TensorFlow traces one step, which takes longer
    than others. A line of JSON tells the result:

    ```
    {"event": "replicate", "time": "2027-01-31T12:00:00+00:00", "step": 420, ...}
    ```

    Its fields, and the tags of the events that the chief writes into the Estimator's directory:

    | field | tag | meaning |
    | --- | --- | --- |
    | `step` | | the global step |
    | `examples_per_sec` | `global_examples/sec` | rows of the whole batch since the line before |
    | `share_in_towers` | `towers/share` | as in `replicate.tower_report`, from 0 to 1 |
    | `bytes_crossing` | `towers/bytes_crossing` | bytes that cross devices in a step, at least |
    | `meetings_secs` | `towers/meetings_secs` | time of operations that combine towers' values |
    | `towers` | `tower_0/busy_secs`, `tower_0/examples/sec` | a list, an object for each tower |
    | `slow_tower` | | the device that keeps the others waiting, or null |

    An object in `towers` has `device`, `rows`, `busy_secs`, the time in which at least one
    operation of the tower was running, and `examples_per_sec`, its rows by that time. A field is
    null if it is not known; without `replicate_model_fn`, or with one device, `towers` is empty.

    A tower is slow if a row takes it 1.5 times as long as the median of the others, and it loses a
    millisecond a step. If it is so twice in a row, a warning names it, once.

    Args:
        every_secs: Seconds between two measurements, >= 0. 0 measures every step from the second.
        stream: Text stream for the lines. None: `sys.stdout` at the time training starts.
        config: The Estimator's `RunConfig`, i.e. `estimator.config`, which says where events go and
            whether this is the chief. None: the `RunConfig` of `replicate_model_fn`; without that,
            there are no events.

    Raises:
        ValueError: If `every_secs` is out of range, or `config` has no `model_dir`.
    """

    def __init__(
        self,
        every_secs: float = 60.0,
        *,
        stream: TextIO | None = None,
        config: tf.estimator.RunConfig | None = None,
    ) -> None:
        if not every_secs >= 0:
            raise ValueError(
                f"`every_secs` must be at least 0 seconds, but is {every_secs!r}. Pass 0 to "
                "measure every step."
            )
        progress_values.check_config(config)
        self._every_secs = every_secs
        self._stream_arg = stream
        self._config_arg = config

    def begin(self) -> None:
        """Finds what to watch. Called by the session, before the graph is finalized."""
        graph = tf.get_default_graph()
        self._stream = sys.stdout if self._stream_arg is None else self._stream_arg
        self._global_step = progress_values.global_step("TowerMonitorHook")
        self._batch_size = progress_values.batch_size(None)
        self._report = report.last_of(graph)
        config = self._config_arg or config_of(graph)
        self._writer = None
        if config is not None and is_chief(config):
            self._writer = tf.summary.FileWriterCache.get(config.model_dir)
        self._slow: tuple[int | None, int] = (None, 0)  # The tower, and how often in a row.
        self._is_warned = False

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Starts to count; a session that replaces a broken one counts from its checkpoint."""
        self._last: Mark | None = None  # At the last measurement; at first, after the first step.
        self._is_measured = False
        self._examples = 0
        self._rows = 0

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        """Asks for the rows if they may vary, and for a trace if a measurement is due."""
        last = self._last  # None before the first step, which includes one-time setup.
        self._is_traced = last is not None and (
            not self._is_measured or time.perf_counter() - last.time >= self._every_secs
        )
        fetches = {"rows": self._batch_size} if isinstance(self._batch_size, tf.Tensor) else {}
        options = tf.RunOptions(trace_level="FULL_TRACE") if self._is_traced else None
        return tf.train.SessionRunArgs(fetches, options=options)

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        """Counts the rows, and tells the result of a measurement."""
        if self._batch_size is not None:
            rows = (run_values.results or {}).get("rows", self._batch_size)
            self._rows = int(rows)
            self._examples += self._rows
        if self._last is not None and not self._is_traced:
            return
        step = int(run_context.session.run(self._global_step))
        now = Mark(time.perf_counter(), step, self._examples)
        if self._last is not None:
            self._is_measured = True
            self._tell(self._measure(run_values.run_metadata, self._last, now))
        self._last = now

    def _measure(self, metadata: tf.RunMetadata, last: Mark, now: Mark) -> dict[str, Any]:
        """Returns the fields of a line."""
        measured = self._report
        devices = () if measured is None else measured.devices
        times = step_times.measured(metadata, devices)
        rows = rows_per_shard(self._rows, len(devices), False, []) if devices else []
        slow = step_times.slow_tower(times.towers, rows)
        self._warn_of(slow, devices, times)
        seconds, examples = now.time - last.time, now.examples - last.examples
        return {
            "event": "replicate",
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "step": now.step,
            "examples_per_sec": _rounded(examples / seconds) if examples and seconds else None,
            "share_in_towers": measured and measured.share and _rounded(measured.share),
            "bytes_crossing": measured and measured.crossing.size,
            "meetings_secs": _rounded(times.meetings) if devices else None,
            "towers": [
                {
                    "device": device,
                    "rows": count,
                    "busy_secs": _rounded(busy),
                    "examples_per_sec": _rounded(count / busy) if busy else None,
                }
                for device, count, busy in zip(devices, rows, times.towers)
            ],
            "slow_tower": None if slow is None else devices[slow],
        }

    def _warn_of(
        self, slow: int | None, devices: Sequence[str], times: step_times.StepTimes
    ) -> None:
        """Names a tower that is slow several times in a row, once."""
        before, number = self._slow
        self._slow = slow, number + 1 if slow == before else 1
        if slow is None or self._is_warned or self._slow[1] < _TIMES_SLOW:
            return
        self._is_warned = True
        tf.logging.warning(
            "replicate: tower %d, on %s, is slow: it computes for %.3g s of a step, and towers for "
            "%s s. The others wait for it. Look for other programs on this device, or for another "
            "kind of device, and leave it out of `devices`.",
            slow,
            devices[slow],
            times.towers[slow],
            ", ".join(f"{seconds:.3g}" for seconds in times.towers),
        )

    def _tell(self, line: dict[str, Any]) -> None:
        """Writes a line, and the events of it."""
        print(json.dumps(line), file=self._stream, flush=True)
        if self._writer is None:
            return
        values = {TAG: line["examples_per_sec"], **_values_of(line)}
        summary = tf.Summary()
        for tag, value in values.items():
            if value is not None:
                summary.value.add(tag=tag, simple_value=value)
        self._writer.add_summary(summary, line["step"])

    def end(self, session: tf.Session) -> None:
        """Writes events to their file. Called when training ended without an error."""
        if self._writer is not None:
            self._writer.flush()


def _values_of(line: dict[str, Any]) -> dict[str, float | None]:
    """Returns the values of events about towers, by tag."""
    values = {
        "towers/share": line["share_in_towers"],
        "towers/bytes_crossing": line["bytes_crossing"],
        "towers/meetings_secs": line["meetings_secs"],
    }
    for index, tower in enumerate(line["towers"]):
        values[f"tower_{index}/busy_secs"] = tower["busy_secs"]
        values[f"tower_{index}/examples/sec"] = tower["examples_per_sec"]
    return values


def _rounded(value: float) -> float:
    """Returns a number with six digits, which is more than measurements have."""
    return float(f"{value:.6g}")
