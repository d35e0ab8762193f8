"""Compares `replicate` with its ancestor, `tf.contrib.estimator.replicate_model_fn`.

    python -m benchmarks.ancestor --cases wide2,mlp2 --rounds 3 --out ancestor.jsonl

Both beside one device, on TensorFlow 1.15, which alone has the ancestor, and on logical CPU
devices. Figures are taken as
`benchmarks.towers` takes them: in processes of their own, in turn, medians over rounds, ratios
within a round. Prints one JSON line per case and engine and per behaviour, then two tables: the
figures, and what each makes of model functions that one device trains; see
`benchmarks.ancestor_behaviours`. `--page docs/ancestor.md` writes them into the documentation.
"""

import sys

import tensorflow.compat.v1 as tf

import replicate
from benchmarks import ancestor_behaviours as behaviours
from benchmarks import pages, towers
from replicate.bench import harness, models

ENGINES = ("single", "ancestor", "replicate")
CASES = {
    "wide2": models.CASES["wide"]._replace(towers=2),
    "wide8": models.CASES["wide"]._replace(towers=8),
    "mlp2": models.CASES["mlp"]._replace(towers=2, intra_op_threads=1),
    "mlp4": models.CASES["mlp"]._replace(towers=4, intra_op_threads=1),
    "cnn2": models.CASES["cnn"]._replace(towers=2),
    "cnn4": models.CASES["cnn"]._replace(towers=4),
}
_ENGINE = "benchmarks.ancestor_engine"
_QUICK = ["uneven batch, 7 rows"]


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = towers.arguments(__doc__.splitlines()[0], CASES)
    parser.set_defaults(engines=ENGINES)
    parser.add_argument("--only", choices=["figures", "behaviours"], help="default: both")
    args = parser.parse_args(argv)
    if not tf.__version__.startswith("1."):
        sys.exit(
            "The ancestor of this library is in TensorFlow 1.15 alone, but this is "
            f"{tf.__version__}. Run this by a Python that has it, e.g. .venv-1.15/bin/python."
        )
    tables = {}
    if args.only != "behaviours":
        made = towers.measured(args, CASES, module=_ENGINE)
        tables["figures"] = f"{towers.where_and_how(made)}\n\n{towers.table(made)}"
    if args.only != "figures":
        print("behaviours", file=sys.stderr)
        cells = harness.run(behaviours.__name__, {"names": _QUICK if args.quick else None}, 900)
        cells.pop("load_average")
        context = dict(harness.machine(), tf=tf.__version__, replicate=replicate.__version__)
        for name, of in cells.items():
            harness.publish({"behaviour": name, **of, **context}, args.out)
        tables["behaviours"] = behaviours.table(cells)
    print("\n" + "\n\n".join(tables.values()))
    for name, text in tables.items() if args.page else ():
        pages.write(args.page, f"benchmarks.ancestor: {name}", text)


if __name__ == "__main__":
    main()
