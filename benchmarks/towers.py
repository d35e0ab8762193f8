"""Compares `replicate` with other ways to train an Estimator on N devices, on logical CPU devices.

    python -m benchmarks.towers --cases wide8,mlp2 --engines mirrored,replicate --out towers.jsonl

A *round* runs every engine once on a case, one after the other and each in its own process, so that
a slow spell of the machine falls on all of them. Figures are medians over rounds; ratios are taken
within a round and then their median. Prints one JSON line per case and engine, then a table, which
`--page docs/figures.md` writes into the documentation.
"""

import argparse
import statistics
import sys

from benchmarks import pages
from replicate.bench import engines, harness, losses, models
from replicate.bench.harness import names_of, positive

ENGINES = ("single", "mirrored", "central", "replicate")
STEP = ("step_ms_p50", "step_ms_p10", "step_ms_p90")
TIMES = ("build_s", "session_s", "first_run_s", "first_step_s")
FIGURES = (*STEP, "cores_used", *TIMES, "ops_at_begin", "ops_in_session", "ops_run", "peak_rss_mb")
COMPARED = ("step_ms_p50", *TIMES, "ops_in_session", "ops_run", "peak_rss_mb")
SPREAD = ("step_ms_p50", *TIMES, "peak_rss_mb")  # graphs do not differ between rounds
TITLES = {
    "single": "one device",
    "mirrored": "`MirroredStrategy`",
    "central": "`CentralStorageStrategy`",
    "ancestor": "ancestor",
    "replicate": "`replicate`",
    "exact": "`replicate`, exact",
    "plain_session": "`replicate`, session of one's own",
}
ROWS = {
    "step_ms_p50": ("step ms", "{:.1f}"),
    "build_s": ("graph build s", "{:.2f}"),
    "first_step_s": ("to the end of the first step s", "{:.2f}"),
    "ops_in_session": ("graph ops", "{:,.0f}"),
    "ops_run": ("ops run in a step", "{:,.0f}"),
    "peak_rss_mb": ("peak RSS MB", "{:,.0f}"),
}
MISSING = "–"  # In a table, where an engine cannot train a case.
LAST_RTOL = 0.1  # of the mean over the last pass; rounding in 61 layers has grown to 2e-2

CASES = {
    "wide8": models.CASES["wide"]._replace(towers=8),
    "wide2": models.CASES["wide"]._replace(towers=2),
    "cnn2": models.CASES["cnn"]._replace(towers=2),
    "mlp2": models.CASES["mlp"]._replace(towers=2, intra_op_threads=1),
    "resnet50x4": models.CASES["resnet50"]._replace(towers=4),
    "resnet50x8": models.CASES["resnet50"]._replace(towers=8),
}
# Of models whose towers have other losses than one device from the first step on, by fused batch
# norm of few rows or by dropout: in how many steps engines of the same numbers agree. The losses of
# the last pass are near zero, of which rounding is a large part; few rows let it grow.
_DIFFER = {"resnet50": losses.STEPS, "mobilenet_v2": 1, "bert_dropout": losses.STEPS}
_OF_ONE_DEVICE = ("single", "exact")  # Engines that have its moments and random numbers.


def run_engine(case, engine, warmup, steps, module=engines.MODULE):
    """Trains `case` with `engine` in a process of its own.

    Args:
        case: The `models.Case` to train.
        engine: One of `ENGINES`, or an engine of `module`.
        warmup: Steps before the first timed one.
        steps: Number of timed steps.
        module: As of `engines.run`.

    Returns:
        The dict described at `engines.measure`, with the means of the loss over the first and the
        last pass over the data, and `first_run_s`, what of `first_step_s` is neither of the graph's
        building nor of the session's making.

    Raises:
        ValueError: If `warmup + steps` is less than two passes over the data.
        RuntimeError: If the process fails, or the loss does not fall.
    """
    batches = models.GLOBAL_BATCHES
    if warmup + steps < 2 * batches:
        raise ValueError(
            f"`warmup + steps` must be at least {2 * batches}, two passes over the data, but is "
            f"{warmup + steps}. Raise `steps`."
        )
    result = engines.run(case, engine, warmup, steps, module=module)
    # Whole passes over the same batches: without updates both means would be equal.
    first = statistics.mean(result["losses"][:batches])
    last = statistics.mean(result["losses"][-batches:])
    if not last < 0.999 * first:
        raise RuntimeError(
            f"The loss must fall by 0.1%, but with `{engine}` its mean over the data went from "
            f"{first} to {last}. Raise `--steps`, or look for updates that are lost."
        )
    first_run = result["first_step_s"] - result["build_s"] - result["session_s"]
    return {**result, "first_run_s": first_run, "loss_first_pass": first, "loss_last_pass": last}


def check_losses(name, case, results):
    """Checks that all engines trained the same model on the same rows.

    Args:
        name: The case's name, for messages.
        case: The `Case`.
        results: Engine -> its dict from `run_engine`.

    Raises:
        RuntimeError: If the first losses, or the last ones, differ between engines. Where towers
            have other ones than one device, only the first ones are compared, of each kind.
    """
    steps = _DIFFER.get(case.model, losses.STEPS)
    of_one = {engine: result for engine, result in results.items() if engine in _OF_ONE_DEVICE}
    of_towers = {engine: result for engine, result in results.items() if engine not in of_one}
    groups = [of_one, of_towers] if case.model in _DIFFER else [results]
    if case.model == "bert_dropout":
        groups = [of_one]  # Each engine of towers draws its own numbers.
    for group in filter(None, groups):
        losses.check(name, {engine: result["losses"][:steps] for engine, result in group.items()})
    if case.model in _DIFFER:
        return
    last = {engine: [result["loss_last_pass"]] for engine, result in results.items()}
    losses.check_near(name, "the last pass", last, LAST_RTOL)


