"""The networks that a search puts first."""

from examples.nas_search.reports import finalists, network_distribution, search_analysis
from examples.nas_search.spaces import search_spaces
from nas_search.nas_searches import (
    FOUR,
    INDICES,
    UNREACHED,
    evaluation,
    logits,
    write_evaluated,
    write_search,
)


def test_those_with_the_largest_rewards_come_first(tmp_path):
    rewards = [0.2, 0.5, 0.3, 0.4, 0.5]
    history = [
        evaluation(place, network, reward)
        for place, (network, reward) in enumerate(zip([*FOUR, FOUR[0]], rewards))
    ]
    analysis = search_analysis.analyze(write_evaluated(tmp_path / "random", history))
    assert finalists.finalists(analysis, 3) == [FOUR[1], FOUR[0], FOUR[3]]
    assert finalists.finalists(analysis, 1) == [analysis.indices]
    # Each only once, and no more than were evaluated.
    assert finalists.finalists(analysis, 9) == [FOUR[1], FOUR[0], FOUR[3], FOUR[2]]


def test_networks_that_differ_in_a_skipped_layer_are_one(tmp_path):
    history = [evaluation(0, INDICES, 0.5), evaluation(1, UNREACHED, 0.4)]
    history.append(evaluation(2, FOUR[0], 0.3))
    analysis = search_analysis.analyze(write_evaluated(tmp_path / "random", history))
    assert finalists.finalists(analysis, 3) == [INDICES, FOUR[0]]


def test_of_a_controller_the_most_probable_ones_come_first(tmp_path):
    analysis = search_analysis.analyze(str(write_search(tmp_path / "search")))
    networks = finalists.finalists(analysis, 8)
    assert networks[0] == analysis.indices == INDICES
    assert len(networks) == 8
    rows = analysis.probabilities[analysis.global_step]
    oneofs = network_distribution.open_nodes(search_spaces.get_search_space_spec(analysis.ssd))
    logs = [network_distribution.log_probability(oneofs, rows, network) for network in networks]
    assert logs == sorted(logs, reverse=True)
    assert logs[0] > logs[1]
    assert finalists.finalists(analysis, 8) == networks


def test_a_controller_that_has_decided_draws_few(tmp_path):
    steps = {20: logits(60.0)}
    analysis = search_analysis.analyze(str(write_search(tmp_path / "search", steps)))
    assert finalists.finalists(analysis, 8) == [INDICES]
