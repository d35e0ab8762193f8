"""How accurate a reversible network is, with activations recomputed and with activations stored.

    python -m benchmarks.revnet_accuracy --seeds 5

Both train the preset `digits` of `examples.revnet` from the same weights, on the same batches, over
training and validation images, and are evaluated once, on the test images. Prints one JSON line per
training, and a table.
"""

import argparse
import json
import statistics
import sys
import tempfile

from replicate.bench import harness
from replicate.bench.harness import positive

METHODS = ("recomputed", "stored")
_TIMEOUT_S = 3600


def _measured(method, seed, steps):
    """Trains in this process; returns a dict ready for JSON."""
    import numpy as np
    import tensorflow as tf

    from examples.revnet.training import train_eval, train_settings

    with tempfile.TemporaryDirectory() as directory:
        params = train_settings.resolve(
            engine="function",
            checkpoint_dir=directory,
            seed=seed,
            recompute=method == "recomputed",
            use_held_out_test_set=True,
            max_global_step=steps,
        )
        metrics = train_eval.train_network(params)
    return {**metrics, "tf": tf.__version__, "numpy": np.__version__}


def _table(records):
    lines = ["| seed | recomputed | stored |", "|" + " --- |" * 3]
    accuracy = {(record["way"], record["seed"]): record["accuracy"] for record in records}
    seeds = sorted({record["seed"] for record in records})
    for seed in seeds:
        lines.append(
            f"| {seed} | "
            + " | ".join(f"{accuracy[method, seed]:.2%}" for method in METHODS)
            + " |"
        )
    columns = [[accuracy[method, seed] for seed in seeds] for method in METHODS]
    means = (
        f"{statistics.mean(column):.2%} ± {statistics.pstdev(column):.2%}" for column in columns
    )
    return "\n".join([*lines, f"| mean ± deviation | {' | '.join(means)} |"])


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--steps", type=positive, help="of each training (default: the preset's)")
    parser.add_argument("--out", help="file to which the JSON lines are appended")
    args = parser.parse_args(argv)
    made, machine = [], harness.machine()
    for seed in range(args.seeds):
        for method in METHODS:
            case = {"way": method, "seed": seed, "steps": args.steps}
            found = harness.run("benchmarks.revnet_accuracy", case, _TIMEOUT_S)
            made.append({**case, **found, **machine})
            harness.publish(made[-1], args.out)
    print("\n" + _table(made))


if __name__ == "__main__":
    # A training's process gets its request as JSON.
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        print(json.dumps(_measured(**json.loads(sys.argv[1]))))
    else:
        main()
