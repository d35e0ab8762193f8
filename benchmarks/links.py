"""Predicts how long the transfers of a step take, for each choice and kind of link between devices.

    python -m benchmarks.links --models big,wide --counts 2 4 8

**A prediction: nothing here is measured, and no link is used.** The graph of a step is built on N
logical devices, and `replicate.reports.transfers` lists the transfers between them. Each device
sends one tensor after another, and at the same time receives one after another; a transfer takes
the link's latency and its bytes ÷ the link's bandwidth.
Weights go before a step computes, gradients and the rest when it has, and sums of gradients after
these: each of these three phases takes as long as the busiest of its 2 N queues, and the step's
transfers as long as all. All transfers of a phase are assumed to be ready at its start, and none
to overlap with arithmetic: real steps are faster where they overlap it, and slower where one
transfer waits for another. The rows of the batch come from the host, over links of its own, and are
left out.
"""

import argparse
import collections
import functools
import json
from typing import NamedTuple
from unittest import mock

import tensorflow.compat.v1 as tf

import replicate
from replicate.bench import choices, harness, models, plan
from replicate.bench.harness import names_of, positive
from replicate.partition import placement
from replicate.reports import transfers

_ROWS = 32  # on each device


class Link(NamedTuple):
    """The link between two devices; all pairs are assumed to have the same kind."""

    bandwidth: float  # bytes per second from a device, and as much to it at the same time
    latency: float  # seconds that a transfer takes beside that


# Nominal rates are their makers': PCIe 4.0 with 16 lanes has 32 GB/s in each direction; a V100
# (SXM2) 300 GB/s over NVLink 2 and an A100 600 GB/s over NVLink 3, both directions together, by
# NVIDIA's data sheets; Ethernet its name's. Shares of these that are reached, and latencies, are
# assumed: 80% (25 GB/s of PCIe), 10 µs for TensorFlow to send and receive a tensor, 60 µs by gRPC.
LINKS = {
    "PCIe 4": Link(25e9, 10e-6),
    "NVLink V100": Link(0.8 * 150e9, 10e-6),
    "NVLink A100": Link(0.8 * 300e9, 10e-6),
    "10 Gbit/s": Link(0.8 * 1.25e9, 60e-6),
    "25 Gbit/s": Link(0.8 * 3.125e9, 60e-6),
    "100 Gbit/s": Link(0.8 * 12.5e9, 60e-6),
}
MODELS = (*models.CASES, "big")


_PHASES = {"weights": "before", "gradients": "after", "sums": "last"}


class Sent(NamedTuple):
    """A transfer of a step."""

    source: str
    destination: str
    size: int  # bytes
    phase: str = "before"  # that the step computes, "after", or "last", when sums are there


def step_seconds(sent, link):
    """Returns the predicted time of a step's transfers, in seconds.

    Args:
        sent: List of `Sent`.
        link: The `Link`.
    """
    queues = collections.defaultdict(collections.Counter)
    for each in sent:
        seconds = link.latency + each.size / link.bandwidth
        queues[each.phase]["from", each.source] += seconds
        queues[each.phase]["to", each.destination] += seconds
    return sum(max(phase.values(), default=0.0) for phase in queues.values())


def resnet50_shapes():
    """Yields the shapes of the trainable variables of a ResNet-50 for 1,000 classes."""

    def convolution(side, inputs, outputs):
        return [(side, side, inputs, outputs), (outputs,), (outputs,)]  # With batch norm.

    yield from convolution(7, 3, 64)
    inputs = 64
    for width, units in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for unit in range(units):
            yield from convolution(1, inputs, width)
            yield from convolution(3, width, width)
            yield from convolution(1, width, 4 * width)
            if unit == 0:
                yield from convolution(1, inputs, 4 * width)
            inputs = 4 * width
    yield from ((inputs, 1000), (1000,))


def _big_model_fn(features, labels, mode, make_optimizer):
    """A model with the variables of a ResNet-50, and next to no arithmetic."""
    del labels
    mean = tf.reduce_mean(features)
    variables = [
        tf.get_variable(f"variable_{index}", shape) for index, shape in enumerate(resnet50_shapes())
    ]
    loss = mean * tf.add_n([tf.reduce_mean(variable) for variable in variables])
    train_op = make_optimizer().minimize(loss, tf.train.get_or_create_global_step())
    return replicate.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@functools.lru_cache(maxsize=None)
