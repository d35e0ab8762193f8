"""The table that `python -m replicate bench` prints, and its advice which choice to take."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from replicate.bench import choices, harness, plan

_FIGURES = ("step_ms_p50", "step_ms_p10", "step_ms_p90", "build_s", "cores_used", "peak_rss_mb")
_OF_GRAPHS = (
    "transfers",
    "transfers_of_unknown_size",
    "bytes",
    "links",
    "ops_in_session",
    "ops_run",
)


def record(
    model: str, setup: plan.Setup, alone: plan.Setup, rounds: Sequence[Mapping[plan.Setup, Any]]
) -> dict[str, Any]:
    """Returns the record of a setup to train a model, a flat dict ready for JSON.

    Args:
        model: The model's name.
        setup: The `plan.Setup`.
        alone: The `plan.Setup` on one device.
        rounds: List of a dict per round that has run both: results of `engines.measure` by setup.
    """
    runs, case = [results[setup] for results in rounds], setup.case
    size = len(setup.devices)
    rates = [_rate(setup, results) for results in rounds]
    shares = [_rate(setup, results) / _rate(alone, results) / size for results in rounds]
    made = {
        "model": model,
        "way": setup.name,
        "engine": setup.engine,
        "choice": setup.choice,
        "devices": list(setup.devices),
        **{key: value for key, value in case._asdict().items() if key != "model"},
        "examples_per_s": harness.spread(rates),
        "efficiency": harness.spread(shares),
        **{figure: harness.spread([run[figure] for run in runs]) for figure in _FIGURES},
        **{figure: runs[0][figure] for figure in _OF_GRAPHS},
        "all_reduced_bytes": _by_ring(runs[0]["all_reduced"], size),
        "peak_gpu_mb": None,
        "losses": runs[0]["losses"],
        "load_average_max": max(run["load_average"] for run in runs),
    }
    if runs[0]["peak_gpu_mb"] is not None:
        made["peak_gpu_mb"] = harness.spread([run["peak_gpu_mb"] for run in runs])
    made.update({key: runs[0][key] for key in ("tf", "numpy", "python", "replicate")})
    return {**made, "rounds": len(rounds)}


def line(record: Mapping[str, Any], rounds: int) -> str:
    """Returns a record as a line of text, with the number of its last round out of `rounds`."""
    devices = len(record["devices"])
    text = f"{record['model']}, {record['way']}"
    text += f", {devices} devices" if record["engine"] != "single" else ""
    text += f": {record['step_ms_p50']['median']:.1f} ms a step"
    text += f", {record['examples_per_s']['median']:,.0f} examples/s"
    if record["engine"] != "single":
        text += f", efficiency {record['efficiency']['median']:.2f}"
    return f"{text} (after round {record['rounds']} of {rounds})"


def _rate(setup: plan.Setup, results: Mapping[plan.Setup, Any]) -> float:
    return setup.case.global_batch / results[setup]["step_ms_p50"] * 1e3


def _by_ring(sizes: Iterable[int | None], num_devices: int) -> int:
    """Returns the bytes that cross devices when tensors of these sizes are all-reduced in a ring.

    With N devices, each device sends 1 / N of its tensor N - 1 times to sum it and N - 1 times to
    share the sums.

    Args:
        sizes: Sizes of the tensors in bytes, one for each device; None counts as 0.
        num_devices: N.
    """
    return int(sum(size or 0 for size in sizes) * 2 * (num_devices - 1) / num_devices)


def table(made: Iterable[Mapping[str, Any]]) -> str:
    """Returns records as a Markdown table."""
    lines = [
        "| model | engine | devices | rows | step ms p50 (p10, p90) | examples/s | efficiency "
        "(min, max) | transfers | MB sent | graph build s | peak RSS MB | peak GPU MB |",
        "|" + " --- |" * 12,
    ]
    for record in made:
        step = [record[f"step_ms_{name}"]["median"] for name in ("p50", "p10", "p90")]
        gpu = record["peak_gpu_mb"]
        sent = f"{record['bytes'] / 1e6:.2f}"
        if record["all_reduced_bytes"]:
            sent += f" + ring {record['all_reduced_bytes'] / 1e6:.2f}"
        cells = [
            record["model"],
            record["way"],
            str(len(record["devices"])),
            str(record["global_batch"]),
            "{:.1f} ({:.1f}, {:.1f})".format(*step),
            f"{record['examples_per_s']['median']:,.0f}",
            "{median:.2f} ({min:.2f}, {max:.2f})".format(**record["efficiency"]),
            str(record["transfers"]),
            sent,
            f"{record['build_s']['median']:.1f}",
            f"{record['peak_rss_mb']['median']:,.0f}",
            f"{gpu['median']:,.0f}" if gpu else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def advice(made: Iterable[Mapping[str, Any]], named: Mapping[str, choices.Choice]) -> list[str]:
    """Returns lines that name the fastest of several choices.

    A choice counts as faster than another if its smallest efficiency is above the other's largest.

    Args:
        made: List of records, as `record` returns them, with equal numbers of rounds.
        named: The choices, by name.
    """
    groups: dict[Any, list[Any]] = {}
    for record in made:
        if record["choice"]:
            groups.setdefault((record["model"], len(record["devices"])), []).append(record)
    lines = []
    for (model, count), rivals in groups.items():
        if len(rivals) < 2:
            continue
        best, *others = sorted(rivals, key=lambda each: -each["efficiency"]["median"])
        equals = [
            other["choice"]
            for other in others
            if other["efficiency"]["max"] >= best["efficiency"]["min"]
        ]
        if equals:
            lines.append(
                f"`{model}`, {count} devices: {best['choice']} was fastest, but not in every round "
                f"faster than {', '.join(equals)}. Take the simplest, or run more `--rounds`."
            )
            continue
        ratio = best["efficiency"]["median"] / others[0]["efficiency"]["median"]
        lines.append(
            f"`{model}`, {count} devices: {best['choice']} was fastest, {ratio:.2f} times "
            f"{others[0]['choice']}. Take {choices.as_code(named[best['choice']])}."
        )
    return lines
