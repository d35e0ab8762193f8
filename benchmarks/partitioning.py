"""Measures what partitioning costs: real networks in four towers, and on one device.

    python -m benchmarks.partitioning --cases resnet50x4,bertx4,wide4 --rounds 3

The engine `exact` is `replicate` with `batch_norm="batch"` and `random="batch"`. `plain_session` is
`replicate` with a `ConfigProto` that lacks what `replicate.session_config` adds.

Rounds, medians and ratios are those of `benchmarks.towers`, in processes of their own. Prints one
JSON line per case and engine, then a table, which `--page` writes into the documentation.
"""

import sys

from benchmarks import networks, pages, partitioning_engine, towers
from replicate.bench import models
from replicate.bench.harness import names_of

ENGINES = ("single", "replicate", "exact", "plain_session", "mirrored", "central")
CASES = {
    "wide4": models.CASES["wide"]._replace(towers=4),
    **{
        f"{name}x{number}": case._replace(towers=number)
        for name, case in networks.CASES.items()
        for number in (2, 4)
    },
}


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = towers.arguments(__doc__.splitlines()[0], CASES)
    parser.set_defaults(cases=["resnet50x4", "bertx4", "wide4"])
    parser.add_argument("--engines", type=names_of(ENGINES), default=["single", "replicate"])
    args = parser.parse_args(argv)
    made = towers.measured(args, CASES, partitioning_engine.__name__, [])
    table = towers.table(made)
    print("\n" + table)
    if args.page:
        text = f"{towers.where_and_how(made)}\n\n{table}"
        pages.write(args.page, "benchmarks.partitioning", text)


if __name__ == "__main__":
    main(sys.argv[1:])
