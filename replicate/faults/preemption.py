"""`PreemptionHook`: saves a checkpoint and exits when the process receives a signal."""

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

# Facts about graphs that `replicate_model_fn` made for training: the `RunConfig`, and the
# `Scaffold`, by a weak reference, because it refers to the graph and would keep it alive.
_training: weakref.WeakKeyDictionary[tf.Graph, tuple[Any, Any]] = weakref.WeakKeyDictionary()


def remember(scaffold: tf.train.Scaffold, config: tf.estimator.RunConfig) -> None:
    """Tells the hooks of this graph how it is saved.

    Args:
        scaffold: The `Scaffold` that the graph is trained with.
        config: The Estimator's `RunConfig`.
    """
    _training[tf.get_default_graph()] = weakref.ref(scaffold), config


def config_of(graph: tf.Graph) -> tf.estimator.RunConfig | None:
    """Returns the `RunConfig` with which `replicate_model_fn` made a graph, None if it did not."""
    return _training.get(graph, (None, None))[1]


class PreemptionHook(tf.train.SessionRunHook):
    """Saves and exits on a signal, such as clusters send before they take a machine away.

        estimator.train(input_fn, hooks=[replicate.hooks.PreemptionHook()])

    On SIGTERM, the running step is finished, a checkpoint is saved, and the process exits with
    `exit_status` by raising `SystemExit`. When it is started again, it resumes at the very next
    step. Nothing else happens before the exit: no evaluation and no `end` of hooks. Listeners of
    checkpoints are notified of this one when training resumes. While `train_and_evaluate`
    evaluates, the process exits without finishing the evaluation.

    A running `session.run` cannot be interrupted, so a process that waits for input exits when the
    input arrives. A second signal while the checkpoint is saved has no effect. Before the session
    is made, and after it has ended, signals act as without the hook. Only the chief of several
    workers saves; the others only exit.

    Python handles signals in the main thread only. In any other thread the hook warns and does
    nothing.

    Args:
        config: The Estimator's `RunConfig`, i.e. `estimator.config`, which says where checkpoints
            are and whether this is the chief. None: the `RunConfig` of `replicate_model_fn`.
        signals: The signals, a sequence of `signal.Signals` or ints.
        exit_status: Exit status of the process, an integer from 1 to 255. A shell shows 143 for a
            process that SIGTERM ended.
        ending: Hooks that save something else, such as `CheckpointInputPipelineHook`. Their `end`
            is called after the checkpoint is saved.

    Raises:
        ValueError: If `exit_status` is not such an integer.
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
        """Finds out how the graph is saved. Called before the session is created.

        Raises:
            RuntimeError: If the graph has no global step, or the directory is not known.
        """
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
                "PreemptionHook saves in an Estimator's directory, but this model has none, or was "
                "not made by `replicate_model_fn`, which knows it. Pass the Estimator's "
                "`RunConfig`: `PreemptionHook(estimator.config)`."
            )

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Handles the signals until the session ends."""
        # An earlier session may have been lost, e.g. with a parameter server, without an `end`.
        self._restore()
        self._session = session
        self._saver = self._find_saver() if is_chief(self._config) else None
        if threading.current_thread() is not threading.main_thread():
            tf.logging.warning(
                "replicate: PreemptionHook does nothing, because Python handles signals in the "
                "main thread only."
            )
            return
        self._previous = {number: signal.signal(number, self._handle) for number in self._signals}
        coord.register_thread(_AtEnd(coord, self._restore))

    def before_run(self, run_context: tf.train.SessionRunContext) -> None:
        """Exits if a signal came after the last step."""
        if self._is_told:
            self._leave()

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        """Exits if a signal came during this step."""
        if self._is_told:
            self._leave()

    def end(self, session: tf.Session) -> None:
        """Restores the signals' handlers, or exits if a signal came while other hooks ended."""
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
        # Another graph is current while a model is evaluated or exported between two steps. The
        # session of this graph is idle then, so it can be saved at once.
        if tf.get_default_graph() is not self._graph:
            self._leave()

    def _leave(self) -> None:
        if self._is_leaving:  # A second signal, during the save.
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
            "replicate: told to leave; step %d is saved in %s. Exit status: %d.",
            step,
            directory,
            self._exit_status,
        )

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}


class _AtEnd:
    """Stands for a thread, so that a session calls it in the main thread however it ends.

    A session calls `end` of its hooks only if it ended without an error, and handlers of signals
    can be set in the main thread only. But a session always asks its threads whether they are
    alive.
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
