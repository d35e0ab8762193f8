"""The time of a step of the architecture search, compared with that of its necessary parts.

    python -m benchmarks.nas_speed --cases proxyless --rounds 3 --out nas_speed.jsonl

`nas_steps.py` describes the engines. A *round* runs every engine of a case once, one after the
other and each in its own process. Figures are medians over rounds; ratios to `search` are taken
within a round and then their median. Prints one JSON line per case and engine, then a table.
"""

import argparse
import sys
import typing

from replicate.bench import harness
from replicate.bench.harness import names_of, positive

STEPS = ("search", "alone", "masked", "towers", "all")
FIGURES = ("step_ms", "first_step_s", "build_s", "build_cpu_s", "peak_rss_mb")
TIMEOUT_S = 1800


class Case(typing.NamedTuple):
    """A search space, the rows of a step, and what is compared."""

    ssd: str
    side: int  # of an image, in pixels
    channels: int
    classes: int
    train_rows: int
    validation_rows: int
    engines: tuple
    repeats: int = 8  # of each network's step; 0: only the graph is built


CASES = {
    # 8×8 images: what TensorFlow needs for each operation decides.
    "digits": Case("digits_search", 8, 1, 10, 64, 128, STEPS),
    # Mobile networks, on images of a twelfth of the usual pixels: arithmetic decides.
    "proxyless": Case("proxylessnas_search", 64, 3, 1000, 16, 64, STEPS),
    "memory": Case("proxylessnas_search", 64, 3, 1000, 128, 128, ("search", "stored", "all"), 1),
    # The largest space published, as it is searched on two GPUs.
    "build": Case("mobilenet_v3_like_search", 224, 3, 1000, 128, 512, ("towers",), 0),
}


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=names_of(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--networks", type=positive, default=6, help="an even number")
    parser.add_argument("--out", help="file to which the JSON lines are appended")
    parser.add_argument("--quick", action="store_true", help="small images, figures mean nothing")
    args = parser.parse_args(argv)
    made, context = [], {**harness.machine(), "rounds": args.rounds, "quick": args.quick}
    for name in args.cases:
        case = CASES[name]
        if args.quick:
            case = case._replace(ssd="digits_search", side=8, repeats=min(case.repeats, 1))
        results = []
        for number in range(args.rounds):
            results.append({})
            for engine in case.engines:
                print(f"{name}: round {number + 1} of {args.rounds}, {engine}", file=sys.stderr)
                request = {"case": case._asdict(), "engine": engine}
                request.update(networks=args.networks, repeats=case.repeats)
                results[-1][engine] = harness.run("benchmarks.nas_steps", request, TIMEOUT_S)
        for record in records(name, case, results):
            record.update(context, networks=args.networks)
            made.append(record)
            harness.publish(record, args.out)
    print("\n" + table(made))


def records(name, case, rounds):
    """Returns one flat, self-describing record per engine of a case.

    Args:
        name: The case's name.
        case: The `Case`.
        rounds: One dict per round, engine -> its dict from `nas_steps.measure`.
    """
    made = []
    base = case.engines[0]
    for engine in case.engines:
        runs = [results[engine] for results in rounds]
        record = {"case": name, "engine": engine, **case._asdict(), "device": "logical CPU"}
        for figure in FIGURES:
            if figure in runs[0]:
                record[figure] = harness.spread([run[figure] for run in runs])
                ratios = [results[engine][figure] / results[base][figure] for results in rounds]
                record[f"{figure}_to_{base}"] = harness.spread(ratios)
        record.update({key: runs[0][key] for key in ("ops", "forward_mflops")})
        record["load_average_max"] = max(run["load_average"] for run in runs)
        record.update({key: runs[0][key] for key in ("tf", "numpy", "python")})
        made.append(record)
    return made


def table(made):
    """Returns `made`, a list of records, as a Markdown table."""
    lines = [
        "| case | engine | step ms | step, ratio (round min, max) | forward MFLOP "
        "| graph build s | peak RSS MB |",
        "|" + " --- |" * 7,
    ]
    for record in made:
        ratio = next((record[key] for key in record if key.startswith("step_ms_to_")), None)
        step = record.get("step_ms", {}).get("median")
        flops = record["forward_mflops"]
        cells = [
            record["case"],
            record["engine"],
            f"{step:.1f}" if step else "",
            "{median:.2f} ({min:.2f}, {max:.2f})".format(**ratio) if ratio else "",
            f"{flops:.4g}" if flops else "",
            f"{record['build_s']['median']:.1f}",
            f"{record['peak_rss_mb']['median']:,.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
