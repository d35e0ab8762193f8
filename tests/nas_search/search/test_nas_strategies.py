"""Strategies without controller: their settings, what they propose, and their history."""

import collections
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.search import model_fn, search_settings, strategies
from examples.nas_search.search.strategies import history, proposals, registry
from examples.nas_search.search.strategies.history import Evaluation
from examples.runs.errors import UserError
from examples.runs.flags import SettingsError
from nas_search import nas_searches

SIZES = (1, 2, 3, 2, 4, 1, 3)
OPEN = [1, 2, 3, 4, 6]
# The settings of a search before there were strategies.
BEFORE = {
    "augmentation",
    "checkpoint_dir",
    "cost_model",
    "cost_model_files",
    "cost_model_weights",
    "dataset",
    "dataset_dir",
    "devices",
    "enable_cost_model",
    "epochs",
    "gcp_project",
    "image_shape",
    "image_size",
    "increase_filters_warmup_steps",
    "increase_filters_warmup_steps_fraction",
    "increase_ops_warmup_steps",
    "increase_ops_warmup_steps_fraction",
    "label_offset",
    "max_global_step",
    "model_learning_rate",
    "model_momentum",
    "model_warmup_steps",
    "model_warmup_steps_fraction",
    "model_weight_decay",
    "num_classes",
    "num_towers",
    "preset",
    "rl_baseline_momentum",
    "rl_batch_size_multiplier",
    "rl_cost_model_exponent",
    "rl_cost_model_target",
    "rl_delay_steps",
    "rl_delay_steps_fraction",
    "rl_entropy_regularization",
    "rl_learning_rate",
    "rl_reward_function",
    "seed",
    "ssd",
    "test_fraction",
    "tpu",
    "tpu_iterations_per_loop",
    "tpu_zone",
    "train_batch_size",
    "use_bfloat16",
    "use_exponential_rl_learning_rate_schedule",
    "use_gradient_sync_barrier",
    "use_tpu",
    "validation_fraction",
}
LATER = {
    "strategy",
    "slice_widths",
    "start_at_target",
    "skip_delay_steps_fraction",
    "skip_delay_steps",
}


def resolve(directory="unused", **given):
    given = {"preset": "digits", "num_towers": 2, "max_global_step": 100, **given}
    return search_settings.resolve(checkpoint_dir=str(directory), **given)


# Settings.


def test_reinforce_has_the_settings_of_before_and_its_name():
    params = resolve()
    assert set(params) == {*BEFORE, *LATER}
    assert params["strategy"] == "reinforce"
    assert params == resolve(strategy="reinforce")
    assert (params["rl_delay_steps"], params["increase_ops_warmup_steps"]) == (25, 25)
    assert strategies.has_controller(params)
    assert strategies.training_steps(params) == 100


def graph_of(params):
    """Returns the step of a search as a graph, without the numbers that a process counts."""
    with tf.Graph().as_default() as graph:
        rows = {"train": 2, "validation": 4}
        images = {part: tf.placeholder(tf.float32, [n, 8, 8, 1]) for part, n in rows.items()}
        labels = {part: tf.placeholder(tf.float32, [n, 10]) for part, n in rows.items()}
        model_fn.model_fn(images, labels, tf.estimator.ModeKeys.TRAIN, params)
    made = graph.as_graph_def()
    for node in made.node:
        if "_gradient_op_type" in node.attr:
            del node.attr["_gradient_op_type"]
    return made.SerializeToString(deterministic=True)


def test_reinforce_has_the_graph_of_before(tmp_path):
    params = resolve(tmp_path)
    graph = graph_of(params)
    is_same = graph == graph_of({name: params[name] for name in BEFORE})
    assert is_same
    # It depends on the settings of others: the schedule of the weights ends earlier.
    is_same = graph == graph_of(resolve(tmp_path, strategy="random"))
    assert not is_same


