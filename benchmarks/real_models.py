"""Times that a user waits: real networks on N logical CPU devices, peers and one device.

    python -m benchmarks.real_models --cases bertx4,lstmx8 --rounds 3

Rounds, medians and ratios are those of `benchmarks.towers`. It also shows where the time until
the end of the first step goes: Python, which builds the graph; the session, which takes it, places
it and initialises variables; and the first run, which places and optimises the training step, and
does it once. Prints one JSON line per case and engine, then a table, which `--page` writes into a
page of the documentation. With `--ratios`, that has a line for each case, of ratios to one device.
"""

import sys

import tensorflow.compat.v1 as tf

from benchmarks import networks, pages, real_models_engine, towers
from replicate.bench.harness import names_of

ENGINES = ("single", *real_models_engine.PLACEMENTS, "mirrored", "central", "replicate")
CASES = {
    f"{model}x{number}": case._replace(towers=number)
    for number in (4, 2, 8, 1)
    for model, case in networks.CASES.items()
}
# Peers that fail with an error of TensorFlow: MirroredStrategy on the gradients of the columns of
# both optimizers; CentralStorageStrategy of TensorFlow 1 on sparse gradients with Adam.
_CANNOT = [("wide_and_deep", "mirrored")]
if tf.__version__ < "2":
    _CANNOT += [("lstm", "central"), ("wide_and_deep", "central")]
_MODULE = real_models_engine.__name__
_ROWS = {
    "build_s": ("graph build s", "{:.2f}"),
    "session_s": ("session s", "{:.2f}"),
    "first_run_s": ("first run s", "{:.2f}"),
    **towers.ROWS,
}
_RATIOS = ("first_step_s", "step_ms_p50", "peak_rss_mb")


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = towers.arguments(__doc__.splitlines()[0], CASES)
    parser.set_defaults(cases=[f"{model}x4" for model in networks.CASES])
    parser.add_argument("--engines", type=names_of(ENGINES), default=list(ENGINES))
    parser.add_argument("--ratios", action="store_true", help="a short table, of ratios alone")
    args = parser.parse_args(argv)
    if args.ratios and "single" not in args.engines:
        parser.error(f"--ratios are those to `single`, but --engines are {','.join(args.engines)}")
    made = towers.measured(args, CASES, _MODULE, _CANNOT)
    table, name = towers.table(made, _ROWS), "benchmarks.real_models"
    if args.ratios:
        table = ratios(made)
        version = ".".join(made[0]["tf"].split(".")[:2])
        name += f" --ratios, TensorFlow {version}"
    print("\n" + table)
    if args.page:
        pages.write(args.page, name, f"{towers.where_and_how(made)}\n\n{table}")


def ratios(made):
    """Returns records as a Markdown table of ratios to one device, a line for each case.

    Args:
        made: List of records, as `towers.records` makes them, of `single` and other engines.
    """
    names = [
        name for name in dict.fromkeys(record["engine"] for record in made) if name != "single"
    ]
    titles = ["case", *(towers.TITLES.get(name, name) for name in names)]
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    for case in dict.fromkeys(record["case"] for record in made):
        of = {record["engine"]: record["ratio_to"] for record in made if record["case"] == case}
        cells = [case]
        for name in names:
            found = of[name]["single"] if name in of else None
            figures = [f"{found[figure]['median']:.2f}" for figure in _RATIOS] if found else []
            cells.append(" · ".join(figures) or towers.MISSING)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