def records(name, case, rounds):
    """Returns one flat, self-describing record per engine of a case.

    Args:
        name: The case's name.
        case: The `Case`.
        rounds: One dict per round, engine -> its dict from `run_engine`.
    """
    made = []
    for engine in rounds[0]:
        runs = [results[engine] for results in rounds]
        record = {"case": name, "engine": engine, **case._asdict()}
        record["towers"] = 1 if engine == "single" else case.towers
        record["device"] = "logical CPU"
        for figure in FIGURES:
            over_rounds = harness.spread([run[figure] for run in runs])
            record[figure] = over_rounds["median"]
            if figure in SPREAD:
                record[figure + "_round_min"] = over_rounds["min"]
                record[figure + "_round_max"] = over_rounds["max"]
        record["ratio_to"] = {peer: {} for peer in rounds[0] if peer != engine}
        for peer, ratios in record["ratio_to"].items():
            for figure in COMPARED:
                pairs = [(results[engine][figure], results[peer][figure]) for results in rounds]
                ratios[figure] = harness.spread([mine / other for mine, other in pairs])
        record["loss_first_pass"] = runs[0]["loss_first_pass"]
        record["loss_last_pass"] = runs[0]["loss_last_pass"]
        record["load_average_max"] = max(run["load_average"] for run in runs)
        record.update({key: runs[0][key] for key in ("tf", "numpy", "python")})
        made.append(record)
    return made


def table(made, rows=ROWS, ours="replicate"):
    """Returns records as a Markdown table: of each case the figures of all engines, side by side.

    Args:
        made: List of records, as `records` makes them.
        rows: Of each figure that is shown, its title and its format.
        ours: The engine whose ratios to the others are shown; the last one if it was left out.
    """
    names = list(dict.fromkeys(record["engine"] for record in made))
    ours = ours if ours in names else names[-1]
    peers = [name for name in names if name != ours]
    titles = ["case", "figure", *(TITLES.get(name, name) for name in names)]
    titles += [f"÷ {TITLES.get(name, name)} (min, max)" for name in peers]
    lines = [" | ".join(["", *titles, ""]).strip(), "|" + " --- |" * len(titles)]
    for case in dict.fromkeys(record["case"] for record in made):
        of = {record["engine"]: record for record in made if record["case"] == case}
        for number, (figure, (title, form)) in enumerate(rows.items()):
            cells = ["" if number else case, title]
            cells += [
                form.format(of[engine][figure]) if engine in of else MISSING for engine in names
            ]
            for peer in peers:
                ratio = of[ours]["ratio_to"].get(peer)
                found = "{median:.2f} ({min:.2f}, {max:.2f})"
                cells.append(found.format(**ratio[figure]) if ratio else MISSING)
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def where_and_how(made):
    """Returns in words where and how records were measured, as one line."""
    steps = f"{made[0]['steps']} steps after {made[0]['warmup']}"
    return f"{pages.measured_on(made)} Each run: {steps}."


def arguments(description, cases):
    """Returns the parser of a command line that chooses among `cases`, and says how to measure."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=names_of(cases), default=list(cases))
    parser.add_argument("--rounds", type=positive, help="default 5, or 1 with --quick")
    parser.add_argument("--steps", type=positive, help="timed steps, default 100; --quick 16")
    parser.add_argument("--warmup", type=positive, help="steps not timed, default 20; --quick 2")
    parser.add_argument("--out", help="file to which the JSON lines are appended")
    parser.add_argument("--page", help="page of the documentation into which to write the table")
    parser.add_argument("--quick", action="store_true", help="tiny models, figures mean nothing")
    return parser


def measured(args, cases, module=engines.MODULE, without=()):
    """Measures as a command line says, and publishes each record.

    Args:
        args: What the parser of `arguments` made of it, and `engines`, a list of names.
        cases: Each `Case` by its name.
        module: As of `engines.run`.
        without: Pairs of a model and an engine that cannot train it.

    Returns:
        List of records, as `records` makes them, with the machine and the versions.
    """
    rounds = args.rounds or (1 if args.quick else 5)
    steps = args.steps or (16 if args.quick else 100)
    warmup = args.warmup or (2 if args.quick else 20)
    made, context = (
        [],
        dict(harness.machine(), rounds=rounds, steps=steps, warmup=warmup, quick=args.quick),
    )
    for name in args.cases:
        case = cases[name]
        if args.quick:
            classes = min(case.classes, 50)
            case = case._replace(layers=2, width=8, global_batch=16, classes=classes)
        results = []
        for number in range(rounds):
            results.append({})
            for engine in args.engines:
                if (case.model, engine) in without:
                    continue
                print(f"{name}: round {number + 1} of {rounds}, {engine}", file=sys.stderr)
                results[-1][engine] = run_engine(case, engine, warmup, steps, module)
            check_losses(name, case, results[-1])
        version = next(iter(results[0].values()))["replicate"]
        for record in records(name, case, results):
            record.update(context, replicate=version)
            made.append(record)
            harness.publish(record, args.out)
    return made


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = arguments(__doc__.splitlines()[0], CASES)
    parser.add_argument("--engines", type=names_of(ENGINES), default=list(ENGINES))
    args = parser.parse_args(argv)
    made = measured(args, CASES)
    print("\n" + table(made))
    if args.page:
        pages.write(args.page, "benchmarks.towers", f"{where_and_how(made)}\n\n{table(made)}")


if __name__ == "__main__":
    main()
