"""What towers do in a step, for people: where variables are, and what crosses devices."""

from __future__ import annotations

import collections
from typing import Any, Iterable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.graphs import line_of
from replicate.reduction import packing
from replicate.reports import transfers

_SUMS = ("AddN", "NcclAllReduce")
_LITTLE = 0.9  # The share in towers below which a warning tells why.
_MATTERS = 1e7  # How much one device computes at once: less than this takes no time.
_SIGNAL_BYTES = 8  # Weights of towers, flags and scales: they cost a transfer, but no bandwidth.

_last: TowerReport | None = None


class Crossing(NamedTuple):
    """Tensors that cross devices in a step."""

    number: int
    size: int
    """Bytes."""
    is_least: bool
    """Whether there are more bytes, of tensors whose shapes are only known when the graph runs."""

    @classmethod
    def of(cls, tensors: Iterable[transfers.Transfer]) -> Crossing:
        """Returns those of a list of `transfers.Transfer`s."""
        sizes = [transfer.size for transfer in tensors]
        return cls(len(sizes), sum(filter(None, sizes)), None in sizes)

    def __str__(self) -> str:
        return f"{self.number:>6}  {'at least ' if self.is_least else ''}{_megabytes(self.size)}"


class TowerReport(NamedTuple):
    """What towers do in a step; as a string, a table.

    Bytes are those of tensors as the graph is built; TensorFlow may fold some of them away.
    """

    devices: tuple[str, ...]
    """Device strings of the towers."""
    rows: tuple[int | None, ...]
    """Rows of the batch in each tower, None where only known when the graph runs."""
    loss_reduction: str | None
    """How the towers' losses meet with `per_tower=True`, else None: there is one loss."""
    variables: int
    """How many variables all towers share, or have replicas of."""
    variable_bytes: int
    variable_devices: tuple[str, ...]
    """Device strings of these variables, of replicas those of tower 0's."""
    are_replicated: bool
    """Whether later towers have replicas of the variables that are trained."""
    summed_on: tuple[str, ...]
    """Device strings of where gradients are summed."""
    kinds: dict[str, Crossing]
    """A `Crossing` for each of `transfers.KINDS`: weights, gradients, their sums, and so on."""
    links: dict[tuple[str, str], Crossing]
    """A `Crossing` by source and destination, pairs of device strings; of scalars none."""
    why: str = ""
    """What decided where variables are with `variable_placement='auto'`; else empty."""
    share: float | None = None
    """How much of what a step computes with rows runs in towers, from 0 to 1, counted from shapes;
    None with `per_tower=True`, and where nothing is computed."""
    once: tuple[str, ...] = ()
    """What takes rows of all towers and runs once: names of operations, that of the costliest
    first."""

    @property
    def crossing(self) -> Crossing:
        """The `Crossing` of all together."""
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
            f"gradients  summed on {', '.join(self.summed_on) or 'no device'}",
            *([] if self.share is None else [f"in towers  {_percent(self.share)}"]),
            *([f"once       {', '.join(self.once[:5])}"] if self.once else []),
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
    """Prints what the towers of the model that was last built for training do in a step.

        estimator.train(input_fn, max_steps=1)
        report = replicate.tower_report()

    Returns:
        The `TowerReport`.

    Raises:
        RuntimeError: If this process has built none.
    """
    print(last())
    return last()


def last() -> TowerReport:
    """Returns what `tower_report` prints."""
    if _last is None:
        raise RuntimeError(
            "`tower_report` tells of the model that was last built for training on several "
            "devices, but this process has built none. Call it after `Estimator.train`."
        )
    return _last


