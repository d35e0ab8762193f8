"""Rewards, accuracies and costs of a search over its steps."""

import collections

import numpy as np


def history(scalars, suffixes, evaluations=None):
    """Returns what a search logged of the networks that it drew, and of those that it evaluated.

    Args:
        scalars: What `analyze_mobile_search_lib.read_scalars` returned.
        suffixes: For each cost the end of the names of its scalars, see `search_costs.suffixes`.
        evaluations: List of `Evaluation`s that took the place of a controller; None with one.

    Returns:
        Dict of series {step: value}, empty if not logged: `reward`, `accuracy` and for each cost
        `cost<suffix>`; of networks evaluated, the means of a step. With evaluations also `best`,
        the largest reward of those up to the step.
    """
    names = {"reward": "reward", "accuracy": "validation_accuracy"}
    names.update({f"cost{suffix}": f"estimated_cost{suffix}" for suffix in suffixes})
    series = {name: dict(scalars.get(f"rlcontroller/{tag}", {})) for name, tag in names.items()}
    if evaluations is None:
        return series
    steps = collections.defaultdict(list)
    for evaluation in evaluations:
        steps[evaluation.step].append(evaluation)
    for step, made in steps.items():
        series["reward"][step] = float(np.mean([each.reward for each in made]))
        series["accuracy"][step] = float(np.mean([each.accuracy for each in made]))
        for number, suffix in enumerate(suffixes):
            series[f"cost{suffix}"][step] = float(np.mean([each.costs[number] for each in made]))
    return {**series, "best": _largest_so_far(evaluations)}


def _largest_so_far(evaluations):
    largest = np.maximum.accumulate([evaluation.reward for evaluation in evaluations])
    return {each.step: float(reward) for each, reward in zip(evaluations, largest)}
