"""Trains networks of an experiment alone: what `nas_quality.py` and `nas_spread.py` have in common.

`args` are their arguments: `preset`, `out` (a path), `num_trainings` and `quick`. A network goes by
its indices, a text like "0:3:1".
"""

import functools
import importlib.metadata
import json
import pathlib
import platform
import statistics
import time


def versions():
    """Returns the versions of what computes, a dict."""
    names = {"tf": "tensorflow", "numpy": "numpy", "scipy": "scipy"}
    found = {name: importlib.metadata.version(package) for name, package in names.items()}
    return {**found, "python": platform.python_version()}


def quiet():
    """Keeps TensorFlow's warnings about itself from the log of a process."""
    from examples.runs import command_line

    command_line.quiet_tensorflow()


def train(args, indices):
    """Trains a network alone, several times; returns its figures."""
    from examples.nas_search.training import mobile_train_eval, train_settings
    from examples.runs import settings_file

    runs = []
    for seed in range(args.num_trainings):
        directory = args.out / "alone" / indices.replace(":", "") / str(seed)
        record = directory / "figures.json"
        params = train_settings.resolve(
            preset=args.preset,
            ssd=experiment(args).space,
            indices=indices,
            checkpoint_dir=str(directory),
            epochs=1 if args.quick else None,
            num_towers=1,
            seed=seed,
        )
        settings_file.check_same(params)  # also if it is at its end
        if not record.exists():
            figures = {"seconds": finish(mobile_train_eval.train, params)}
            for split in ("validation", "test"):
                metrics = mobile_train_eval.evaluate_network(params, split)
                figures.update({split: metrics["accuracy"], "madds": metrics["madds"]})
            record.write_text(json.dumps(figures))
        runs.append(json.loads(record.read_text()))
    means = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    spread = statistics.pstdev(run["test"] for run in runs)
    return {"indices": indices, **means, "test_sd": spread, "runs": runs}


def finish(run, params):
    """Runs to its end what may have been stopped before; returns the processor's seconds in all.

    Args:
        run: Function of `params` that begins or resumes it; returns whether it is at its end.
        params: Its settings; the time is kept in their `checkpoint_dir`.

    Raises:
        KeyboardInterrupt: If it was stopped again. The network found so far is no result.
    """
    record = pathlib.Path(params["checkpoint_dir"]) / "seconds.json"
    seconds, is_done = json.loads(record.read_text()) if record.exists() else (0.0, False)
    if not is_done:
        start = time.process_time()
        is_done = run(params)
        seconds += time.process_time() - start
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps([seconds, is_done]))
    if not is_done:
        raise KeyboardInterrupt
    return seconds


def experiment(args):
    """Returns the `Experiment` of the preset."""
    from benchmarks.nas_experiments import EXPERIMENTS

    return EXPERIMENTS[args.preset]


@functools.lru_cache(maxsize=None)
def drawn(space, target, window, number):
    """Returns the indices of distinct random networks in the window of cost, a list of texts."""
    from examples.nas_search import mobile_classifier_factory
    from examples.nas_search.commands import sample
    from examples.nas_search.reports import architecture_text

    least, most = (1 - window) * target, (1 + window) * target
    distinct = {}
    for network in sample.sample_networks(space, least, most, 10 * number, seed=0):
        spec = mobile_classifier_factory.get_model_spec(
            space, indices=indices_of(network["indices"])
        )
        # Choices for a layer that is then skipped make no difference.
        distinct.setdefault("\n".join(architecture_text.describe(spec)), network["indices"])
        if len(distinct) == number:
            break
    return list(distinct.values())


def indices_of(text):
    """Returns a network's indices as a list of ints."""
    return [int(index) for index in text.split(":")]


def text_of(indices):
    """Returns a network's indices, ints, as a text."""
    return ":".join(map(str, indices))
