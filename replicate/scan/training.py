"""How files train: by Keras optimizers that do nothing in a graph, and without an Estimator."""

from __future__ import annotations

import ast
import re
from typing import Iterator

from replicate.scan import scopes, tensorflow_names
from replicate.scan.findings import Finding
from replicate.scan.module import Module, expression

_OPTIMIZER = re.compile(r"(?:keras\.)?optimizers\.([A-Z]\w*)")
_SESSIONS = ("Session", "InteractiveSession")
_MONITORED = ("MonitoredTrainingSession", "MonitoredSession", "SingularMonitoredSession")
_SUPERVISORS = ("Supervisor",)


def keras_optimizers(module: Module) -> Iterator[Finding]:
    """Yields Keras optimizers that update nothing in the graph of a `model_fn`.

    A file that compiles models or records gradients on tapes trains them eagerly.
    """
    if any(_is_eager(module, call) for call in module.names.calls):
        return
    for call in module.names.calls:
        path = module.names.path(call.func)
        found = tensorflow_names.parse(path)
        is_of_keras = found.api in ("tensorflow", "v2") or path.startswith("keras.")
        match = _OPTIMIZER.fullmatch(found.rest)
        if not match or not is_of_keras or _is_of_version_1(module, call.func):
            continue
        legacy = f"tf.keras.optimizers.legacy.{match[1]}"
        yield module.finding(
            call,
            "keras-optimizer",
            expression(call.func),
            f"since TensorFlow 2.11 it updates nothing in a graph. Write `{legacy}`.",
            replacement=legacy,
            needs="estimator",
        )


def _is_eager(module: Module, call: ast.Call) -> bool:
    """Whether a call compiles a Keras model, or makes a tape."""
    path = module.names.path(call.func)
    if scopes.last(path) == "GradientTape":
        return True
    return getattr(call.func, "attr", "") == "compile" and not path


def _is_of_version_1(module: Module, node: ast.expr) -> bool:
    """Whether the import of a name is changed, so that it becomes what version 1 has."""
    root = scopes.root_of(node)
    bindings = module.names.bindings(root.id, module.names.scopes[root])
    return any(binding.node in module.of_version_1 for binding in bindings)


def session_loop(module: Module) -> Iterator[Finding]:
    """Yields the session in which a file trains by itself, without an Estimator."""
    trains = any(
        getattr(call.func, "attr", "") in ("minimize", "apply_gradients")
        and not module.names.path(call.func)
        for call in module.names.calls
    )
    paths = [use.path for use, _ in module.uses]
    if not trains or any(path.startswith("replicate") for path in paths):
        return
    if "estimator" in module.facts or "replicated" in module.facts:
        return
    for call in sorted(module.names.calls, key=lambda one: (one.lineno, one.col_offset)):
        name = tensorflow_names.function(module.names, call)
        trained = [f"train.{one}" for one in (*_MONITORED, *_SUPERVISORS)]
        if name.api in ("tensorflow", "v1") and name.rest in (*_SESSIONS, *trained):
            yield module.finding(
                call,
                "session-loop",
                f"tf.{name.rest}",
                "replicate trains what an Estimator trains. Make a `model_fn` of what builds the "
                "graph, an `input_fn` of what feeds it, and give them to an Estimator.",
            )
            return