def sent_by(model, count, choice):
    """Returns what crosses devices in a step.

    Args:
        model: One of `MODELS`.
        count: Number of devices.
        choice: A choice as JSON.

    Returns:
        List of `Sent`.
    """
    given = json.loads(choice)

    def make_optimizer():
        optimizer = tf.train.AdamOptimizer()
        return replicate.TowerOptimizer(optimizer, **choices.optimizer_arguments(given))

    if model == "big":
        case = models.CASES["cnn"]
        model_fn = functools.partial(_big_model_fn, make_optimizer=make_optimizer)
    else:
        case = models.CASES[model]
        model_fn = models.make_model_fn(case, make_optimizer)
    case = case._replace(global_batch=count * _ROWS)
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        batch = tf.data.make_one_shot_iterator(models.make_input_fn(case, 1)()).get_next()
        replicated = replicate.replicate_model_fn(
            model_fn,
            devices=[f"/cpu:{index}" for index in range(count)],
            **choices.model_fn_arguments(given),
        )
        # Logical CPU devices stand for devices with memory of their own.
        with mock.patch.object(placement, "_type_of", lambda device: "GPU"):
            spec = replicated(*batch, "train")
        crossing = transfers.crossing([spec.train_op, spec.loss])
    return [
        Sent(
            each.source,
            each.destination,
            each.size,
            _PHASES.get(each.kind, "after"),
        )
        for each in crossing
        if each.source and each.destination and each.kind != "batch"
    ]


def predict(model, count, named):
    """Returns a dict ready for JSON for each choice: its transfers, and their time by link.

    Args:
        model: One of `MODELS`.
        count: Number of devices.
        named: Choices by name.
    """
    made = []
    for name, choice in named.items():
        sent = sent_by(model, count, json.dumps(choice))
        by_link = collections.Counter()
        for each in sent:
            by_link[f"{each.source} -> {each.destination}"] += each.size
        queue = Link(bandwidth=1.0, latency=0.0)  # Seconds are bytes.
        made.append(
            {
                "model": model,
                "devices": count,
                "choice": name,
                "is_prediction": True,
                "transfers": len(sent),
                "bytes": sum(by_link.values()),
                "bytes_of_busiest": int(step_seconds(sent, queue)),
                "links": dict(by_link),
                "predicted_ms": {link: 1e3 * step_seconds(sent, LINKS[link]) for link in LINKS},
            }
        )
    return made


def table(made):
    """Returns records of one or more models as a Markdown table; the fastest is bold."""
    lines = [
        "| model | devices | choice | transfers | MB | MB of the busiest queues | "
        + " | ".join(f"{link}, predicted ms" for link in LINKS)
        + " |",
        "|" + " --- |" * (6 + len(LINKS)),
    ]
    for record in made:
        rivals = [
            other["predicted_ms"]
            for other in made
            if (other["model"], other["devices"]) == (record["model"], record["devices"])
        ]
        cells = [record["model"], str(record["devices"]), record["choice"]]
        cells += [str(record["transfers"]), f"{record['bytes'] / 1e6:.2f}"]
        cells.append(f"{record['bytes_of_busiest'] / 1e6:.2f}")
        for link in LINKS:
            mine = record["predicted_ms"][link]
            wins = mine <= 1.005 * min(rival[link] for rival in rivals)
            cells.append(f"**{mine:.2f}**" if wins else f"{mine:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def winners(made):
    """Returns a Markdown table of the fastest choice for each model, number and link."""
    lines = [f"| model | devices | {' | '.join(LINKS)} |", "|" + " --- |" * (2 + len(LINKS))]
    groups = {}
    for record in made:
        groups.setdefault((record["model"], record["devices"]), []).append(record)
    for (model, count), rivals in groups.items():
        cells = [model, str(count)]
        for link in LINKS:
            best = min(rivals, key=lambda record: record["predicted_ms"][link])
            first, least = (each["predicted_ms"][link] for each in (rivals[0], best))
            cells.append(f"{best['choice']}, {least:.2f} ms ({least / first:.2f})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv=None):
    """Runs the prediction that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=names_of(MODELS), default=[*plan.FULL["models"], "big"])
    parser.add_argument("--counts", type=positive, nargs="+", default=[2, 4, 8])
    known = choices.parse(",".join(choices.that_run_on("CPU")))
    parser.add_argument("--choices", type=choices.parse, nargs="+", default=[known])
    parser.add_argument("--out", help="file to which JSON lines are appended")
    args = parser.parse_args(argv)
    named = {name: choice for given in args.choices for name, choice in given.items()}
    made = []
    for model in args.models:
        for count in args.counts:
            for record in predict(model, count, named):
                made.append(record)
                if args.out:
                    harness.append(record, args.out)
    print("Predicted, not measured: ms of a step's transfers; bold: least, to 0.5%.\n")
    print(table(made))
    print(f"\nPredicted to be fastest, and its time ÷ that of {next(iter(named))}:\n")
    print(winners(made))


if __name__ == "__main__":
    main()
