"""Makes controllers decide: what each setting leaves of their entropy, and what they find.

    python -m benchmarks.nas_controllers --preset digits

Searches the space of a preset with its settings, and with one of them changed at a time, from
several seeds, and trains what was found alone, as `nas_quality.py` does, whose directory may be
given: what it has is not made again. A second run goes on where the first stopped.

Prints JSON, a line for each `VARIANTS`, then a table of them. In it

    entropy_begin, entropy_end   of the controller, in nats: means over searches. Before the first
                                 step, and after the last
    decided                      share of the entropy that is gone
    mean, sd, min, max           describe the accuracy on test images over searches, where a network
                                 has the mean over its trainings
    madds                        of the networks found, the mean
    networks                     how many of those found are different
    seconds                      of the processor for a search, the mean

A temperature T is no variant: Adam makes steps of the same size for gradients of any scale, so
logits that are divided by T move as with a learning rate that is divided by it.
"""

import functools
import json
import os
import statistics

from benchmarks import nas_search_runs, nas_trainings
from replicate.bench import harness

_WARMUPS = ("increase_ops_warmup_steps_fraction", "increase_filters_warmup_steps_fraction")

# By name: the function that makes the changed settings from those of the preset.
VARIANTS = {
    "preset": lambda params: {},
    "half the rate": lambda params: {"rl_learning_rate": params["rl_learning_rate"] / 2},
    "twice the rate": lambda params: {"rl_learning_rate": params["rl_learning_rate"] * 2},
    "four times the rate": lambda params: {"rl_learning_rate": params["rl_learning_rate"] * 4},
    "a constant rate": lambda params: {"use_exponential_rl_learning_rate_schedule": False},
    "entropy rewarded, 0.01 a nat": lambda params: {"rl_entropy_regularization": 0.01},
    "entropy punished, 0.01 a nat": lambda params: {"rl_entropy_regularization": -0.01},
    # None where the preset has them, and the other way round.
    "warm-ups toggled": lambda params: {
        name: 0.0 if params[name] else params["rl_delay_steps_fraction"] for name in _WARMUPS
    },
    "start toggled": lambda params: {"start_at_target": not params["start_at_target"]},
    "twice as many steps": lambda params: {"epochs": 2 * params["epochs"]},
}


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    args = _parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    given = given_by(args.preset, args.variants)
    jobs = [(name, seed) for name in given for seed in range(args.num_searches)]
    for name, seed in jobs:  # Before anything is searched.
        nas_search_runs.settings(
            args, "reinforce", seed, _directory(args, name, seed), **given[name]
        )
    with nas_trainings.workers(args.processes) as pool:
        one = functools.partial(_search, args, given)
        searches = dict(zip(jobs, pool.map(one, *zip(*jobs))))
        found = [each["indices"] for each in searches.values()]
        trained = dict(nas_trainings.train_all(pool, args, found))
    context = {"preset": args.preset, "target_madds": 1e6 * args.target}
    context.update(num_trainings=args.num_trainings, **harness.machine())
    context.update(nas_trainings.versions())
    lines = []
    for name in given:
        group = [searches[name, seed] for seed in range(args.num_searches)]
        lines.append({"variant": name, "given": given[name], **_figures(group, trained)})
        print(json.dumps({**lines[-1], **context}), flush=True)
    print("\n" + table(lines))


def _parse(argv):
    parser = nas_search_runs.arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--variants", choices=VARIANTS, nargs="+", default=[*VARIANTS], help="what is searched with"
    )
    return nas_search_runs.parse(parser, argv, least_searches=2)


def given_by(preset, variants):
    """Returns, by variant, the settings that it changes: a dict of dicts.

    Args:
        preset: The name of a preset of searches.
        variants: Names of `VARIANTS`; each counts once.
    """
    from examples.nas_search.search import search_flags

    defaults = {flag.name: flag.default for flag in search_flags.FLAGS}
    params = {**defaults, **search_flags.PRESETS[preset]}
    return {name: VARIANTS[name](params) for name in variants}


def _directory(args, name, seed):
    """Returns the directory of a search, None for the one of `nas_quality.py` with the preset."""
    if name == "preset":
        return None
    return args.out / "controllers" / f"{name.replace(' ', '_').replace(',', '')}_{seed}"


def _search(args, given, name, seed):
    """Searches; returns a dict of `indices`, `seconds` and the controller's entropies."""
    directory = _directory(args, name, seed)
    analysis, seconds = nas_search_runs.run(args, "reinforce", seed, directory, **given[name])
    entropy = analysis.history["entropy"]
    return {
        "indices": nas_trainings.text_of(analysis.indices),
        "seconds": seconds,
        "entropy_begin": entropy[min(entropy)],
        "entropy_end": analysis.entropy,
    }


def _figures(searches, trained):
    """Returns the figures of the searches with a variant, see the module."""
    tests = [trained[each["indices"]]["test"] for each in searches]
    means = {
        name: statistics.mean(each[name] for each in searches)
        for name in ("entropy_begin", "entropy_end", "seconds")
    }
    return {
        **means,
        "decided": 1 - means["entropy_end"] / means["entropy_begin"],
        "mean": statistics.mean(tests),
        "sd": statistics.stdev(tests),
        "min": min(tests),
        "max": max(tests),
        "madds": statistics.mean(trained[each["indices"]]["madds"] for each in searches),
        "networks": len({each["indices"] for each in searches}),
        "searches": len(searches),
    }


def table(lines):
    """Returns the figures of variants as a table of Markdown."""
    rows = ["| setting | nats left | found | MAdds | different | seconds |", "| --- " * 6 + "|"]
    for line in lines:
        rows.append(
            f"| {line['variant']} | {line['entropy_end']:.1f} of {line['entropy_begin']:.1f} "
            f"| {line['mean']:.1%} ± {line['sd']:.1%} | {line['madds']:,.0f} "
            f"| {line['networks']} of {line['searches']} | {line['seconds']:.0f} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
