"""Reports what towers do in a step: where variables are, and which tensors cross devices."""

from __future__ import annotations

import collections
import weakref
from typing import Any, Iterable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.batch import sharding
from replicate.graphs import line_of
from replicate.reduction import packing
from replicate.reports import transfers

_SUMS = ("AddN", "NcclAllReduce")
_LITTLE = 0.9  # Share of work in towers below which a warning gives the reason.
_MATTERS = 1e7  # Cost of an operation below which it takes no noticeable time on one device.
_SIGNAL_BYTES = 8  # Size of flags, scales and weights of towers, whose transfer needs no bandwidth.

_last: TowerReport | None = None
_graph: weakref.ref[tf.Graph] | None = None  # The graph that `_last` describes.


class Crossing(NamedTuple):
    """Tensors that cross devices in a step."""

    number: int
    size: int
    """Bytes."""
    is_least: bool
    """Whether `size` is a lower bound: shapes of some tensors are known only at run time."""

    @classmethod
    def from_transfers(cls, tensors: Iterable[transfers.Transfer]) -> Crossing:
        """Returns the number and size of `transfers.Transfer`s."""
        sizes = [transfer.size for transfer in tensors]
        return cls(len(sizes), sum(filter(None, sizes)), None in sizes)

    def __str__(self) -> str:
        return f"{self.number:>6}  {'at least ' if self.is_least else ''}{_megabytes(self.size)}"


class TowerReport(NamedTuple):
    """Describes what towers do in a step; as a string, a table.

    Bytes are counted in the graph as it is built; TensorFlow may remove some transfers later.
    """

    devices: tuple[str, ...]
    """Device strings of the towers."""
    rows: tuple[int | None, ...]
    """Rows of the batch in each tower; None if they are known only at run time."""
    loss_reduction: str | None
    """How the towers' losses are combined with `per_tower=True`; None if there is only one loss."""
    variables: int
    """Number of global variables, which towers share or replicate, without the global step."""
    variable_bytes: int
    variable_devices: tuple[str, ...]
    """Device strings of these variables; of tower 0's if they are replicated."""
    are_replicated: bool
    """Whether all other towers have replicas of the trainable variables."""
    summed_on: tuple[str, ...]
    """Device strings of the devices that sum gradients; empty if no optimizer is known."""
    kinds: dict[str, Crossing]
    """A `Crossing` for each of `transfers.KINDS`: weights, gradients, their sums, and so on.

    Gradients of an optimizer that uses no kernel of TensorFlow's, and is not in a
    `TowerOptimizer`, and their sums, are 'other'."""
    links: dict[tuple[str, str], Crossing]
    """A `Crossing` by source and destination, a pair of device strings; scalars do not count."""
    why: str = ""
    """Why variables are where they are, with `variable_placement='auto'`; else empty."""
    share: float | None = None
    """Share of the step's computation with rows that runs in towers, from 0 to 1, counted from
    shapes; None with `per_tower=True`, and if nothing is computed."""
    once: tuple[str, ...] = ()
    """Names of operations that take the rows of all towers and run once, the costliest first."""

    @property
    def crossing(self) -> Crossing:
        """The `Crossing` of all kinds together."""
        parts = self.kinds.values()
        return Crossing(
            sum(part.number for part in parts),
            sum(part.size for part in parts),
            any(part.is_least for part in parts),
        )

    def __str__(self) -> str:
        replicas = ", and a replica with each other tower" if self.are_replicated else ""
        lines = [
            f"towers     {len(self.devices)}, on {', '.join(self.devices)}",
            f"rows       {', '.join('?' if rows is None else str(rows) for rows in self.rows)}",
            *([f"loss       {self.loss_reduction}"] if self.loss_reduction else []),
            f"variables  {self.variables}, {_megabytes(self.variable_bytes)}, on "
            f"{', '.join(self.variable_devices) or 'no device'}{replicas}",
            *([f"placement  'auto': {self.why}"] if self.why else []),
            f"gradients  {_where_summed(self)}",
            *([] if self.share is None else [f"in towers  {_percent(self.share)}"]),
            *([f"runs once  {', '.join(self.once[:5])}"] if self.once else []),
            "",
            "crossing devices in a step",
            *(f"  {kind:<10}{crossing}" for kind, crossing in self.kinds.items()),
            f"  {'all':<10}{self.crossing}",
            "",
            "by link, without scalars",
            *(f"  {crossing}  {a} to {b}" for (a, b), crossing in sorted(self.links.items())),
        ]
        return "\n".join(lines)


def tower_report() -> TowerReport:
    """Prints the `TowerReport` of the model that was last built for training.

        estimator.train(input_fn, max_steps=1)
        report = replicate.tower_report()

    Returns:
        The `TowerReport`.

    Raises:
        RuntimeError: If this process has built no such model for several devices.
    """
    print(last())
    return last()


def last() -> TowerReport:
    """Returns the `TowerReport` that `tower_report` prints."""
    if _last is None:
        raise RuntimeError(
            "`tower_report` describes the model that was last built for training on several "
            "devices, but this process has built none. Call it after `Estimator.train`."
        )
    return _last


def last_of(graph: tf.Graph) -> TowerReport | None:
    """Returns the `TowerReport` of a graph; None if it has no towers, or is not the last one."""
    return _last if _graph is not None and _graph() is graph else None


