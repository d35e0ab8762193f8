"""Compares strategies of the search by what they find in the same time.

    python -m benchmarks.nas_strategies --preset pulses

Searches the space of a preset with each strategy from several seeds, and trains what was found, and
random networks of the same cost, alone, as `nas_quality.py` does: what that has in the same --out
is not made again. A second run goes on where the first stopped.

Time is that of the processor, of all threads. `reinforce` makes the steps of the preset. Two short
searches tell how long other strategies take to begin and for each step, and they make as many steps
as take the same time. --supernet_steps_fraction is the share of these steps that trains the shared
weights: evaluating a network may take much longer than a step of training.

Prints JSON: a line for each network found, then one for each strategy. In it

    mean, sd, min, max      describe the accuracy on test images over its searches, where a
                            network has the mean over its trainings
    percentile_mean         is the share of random networks that a found one is better than, in %,
                            those as good counting half
    steps, seconds          are of one search, seconds the mean
    welch_p                 is one-sided: how probable so much more than random networks would be
                            by chance
    against                 has for each other strategy the difference of the means, and Welch's p,
                            two-sided
"""

import functools
import json
import os
import statistics

from benchmarks import nas_search_runs, nas_trainings
from replicate.bench import harness

SHORT = (200, 600)  # steps of the searches that tell how long steps take


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    args = _parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from benchmarks import nas_statistics

    for seed in range(args.num_searches):  # Before anything is trained.
        nas_search_runs.settings(args, "reinforce", seed)
    random = nas_search_runs.random_networks(args)
    with nas_trainings.workers(args.processes) as pool:

        def search(strategy, steps):
            one = functools.partial(_search, args, strategy, steps)
            return list(pool.map(one, range(args.num_searches)))

        searches = {"reinforce": search("reinforce", None)}
        seconds = statistics.mean(each["seconds"] for each in searches["reinforce"])
        for strategy in nas_search_runs.STRATEGIES[1:]:
            steps = pool.submit(_steps, args, strategy, seconds).result()
            searches[strategy] = search(strategy, steps)
        found = [each["indices"] for group in searches.values() for each in group]
        trained = dict(nas_trainings.train_all(pool, args, [*random, *found]))
    tests = {}
    for strategy, group in searches.items():
        tests[strategy] = [trained[each["indices"]]["test"] for each in group]
        for number, each in enumerate(group):
            print(json.dumps({"network": f"{strategy} {number}", **trained[each["indices"]]}))
    asked = {"preset": args.preset, "target_madds": 1e6 * args.target, "window": args.window}
    compared = nas_statistics.strategies(tests, [trained[indices]["test"] for indices in random])
    for strategy, figures in compared.items():
        group = searches[strategy]
        cost = {
            "steps": group[0]["steps"],
            "seconds": statistics.mean(each["seconds"] for each in group),
        }
        of = {**asked, **harness.machine(), **nas_trainings.versions()}
        print(json.dumps({"strategy": strategy, **figures, **cost, **of}), flush=True)


def _parse(argv):
    parser = nas_search_runs.arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--supernet_steps_fraction",
        type=float,
        help="share of steps that trains, of strategies without a controller (default: theirs)",
    )
    return nas_search_runs.parse(parser, argv, least_searches=2)


def _search(args, strategy, steps, seed):
    """Searches; returns a dict of `indices`, `seconds` and `steps`. Steps None: of the preset."""
    given = {} if steps is None else _of(args, steps)
    analysis, seconds = nas_search_runs.run(args, strategy, seed, **given)
    indices = nas_trainings.text_of(analysis.indices)
    return {"indices": indices, "seconds": seconds, "steps": analysis.settings["max_global_step"]}


def _of(args, steps):
    """Returns the settings of a search of so many steps by a strategy without a controller."""
    return {"max_global_step": steps, "supernet_steps_fraction": args.supernet_steps_fraction}


def _steps(args, strategy, seconds):
    """Returns how many steps of a strategy take so long, an int."""
    counts = (10, 20) if args.quick else SHORT
    times = []
    for count in counts:
        directory = args.out / f"{strategy}_of_{count}_steps"
        _, took = nas_search_runs.run(args, strategy, 0, directory, **_of(args, count))
        times.append(took)
    return steps_for(seconds, counts, times)


def steps_for(seconds, counts, times):
    """Returns how many steps take a time, if two counts of them took the times given.

    Args:
        seconds: The time to spend.
        counts: Two numbers of steps, the smaller one first.
        times: Seconds that they took.

    Returns:
        An int, the larger count at least, so that noise of short times leaves a search.
    """
    a_step = (times[1] - times[0]) / (counts[1] - counts[0])
    if a_step <= 0:
        return counts[1]
    before = times[0] - a_step * counts[0]
    return max(counts[1], round((seconds - before) / a_step))


if __name__ == "__main__":
    main()