@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        ("random", {}),
        ("evolution", {"evolution_population_size": 50, "evolution_sample_size": 12}),
    ],
)
def test_others_train_weights_in_the_first_part_of_the_steps(strategy, more):
    params = resolve(strategy=strategy)
    own = {"supernet_steps_fraction": 0.75, "cost_window": 0.05, "supernet_steps": 75, **more}
    assert set(params) == {*BEFORE, *LATER, *own}
    assert {name: params[name] for name in own} == own
    assert params["max_global_step"] == 100
    # The controller never learns, and warm-ups are shares of the first part.
    assert (params["rl_delay_steps"], params["increase_ops_warmup_steps"]) == (75, 18)
    assert not strategies.has_controller(params)
    assert strategies.training_steps(params) == 75


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"supernet_steps_fraction": 0.5},
            "--supernet_steps_fraction must be for the strategy of the search, but --strategy is "
            "reinforce",
        ),
        (
            {"strategy": "random", "evolution_sample_size": 3},
            "--evolution_sample_size must be for the strategy of the search, but --strategy is r",
        ),
        ({"strategy": "ransom"}, "--strategy must be one of reinforce, random, evolution, but is"),
        ({"strategy": "random", "tpu": "local", "num_towers": None}, "must evaluate networks on t"),
        (
            {"strategy": "evolution", "evolution_population_size": 5},
            "must be at most the --evolution_population_size, which is 5, but is 12. Lower it",
        ),
        (
            {"strategy": "random", "supernet_steps_fraction": 1.0},
            "and some evaluate networks, but --supernet_steps_fraction 1 of 100 steps are 100",
        ),
        ({"strategy": "random", "max_global_step": 1}, "fraction 0.75 of 1 steps are 0. Change it"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given, message):
    with pytest.raises(SettingsError) as raised:
        resolve(**given)
    assert message in str(raised.value)


def test_params_json_from_elsewhere_must_name_a_strategy():
    with pytest.raises(SettingsError, match="`strategy` must be one of reinforce, random, evo"):
        registry.strategy_of({"strategy": "bayes"})


def test_older_searches_resume(tmp_path):
    """They have no strategy, which stands for `reinforce` and for no other."""
    params = resolve(tmp_path)
    search_settings.save({name: value for name, value in params.items() if name != "strategy"})
    nas_searches.save_checkpoint(tmp_path)
    search_settings.check_same(params)
    with pytest.raises(SettingsError, match='strategy was "reinforce" and is "random"'):
        search_settings.check_same(resolve(tmp_path, strategy="random"))


# Proposals.