def publish(
    placement: Any,
    shards: sharding.Shards,
    loss_reduction: str | None,
    spec: tf.estimator.EstimatorSpec,
    coverage: Any = None,
) -> None:
    """Stores the report of a model that is built for training, and logs a summary.

    Args:
        placement: The `Placement`.
        shards: The `Shards`.
        loss_reduction: With `per_tower=True` the `tf.losses.Reduction`, else None.
        spec: The `EstimatorSpec` of all towers.
        coverage: The `Coverage`, None if it was not measured.
    """
    global _last, _graph
    known = isinstance(shards.total, int)
    variables = [one for one in tf.global_variables() if one is not tf.train.get_global_step()]
    crossing = transfers.crossing([spec.train_op, spec.loss])
    kinds = collections.defaultdict(list)
    links = collections.defaultdict(list)
    for transfer in crossing:
        kinds[transfer.kind].append(transfer)
        if transfer.size is None or transfer.size > _SIGNAL_BYTES:
            links[transfer.source or "any", transfer.destination or "any"].append(transfer)
    _graph = weakref.ref(tf.get_default_graph())
    report = _last = TowerReport(
        devices=placement.devices,
        rows=tuple(rows if known else None for rows in shards.rows),
        loss_reduction=loss_reduction,
        variables=len(variables),
        variable_bytes=sum(map(packing.size_of_variable, variables)),
        variable_devices=tuple(sorted({variable.device for variable in variables})),
        are_replicated=placement.replicates,
        summed_on=tuple(sorted(_summed_on(crossing))),
        kinds={kind: Crossing.from_transfers(kinds[kind]) for kind in transfers.KINDS},
        links={link: Crossing.from_transfers(tensors) for link, tensors in links.items()},
        why=_why(placement),
        share=coverage and coverage.share_told,
        once=tuple(one.operation.name for one in coverage.costliest) if coverage else (),
    )
    tf.logging.info(
        "replicate: global batch %s, %d towers on %s, rows per tower %s; %d variables, %s, on "
        "%s%s; gradients %s; %d tensors, %s cross devices in a step%s.",
        shards.total if known else "of dynamic size",
        len(placement.devices),
        ", ".join(report.devices),
        ", ".join(map(str, shards.rows)) if known else "as even as they can be",
        report.variables,
        _megabytes(report.variable_bytes),
        ", ".join(report.variable_devices) or "no device",
        " and in each tower" if report.are_replicated else "",
        _where_summed(report),
        report.crossing.number,
        ("at least " if report.crossing.is_least else "") + _megabytes(report.crossing.size),
        f"; loss reduction {loss_reduction}" if loss_reduction else "",
    )
    if report.share is not None:
        _tell_share(coverage, report.share, len(placement.devices), crossing)


def _tell_share(
    coverage: Any, share: float, towers: int, crossing: Iterable[transfers.Transfer]
) -> None:
    """Logs the share of a step that runs in towers; warns if it is small."""
    what = "the step's computation" if coverage.share_multiplied is None else "the multiplications"
    sums = {transfer.taker for transfer in crossing if _is_summed(transfer)}
    entries = sum(taker.outputs[0].shape.num_elements() or 0 for taker in sums)
    pack = "pack" if len(sums) == 1 else "packs"
    packs = f"; {_short(entries)} gradients are summed in {len(sums)} {pack}" if entries else ""
    tf.logging.info("replicate: %s of %s run in %d towers%s.", _percent(share), what, towers, packs)
    first = coverage.costliest[0] if coverage.costliest else None
    if share >= _LITTLE or first is None or first.cost < _MATTERS:
        return
    tf.logging.warning(
        "replicate: only %s of %s run in %d towers. '%s', %s at %s, runs once, on the rows of all: "
        "%s. It and the operations that follow are %s of the computation. The result is the same, "
        "but takes longer. To have them in towers, %s.",
        _percent(share),
        what,
        towers,
        first.operation.name,
        first.operation.type,
        line_of(first.operation),
        first.why,
        _percent(first.cost / (coverage.towers + coverage.one_device)),
        first.advice,
    )


def tell_of_session(devices: Sequence[str], config: tf.ConfigProto | None) -> None:
    """Logs the cost of a session without the options that `session_config` adds.

    Args:
        devices: Device strings of the towers.
        config: The `session_config` of the `RunConfig`, None if it has none.
    """
    if devices_lib.costs_time(devices, config):
        tf.logging.info(
            "replicate: with the session_config of this RunConfig, TensorFlow's graph optimizer "
            "processes the operations of every tower, so that the first step takes up to twice as "
            "long, and each kernel may use all cores. Write "
            "RunConfig(session_config=replicate.session_config(devices, base=config))."
        )


def _is_summed(transfer: transfers.Transfer) -> bool:
    return transfer.kind == "gradients" and transfer.taker.type in _SUMS


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _short(number: float) -> str:
    """Returns a number in thousands or millions."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.0f}"


def _where_summed(report: TowerReport) -> str:
    # Plain assignments, of which Keras's optimizers are made, do not tell which sums are gradients.
    if not report.summed_on:
        return "counted as 'other': TowerOptimizer would tell which sums are gradients"
    return f"summed on {', '.join(report.summed_on)}"


def _summed_on(crossing: Iterable[transfers.Transfer]) -> set[str]:
    """Returns the devices that gradients are sent to."""
    return {transfer.destination for transfer in crossing if _is_summed(transfer)}


def _why(placement: Any) -> str:
    """Returns the reason for a `Placement`; empty if the user chose it."""
    if not placement.why:
        return ""
    found = "replicas" if placement.replicates else "on one device"
    return f"{found}, {placement.why}"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.3g} MB"
