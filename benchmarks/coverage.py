"""Measures how much of networks of every family runs in towers, from their graphs alone.

    python -m benchmarks.coverage --towers 4

Builds the training step of each network and counts what it computes, from shapes, and what crosses
devices. Nothing runs, so that figures are the same on every machine. Prints one JSON line for each
network, then a table and what users read in the log, which `--page` writes into the documentation.
"""

import argparse
import collections
import contextlib
import json
import logging
import re
import sys

import tensorflow.compat.v1 as tf

import replicate
from benchmarks import covered, pages
from replicate.partition import coverage_of, plan_of
from replicate.reports import report


def measured(name, towers):
    """Returns what is known of a network's training step, a dict ready for JSON.

    Args:
        name: One of `covered.NETWORKS`.
        towers: The number of towers.
    """

    def model_fn(features, labels, mode):
        del labels
        loss = make_loss(features["batch"])
        optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(1e-3))
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        return replicate.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default() as graph:
        batch, make_loss = covered.NETWORKS[name]()
        devices = [f"/cpu:{tower}" for tower in range(towers)]
        wrapped = replicate.replicate_model_fn(model_fn, devices=devices)
        with _logged() as lines:
            wrapped({"batch": batch}, None, "train")
        told, plan = report.last(), plan_of(graph)
        joined = [one.size for one in coverage_of(graph).meetings if one.kind == "join"]
        return {
            "network": name,
            "towers": towers,
            "operations": len(plan.operations),
            "share": told.share,
            "once": list(told.once),
            "transfers": told.crossing.number,
            "joined": sum(joined),
            "log": next(line for line in lines if " run in " in line),
            "by_kind": {kind: one.size for kind, one in told.kinds.items() if one.number},
        }


@contextlib.contextmanager
def _logged():
    """A scope whose lines in TensorFlow's log are collected, from INFO on; gives their list."""
    lines, handler, logger = [], logging.Handler(), logging.getLogger("tensorflow")
    handler.emit = lambda record: lines.append(record.getMessage())
    level, handlers, propagates = logger.level, logger.handlers, logger.propagate
    logger.setLevel(logging.INFO)
    logger.handlers, logger.propagate = [handler], False
    try:
        yield lines
    finally:
        logger.setLevel(level)
        logger.handlers, logger.propagate = handlers, propagates


def log(made):
    """Returns what users of the networks read in the log, as Markdown."""
    lines = [f"{one['network'] + ':':<17}{one['log']}" for one in made]
    return "\n".join(["```text", *lines, "```"])


def table(made):
    """Returns the table of what was measured, as Markdown."""
    lines = [
        "| network | operations | in towers | runs once | tensors that cross | weights, MB | "
        "gradients, MB | else, MB | joined rows, MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in made:
        size = {kind: f"{count / 1e6:.3g}" for kind, count in one["by_kind"].items()}
        lines.append(
            f"| `{one['network']}` | {one['operations']:,} | {100 * one['share']:.2f} % | "
            f"{_once(one['once'])} | {one['transfers']} | {size['weights']} | {size['gradients']} "
            f"| {size['other']} | {one['joined'] / 1e6:.3g} |"
        )
    return "\n".join(lines)


def _once(names):
    """Returns the last parts of the names of operations, each with how many have it."""
    counts = collections.Counter(re.sub(r"_\d+$", "", name.rpartition("/")[2]) for name in names)
    return ", ".join(
        f"`{name}`" + (f" ({count})" if count > 1 else "") for name, count in counts.items()
    )


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default=",".join(covered.NETWORKS), help="their names")
    parser.add_argument("--towers", type=int, default=4, help="how many")
    parser.add_argument("--page", help="write the table into this page")
    args = parser.parse_args(argv)
    replicate.session_config([f"/cpu:{tower}" for tower in range(args.towers)])
    made = []
    for name in args.networks.split(","):
        made.append(measured(name, args.towers))
        print(json.dumps(made[-1]), flush=True)
    text = f"{table(made)}\n\nTheir users read in the log:\n\n{log(made)}"
    print("\n" + text)
    if args.page:
        text = f"TensorFlow {tf.__version__}, {args.towers} towers.\n\n{text}"
        pages.write(args.page, "benchmarks.coverage", text)


if __name__ == "__main__":
    main(sys.argv[1:])
