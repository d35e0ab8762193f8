"""What a user waits for: real networks on N logical CPU devices, beside the peers and one device.

    python -m benchmarks.real_models --cases bertx4,lstmx8 --rounds 3

Rounds, medians and ratios are those of `benchmarks.towers`. Besides, it tells where the time until
the end of the first step goes: Python, which builds the graph; the session, which takes it, places
it and initialises variables; and the first run, which places and optimises what is trained, and
does a step. Prints one JSON line per case and engine, then a table, which `--page` writes into a
page of the documentation.
"""

import sys

from benchmarks import networks, pages, real_models_engine, towers
from replicate.bench.harness import names_of

ENGINES = ("single", *real_models_engine.PLACEMENTS, "mirrored", "central", "replicate")
CASES = {
    f"{model}x{number}": case._replace(towers=number)
    for number in (4, 2, 8, 1)
    for model, case in networks.CASES.items()
}
# On TensorFlow 2.15, MirroredStrategy fails on the gradients of both optimizers' columns, with an
# error of its own in the graph.
_CANNOT = [("wide_and_deep", "mirrored")]
_MODULE = real_models_engine.__name__
_ROWS = {
    "build_s": ("graph build s", "{:.2f}"),
    "session_s": ("session s", "{:.2f}"),
    "first_run_s": ("first run s", "{:.2f}"),
    **towers.ROWS,
}


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = towers.arguments(__doc__.splitlines()[0], CASES)
    parser.set_defaults(cases=[f"{model}x4" for model in networks.CASES])
    parser.add_argument("--engines", type=names_of(ENGINES), default=list(ENGINES))
    args = parser.parse_args(argv)
    made = towers.measured(args, CASES, _MODULE, _CANNOT)
    print("\n" + towers.table(made, _ROWS))
    if args.page:
        pages.write(args.page, "benchmarks.real_models", towers.text(made, _ROWS))


if __name__ == "__main__":
    sys.exit(main())