def evaluation(position, indices, reward, **changes):
    made = Evaluation(position, 10 + position // 2, tuple(indices), 0.5, reward, (0.1,), 0.25)
    return made._replace(**changes)


def no_misses(networks):
    return np.zeros(len(networks))


def draw(propose, rewards, count=1, misses=no_misses, **params):
    """Returns networks of a position each, after a history of uniform ones with given rewards."""
    params = {"seed": 3, **params}
    past = [
        evaluation(place, proposals.uniform(place, [], SIZES, {"seed": 9}, no_misses), reward)
        for place, reward in enumerate(rewards)
    ]
    positions = range(len(past), len(past) + count)
    return past, [propose(position, past, SIZES, params, misses) for position in positions]


def test_random_networks_are_uniform_and_depend_on_seed_and_position_alone():
    _, networks = draw(proposals.uniform, [], 3_000)
    for choice, size in enumerate(SIZES):
        counts = np.bincount([network[choice] for network in networks], minlength=size)
        assert len(counts) == size
        np.testing.assert_allclose(counts / 3_000, 1 / size, atol=0.04)
    past, (again,) = draw(proposals.uniform, [0.1] * 7)
    assert again == networks[len(past)]
    assert draw(proposals.uniform, [], 20, seed=4)[1] != networks[:20]


def changed(parent, child):
    return [place for place, (a, b) in enumerate(zip(parent, child)) if a != b]


EVOLUTION = {"evolution_population_size": 4, "evolution_sample_size": 2}


def test_evolution_begins_with_a_uniform_population():
    for rewards in ([], [0.5] * 3):
        assert draw(proposals.offspring, rewards, 2, **EVOLUTION) == draw(
            proposals.uniform, rewards, 2
        )


ONE = {"evolution_population_size": 1, "evolution_sample_size": 1}


def test_offspring_differs_from_its_parent_in_a_few_open_choices():
    past, networks = draw(proposals.offspring, [0.9, 0.8], 2_000, **ONE)
    parent = past[-1].indices
    differences = [changed(parent, network) for network in networks]
    counts = collections.Counter(place for places in differences for place in places)
    assert sorted(counts) == OPEN
    # One that is picked, and each other with a probability of 0.1.
    share = 1 / 5 + 4 / 5 * 0.1
    np.testing.assert_allclose([counts[place] / 2_000 for place in OPEN], share, atol=0.04)
    sizes = collections.Counter(map(len, differences))
    assert min(sizes) == 1 and sizes[1] / 2_000 == pytest.approx(0.9**4, abs=0.04)
    options = collections.Counter(network[4] for network in networks)
    others = [options[option] / 2_000 for option in range(SIZES[4]) if option != parent[4]]
    np.testing.assert_allclose(others, share / 3, atol=0.03)


@pytest.mark.parametrize("propose", [proposals.uniform, proposals.offspring])
def test_networks_cost_what_they_should_or_come_closest(propose):
    def sum_misses(networks, most):
        return np.maximum(np.sum(networks, axis=1) - most, 0) * 0.1

    def sums(most):
        networks = draw(propose, [0.9, 0.8], 200, lambda each: sum_misses(each, most), **ONE)[1]
        return {sum(network) for network in networks}

    assert max(sums(4)) <= 4
    assert len(sums(99)) > 4
    # None has such a sum: those come closest that have the least of many.
    assert max(sums(-1)) <= min(sums(99)) + 1


def test_the_parent_is_the_best_of_a_sample_of_the_latest_networks(monkeypatch):
    """The best one of all is older than the population: it is dead."""
    monkeypatch.setattr(proposals, "_mutated", lambda parent, *_: np.array([parent]))
    rewards = [0.9, 0.1, 0.2, 0.7, 0.3, 0.4]
    everyone = {"evolution_population_size": 4, "evolution_sample_size": 100}
    past, networks = draw(proposals.offspring, rewards, 50, **everyone)
    assert len({member.indices for member in past}) == 6
    assert set(networks) == {past[3].indices}
    # Of samples of two with replacement, the best of four is in 7 of 16, and the worst is in 1.
    past, networks = draw(proposals.offspring, rewards, 4_000, **EVOLUTION)
    counts = collections.Counter(networks)
    shares = np.array([counts[past[place].indices] for place in (3, 5, 4, 2)]) / 4_000
    np.testing.assert_allclose(shares, np.array([7, 5, 3, 1]) / 16, atol=0.03)


def test_evolution_finds_better_networks_than_chance():
    def run(propose):
        past = []
        large = {"evolution_population_size": 20, "evolution_sample_size": 5}
        for position in range(400):
            network = propose(position, past, (4,) * 12, {"seed": 0, **large}, no_misses)
            past.append(evaluation(position, network, float(sum(network))))
        return max(member.reward for member in past)

    assert run(proposals.offspring) >= run(proposals.uniform) + 4


def test_spaces_without_open_choices_have_one_network():
    full = [evaluation(place, (0, 0), 0.1) for place in range(5)]
    given = (5, full, (1, 1), {"seed": 0, **EVOLUTION}, no_misses)
    assert proposals.offspring(*given) == (0, 0)


# The history.

PAST = [evaluation(place, (0, place), 0.1 * place, costs=(0.1, 0.2)) for place in range(4)]


def test_the_history_is_read_as_it_was_written(tmp_path):
    assert history.read(str(tmp_path)) == []
    history.start(str(tmp_path), PAST[:1])
    history.append(str(tmp_path), PAST[1:])
    assert history.read(str(tmp_path)) == PAST
    lines = (tmp_path / history.NAME).read_text().splitlines()
    assert json.loads(lines[3])["indices"] == "0:3"
    history.start(str(tmp_path), PAST[:2])
    assert history.read(str(tmp_path)) == PAST[:2]


def test_a_line_that_is_not_whole_is_left_out(tmp_path):
    history.start(str(tmp_path), PAST)
    path = tmp_path / history.NAME
    path.write_text(path.read_text()[:-3])
    assert history.read(str(tmp_path)) == PAST[:3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}\n", r"a line lacks a value, or has a wrong one \(KeyError\('position'\)\)"),
        ("[]\n", "a line lacks a value"),
        ("{\n", "A text must be JSON"),
    ],
)
def test_damaged_histories_are_refused(tmp_path, text, message):
    (tmp_path / history.NAME).write_text(text)
    with pytest.raises(UserError, match=f"must be the history that a search .* damaged: {message}"):
        history.read(str(tmp_path))


def test_positions_must_be_in_order(tmp_path):
    history.start(str(tmp_path), [PAST[0], PAST[2]])
    with pytest.raises(UserError, match="its positions are not 0, 1, 2 and so on"):
        history.read(str(tmp_path))


# The network found.


def test_a_controller_takes_the_most_probable_options():
    rows = [np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])]
    assert strategies.found(rows, None) == [1, 0]


def test_without_controller_the_first_with_the_largest_reward_is_found():
    rewards = [0.1, 0.5, 0.5, 0.2]
    past = [member._replace(reward=reward) for member, reward in zip(PAST, rewards)]
    assert strategies.found([], past) == [0, 1]


def test_steps_of_both_parts_count(tmp_path):
    directory = str(tmp_path)
    params = {"strategy": "random", "supernet_steps": 8, "max_global_step": 20}
    assert strategies.steps_done(directory, params) == 0
    history.start(directory, PAST)  # steps 10 and 11
    nas_searches.save_checkpoint(tmp_path, step=5)
    assert strategies.steps_done(directory, params) == 5  # The history is of another search.
    nas_searches.save_checkpoint(tmp_path, step=8)
    assert strategies.steps_done(directory, params) == 11
    assert strategies.steps_done(directory, {"max_global_step": 20}) == 8
