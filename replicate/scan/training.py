"""How files train: gradients inside conditions, and loops without an Estimator."""

import ast

from replicate.scan import tensorflow_names
from replicate.scan.module import Module, expression
from replicate.scan.traps import controlled

_GRADIENTS = ("compute_gradients", "gradients")
_SESSIONS = ("Session", "InteractiveSession")
_MONITORED = ("MonitoredTrainingSession", "MonitoredSession", "SingularMonitoredSession")
_SUPERVISORS = ("Supervisor",)


def in_conditions(module: Module):
    """Yields where gradients are made or applied inside a condition or loop of the graph."""
    towers = _wrapped(module)
    for function in controlled(module):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        called = {id(call): getattr(call.func, "attr", "") for call in calls}
        makes = any(name in _GRADIENTS for name in called.values())
        for call in calls:
            name = called[id(call)]
            path = module.names.path(call.func)
            if path and not tensorflow_names.parse(path).api:
                continue  # Of another library.
            optimizer = expression(getattr(call.func, "value", call.func))
            applies = name == "apply_gradients" and (makes or optimizer in towers)
            if name == "apply_gradients" and not applies:
                yield module.finding(
                    call,
                    "applied-in-condition",
                    f"{optimizer}.{name}",
                    "exact, if the gradients were made outside and the optimizer is not wrapped "
                    "by `TowerOptimizer`, which is refused there.",
                    needs="estimator",
                )
            if name == "minimize" or applies:
                yield module.finding(
                    call,
                    "gradients-in-condition",
                    f"{optimizer}.{name}",
                    "inside of it, gradients are those of one tower's rows, which is an error. "
                    "Make them before, and apply them in it by an optimizer that is not wrapped.",
                    needs="estimator",
                )


def _wrapped(module):
    """Returns the names of what is a `TowerOptimizer`."""
    found = set()
    for call in module.names.calls:
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "TowerOptimizer":
            parent = module.names.parents[call]
            if isinstance(parent, ast.Assign):
                found.update(map(expression, parent.targets))
    return found


def session_loop(module: Module):
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
