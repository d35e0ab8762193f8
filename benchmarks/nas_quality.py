"""Does the architecture search find better networks than chance, at the same cost?

    python -m benchmarks.nas_quality --out runs/nas_quality

Searches the space of small networks on handwritten digits from several seeds, draws random networks
that cost about what the searches aim at, and trains them all alone in the same way. Accuracies are
on test images, which neither searches nor trainings ever see; a network's is the mean over several
trainings. A second run in the same directory goes on where the first stopped; with another
--target, or with --quick in one of them alone, it is refused.

Prints JSON: one line per network, then one that compares. In it

    welch_p, mann_whitney_p   are one-sided: how probable searches were to do so well if they were
                              no better than chance, by means and by ranks; one search is one sample
    percentile                is the share of random networks that a found one is better than, in %,
                              those as good counting half
    at_equal_cost             is the difference of the means once the trend of accuracy over the
                              logarithm of cost is taken out, as if that trend were known exactly
    best_of_k                 is what k random networks would have led to, k the number that can be
                              trained once in the time of a search and one training: the test
                              accuracy of the one with the best validation accuracy, in expectation
    preference                is Spearman's correlation of the controllers' log probability with the
                              accuracy over the random networks: the mean over searches, and that of
                              the searches' mean
"""

import argparse
import concurrent.futures
import importlib.metadata
import json
import math
import multiprocessing
import os
import pathlib
import platform
import statistics
import time

import numpy as np

from replicate.bench import harness