def publish(
    placement: Any,
    shards: Any,
    loss_reduction: str | None,
    spec: tf.estimator.EstimatorSpec,
    coverage: Any = None,
) -> None:
    """Keeps the report of a model that is built for training, and logs what matters most of it.

    Args:
        placement: The `Placement`.
        shards: The `Shards`.
        loss_reduction: With `per_tower=True` the `tf.losses.Reduction`, else None.
        spec: The `EstimatorSpec` of all towers.
        coverage: The `Coverage`, None if it was not measured.
    """
    global _last
    known = isinstance(shards.total, int)
    variables = [one for one in tf.global_variables() if one is not tf.train.get_global_step()]
    crossing = transfers.crossing([spec.train_op, spec.loss])
    kinds = collections.defaultdict(list)
    links = collections.defaultdict(list)
    for transfer in crossing:
        kinds[transfer.kind].append(transfer)
        if transfer.size is None or transfer.size > _SIGNAL_BYTES:
            links[transfer.source or "any", transfer.destination or "any"].append(transfer)
    report = _last = TowerReport(
        devices=placement.devices,
        rows=tuple(rows if known else None for rows in shards.rows),
        loss_reduction=loss_reduction,
        variables=len(variables),
        variable_bytes=sum(map(packing.size_of_variable, variables)),
        variable_devices=tuple(sorted({variable.device for variable in variables})),
        are_replicated=placement.replicates,
        summed_on=tuple(sorted(_summed_on(crossing))),
        kinds={kind: Crossing.of(kinds[kind]) for kind in transfers.KINDS},
        links={link: Crossing.of(tensors) for link, tensors in links.items()},
        why=_why(placement),
        share=coverage and coverage.share_told,
        once=tuple(one.operation.name for one in coverage.costliest) if coverage else (),
    )
    tf.logging.info(
        "replicate: global batch %s, %d towers on %s, rows per tower %s; %d variables, %s, on "
        "%s%s; gradients summed on %s; %d tensors, %s cross devices in a step%s.",
        shards.total if known else "of dynamic size",
        len(placement.devices),
        ", ".join(report.devices),
        ", ".join(map(str, shards.rows)) if known else "as even as they can be",
        report.variables,
        _megabytes(report.variable_bytes),
        ", ".join(report.variable_devices) or "no device",
        " and in each tower" if report.are_replicated else "",
        ", ".join(report.summed_on) or "no device",
        report.crossing.number,
        ("at least " if report.crossing.is_least else "") + _megabytes(report.crossing.size),
        f"; loss reduction {loss_reduction}" if loss_reduction else "",
    )
    if report.share is not None:
        _tell_share(coverage, report.share, len(placement.devices), crossing)


def _tell_share(
    coverage: Any, share: float, towers: int, crossing: Iterable[transfers.Transfer]
) -> None:
    """Logs how much of a step runs in towers; warns if it is little."""
    what = "what a step computes" if coverage.share_multiplied is None else "the multiplications"
    sums = {transfer.taker for transfer in crossing if _is_summed(transfer)}
    entries = sum(taker.outputs[0].shape.num_elements() or 0 for taker in sums)
    pack = "pack" if len(sums) == 1 else "packs"
    packs = f"; {_short(entries)} gradients are summed in {len(sums)} {pack}" if entries else ""
    tf.logging.info("replicate: %s of %s run in %d towers%s.", _percent(share), what, towers, packs)
    first = coverage.costliest[0] if coverage.costliest else None
    if share >= _LITTLE or first is None or first.cost < _MATTERS:
        return
    tf.logging.warning(
        "replicate: only %s of %s run in %d towers. '%s', %s at %s, takes the rows of all towers "
        "and runs once: %s. With what follows, that is %s of all that is computed. The result is "
        "the same; it takes longer. Compute it row by row to have it in towers.",
        _percent(share),
        what,
        towers,
        first.operation.name,
        first.operation.type,
        line_of(first.operation),
        first.why,
        _percent(first.cost / (coverage.towers + coverage.once)),
    )


def tell_of_session(devices: Sequence[str], config: tf.ConfigProto | None) -> None:
    """Logs what a session costs that lacks what `session_config` adds.

    Args:
        devices: Device strings of the towers.
        config: That of the `RunConfig`, None if it has none.
    """
    if devices_lib.costs_time(devices, config):
        tf.logging.info(
            "replicate: with the session_config of this RunConfig, TensorFlow's graph optimizer "
            "looks at the operations of every tower, so that the first step ends up to twice as "
            "late, and each kernel may use all cores. Write "
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


def _summed_on(crossing: Iterable[transfers.Transfer]) -> set[str]:
    """Returns the devices to which gradients are sent."""
    return {transfer.destination for transfer in crossing if _is_summed(transfer)}


def _why(placement: Any) -> str:
    """Returns what decided on a `Placement`, empty if users did."""
    if not placement.why:
        return ""
    found = "replicas" if placement.replicates else "on one device"
    return f"{found}, {placement.why}"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.3g} MB"
