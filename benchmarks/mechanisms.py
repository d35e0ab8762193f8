"""Compares the partitioned graph with copies of tower 0, and with one device.

    python -m benchmarks.mechanisms --cases resnet50x4,bertx4,wide4 --rounds 3

Rounds, medians and ratios are those of `benchmarks.towers`, in processes of their own. Prints one
JSON line per case and engine, then a table, which `--page` writes into the documentation.
"""

import sys

from benchmarks import mechanisms_engine, networks, pages, towers
from replicate.bench import models
from replicate.bench.harness import names_of

ENGINES = ("single", "replicate", "partitioned")
CASES = {
    "resnet50x4": networks.CASES["resnet50"]._replace(towers=4),
    "bertx4": networks.CASES["bert"]._replace(towers=4),
    "wide4": models.CASES["wide"]._replace(towers=4),
    "mobilenet_v2x4": networks.CASES["mobilenet_v2"]._replace(towers=4),
}


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = towers.arguments(__doc__.splitlines()[0], CASES)
    parser.set_defaults(cases=["resnet50x4", "bertx4", "wide4"])
    parser.add_argument("--engines", type=names_of(ENGINES), default=list(ENGINES))
    args = parser.parse_args(argv)
    made = towers.measured(args, CASES, mechanisms_engine.__name__, [])
    table = towers.table(made, ours="partitioned")
    print("\n" + table)
    if args.page:
        pages.write(args.page, "benchmarks.mechanisms", f"{towers.where_and_how(made)}\n\n{table}")


if __name__ == "__main__":
    main(sys.argv[1:])
