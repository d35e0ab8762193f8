"""Statistics of `nas_quality.py` and `nas_strategies.py`, which compare, and of `nas_spread.py`."""

import math
import statistics

import numpy as np
from scipy import stats


def compare(found, random, references, log_probabilities, search_seconds):
    """Compares the networks that searches found with random ones and with references.

    Args:
        found: List of a dict for each search, of the network that it found: `test` (mean
            accuracy, float), `madds` (int), `seconds` (of one training) and `runs`, a list of dicts
            with the accuracies `validation` and `test` of each training.
        random: List of such dicts of R random networks.
        references: Dict of such dicts by name; may be empty.
        log_probabilities: Float [searches, R]: what each search's controller makes of each of them;
            None if searches have no controllers.
        search_seconds: How long a search took.

    Returns:
        Dict of figures, see `nas_quality.py`; ready for JSON.
    """
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
    trainings = list(zip(*(network["runs"] for network in random)))
    best = [best_of(round(affordable), networks) for networks in trainings]
    again = [
        best_of(
            round(affordable),
            [{**run, "test": other["test"]} for run, other in zip(networks, trainings[number - 1])],
        )
        for number, networks in enumerate(trainings)
    ]
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
        "best_of_k_again": statistics.mean(again) if len(trainings) > 1 else None,
        **_preference(log_probabilities, theirs),
        "references": {name: beside(found, network) for name, network in references.items()},
    }


def _preference(log_probabilities, accuracies):
    """Returns the figures on what controllers prefer, all None if there are no controllers."""
    names = ("preference", "preference_min", "preference_of_mean", "preference_of_mean_p")
    if log_probabilities is None:
        return dict.fromkeys(names)
    each = [stats.spearmanr(row, accuracies).statistic for row in log_probabilities]
    together = stats.spearmanr(np.mean(log_probabilities, axis=0), accuracies)
    figures = (np.mean(each), min(each), together.statistic, together.pvalue)
    return dict(zip(names, map(float, figures)))


def beside(found, reference):
    """Compares the networks that searches found with one other.

    Args:
        found: List of dicts, as of `compare`.
        reference: Such a dict.

    Returns:
        Dict of figures that are lower in the reference if searches are better: `test`; `madds`;
        `better`, the share of found networks that are; and `welch_p`, one-sided, of the means of
        the found networks against the single trainings of the reference, None if there is only one.
    """
    ours = [network["test"] for network in found]
    trainings = [run["test"] for run in reference["runs"]]
    p = None
    if len(trainings) > 1:
        welch = stats.ttest_ind(ours, trainings, equal_var=False, alternative="greater")
        p = float(welch.pvalue)
    return {
        "test": reference["test"],
        "madds": reference["madds"],
        "better": statistics.mean(accuracy > reference["test"] for accuracy in ours),
        "welch_p": p,
    }


def strategies(found, random):
    """Compares what strategies found, with each other and with random networks.

    Args:
        found: Dict by strategy of the accuracies of the networks that its searches found, two or
            more.
        random: Accuracies of random networks, two or more.

    Returns:
        Dict by strategy of dicts of figures, see `nas_strategies.py`; ready for JSON.
    """
    compared = {}
    for strategy, ours in found.items():
        beyond = stats.ttest_ind(ours, random, equal_var=False, alternative="greater")
        compared[strategy] = {
            "searches": len(ours),
            "mean": statistics.mean(ours),
            "sd": statistics.stdev(ours),
            "min": min(ours),
            "max": max(ours),
            "percentile_mean": statistics.mean(
                stats.percentileofscore(random, accuracy, "mean") for accuracy in ours
            ),
            "welch_p": float(beyond.pvalue),
            "against": {
                other: {
                    "difference": statistics.mean(ours) - statistics.mean(theirs),
                    "welch_p": float(stats.ttest_ind(ours, theirs, equal_var=False).pvalue),
                }
                for other, theirs in found.items()
                if other != strategy
            },
        }
    return compared


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


def variance_components(accuracies):
    """Divides the variance of accuracies into what is due to networks and to trainings.

    It is that of one-way analysis of variance with random effects: trainings of one network differ
    by its second part alone, and means of trainings by both.

    Args:
        accuracies: Float [networks, trainings], two or more of both.

    Returns:
        Pair of floats: the standard deviation between networks, 0 if trainings alone explain more
        than there is, and that between trainings of one network.
    """
    accuracies = np.asarray(accuracies)
    within = accuracies.var(axis=1, ddof=1).mean()
    between = accuracies.mean(axis=1).var(ddof=1) - within / accuracies.shape[1]
    return math.sqrt(max(0.0, between)), math.sqrt(within)


def spread(accuracies, num_draws=10_000):
    """Tells how far networks differ, in units of how far trainings of one network do.

    Args:
        accuracies: Float [networks, trainings], two or more of both.
        num_draws: How many times networks are drawn with replacement, each with all its trainings,
            for the interval.

    Returns:
        Dict of figures: `networks`, `trainings`, `mean`, `min` and `max`, of networks' means;
        `between_sd` and `within_sd`, as of `variance_components`; and their `ratio` and its
        `ratio_95`, a pair, the percentile interval of the bootstrap. These are None if trainings of
        a network never differ.
    """
    accuracies = np.asarray(accuracies)
    means = accuracies.mean(axis=1)
    between, within = variance_components(accuracies)
    figures = {
        "networks": len(accuracies),
        "trainings": accuracies.shape[1],
        "mean": float(means.mean()),
        "min": float(means.min()),
        "max": float(means.max()),
        "between_sd": between,
        "within_sd": within,
    }
    return {**figures, **_ratio(accuracies, num_draws)}


def _ratio(accuracies, num_draws):
    """Returns `ratio` and `ratio_95`, see `spread`."""
    between, within = variance_components(accuracies)
    if not within:
        return {"ratio": None, "ratio_95": None}
    random = np.random.RandomState(0)
    drawn = random.randint(len(accuracies), size=(num_draws, len(accuracies)))
    components = np.array([variance_components(accuracies[rows]) for rows in drawn])
    # Draws of networks whose trainings never differ have an endless ratio.
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.nanquantile(components[:, 0] / components[:, 1], [0.025, 0.975])
    return {"ratio": between / within, "ratio_95": [float(low), float(high)]}
