"""Directories as a search leaves them, written without searching, and measured cost models."""

import dataclasses
import itertools
import json

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_classifier_factory, mobile_cost_model, schema_io
from examples.nas_search.costs import cost_model_io
from examples.nas_search.reports import network_distribution
from examples.nas_search.search.strategies import history
from examples.nas_search.search.strategies.history import Evaluation

SSD = "digits_search"
# A network that skips the optional layer of block 1 (the sixth choice) but not that of block 2.
INDICES = [0, 1, 1, 0, 1, 1, 2, 0, 0, 1, 0, 0, 1, 0]
# The same one, except the kernel size of the layer that it skips.
UNREACHED = [*INDICES[:3], 1, *INDICES[4:]]
# Four networks that differ in two widths.
_WIDTHS = itertools.product([0, 1], [0, 1])
FOUR = [[*INDICES[:2], first, *INDICES[3:12], last, 0] for first, last in _WIDTHS]
PARAMS = {
    "ssd": SSD,
    "enable_cost_model": True,
    "rl_cost_model_target": 0.5,
    "rl_delay_steps": 10,
    "image_shape": [8, 8, 1],
    "num_classes": 10,
}


def log(directory, steps, suffix=None):
    """Writes an event file with the scalars {step: {tag: number}}."""
    with tf.summary.FileWriter(str(directory), filename_suffix=suffix) as writer:
        for step, scalars in steps.items():
            values = [tf.Summary.Value(tag=tag, simple_value=x) for tag, x in scalars.items()]
            writer.add_summary(tf.Summary(value=values), step)


def logits(scale, indices=INDICES, ssd=SSD):
    """Returns the scalars of a controller that gives `scale` to the choices of `indices`."""
    nodes = network_distribution.open_nodes(mobile_classifier_factory.get_model_spec(ssd))
    return {
        f"rlpathlogits/{'/'.join(map(str, path))}/{i}": scale * (i == index)
        for (path, oneof), index in zip(nodes, indices)
        for i in range(len(oneof.choices))
    }


def write_search(directory, steps=None, spec=None, **changes):
    """Writes what a search leaves: at step 20 the network `INDICES` has logits of 3.

    `changes` are settings; None for `spec` is the space `SSD`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "params.json").write_text(json.dumps({**PARAMS, **changes}))
    spec = spec or mobile_classifier_factory.get_model_spec(SSD)
    (directory / "model_spec.json").write_text(schema_io.serialize(spec))
    if steps is None:
        steps = {0: logits(0.0), 10: logits(1.0), 20: logits(3.0)}
        for step, scalars in steps.items():
            scalars["rlcontroller/reward"] = 0.5 + step / 100
            scalars["rlcontroller/validation_accuracy"] = 0.6 + step / 100
            scalars["rlcontroller/estimated_cost"] = 0.4
    log(directory, steps)
    return directory


def evaluation(place, network, reward):
    """Returns the `Evaluation` of a network at a place of a history, in a step after the 20th."""
    return Evaluation(place, 21 + place, tuple(network), 0.5, reward, (0.02,), 1.0)


def write_evaluated(directory, evaluations, **changes):
    """Writes a search by `random` whose first part ended at step 20; returns its directory."""
    write_search(directory, **{"strategy": "random", "supernet_steps": 20, **changes})
    history.start(str(directory), evaluations)
    return str(directory)


def save_checkpoint(directory, step=1, **values):
    """Saves a checkpoint with the global step and other values by name: a run has begun there."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {"global_step": tf.Variable(np.int64(step), name="global_step")}
        for name, value in values.items():
            variables[name] = tf.Variable(value)
        session.run(tf.global_variables_initializer())
        tf.train.Saver(variables).save(session, str(directory / "model.ckpt"), step)


def latency_model(device="Abacus 1", **changes):
    """Returns a `CostModel` as `fit-cost` writes it: a network takes a ms per 10,000 MAdds."""
    madds = mobile_cost_model.default_model(SSD)
    measurement = {
        "device": "/device:CPU:0",
        "device_model": device,
        "batch_size": 1,
        "threads": 2,
        "rounds": 20,
        "tensorflow": "2.15.1",
        "numpy": "1.26.4",
        "python": "3.11.2",
        "os": "Linux 6",
        "date": "2026-01-01",
        "reference_network": ":".join(map(str, INDICES)),
        "reference_latency": 1.25,
    }
    return dataclasses.replace(
        madds,
        objective="latency",
        unit="ms",
        **{
            "kernel": 100 * madds.kernel,
            "bias": 100 * madds.bias,
            "statistics": {**madds.statistics, "lower_quartile": 1.0},
            "measurement": measurement,
            **changes,
        },
    )


def write_latency_model(path, *args, **changes):
    """Writes a `latency_model` as JSON; returns the name of the file."""
    path.write_text(cost_model_io.to_json(latency_model(*args, **changes)))
    return str(path)
