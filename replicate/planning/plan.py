"""The plan of a model's training step: which operations run where, and which values meet."""

from __future__ import annotations

import copy
import os
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from replicate import devices as devices_lib
from replicate.arguments import call_arguments
from replicate.compat import estimator
from replicate.graphs import line_of
from replicate.model_fn import replicate_model_fn
from replicate.partition import coverage_of
from replicate.planning import scopes


class NoPlanError(ValueError):
    """A model has no plan, since it runs on one device."""


_LITTLE = 0.01  # Share of all that is computed, below which no advice is given.
_ONE_DEVICE = (
    "Only a model that runs in several towers has a plan, but this one runs on one device, is the "
    "program of one tower, or trains without gradients. Name several devices, and leave out "
    "per_tower."
)


class Plan(NamedTuple):
    """The partition of a training step. Its string is the report that the command prints.

    Attributes:
        towers: N.
        coverage: The `Coverage`.
        root: The `Scope` of the whole model.
    """

    towers: int
    coverage: Any
    root: scopes.Scope

    def __str__(self) -> str:
        return self.text()

    def text(self, depth: int = 2) -> str:
        """Returns the report, with scopes down to `depth` levels."""
        lines = [
            f"{self.towers} towers run {self._share()}",
            "",
            f"{'computed':>10}  {'in towers':>9}  {'meets':>10}  scope, and its first line",
        ]
        met = _bytes_by_scope(self.coverage)
        for scope in _down_to(self.root, depth):
            part = "" if scope.share is None else f"{100 * scope.share:.4g} %"
            size = met.get(scope.path, 0.0)
            if not scope.computed and not size:
                continue
            lines.append(
                f"{short(scope.computed):>10}  {part:>9}  "
                f"{short(size) + 'B' if size else '':>10}  {scope.path or '(all)'}"
                + (f"  {_relative(scope.line)}" if scope.line else "")
            )
        costliest = self.coverage.costliest
        if costliest:
            lines += ["", "runs once, on the rows of all towers"]
        for one in costliest[:10]:
            advice = self._advice(one)
            lines.append(
                f"{short(one.cost):>10}  {one.operation.name}, {one.operation.type} at "
                f"{_relative(line_of(one.operation))}: {one.why}"
                + (f"; {advice}" if advice else "")
            )
        return "\n".join(lines)

    def _share(self) -> str:
        """Returns the share of multiplications in towers, and that of all else if it differs."""
        told, share = self.coverage.share_told, self.coverage.share
        if told is None:
            return "nothing"
        found, of_all = f"{100 * told:.4g} %", f"{100 * share:.4g} %"
        also = "" if of_all == found else f", {of_all} of all that is computed"
        return f"{found} of {self.what}{also}"

    def _advice(self, one: Any) -> str:
        """Returns the advice on an operation, "" if it is too cheap to matter."""
        computed = self.coverage.towers + self.coverage.one_device
        return one.advice if one.cost > _LITTLE * computed else ""

    @property
    def what(self) -> str:
        """The quantity that the share in towers is a share of."""
        multiplies = self.coverage.share_multiplied is not None
        return "the multiplications" if multiplies else "the computation with rows"

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan as dicts, lists, numbers and strings, for JSON."""
        return {
            "towers": self.towers,
            "share": self.coverage.share_told,
            "share_of": self.what,
            "computed_in_towers": self.coverage.towers,
            "computed_once": self.coverage.one_device,
            "scopes": _as_dict(self.root),
            "meetings": [
                {
                    "from": "/".join(scopes.path_of(one.maker)),
                    "to": sorted({"/".join(scopes.path_of(taker)) for taker in one.takers}),
                    "tensor": one.maker.name,
                    "kind": one.kind,
                    "bytes": one.size,
                }
                for one in self.coverage.meetings
            ],
            "once": [
                {
                    "operation": one.operation.name,
                    "type": one.operation.type,
                    "scope": "/".join(scopes.path_of(one.operation)),
                    "line": line_of(one.operation),
                    "computed": one.cost,
                    "why": one.why,
                    "advice": self._advice(one),
                }
                for one in self.coverage.costliest
            ],
        }


def make_plan(
    model_fn: Callable[..., Any],
    input_fn: Callable[..., Any],
    params: Any = None,
    config: Any = None,
    devices: Sequence[str] | None = None,
    **options: Any,
) -> Plan:
    """Builds a training step without running it, and returns its plan.

    Args:
        model_fn: The plain `model_fn`.
        input_fn: The `input_fn` of the whole batch.
        params: The `params` of both functions. None: an empty dict, as in an Estimator.
        config: The `RunConfig`, or None.
        devices: Device names of the towers. None: every GPU, or two CPU devices if there are fewer
            than two.
        **options: Further arguments of `replicate_model_fn`.

    Raises:
        NoPlanError: If the model runs on one device.
    """
    config = estimator.RunConfig() if config is None else config
    mode = estimator.ModeKeys.TRAIN
    wrapped, devices = replicated(model_fn, devices, options)

    def accepted(function: Callable[..., Any]) -> dict[str, Any]:
        # As an Estimator, it gives each function a copy of `params`.
        given = {"params": copy.deepcopy(params or {}), "config": config}
        return call_arguments.accepted(function, given)

    with tf.Graph().as_default() as graph:
        tf.train.get_or_create_global_step()
        of_input = call_arguments.accepted(input_fn, {"mode": mode})
        made = input_fn(**of_input, **accepted(input_fn))
        if isinstance(made, tf2.data.Dataset):
            made = tf.data.make_initializable_iterator(made).get_next()
        features, labels = made if isinstance(made, (list, tuple)) else (made, None)
        wrapped(features, labels, mode, **accepted(model_fn))
        coverage = coverage_of(graph)
    if coverage is None:
        raise NoPlanError(_ONE_DEVICE)
    return Plan(len(devices), coverage, scopes.tree(coverage))


def replicated(
    model_fn: Callable[..., Any], devices: Sequence[str] | None, options: Mapping[str, Any]
) -> tuple[Callable[..., Any], list[str]]:
    """Returns the `model_fn` over towers, and their devices; arguments as those of `make_plan`.

    Raises:
        TypeError: As `replicate_model_fn` does.
        ValueError: Likewise.
    """
    if devices is None:
        found = devices_lib.default(devices_lib.local())
        devices = found if len(found) > 1 else ["/cpu:0", "/cpu:1"]
    if len(devices) == 1 or options.get("per_tower"):
        raise NoPlanError(_ONE_DEVICE)
    return replicate_model_fn(model_fn, devices=list(devices), **options), list(devices)


def short(number: float) -> str:
    """Returns a number in thousands, millions and so on."""
    for unit, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.0f}" + " " * bool(number)


def _relative(line: str) -> str:
    """Returns a line of a file with its path from here, if the file is below."""
    path = os.path.relpath(line) if os.path.isabs(line) else line
    return line if path.startswith(os.pardir) else path


def _down_to(scope: scopes.Scope, depth: int) -> list[scopes.Scope]:
    below = scope.children.values() if depth else ()
    return [scope, *(one for child in below for one in _down_to(child, depth - 1))]


def _bytes_by_scope(coverage: Any) -> dict[str, float]:
    """Returns the bytes that meet, by scope; each scope includes its children.

    A value belongs to the scope of the operation that makes it.
    """
    found: dict[str, float] = {}
    for one in coverage.meetings:
        parts = scopes.path_of(one.maker)
        for end in range(len(parts) + 1):
            path = "/".join(parts[:end])
            found[path] = found.get(path, 0.0) + one.size
    return found


def _as_dict(scope: scopes.Scope) -> dict[str, Any]:
    return {
        "name": scope.name,
        "path": scope.path,
        "line": scope.line,
        "operations": len(scope.operations),
        "towers": scope.work["towers"],
        "once": scope.work["one_device"],
        "updates": scope.work["updates"],
        "children": [_as_dict(child) for child in scope.children.values()],
    }
