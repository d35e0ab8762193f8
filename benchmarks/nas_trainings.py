"""Trains networks of an experiment alone: what benchmarks of the search have in common.

`args` are their arguments: `preset`, `out` (a path), `num_trainings` and `quick`. A network goes by
its indices, a text like "0:3:1".
"""

import concurrent.futures
import functools
import importlib.metadata
import multiprocessing
import platform
import statistics


def versions():
    """Returns the versions of what computes, a dict."""
    names = {"tf": "tensorflow", "numpy": "numpy", "scipy": "scipy"}
    found = {name: importlib.metadata.version(package) for name, package in names.items()}
    return {**found, "python": platform.python_version()}


def quiet():
    """Keeps TensorFlow's warnings about itself from the log of a process."""
    from examples.runs import command_line

    command_line.quiet_tensorflow()


def workers(number):
    """Returns a pool of so many processes that search and train."""
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(number, context, quiet)


def train(args, indices, seed=0):
    """Trains a network alone, several times, the first with a seed; returns its figures."""
    from examples.nas_search.fronts import alone

    runs = alone.train(
        args.out / "alone",
        indices,
        args.num_trainings,
        seed,
        preset=args.preset,
        ssd=experiment(args).space,
        epochs=1 if args.quick else None,
        num_towers=1,
    )
    means = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    spread = statistics.pstdev(run["test"] for run in runs)
    return {"indices": indices, **means, "test_sd": spread, "runs": runs}


def train_all(pool, args, networks, seed=0):
    """Starts to train networks in a pool, each once; returns an iterator of (indices, figures)."""
    distinct = list(dict.fromkeys(networks))
    return zip(distinct, pool.map(functools.partial(train, args, seed=seed), distinct))


def experiment(args):
    """Returns the `Experiment` of the preset."""
    from benchmarks.nas_experiments import EXPERIMENTS

    return EXPERIMENTS[args.preset]


@functools.lru_cache(maxsize=None)
def drawn(space, target, window, number):
    """Returns the indices of distinct random networks in the window of cost, a list of texts."""
    from examples.nas_search.fronts import random_networks

    return random_networks.distinct_networks(space, target, window, number)


def indices_of(text):
    """Returns a network's indices as a list of ints."""
    return [int(index) for index in text.split(":")]


def text_of(indices):
    """Returns a network's indices, ints, as a text."""
    return ":".join(map(str, indices))
