"""How far several searches of one space agree.

A *choice* is open if it has more than one alternative; the others agree by themselves, and do not
count. The *overlap* of two searches in a choice is Σ min(p, q) over its alternatives, p and q being
the two controllers' probabilities: 1 if they are equal, 0 if what one gives to, the other does not.
"""

import itertools
from typing import List, NamedTuple, Tuple

import numpy as np


class Choice(NamedTuple):
    """How far searches agree in one choice."""

    number: int  # in the `nodes` of each `Analysis`
    same: int  # searches that have the commonest of the most probable alternatives
    overlap: float  # the mean over the pairs of searches, in [0, 1]


class Pair(NamedTuple):
    """How far two searches agree."""

    searches: Tuple[int, int]  # numbers in the list of searches
    same: int  # open choices in which the most probable alternative is the same
    overlap: float  # the mean over the open choices, in [0, 1]


class Agreement(NamedTuple):
    """How far searches of one space agree."""

    choices: List[Choice]  # the open ones
    pairs: List[Pair]  # of searches, each with those after it
    same: float  # share of the open choices that two of the searches take alike, the mean of pairs
    overlap: float  # the mean of pairs
    chance: float  # what `same` is on average if all take alternatives at random, each as likely


def difference(first, second):
    """Returns how the space of an `Analysis` differs from that of a second, in words; else None."""
    theirs = {node.path: node.choices for node in second.nodes}
    for node in first.nodes:
        other = theirs.pop(node.path, None)
        if other != node.choices:
            found = "nothing" if other is None else "|".join(other)
            return f"at {node.path} it is {'|'.join(node.choices)} and {found}"
    return f"the second has {min(theirs)} as well" if theirs else None


def agreement(analyses):
    """Returns the `Agreement` of searches.

    Args:
        analyses: At least two `Analysis`es without `difference`.

    Raises:
        ValueError: If they are fewer, or every choice has one alternative.
    """
    numbers = [i for i, node in enumerate(analyses[0].nodes) if len(node.choices) > 1]
    if len(analyses) < 2 or not numbers:
        raise ValueError(
            "To agree takes two searches at least, and a choice that is open, but there are "
            f"{len(analyses)} searches and {len(numbers)} open choices."
        )
    taken = np.array([[each.nodes[i].index for i in numbers] for each in analyses])
    last = [each.probabilities[each.global_step] for each in analyses]
    pairs = list(itertools.combinations(range(len(analyses)), 2))
    overlaps = np.array(
        [[np.minimum(last[a][i], last[b][i]).sum() for i in numbers] for a, b in pairs]
    )  # [pairs, open choices]
    equal = np.array([taken[a] == taken[b] for a, b in pairs])
    return Agreement(
        choices=[
            Choice(number, int(np.bincount(column).max()), float(overlap))
            for number, column, overlap in zip(numbers, taken.T, overlaps.mean(axis=0))
        ],
        pairs=[
            Pair(pair, int(same.sum()), float(overlap))
            for pair, same, overlap in zip(pairs, equal, overlaps.mean(axis=1))
        ],
        same=float(equal.mean()),
        overlap=float(overlaps.mean()),
        chance=float(np.mean([1 / len(analyses[0].nodes[i].choices) for i in numbers])),
    )
