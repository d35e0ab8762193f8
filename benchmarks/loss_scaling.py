"""The cost of loss scaling and accumulation: the step of a model with and without them.

    python -m benchmarks.loss_scaling --cases cnn2,wide2 --rounds 5 --out loss_scaling.jsonl

A round is a process that holds one session for each *variant* of training, all of the same model on
the same rows. Each gets a block of steps in turn, again and again, so that a slow period of the
machine affects all of them. Each round makes them in another order: of two equal sessions, the one
made first was faster by up to 3 %. A ratio is that of a variant's block to the plain one of the
same turn; figures are medians over turns, then over rounds. Prints one JSON line per case and
variant, and a table, which `--page docs/figures.md` writes into the documentation.
"""

import argparse
import json
import platform
import statistics
import sys
import time

from benchmarks import pages
from benchmarks.towers import CASES
from replicate.bench import harness
from replicate.bench.harness import names_of, positive

# Arguments of `TowerOptimizer` by variant; `tensorflow` is TensorFlow's optimizer for loss scales.
VARIANTS = {
    "plain": {},
    "fixed": {"loss_scale": 1024},
    "dynamic": {"loss_scale": "dynamic"},
    "tensorflow": None,
    "accumulate 4": {"accumulate_steps": 4},
    "dynamic, accumulate 4": {"loss_scale": "dynamic", "accumulate_steps": 4},
}
# Of a block: long beside the first of them, which finds another session's weights in the caches.
STEPS = {"cnn": 8, "wide": 40}
TIMEOUT_S = 1200


def _case(name):
    """Returns a case of `towers`; `cnn1` is `cnn2` on one device."""
    if name in CASES:
        return CASES[name]
    return CASES[name[:-1] + "2"]._replace(towers=1)


NAMES = ("cnn1", "cnn2", "wide1", "wide2")


def _trainer(case, variant):
    """Returns a function that trains for so many steps, and how many operations the graph has."""
    import tensorflow.compat.v1 as tf

    import replicate
    from replicate.bench import models

    def make_optimizer():
        optimizer = tf.train.AdamOptimizer(1e-3)
        if VARIANTS[variant] is not None:
            return replicate.TowerOptimizer(optimizer, **VARIANTS[variant])
        optimizer = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(optimizer, "dynamic")
        # On towers it must be inside; on one device TensorFlow's own is the peer.
        return optimizer if case.towers == 1 else replicate.TowerOptimizer(optimizer)

    with tf.Graph().as_default() as graph:
        tf.set_random_seed(models.SEED)
        tf.train.get_or_create_global_step()
        devices = [f"/cpu:{index}" for index in range(case.towers)]
        rows = tf.data.make_one_shot_iterator(models.make_input_fn(case, 1)()).get_next()
        model_fn = models.make_model_fn(case, make_optimizer)
        replicated = replicate.replicate_model_fn(model_fn, devices=devices)
        mode = replicate.estimator.ModeKeys.TRAIN
        train_op = replicated(features=rows[0], labels=rows[1], mode=mode).train_op
        session = tf.Session(config=replicate.session_config(devices))
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        step = session.make_callable(train_op)

    def train(steps):
        for _ in range(steps):
            step()

    return train, len(graph.get_operations())


def measure(name, warmup, turns, steps, first=0):
    """Trains a case in every variant, in turns; returns a dict ready for JSON.

    Args:
        name: One of `NAMES`.
        warmup: Steps of each variant before the first timed one.
        turns: How often each variant has its block of steps.
        steps: Steps of a block, a multiple of 4.
        first: Which of the variants is made first.

    Returns:
        `block_ms`: by variant, milliseconds of a step, for each turn; `ops`: by variant, number of
        operations of its graph; versions.
    """
    import numpy as np
    import tensorflow.compat.v1 as tf

    import replicate

    trainers, ops = {}, {}
    variants = list(VARIANTS)
    for variant in variants[first:] + variants[:first]:
        trainers[variant], ops[variant] = _trainer(_case(name), variant)
        trainers[variant](warmup)
    block_ms = {variant: [] for variant in VARIANTS}
    for turn in range(turns):
        # Backwards every other time, so that no variant always follows the same one.
        for variant in list(VARIANTS)[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            trainers[variant](steps)
            block_ms[variant].append(1e3 * (time.perf_counter() - start) / steps)
    return {
        "block_ms": block_ms,
        "ops": ops,
        "tf": tf.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "replicate": replicate.__version__,
    }


def records(name, rounds):
    """Returns one flat record per variant.

    Args:
        name: The case's name.
        rounds: One dict per round, as `measure` returns it.
    """
    made = []
    for variant in VARIANTS:
        ratios = [
            statistics.median(
                mine / plain
                for mine, plain in zip(one["block_ms"][variant], one["block_ms"]["plain"])
            )
            for one in rounds
        ]
        record = {"case": name, "way": variant, **_case(name)._asdict(), "optimizer": "Adam"}
        step_ms = [statistics.median(one["block_ms"][variant]) for one in rounds]
        record["step_ms"] = harness.spread(step_ms)
        record["ratio_to_plain"] = harness.spread(ratios)
        record["ops"] = rounds[0]["ops"][variant]
        record["load_average_max"] = max(one["load_average"] for one in rounds)
        record.update({key: rounds[0][key] for key in ("tf", "numpy", "python", "replicate")})
        made.append(record)
    return made


def table(made):
    """Returns a list of records as a Markdown table: a line for each case."""
    titles = [
        "case",
        "plain, ms",
        *(f"{variant} ÷ plain (min, max)" for variant in VARIANTS if variant != "plain"),
    ]
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    for case in dict.fromkeys(record["case"] for record in made):
        of = {record["way"]: record for record in made if record["case"] == case}
        cells = [case, f"{of['plain']['step_ms']['median']:.1f}"]
        cells += [
            "{median:.2f} ({min:.2f}, {max:.2f})".format(**of[variant]["ratio_to_plain"])
            for variant in VARIANTS
            if variant != "plain"
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=names_of(NAMES), default=["cnn1", "cnn2", "wide2"])
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--turns", type=positive, default=20, help="blocks of steps of each way")
    parser.add_argument("--quick", action="store_true", help="few steps, figures mean nothing")
    parser.add_argument("--page", help="page of the documentation into which to write the table")
    parser.add_argument("--out", help="file to which the JSON lines are appended")
    args = parser.parse_args(argv)
    rounds, turns = (1, 2) if args.quick else (args.rounds, args.turns)
    made, context = [], dict(harness.machine(), rounds=rounds, turns=turns, quick=args.quick)
    for name in args.cases:
        results = []
        for number in range(rounds):
            print(f"{name}: round {number + 1} of {rounds}", file=sys.stderr)
            request = {"name": name, "warmup": 8, "turns": turns, "steps": STEPS[name[:-1]]}
            request["first"] = number % len(VARIANTS)
            results.append(harness.run("benchmarks.loss_scaling", request, TIMEOUT_S))
        for record in records(name, results):
            record.update(context)
            made.append(record)
            harness.publish(record, args.out)
    print("\n" + table(made))
    if args.page:
        text = f"{pages.measured_on(made)} Turns of a round: {turns}.\n\n{table(made)}"
        pages.write(args.page, "benchmarks.loss_scaling", text)


if __name__ == "__main__":
    # A round's process gets its request as JSON.
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        print(json.dumps(measure(**json.loads(sys.argv[1]))))
    else:
        main()
