"""Memory and time of a reversible network, with the settings of the published comparison.

    python -m benchmarks.revnet --cases cifar38,cifar110 --rounds 3 --out revnet.jsonl

The gradients of 64 images of 32×32 pixels, without an optimizer, as a `tf.function`; see
`examples/revnet/profiling/gradient_costs.py` for what is measured and how. A round measures all
ways in processes of their own; figures are medians over rounds. Prints one JSON line per case and
way, and a table.
"""

import argparse
import statistics
import sys

from examples.revnet.profiling import gradient_costs
from examples.revnet.profiling.gradient_costs import BASE, WAYS
from replicate.bench import harness
from replicate.bench.harness import names_of, positive

CASES = ("cifar38", "cifar110")
_MEDIANS = ("activations_mb", "peak_rss_mb")


def records(rounds):
    """Returns one record per way, of medians over rounds; each is by `gradient_costs.measure`."""
    made = []
    for of_way in zip(*rounds):
        record = {**of_way[0], "processes": len(rounds)}
        for figure in _MEDIANS:
            record[figure] = statistics.median(one[figure] for one in of_way)
        for figure in ("step_ms", f"time_to_{BASE}"):
            record[figure] = harness.spread([one[figure]["median"] for one in of_way])
        record["load_average_max"] = max(one["load_average"] for one in of_way)
        made.append(record)
    return made


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=names_of(CASES), default=list(CASES))
    parser.add_argument("--ways", type=names_of(WAYS), default=list(WAYS))
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--steps", type=positive, default=9, help="of each way, in turns")
    parser.add_argument("--quick", action="store_true", help="tiny, figures mean nothing")
    parser.add_argument("--out", help="file to which the JSON lines are appended")
    args = parser.parse_args(argv)
    rounds, steps = (1, 2) if args.quick else (args.rounds, args.steps)
    small = {"units": [1], "filters": [32], "image_shape": [8, 8, 3]} if args.quick else {}
    made, context = [], {**harness.machine(), "quick": args.quick}
    ways = [BASE, *(way for way in args.ways if way != BASE)]
    for name in args.cases:
        case = {"preset": name, "overrides": small, "batch_size": 64, "engine": "function"}
        results = []
        for number in range(rounds):
            print(f"{name}: round {number + 1} of {rounds}", file=sys.stderr)
            results.append(gradient_costs.measure(case, ways, steps))
        for record in records(results):
            made.append({**record, **context})
            harness.publish(made[-1], args.out)
    print("\n" + gradient_costs.table(made))


if __name__ == "__main__":
    main()
