"""How far several searches agree."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.reports import agreement, search_analysis
from nas_search.nas_searches import INDICES, logits, write_search


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with tf.Graph().as_default():
        return search_analysis.analyze(str(write_search(tmp_path_factory.mktemp("search"))))


def search(found, *rows):
    """Returns an `Analysis` of as many choices as there are rows of probabilities."""
    nodes = [
        found.nodes[0]._replace(
            path=f"choice{number}",
            choices=list(map(str, range(len(row)))),
            index=int(np.argmax(row)),
        )
        for number, row in enumerate(rows)
    ]
    return found._replace(
        nodes=nodes, probabilities={20: [np.array(row) for row in rows]}, global_step=20
    )


def test_agreement_counts_alternatives_and_adds_what_is_shared(found):
    agreed = agreement.agreement(
        [
            search(found, [0.8, 0.2], [1.0], [1.0, 0.0, 0.0, 0.0]),
            search(found, [0.6, 0.4], [1.0], [0.0, 1.0, 0.0, 0.0]),
            search(found, [0.1, 0.9], [1.0], [0.0, 0.5, 0.3, 0.2]),
        ]
    )
    first, third = agreed.choices  # The second has one alternative, and is left out.
    # Pairs share 0.6 + 0.2, 0.1 + 0.2 and 0.1 + 0.4 of the first; 0, 0 and 0.5 of the third.
    assert (first.number, first.same) == (0, 2)
    assert first.overlap == pytest.approx((0.8 + 0.3 + 0.5) / 3)
    assert (third.number, third.same) == (2, 2)
    assert third.overlap == pytest.approx(0.5 / 3)
    assert [pair.searches for pair in agreed.pairs] == [(0, 1), (0, 2), (1, 2)]
    assert [pair.same for pair in agreed.pairs] == [1, 0, 1]
    assert [pair.overlap for pair in agreed.pairs] == pytest.approx([0.4, 0.15, 0.5])
    assert agreed.same == pytest.approx(2 / 6)
    assert agreed.overlap == pytest.approx((0.4 + 0.15 + 0.5) / 3)
    assert agreed.chance == pytest.approx((1 / 2 + 1 / 4) / 2)


def test_a_search_agrees_with_itself(found):
    agreed = agreement.agreement([found, found])
    assert agreed.same == pytest.approx(1)
    assert agreed.overlap == pytest.approx(1)


def test_searches_that_decided_otherwise_share_little(found, tmp_path):
    indices = [(i + 1) % len(node.choices) for i, node in zip(INDICES, found.nodes)]
    other = search_analysis.analyze(str(write_search(tmp_path, {20: logits(9.0, indices)})))
    agreed = agreement.agreement([found, other])
    assert agreed.same == 0
    assert 0 < agreed.overlap < 0.1


@pytest.mark.parametrize("rows", [[[[0.5, 0.5]]], [[[1.0]], [[1.0]]]])
def test_nothing_to_agree_in_is_refused(found, rows):
    with pytest.raises(ValueError, match="two searches at least, and a choice that is open, but"):
        agreement.agreement([search(found, *each) for each in rows])


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ([[1.0], [0.5, 0.5]], [[1.0], [0.1, 0.9]], None),
        ([[1.0], [0.5, 0.5]], [[1.0], [1.0]], "at choice1 it is 0|1 and 0"),
        ([[1.0], [0.5, 0.5]], [[1.0]], "at choice1 it is 0|1 and nothing"),
        ([[1.0]], [[1.0], [0.5, 0.5]], "the second has choice1 as well"),
    ],
)
def test_spaces_differ_in_their_choices(found, first, second, difference):
    got = agreement.difference(search(found, *first), search(found, *second))
    assert got == difference
