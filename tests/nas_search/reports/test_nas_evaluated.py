"""Analyses and pages of searches that evaluate networks in place of a controller."""

import csv
import io
import json

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.reports import (
    agreement,
    comparison,
    report,
    result_formats,
    search_analysis,
)
from examples.nas_search.search.strategies.history import Evaluation
from nas_search import nas_searches
from nas_search.nas_pages import Page, check_loads_nothing, check_names, check_readable
from nas_search.nas_searches import INDICES, logits, write_search

BEST = [*INDICES[:-2], 0, 0]
REWARDS = [0.3, 0.2, 0.6, 0.6, 0.1, 0.5]  # of two networks in each of the steps 21, 22 and 23
NETWORKS = [INDICES, INDICES, BEST, INDICES, INDICES, INDICES]
EVALUATIONS = [
    Evaluation(place, 21 + place // 2, tuple(network), 0.7 + place / 100, reward, (0.02,), 1.5)
    for place, (network, reward) in enumerate(zip(NETWORKS, REWARDS))
]


def write_evaluated(directory, evaluations=EVALUATIONS, **changes):
    """Writes a search that has evaluated these networks."""
    return nas_searches.write_evaluated(directory, evaluations, **changes)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("searches")
    with tf.Graph().as_default():
        return search_analysis.analyze(write_evaluated(folder / "random", rl_delay_steps=20))


def test_the_network_found_has_the_best_reward(evaluated):
    """The controller's logits, which a search logs, do not matter."""
    assert evaluated.indices == BEST
    assert evaluated.global_step == 23
    assert evaluated.evaluations == EVALUATIONS
    assert (evaluated.probability, evaluated.entropy, evaluated.initial_entropy) == (None,) * 3
    assert {(node.probability, node.entropy) for node in evaluated.nodes} == {(None, None)}
    assert [node.index for node in evaluated.nodes] == BEST


def test_the_history_goes_on_with_the_networks_evaluated(evaluated):
    """Those of a step count by their mean."""
    logged = evaluated.history
    assert logged["reward"] == pytest.approx({0: 0.5, 10: 0.6, 20: 0.7, 21: 0.25, 22: 0.6, 23: 0.3})
    assert logged["accuracy"] == pytest.approx(
        {0: 0.6, 10: 0.7, 20: 0.8, 21: 0.705, 22: 0.725, 23: 0.745}
    )
    assert logged["cost"] == pytest.approx(
        {**dict.fromkeys([0, 10, 20], 0.4), 21: 0.02, 22: 0.02, 23: 0.02}
    )
    assert logged["best"] == {21: 0.3, 22: 0.6, 23: 0.6}
    assert logged["entropy"] == {}


def test_the_page_shows_networks_in_place_of_the_controller(evaluated):
    text = report.page(evaluated)
    check_loads_nothing(text)
    check_names(text)
    check_readable(text)
    words = " ".join(" ".join(Page(text).words).split())
    assert "How the controller made up its mind" not in words
    assert "How sure it is" not in words
    assert "entropy" not in words
    assert "The search has evaluated 6 networks by the strategy random" in words
    table = words[words.index("The best 6 of the networks evaluated") :]
    assert "network reward accuracy cost step" in table
    best, second = (":".join(map(str, network)) for network in (BEST, INDICES))
    assert f"{best} 0.6 72.0% 0.02 22 {second} 0.6 73.0% 0.02 22" in table
    assert "reward 0.6 the best of 6 networks evaluated" in words
    assert "9 s of the processor" in words
    assert "best reward so far from 0.3 to 0.6" in text
    assert "choices.png" not in report.pictures(evaluated)


def test_the_picture_marks_where_the_evaluation_starts(evaluated):
    figure = report._series(evaluated)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "evaluation starts" in labels


def test_results_are_written_in_every_format(evaluated):
    written = {evaluated.directory: []}
    texts = {}
    for name, write in result_formats.WRITE.items():
        stream = io.StringIO()
        write([evaluated], written, None, stream)
        texts[name] = stream.getvalue()
    assert "strategy = random\nevaluations = 6\nreward = 0.6\n" in texts["lines"]
    assert "probability" not in texts["lines"]
    (row,) = csv.DictReader(io.StringIO(texts["csv"]))
    assert (row["probability"], row["indices"]) == ("", ":".join(map(str, BEST)))
    (record,) = json.loads(texts["json"])
    assert record["entropy"] is None


def test_strategies_are_compared(evaluated, tmp_path):
    steps = {30: {**logits(3.0), "rlcontroller/reward": 0.25}}
    with tf.Graph().as_default():
        other = search_analysis.analyze(str(write_search(tmp_path / "reinforce", steps)))
    page = comparison.page([evaluated, other])
    check_readable(page)
    assert "None" not in page
    agreed = agreement.agreement([evaluated, other])
    differing = [a != b for a, b in zip(BEST, INDICES)]
    for choice in agreed.choices:
        of_other = other.probabilities[30][choice.number]
        # One search takes its alternative with certainty.
        assert choice.overlap == pytest.approx(of_other[BEST[choice.number]])
        assert choice.same == (1 if differing[choice.number] else 2)


@pytest.mark.parametrize(
    ("evaluations", "changes", "message"),
    [
        ([], {}, "must have networks that the search evaluated, but has 0, .* step 0 of 20 before"),
        (
            [EVALUATIONS[0], EVALUATIONS[1]._replace(costs=())],
            {},
            "that the search evaluated, but has 2, with 2 numbers of costs",
        ),
        ([EVALUATIONS[0]._replace(indices=(0, 1))], {}, "must fit the space of the search, but"),
        ([EVALUATIONS[1]], {}, "its positions are not 0, 1, 2"),
        (EVALUATIONS, {"strategy": "bayes"}, "`strategy` must be one of reinforce, random"),
        (EVALUATIONS, {"strategy": ["a"]}, r"`strategy` must be one of .*, but is \['a'\]"),
    ],
)
def test_searches_that_cannot_be_read_are_refused(tmp_path, evaluations, changes, message):
    directory = write_evaluated(tmp_path / "search", evaluations, **changes)
    with pytest.raises(search_analysis.UnreadableError, match=message):
        search_analysis.analyze(directory)
