"""The progress of a search, for people who watch it.

A *scalar* is one of the numbers that `search_summaries.make_spec` puts under `search/progress/`.
They vary from step to step with the networks that are drawn; shown is the mean over the latest
steps.
"""

import collections
import contextlib
import sys
import time

import tensorflow.compat.v1 as tf

from examples.nas_search.search.search_summaries import PROGRESS_SCOPE
from examples.runs.progress_display import Display
from replicate.reports.progress_bar import import_tqdm

_SCALARS = ("reward", "validation_accuracy", "entropy")
_LATEST = 20  # steps
_REDRAW_SECS = 0.2


class SearchProgress(tf.train.SessionRunHook):
    """Shows how a search goes: by a bar on a terminal, elsewhere by a line at each tenth of it.

    ```
    search:  42%|████▎     | 420/1000 [00:41<00:57, reward 0.871 acc 92% cost 104% H 12.3]
    ```

    These are the step and the last one; the time since the start, and what is left of it; the means
    over the latest steps of the reward, the validation accuracy, costs in units of their targets,
    and the entropy of the controller in nats, which falls as it makes up its mind. On TPUs, which
    have no scalars to fetch, steps and times are all.

    The bar is closed when training ends; used as a context, also when it fails:

        with progress:
            estimator.train(input_fn, max_steps=total_steps, hooks=[progress])

    Args:
        total_steps: Global step at which the search ends.
        cost_targets: Dict of the costs that it aims at, by the names of the scalars: of a single
            cost `estimated_cost`, of several of them `estimated_cost/<label>`. None if it has none.
        stream: Text stream to write to; None is `sys.stderr` at the time training starts.

    Attributes:
        step: The global step when it was last looked at.
    """

    def __init__(self, total_steps, cost_targets=None, stream=None):
        import_tqdm()  # so that a missing one is known before training starts
        self.step = 0
        self._total = total_steps
        self._targets = cost_targets or {}
        self._stream = stream
        self._display = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._close()

    def begin(self):
        """Finds the tensors to watch. Called by the session, before the graph is finalised."""
        self._global_step = tf.train.get_global_step()
        graph = tf.get_default_graph()
        self._tensors = {}
        for name in (*_SCALARS, *self._targets):
            with contextlib.suppress(KeyError):
                self._tensors[name] = graph.get_tensor_by_name(f"{PROGRESS_SCOPE}{name}:0")

    def after_create_session(self, session, coord):
        """Starts at the step at which the search starts or resumes."""
        self._close()  # of an earlier session, lost to a preemption
        self.step = int(session.run(self._global_step))
        self._latest = {name: collections.deque(maxlen=_LATEST) for name in self._tensors}
        stream = sys.stderr if self._stream is None else self._stream
        self._display = Display("search", "step", self.step, self._total, stream)
        self._looked = self._display.start

    def before_run(self, run_context):
        """Asks for the scalars of the step."""
        return tf.train.SessionRunArgs(self._tensors)

    def after_run(self, run_context, run_values):
        """Keeps the scalars, and shows them if it is time to."""
        for name, values in self._latest.items():
            values.append(float(run_values.results[name]))
        now = time.perf_counter()
        if now - self._looked >= _REDRAW_SECS:
            self._looked = now
            self._show(run_context.session)

    def end(self, session):
        """Shows the last step. Called by the session when training ended without error."""
        self._show(session)
        self._close()

    def _show(self, session):
        self.step = int(session.run(self._global_step))
        self._display.show(self.step, self._note)

    def _note(self, wide):
        """Returns the scalars as text, in whole words or such that it fits into 80 columns."""
        means = {name: sum(values) / len(values) for name, values in self._latest.items() if values}
        parts = []
        if "reward" in means:
            parts.append(f"reward {means['reward']:.3f}")
        if "validation_accuracy" in means:
            accuracy = means["validation_accuracy"]
            parts.append(f"accuracy {accuracy:.1%}" if wide else f"acc {accuracy:.0%}")
        targets = {name: target for name, target in self._targets.items() if name in means}
        shares = {name: means[name] / target for name, target in targets.items()}
        if shares and not wide:
            parts.append(" ".join(["cost", *(f"{share:.0%}" for share in shares.values())]))
        for name, share in shares.items() if wide else ():
            label = name.partition("/")[-1] or "cost"
            parts.append(f"{label} {means[name]:.3g} ({share:.0%} of target)")
        if "entropy" in means:
            parts.append(f"{'entropy' if wide else 'H'} {means['entropy']:.1f}")
        return (", " if wide else " ").join(parts)

    def _close(self):
        if self._display is not None:
            self._display.close()
            self._display = None
