"""The part of `nas_quality.py` that aims at the latency of this machine; nothing else may run.

Networks run one image at a time on one thread. The target is what the fitted model estimates for
the median of random networks with the cost at which the other searches aim. So the network found
competes with networks that are as fast, and as costly in multiply-adds.
"""

import statistics
import sys

import numpy as np

ROUNDS = 30  # in which the network found is measured, beside the reference network


def fit(args, space):
    """Measures random networks of a space and fits their latency; resumes.

    Args:
        args: Of `nas_quality.py`.
        space: Name of the space.

    Returns:
        A `CostModel`, which is in `cost_file(args)` too.
    """
    from examples.nas_search.commands import fit_cost as command
    from examples.nas_search.latency import fit_cost
    from examples.runs import flags

    given = {"ssd": space, "output": cost_file(args), "threads": 1}
    given.update({"num_networks": 20, "repeats": 3} if args.quick else {"num_networks": 120})
    cost_directory(args).mkdir(parents=True, exist_ok=True)
    settings = fit_cost.resolve(flags.with_defaults(given, command.FLAGS, {}))
    return fit_cost.run(settings, say=lambda line: print(line, file=sys.stderr))


def cost_directory(args):
    """Returns where the latencies are, a path."""
    return args.out / "latency"


def cost_file(args):
    """Returns the name of the file of the fitted model."""
    return str(cost_directory(args) / "cost.json")


def target_of(model, random):
    """Returns the latency to aim at, in ms.

    Args:
        model: The fitted `CostModel`.
        random: Indices of random networks, lists of ints.
    """
    return statistics.median(estimate(model, indices) for indices in random)


def estimate(model, indices):
    """Returns what a fitted `CostModel` makes of the network of a list of indices, in ms."""
    from examples.nas_search import mobile_cost_model

    return mobile_cost_model.estimate_cost(indices, model.ssd, model)


def measure(model, indices, rounds=ROUNDS):
    """Measures a network as the model's networks were.

    Args:
        model: The fitted `CostModel`.
        indices: Of the network, a list of ints.
        rounds: In which it runs.

    Returns:
        Its latency in ms, at the speed that the machine had when the model was fitted.
    """
    from examples.nas_search import mobile_classifier_factory
    from examples.nas_search.latency import timing

    how = model.measurement
    reference = [int(index) for index in how["reference_network"].split(":")]
    specs = [
        mobile_classifier_factory.get_model_spec(model.ssd, indices=each)
        for each in (indices, reference)
    ]
    setting = timing.Setting(
        model.input_shape,
        model.num_classes,
        how["batch_size"],
        how["device"],
        how["threads"],
        rounds,
    )
    latencies, reference_ms = timing.measure_group(
        specs[:1], specs[1], setting, np.random.RandomState(0)
    )
    return float(latencies[0] * how["reference_latency"] / reference_ms)


def figures(model, target, indices, rounds=ROUNDS):
    """Returns figures of the network that a search for a latency found, a dict."""
    latency = measure(model, indices, rounds)
    return {
        "latency_target_ms": target,
        "latency_ms": latency,
        "latency_off_target": latency / target - 1,
        "latency_estimate_ms": estimate(model, indices),
        "latency_fit_r_squared": model.statistics["r_squared"],
        "latency_fit_mean_error": model.statistics["mean_error"],
        "device_model": model.measurement["device_model"],
    }
