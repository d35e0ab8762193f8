"""`PreemptionHook`: what a process does that is told to leave."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from types import FrameType
from typing import Any, Callable, Iterable

import tensorflow.compat.v1 as tf

from replicate.clusters import is_chief
from replicate.faults import accumulation_hook

# What `replicate_model_fn` knows of graphs that it made for training: a weak reference to the
# `Scaffold`, which refers to the graph itself, and the `RunConfig`.
_training: weakref.WeakKeyDictionary[tf.Graph, tuple[Any, Any]] = weakref.WeakKeyDictionary()


def remember(scaffold: tf.train.Scaffold, config: tf.estimator.RunConfig) -> None:
    """Lets the hooks of this graph know how it is saved.

    Args:
        scaffold: The `Scaffold` that it is trained with.
        config: The Estimator's `RunConfig`.
    """
    _training[tf.get_default_graph()] = weakref.ref(scaffold), config


def config_of(graph: tf.Graph) -> tf.estimator.RunConfig | None:
    """Returns the `RunConfig` with which `replicate_model_fn` made a graph, None if it did not."""
    return _training.get(graph, (None, None))[1]


class PreemptionHook(tf.train.SessionRunHook):
    """Saves and leaves when the process is told to, as clusters do before they take a machine away.

        estimator.train(input_fn, hooks=[replicate.hooks.PreemptionHook()])

    On SIGTERM, the step that runs is finished, a checkpoint is saved, and the process leaves with
    an exit status of its own by raising `SystemExit`. Started again, it resumes at the very next
    step. Nothing else is done on the way: no evaluation, no `end` of hooks, no listeners of
    checkpoints, which hear of this one when training resumes. While `train_and_evaluate` evaluates,
    the process leaves in the midst of it.

    A step in the midst of `session.run` cannot be interrupted, so a process that waits for input
    leaves when that comes. A second signal while the checkpoint is saved changes nothing. Before
    the session is made, and when it has ended, signals act as they did without the hook. Only the
    chief of several workers saves; others just leave.

    Signals reach the main thread only. In another one the hook warns and does nothing.

    Args:
        config: The Estimator's `RunConfig`, i.e. `estimator.config`: it says where checkpoints are
            and whether this is the chief. None: that of `replicate_model_fn`.
        signals: The signals, a sequence of `signal.Signals` or ints.
        exit_status: With what the process leaves, an integer from 1 to 255. 143 is what a shell
            shows of a process that SIGTERM ended.
        ending: Hooks that save something else, such as `CheckpointInputPipelineHook`: their `end`
            is called after the checkpoint is saved.

    Raises:
        ValueError: If `exit_status` is something else.
    """

    def __init__(
        self,
        config: tf.estimator.RunConfig | None = None,
        *,
        signals: Iterable[int] = (signal.SIGTERM,),
        exit_status: int = 143,
        ending: Iterable[tf.train.SessionRunHook] = (),
    ) -> None:
        if isinstance(exit_status, bool) or exit_status not in range(1, 256):
            raise ValueError(
                "`exit_status` must tell leaving early from success, an integer from 1 to 255, but "
                f"is {exit_status!r}. Pass e.g. 143."
            )
        self._config_arg = config
        self._signals = tuple(signals)
        self._exit_status = exit_status
        self._ending = tuple(ending)
        self._previous: dict[int, Any] = {}

    def begin(self) -> None:
        """Finds out how the graph is saved. Called by the session, before it is created."""
        self._is_told = self._is_leaving = False
        self._graph = tf.get_default_graph()
        self._global_step = tf.train.get_global_step()
        if self._global_step is None:
            raise RuntimeError(
                "PreemptionHook saves global steps, but the graph has none. Call "
                "`tf.train.get_or_create_global_step()` where the graph is built and pass it to "
                "the optimizer."
            )
        scaffold, config = _training.get(self._graph, (lambda: None, None))
        self._scaffold = scaffold()
        self._config = self._config_arg or config
        if not getattr(self._config, "model_dir", None):
            raise RuntimeError(
                "PreemptionHook saves in an Estimator's directory, but this model is not of "
                "`replicate_model_fn`, which knows it, or has none. Pass the Estimator's "
                "`RunConfig`: `PreemptionHook(estimator.config)`."
            )

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Takes over the signals, until the session ends."""
        self._restore()  # of an earlier session, lost to a preemption
        self._session = session
        self._saver = self._find_saver() if is_chief(self._config) else None
        if threading.current_thread() is not threading.main_thread():
            tf.logging.warning(
                "replicate: PreemptionHook does nothing, since signals reach the main thread only."
            )
            return
        self._previous = {number: signal.signal(number, self._handle) for number in self._signals}
        coord.register_thread(_AtEnd(coord, self._restore))

    def before_run(self, run_context: tf.train.SessionRunContext) -> None:
        """Leaves if a signal came after the last step."""
        if self._is_told:
            self._leave()

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        """Leaves if a signal came in this step."""
        if self._is_told:
            self._leave()

    def end(self, session: tf.Session) -> None:
        """Gives the signals back, or leaves if one came while other hooks ended."""
        if self._is_told:
            self._leave()
        self._restore()

    def _find_saver(self) -> tf.train.Saver:
        if getattr(self._scaffold, "saver", None) is not None:
            return self._scaffold.saver
        savers = tf.get_collection(tf.GraphKeys.SAVERS)
        if len(savers) != 1:
            raise RuntimeError(
                "PreemptionHook saves with the only saver in `tf.GraphKeys.SAVERS`, but there are "
                f"{len(savers)}. Train with `replicate_model_fn`, which knows the model's "
                "`Scaffold`, or put its saver there."
            )
        return savers[0]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal, in the main thread, between two instructions of Python."""
        self._is_told = True
        # In another graph a model is evaluated or exported, between two steps of this one.
        if tf.get_default_graph() is not self._graph:
            self._leave()

    def _leave(self) -> None:
        if self._is_leaving:
            return
        self._is_leaving = True
        if self._saver is not None:
            with self._graph.as_default():
                self._save(self._saver)
        raise SystemExit(self._exit_status)

    def _save(self, saver: tf.train.Saver) -> None:
        directory = self._config.model_dir
        step, is_saved = accumulation_hook.progress(self._session, self._global_step, directory)
        if not is_saved:
            path = os.path.join(directory, "model.ckpt")
            saver.save(self._session, path, global_step=step, write_meta_graph=False)
        for hook in self._ending:
            hook.end(self._session)
        tf.logging.warning(
            "replicate: told to leave; step %d is saved in %s. Leaving with exit status %d.",
            step,
            directory,
            self._exit_status,
        )

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}


class _AtEnd:
    """Stands for a thread that a session waits for, in the main thread, however it ends.

    A session tells its hooks that it ended well (`end`), but not that it failed, and handlers of
    signals can be set in the main thread only.
    """

    name = "replicate-preemption"

    def __init__(self, coord: tf.train.Coordinator, fn: Callable[[], None]) -> None:
        self._coord = coord
        self._fn = fn

    def is_alive(self) -> bool:
        """Calls the function when the session has stopped."""
        if self._coord.should_stop():
            self._fn()
        return False