SPACE = "digits_search"


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default="runs/nas_quality", help="directory")
    parser.add_argument("--num_searches", type=int, default=8)
    parser.add_argument("--num_random", type=int, default=60, help="random networks")
    parser.add_argument("--num_trainings", type=int, default=3, help="of each network")
    parser.add_argument("--target", type=float, default=0.01, help="cost, in million MAdds")
    parser.add_argument("--window", type=float, default=0.05, help="random ones: target ± share")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="few steps; figures mean nothing")
    args = parser.parse_args(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    processes = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(args.processes, processes, _quiet) as pool:
        searches = list(pool.map(_search, [args] * args.num_searches, range(args.num_searches)))
        found = [search["indices"] for search in searches]
        random = _random_networks(args)
        distinct = list(dict.fromkeys([*random, *found]))
        trained = dict(zip(distinct, pool.map(_train, [args] * len(distinct), distinct)))
    for number, indices in enumerate(found):
        print(json.dumps({"network": f"search {number}", **trained[indices]}))
    for number, indices in enumerate(random):
        print(json.dumps({"network": f"random {number}", **trained[indices]}))
    comparison = compare(
        [trained[indices] for indices in found],
        [trained[indices] for indices in random],
        [[search["log_probability"][indices] for indices in random] for search in searches],
        statistics.mean(search["seconds"] for search in searches),
    )
    asked = {"target_madds": 1e6 * args.target, "window": args.window}
    asked["num_trainings"] = args.num_trainings
    print(json.dumps({**comparison, **asked, **harness.machine(), **_versions()}))


def compare(found, random, log_probabilities, search_seconds):
    """Compares the networks that searches found with random ones.

    Args:
        found: List of a dict for each search, of the network that it found: `test` (mean
            accuracy, float), `madds` (int), `seconds` (of one training) and `runs`, a list of dicts
            with the accuracies `validation` and `test` of each training.
        random: List of such dicts of R random networks.
        log_probabilities: Float [searches, R]: what each search's controller makes of each of them.
        search_seconds: How long a search took.

    Returns:
        Dict of figures, see the module; ready for JSON.
    """
    from scipy import stats

    ours, theirs = ([network["test"] for network in group] for group in (found, random))
    welch = stats.ttest_ind(ours, theirs, equal_var=False, alternative="greater")
    ranks = stats.mannwhitneyu(ours, theirs, alternative="greater")
    percentiles = [stats.percentileofscore(theirs, accuracy, "mean") for accuracy in ours]
    trend = np.polyfit([math.log(network["madds"]) for network in random], theirs, 1)
    beyond = [
        [network["test"] - np.polyval(trend, math.log(network["madds"])) for network in group]
        for group in (found, random)
    ]
    equal = stats.ttest_ind(*beyond, equal_var=False, alternative="greater")
    training_seconds = statistics.mean(network["seconds"] for network in random)
    affordable = (search_seconds + training_seconds) / training_seconds
    one_training_each = zip(*(network["runs"] for network in random))
    best = [best_of(round(affordable), networks) for networks in one_training_each]
    each = [stats.spearmanr(row, theirs).statistic for row in log_probabilities]
    together = stats.spearmanr(np.mean(log_probabilities, axis=0), theirs)
    return {
        "searches": len(found),
        "random_networks": len(random),
        "search_mean": statistics.mean(ours),
        "search_sd": statistics.stdev(ours),
        "search_min": min(ours),
        "random_mean": statistics.mean(theirs),
        "random_sd": statistics.stdev(theirs),
        "random_max": max(theirs),
        "welch_p": float(welch.pvalue),
        "mann_whitney_p": float(ranks.pvalue),
        "percentile_mean": statistics.mean(percentiles),
        "percentile_min": min(percentiles),
        "search_madds": statistics.mean(network["madds"] for network in found),
        "random_madds": statistics.mean(network["madds"] for network in random),
        "at_equal_cost": float(np.mean(beyond[0]) - np.mean(beyond[1])),
        "at_equal_cost_p": float(equal.pvalue),
        "search_seconds": search_seconds,
        "affordable": affordable,
        "best_of_k": statistics.mean(best),
        "preference": float(np.mean(each)),
        "preference_min": float(min(each)),
        "preference_of_mean": float(together.statistic),
        "preference_of_mean_p": float(together.pvalue),
    }


def best_of(number, networks):
    """Returns the expected test accuracy of the best of `number` networks, chosen by validation.

    Args:
        number: How many are drawn, without replacement; of all networks at most.
        networks: List of dicts with the accuracies `validation` and `test`.
    """
    count = len(networks)
    number = min(number, count)
    best_first = sorted(networks, key=lambda network: -network["validation"])
    # The network at a place is chosen if it is drawn, and none of those before it.
    draws = math.comb(count, number)
    shares = [math.comb(count - place - 1, number - 1) / draws for place in range(count)]
    return sum(share * network["test"] for share, network in zip(shares, best_first))


def _versions():
    names = {"tf": "tensorflow", "numpy": "numpy", "scipy": "scipy"}
    versions = {name: importlib.metadata.version(package) for name, package in names.items()}
    return {**versions, "python": platform.python_version()}


def _quiet():
    """Keeps TensorFlow's warnings about itself from the log of a process."""
    from examples.runs import command_line

    command_line.quiet_tensorflow()


def _search(args, seed):
    """Searches; returns indices, time, and the log probability of every network in the window."""
    from examples.nas_search.reports import network_distribution, search_analysis
    from examples.nas_search.search import search_loop, search_settings
    from examples.nas_search.spaces import search_spaces

    directory = args.out / f"search_{seed}"
    given = {"max_global_step": 20} if args.quick else {}
    params = search_settings.resolve(
        preset="digits",
        num_towers=2,
        seed=seed,
        rl_cost_model_target=args.target,
        checkpoint_dir=str(directory),
        **given,
    )
    search_settings.check_same(params)  # also if it is at its end
    seconds = _finish(search_loop.run, params)
    analysis = search_analysis.analyze(str(directory))
    oneofs = network_distribution.open_nodes(search_spaces.get_search_space_spec(SPACE))
    rows = analysis.probabilities[analysis.global_step]
    return {
        "indices": _text(analysis.indices),
        "seconds": seconds,
        "log_probability": {
            indices: network_distribution.log_probability(oneofs, rows, _indices(indices))
            for indices in _random_networks(args)
        },
    }


def _train(args, indices):
    """Trains a network alone, several times; returns its figures."""
    from examples.nas_search.training import mobile_train_eval, train_settings
    from examples.runs import settings_file

    runs = []
    for seed in range(args.num_trainings):
        directory = args.out / "alone" / indices.replace(":", "") / str(seed)
        record = directory / "figures.json"
        params = train_settings.resolve(
            preset="digits",
            ssd=SPACE,
            indices=indices,
            checkpoint_dir=str(directory),
            epochs=1 if args.quick else None,
            num_towers=1,
            seed=seed,
        )
        settings_file.check_same(params)  # also if it is at its end
        if not record.exists():
            figures = {"seconds": _finish(mobile_train_eval.train, params)}
            for split in ("validation", "test"):
                metrics = mobile_train_eval.evaluate_network(params, split)
                figures.update({split: metrics["accuracy"], "madds": metrics["madds"]})
            record.write_text(json.dumps(figures))
        runs.append(json.loads(record.read_text()))
    means = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    spread = statistics.pstdev(run["test"] for run in runs)
    return {"indices": indices, **means, "test_sd": spread, "runs": runs}


def _finish(run, params):
    """Runs to its end what may have been stopped before; returns the seconds that it took in all.

    Args:
        run: Function of `params` that begins or resumes it; returns whether it is at its end.
        params: Its settings; the time is kept in their `checkpoint_dir`.

    Raises:
        KeyboardInterrupt: If it was stopped again. What it has found so far is no result.
    """
    record = pathlib.Path(params["checkpoint_dir"]) / "seconds.json"
    seconds, is_done = json.loads(record.read_text()) if record.exists() else (0.0, False)
    if not is_done:
        start = time.perf_counter()
        is_done = run(params)
        seconds += time.perf_counter() - start
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps([seconds, is_done]))
    if not is_done:
        raise KeyboardInterrupt
    return seconds


def _random_networks(args):
    """Returns the indices of distinct random networks in the window of cost."""
    from examples.nas_search import mobile_classifier_factory
    from examples.nas_search.commands import sample
    from examples.nas_search.reports import architecture_text

    window = (1 - args.window) * args.target, (1 + args.window) * args.target
    distinct = {}
    for drawn in sample.sample_networks(SPACE, *window, 10 * args.num_random, seed=0):
        spec = mobile_classifier_factory.get_model_spec(SPACE, indices=_indices(drawn["indices"]))
        # What is chosen for a layer that is then skipped makes no difference.
        distinct.setdefault("\n".join(architecture_text.describe(spec)), drawn["indices"])
    return list(distinct.values())[: args.num_random]


def _indices(text):
    return [int(index) for index in text.split(":")]


def _text(indices):
    return ":".join(map(str, indices))


if __name__ == "__main__":
    main()
