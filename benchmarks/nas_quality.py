"""Does the architecture search find better networks than chance, at the same cost?

    python -m benchmarks.nas_quality --preset digits
    python -m benchmarks.nas_quality --preset mnist5k --latency
    python -m benchmarks.nas_quality --preset pulses --strategy random --finalists 8

Searches the space of a preset from several seeds, draws random networks that cost about what the
searches aim at, makes references in the shape of published networks, see `nas_experiments.py`, and
trains them all alone in the same way. Accuracies are on test images, which neither searches nor
trainings ever see; a network's is the mean over several trainings. Seconds are those of the
processor, of all threads: other programs, and pauses, make no difference. A second run in the same
directory goes on where the first stopped; with another --preset or --target, or with --quick in one
of them alone, it is refused. Searches of several strategies may share a directory; without --out it
is runs/nas_<preset>, as for `nas_strategies.py` and `nas_controllers.py`.

With --finalists N, a search leads to the best of the N networks that it puts first: each is trained
once, and validation images tell. The time of these trainings is part of the search's. The accuracy
of the best is that of new trainings, in which nothing was chosen.

Prints JSON: one line per network, those found with the entropy of the search's controller by step,
in nats; then one line that compares. `nas_pictures.py` draws them. In it

    welch_p, mann_whitney_p   are one-sided: how probable searches were to do so well if they were
                              no better than chance, by means and by ranks; one search is one sample
    percentile                is the share of random networks that a found one is better than, in %,
                              those as good counting half
    at_equal_cost             is the difference of the means once the trend of accuracy over the
                              logarithm of cost is taken out, as if that trend were known exactly
    best_of_k                 is what k random networks would have led to, k the number that can be
                              trained once in the time of a search and one training: the test
                              accuracy of the one with the best validation accuracy, in expectation
    best_of_k_again           is the accuracy of the same networks in another training: what is due
                              to the network, not to the luck of the training that was chosen
    preference                is Spearman's correlation of the controllers' log probability with the
                              accuracy over the random networks: the mean over searches, and that of
                              the searches' mean; None if the strategy has no controller
    references                lists for each reference its accuracy and cost, the share of searches
                              that are better, and Welch's p, of them against its trainings

With --latency, when all that is done: measures the latency of random networks on this machine, as
`fit-cost` does, searches for a network that is as fast as those compared with are, measures what it
found, and trains it; see `nas_latency.py`. Nothing else should run then.
"""

import argparse
import json
import os
import statistics

from benchmarks import nas_latency, nas_search_runs, nas_trainings
from replicate.bench import harness


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    args = _parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from benchmarks import nas_statistics

    for seed in range(args.num_searches):  # Before anything is trained.
        nas_search_runs.settings(args, args.strategy, seed)
    random, references = nas_search_runs.random_networks(args), _references(args)
    with nas_trainings.workers(args.processes) as pool:
        trainings = nas_trainings.train_all(pool, args, [*random, *references.values()])
        searches = list(pool.map(_search, [args] * args.num_searches, range(args.num_searches)))
        searches = _decided(args, pool, searches)
        found = dict(_trained_again(args, pool, [search["indices"] for search in searches]))
        trained = dict(trainings)
    for number, search in enumerate(searches):
        more = {name: search[name] for name in ("entropy", "finalists") if search[name]}
        print(json.dumps({"network": f"search {number}", **found[search["indices"]], **more}))
    for number, indices in enumerate(random):
        print(json.dumps({"network": f"random {number}", **trained[indices]}))
    for name, indices in references.items():
        print(json.dumps({"network": f"reference {name}", **trained[indices]}))
    comparison = nas_statistics.compare(
        [found[search["indices"]] for search in searches],
        [trained[indices] for indices in random],
        {name: trained[indices] for name, indices in references.items()},
        _preferences(searches, random),
        statistics.mean(search["seconds"] for search in searches),
    )
    asked = {"preset": args.preset, "target_madds": 1e6 * args.target, "window": args.window}
    asked.update(num_trainings=args.num_trainings, strategy=args.strategy, finalists=args.finalists)
    print(
        json.dumps({**comparison, **asked, **harness.machine(), **nas_trainings.versions()}),
        flush=True,
    )
    if args.latency:
        nas_trainings.quiet()
        print(json.dumps({"network": "latency search", **_search_for_latency(args, random)}))


