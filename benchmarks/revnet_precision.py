"""How exactly reversible networks are inverted, and their gradients computed, over depth.

    python -m benchmarks.revnet_precision --units 3 9 18 36 --train_steps 0 100

Networks of three stages of 32, 64 and 112 channels on random images of 32×32 pixels; see
`examples/revnet/profiling/precision.py` for what is compared. Figures do not depend on the
machine's speed. Prints one JSON line per case, and a table.
"""

import argparse
import json
import sys

from replicate.bench import harness
from replicate.bench.harness import names_of, positive

DTYPES = ("float64", "float32", "bfloat16")
_TIMEOUT_S = 3600


def _table(records):
    lines = [
        "| layers | steps | dtype | reconstruction | gradients | worst tensor |",
        "|" + " --- |" * 6,
    ]
    for record in records:
        figures = ("reconstruction_error", "gradient_difference", "gradient_difference_max")
        shown = " | ".join(f"{record[figure]:.1e}" for figure in figures)
        lines.append(
            f"| {record['layers']} | {record['train_steps']} | {record['dtype']} | {shown} |"
        )
    return "\n".join(lines)


def _measured(units, dtype, batch_size, train_steps, quick):
    """Measures a case in this process; returns a dict ready for JSON."""
    import numpy as np
    import tensorflow as tf

    from examples.revnet.network.config import preset
    from examples.revnet.profiling import precision

    small = {"filters": (32, 32, 32), "image_shape": (8, 8, 3)} if quick else {}
    config = preset("cifar38", units=(units,) * 3, dtype=dtype, seed=1, **small)
    figures = precision.measure(config, batch_size, train_steps)
    return {"layers": config.depth, **figures, "tf": tf.__version__, "numpy": np.__version__}


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=positive, nargs="+", default=[3, 9, 18])
    parser.add_argument("--dtypes", type=names_of(DTYPES), default=["float64", "float32"])
    parser.add_argument("--train_steps", type=int, nargs="+", default=[0, 30])
    parser.add_argument("--batch_size", type=positive, default=16)
    parser.add_argument("--quick", action="store_true", help="tiny, figures mean little")
    parser.add_argument("--out", help="file to which the JSON lines are appended")
    args = parser.parse_args(argv)
    made, machine = [], harness.machine()
    for dtype in args.dtypes:
        for units in args.units:
            for train_steps in args.train_steps:
                case = {
                    "units": units,
                    "dtype": dtype,
                    "batch_size": args.batch_size,
                    "train_steps": train_steps,
                    "quick": args.quick,
                }
                found = harness.run("benchmarks.revnet_precision", case, _TIMEOUT_S)
                made.append({**case, **found, **machine})
                harness.publish(made[-1], args.out)
    print("\n" + _table(made))


if __name__ == "__main__":
    # A case's process gets its request as JSON.
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        print(json.dumps(_measured(**json.loads(sys.argv[1]))))
    else:
        main()
