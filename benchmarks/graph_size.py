"""Does the time to partition a graph grow in proportion to its operations?

    python -m benchmarks.graph_size --layers 30,300,3100 --rounds 3

Builds chains of layers over four towers: in each, a value is scaled, passed through a sine and
added to the row. Each graph is built in a process of its own. The time to partition is that of
`replicate_model_fn` without the model's own. Prints one JSON line per number of layers, with
medians over rounds, then a table, which `--page` writes into the documentation.
"""

import argparse
import json
import platform
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from benchmarks import pages
from replicate.bench import harness
from replicate.bench.harness import positive

_TOWERS = 4
_ROWS, _WIDTH = 8, 4
_TIMEOUT_S = 1_200


def chain(features, labels, mode, params):
    """A `model_fn` of 32 operations for each of `params["layers"]`, most of the gradient."""
    x = features["x"]
    # A weight before all layers, so that gradients pass through them.
    x = x * tf.get_variable("scale", [], x.dtype, tf.initializers.ones(x.dtype))
    for layer in range(params["layers"]):
        scale = tf.constant(0.1 + layer % 7, x.dtype)
        x = x + 1e-3 * tf.sin(x * scale)
    logits = tf.layers.dense(x, 1, kernel_initializer=tf.initializers.ones(x.dtype))
    loss = tf.reduce_mean(tf.squared_difference(logits, labels))
    optimizer = params["wrap"](tf.train.GradientDescentOptimizer(0.01))
    step = tf.train.get_or_create_global_step()
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, step))


def measure(layers):
    """Builds one graph; returns figures ready for JSON."""
    own = []

    def timed(features, labels, mode, params):
        start = time.perf_counter()
        spec = chain(features, labels, mode, params)
        ops = len(tf.get_default_graph().get_operations())
        own.append((time.perf_counter() - start, ops))
        return spec

    devices = [f"/cpu:{index}" for index in range(_TOWERS)]
    model_fn = replicate.replicate_model_fn(timed, devices=devices)
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        features = {"x": tf.constant(np.ones([_ROWS, _WIDTH], np.float32))}
        labels = tf.constant(np.ones([_ROWS, 1], np.float32))
        params = {"layers": layers, "wrap": replicate.TowerOptimizer}
        start = time.perf_counter()
        model_fn(features, labels, mode="train", params=params)
        total = time.perf_counter() - start
        all_ops = len(graph.get_operations())
    (seconds, ops), versions = own[0], {"tf": tf.__version__, "numpy": np.__version__}
    figures = {"one_device_s": seconds, "partition_s": total - seconds}
    return {"ops": ops, "all_ops": all_ops, **figures, **versions}


def record(layers, rounds):
    """Returns the record of a number of layers.

    Args:
        layers: The number.
        rounds: A list of what `measure` returned.
    """
    first = rounds[0]
    made = {"layers": layers, "towers": _TOWERS, "python": platform.python_version()}
    for name in ("one_device_s", "partition_s"):
        made[name] = harness.spread([one[name] for one in rounds])
    made["load_average_max"] = max(one["load_average"] for one in rounds)
    return {**made, **{key: first[key] for key in ("ops", "all_ops", "tf", "numpy")}}


def table(made):
    """Returns records as a Markdown table."""
    titles = (
        "layers",
        "operations of one device",
        "with four towers",
        "one device, µs for each operation",
        "partitioning, µs for each operation",
    )
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for one in made:
        each = [
            f"{1e6 * one[k]['median'] / one['ops']:.0f}" for k in ("one_device_s", "partition_s")
        ]
        cells = [f"{one[name]:,}" for name in ("layers", "ops", "all_ops")] + each
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", default="30,300,3100", help="numbers, separated by commas")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--out", help="file to which the JSON lines are appended")
    parser.add_argument("--page", help="page of the documentation into which to write the table")
    args = parser.parse_args(argv)
    context = {**harness.machine(), "rounds": args.rounds, "replicate": replicate.__version__}
    made = []
    for layers in map(positive, args.layers.split(",")):
        request = {"layers": layers}
        rounds = [
            harness.run("benchmarks.graph_size", request, _TIMEOUT_S) for _ in range(args.rounds)
        ]
        made.append({**record(layers, rounds), **context})
        harness.publish(made[-1], args.out)
    print("\n" + table(made))
    if args.page:
        text = f"{pages.measured_on(made)}\n\n{table(made)}"
        pages.write(args.page, "benchmarks.graph_size", text)


if __name__ == "__main__":
    # The process of a graph gets its request as JSON.
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        print(json.dumps(measure(json.loads(sys.argv[1])["layers"])))
    else:
        main()