def _parse(argv):
    parser = nas_search_runs.arguments(__doc__.splitlines()[0])
    parser.add_argument("--latency", action="store_true", help="search for a latency, too")
    parser.add_argument(
        "--strategy", choices=nas_search_runs.STRATEGIES, default="reinforce", help="of searches"
    )
    parser.add_argument(
        "--finalists", type=int, default=1, help="networks of each search that are trained"
    )
    return nas_search_runs.parse(parser, argv)


def _search(args, seed):
    """Searches.

    Returns:
        Dict of `indices`, `first`, the indices of the networks that it puts first, `seconds`,
        `log_probability` of each random network, by indices, and `entropy`, nats of the controller
        by step; both None if the strategy has no controller.
    """
    from examples.nas_search.reports import finalists, network_distribution
    from examples.nas_search.search import strategies
    from examples.nas_search.spaces import search_spaces

    analysis, seconds = nas_search_runs.run(args, args.strategy, seed)
    first = map(nas_trainings.text_of, finalists.finalists(analysis, args.finalists))
    found = {"indices": nas_trainings.text_of(analysis.indices), "first": [*first]}
    found["seconds"] = seconds
    if not strategies.has_controller(analysis.settings):
        return {**found, "log_probability": None, "entropy": None}
    oneofs = network_distribution.open_nodes(search_spaces.get_search_space_spec(analysis.ssd))
    rows = analysis.probabilities[analysis.global_step]
    return {
        **found,
        "entropy": analysis.history["entropy"],
        "log_probability": {
            indices: network_distribution.log_probability(
                oneofs, rows, nas_trainings.indices_of(indices)
            )
            for indices in nas_search_runs.random_networks(args)
        },
    }


def _decided(args, pool, searches):
    """Trains the finalists of searches once, and takes the best of each by validation.

    Returns:
        The searches, with the best as `indices`, and the figures of the `finalists`, None if there
        is one; `seconds` has their trainings but one, as the network found is trained anyway.
    """
    if args.finalists == 1:
        return [{**search, "finalists": None} for search in searches]
    once = argparse.Namespace(**{**vars(args), "num_trainings": 1})
    first = [one for search in searches for one in search["first"]]
    trained = dict(nas_trainings.train_all(pool, once, first))
    decided = []
    for search in searches:
        finalists = [trained[indices] for indices in search["first"]]
        best = max(finalists, key=lambda network: network["validation"])
        seconds = sum(network["seconds"] for network in finalists) - best["seconds"]
        shown = ("indices", "validation", "test")
        decided.append(
            {
                **search,
                "indices": best["indices"],
                "seconds": search["seconds"] + seconds,
                "finalists": [{name: network[name] for name in shown} for network in finalists],
            }
        )
    return decided


def _trained_again(args, pool, networks):
    """Trains networks, after the training in which finalists were chosen; returns pairs."""
    return nas_trainings.train_all(pool, args, networks, seed=0 if args.finalists == 1 else 1)


def _preferences(searches, random):
    """Returns each controller's log probabilities of the networks `random`; None without one."""
    if searches[0]["log_probability"] is None:
        return None
    return [[search["log_probability"][indices] for indices in random] for search in searches]


def _search_for_latency(args, random):
    """Searches for the latency of this machine; returns what it found, measured and trained."""
    model = nas_latency.fit(args, nas_trainings.experiment(args).space)
    target = nas_latency.target_of(model, map(nas_trainings.indices_of, random))
    directory = nas_latency.cost_directory(args) / "search"
    cost = {"cost_model": [nas_latency.cost_file(args)], "rl_cost_model_target": target}
    analysis, _ = nas_search_runs.run(args, "reinforce", 0, directory, **cost)
    rounds = 3 if args.quick else nas_latency.ROUNDS
    figures = nas_latency.figures(model, target, analysis.indices, rounds)
    return {**nas_trainings.train(args, nas_trainings.text_of(analysis.indices)), **figures}


def _references(args):
    """Returns the indices of the references by name."""
    from benchmarks.nas_experiments import reference_indices

    space, _, shapes = nas_trainings.experiment(args)
    return {
        name: nas_trainings.text_of(reference_indices(space, shape, args.target, args.window))
        for name, shape in shapes.items()
    }


if __name__ == "__main__":
    main()
