"""Searches of an experiment: what benchmarks of searches have in common."""

import argparse
import os
import pathlib

from benchmarks import nas_trainings

STRATEGIES = ("reinforce", "random", "evolution")


def arguments(description):
    """Returns a parser of the arguments that all have."""
    from benchmarks.nas_experiments import EXPERIMENTS

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--preset", choices=EXPERIMENTS, default="digits", help="what is searched")
    parser.add_argument("--out", type=pathlib.Path, help="directory (default: by preset)")
    parser.add_argument("--num_searches", type=int, default=8)
    parser.add_argument("--num_random", type=int, default=60, help="random networks")
    parser.add_argument("--num_trainings", type=int, default=3, help="of each network")
    parser.add_argument("--target", type=float, help="cost, in million MAdds (default: by preset)")
    parser.add_argument("--window", type=float, default=0.05, help="random ones: target ± share")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="few steps; figures mean nothing")
    return parser


def parse(parser, argv, least_searches=1):
    """Returns the arguments of a parser of `arguments`, with target and directory of the preset."""
    args = parser.parse_args(argv)
    if args.num_searches < least_searches:
        least = f"at least {least_searches}, as one alone has no spread"
        parser.error(f"--num_searches must be {least}")
    if args.out is None:
        args.out = pathlib.Path("runs") / f"nas_{args.preset}"
    if args.target is None:
        args.target = nas_trainings.experiment(args).target
    return args


def random_networks(args):
    """Returns the indices of the random networks that are compared with."""
    space = nas_trainings.experiment(args).space
    return nas_trainings.drawn(space, args.target, args.window, args.num_random)


def run(args, strategy, seed, directory=None, **given):
    """Searches, or takes what was searched there before.

    Args:
        args: Those of `parse`.
        strategy: Its name.
        seed: Of the search.
        directory: Where it is kept. None: one of the strategy and the seed.
        **given: Further settings, in place of those of the preset.

    Returns:
        Pair: the `Analysis` of what was found, and the seconds of the processor that it took.

    Raises:
        SettingsError: If the directory has a search with other settings.
        KeyboardInterrupt: If the search was stopped; it is saved.
    """
    from examples.nas_search.fronts import alone
    from examples.nas_search.reports import search_analysis
    from examples.nas_search.search import search_loop

    params = settings(args, strategy, seed, directory, **given)
    seconds = alone.finish(search_loop.run, params)
    return search_analysis.analyze(params["checkpoint_dir"]), seconds


def settings(args, strategy, seed, directory=None, **given):
    """Returns the settings of a search of `run`, those of the one in the directory if it is done.

    Raises:
        SettingsError: If they are not.
    """
    from examples.nas_search.search import search_settings

    # Directories of older versions, which had no other strategy, are called search_0 and so on.
    name = "search" if strategy == "reinforce" else strategy
    given = {"rl_cost_model_target": args.target, **given}
    if args.quick:
        given.setdefault("max_global_step", 20)
    params = search_settings.resolve(
        preset=args.preset,
        strategy=strategy,
        num_towers=2,
        seed=seed,
        checkpoint_dir=str(directory or args.out / f"{name}_{seed}"),
        **given,
    )
    search_settings.check_same(params)
    return params
