"""Measures how long graphs take to build: one device's, and those of four and eight towers.

    python -m benchmarks.building --cases resnet50,bert --rounds 3

The engines `copies_4` and `copies_8` are the least that towers can cost: one device's graph, and
then TensorFlow's own import of all that so many towers run, once it is known what that is. A
*round* builds every graph of a case once, one after the other and each in its own process. Figures
are medians over rounds; ratios are taken within a round. Prints one JSON line per case and engine,
then a table, which `--page` writes into the documentation.
"""

import argparse
import json
import platform
import sys
import time
import typing

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from benchmarks import networks, pages
from replicate.bench import engines, harness, models
from replicate.bench.harness import names_of, positive
from replicate.compat import partitioning

TITLES = {
    "single": "one device, s",
    "copies_4": "and 4 bare copies",
    "towers_4": "`replicate`, 4 towers",
    "copies_8": "8 bare copies",
    "towers_8": "`replicate`, 8 towers",
}
_COPIES = {"copies_4": 4, "copies_8": 8}
_TOWERS = {"towers_4": 4, "towers_8": 8}
_TIMEOUT_S = 600


def measure(case, engine):
    """Builds one graph; returns how long it took, a dict ready for JSON.

    Args:
        case: The `models.Case`.
        engine: One of `TITLES`.
    """
    towers = _TOWERS.get(engine, 1)
    devices = [f"/device:CPU:{index}" for index in range(towers)]
    name = "replicate" if engine in _TOWERS else "single"
    model_fn, config, shares = engines.ENGINES[name](case, devices, {})
    copied = _of_tower(case) if engine in _COPIES else None
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        features, labels = _batch(models.make_input_fn(case, shares))
        given = {} if copied is None else copied.placeholders()
        given_config = {"config": config} if engine in _TOWERS else {}
        start = time.perf_counter()
        model_fn(features, labels, "train", **given_config)
        for tower in range(_COPIES.get(engine, 0)):
            scope, device = f"copy_{tower}", f"/cpu:{tower}"
            partitioning.import_nodes(graph, copied.nodes, given, scope, device, [])
        built = time.perf_counter() - start
        made = len(graph.get_operations()) - len(given)
    versions = {"tf": tf.__version__, "numpy": np.__version__, "python": platform.python_version()}
    return {"build_s": built, "ops": made, **versions}


def _batch(input_fn):
    return tf.data.make_one_shot_iterator(input_fn()).get_next()


class _Copied(typing.NamedTuple):
    """All that one tower of a graph runs.

    Attributes:
        nodes: The `NodeDef`s.
        given: By name, the type and the shape of each tensor that they take of others.
    """

    nodes: list
    given: dict

    def placeholders(self):
        """Returns, by name, tensors of the default graph that can be taken instead."""
        return {name: tf.placeholder(*described) for name, described in self.given.items()}


def _of_tower(case):
    """Returns what a tower of four runs, the `_Copied`."""
    devices = [f"/device:CPU:{index}" for index in range(4)]
    model_fn, config, shares = engines.ENGINES["replicate"](case, devices, {})
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        features, labels = _batch(models.make_input_fn(case, shares))
        model_fn(features, labels, "train", config=config)
        copies = [one for one in graph.get_operations() if one.name.startswith("tower_0/")]
        there = set(copies)
        taken = {tensor.name: tensor for one in copies for tensor in one.inputs}
        given = {n: (t.dtype, t.shape) for n, t in taken.items() if t.op not in there}
        nodes = [one.node_def for one in copies]
        for node, one in zip(nodes, copies):
            node.device = ""
            waits = [f"^{before.name}" for before in one.control_inputs if before in there]
            node.input[:] = [*(tensor.name for tensor in one.inputs), *waits]
    return _Copied(nodes, given)


def records(name, rounds):
    """Returns one record per engine of a case: figures over rounds, and ratios to one device.

    Args:
        name: The case's name.
        rounds: One dict per round, engine -> what `measure` returned.
    """
    made = []
    for engine in rounds[0]:
        ratios = [one[engine]["build_s"] / one["single"]["build_s"] for one in rounds]
        record = {
            "case": name,
            "engine": engine,
            "build_s": harness.spread([one[engine]["build_s"] for one in rounds]),
            "to_one_device": harness.spread(ratios),
            "load_average_max": max(one[engine]["load_average"] for one in rounds),
            "ops": rounds[0][engine]["ops"],
        }
        record.update({key: rounds[0][engine][key] for key in ("tf", "numpy", "python")})
        made.append(record)
    return made


def table(made):
    """Returns records as a Markdown table: seconds of one device, and ratios to them."""
    lines = ["| case | " + " | ".join(TITLES.values()) + " |", "| --- " * (1 + len(TITLES)) + "|"]
    for name in dict.fromkeys(record["case"] for record in made):
        of = {record["engine"]: record for record in made if record["case"] == name}
        cells = [f"{of['single']['build_s']['median']:.2f}"]
        for engine in list(TITLES)[1:]:
            cells.append(
                "{median:.2f} ({min:.2f}, {max:.2f})".format(**of[engine]["to_one_device"])
            )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=names_of(networks.CASES), default=list(networks.CASES))
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--out", help="file to which the JSON lines are appended")
    parser.add_argument("--page", help="page of the documentation into which to write the table")
    args = parser.parse_args(argv)
    made, context = [], {**harness.machine(), "rounds": args.rounds}
    context["replicate"] = replicate.__version__
    for name in args.cases:
        rounds = []
        for number in range(args.rounds):
            rounds.append({})
            for engine in TITLES:
                print(f"{name}: round {number + 1} of {args.rounds}, {engine}", file=sys.stderr)
                request = {"name": name, "engine": engine}
                rounds[-1][engine] = harness.run("benchmarks.building", request, _TIMEOUT_S)
        for record in records(name, rounds):
            made.append({**record, **context})
            harness.publish(made[-1], args.out)
    print("\n" + table(made))
    if args.page:
        text = f"{pages.measured_on(made)}\n\n{table(made)}"
        pages.write(args.page, "benchmarks.building", text)


if __name__ == "__main__":
    # The process of a graph gets its request as JSON.
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        request = json.loads(sys.argv[1])
        print(json.dumps(measure(networks.CASES[request["name"]], request["engine"])))
    else:
        main()
