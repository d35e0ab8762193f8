"""`sample`: random networks in a window of cost."""

import argparse
import io
import json

import numpy as np
import pytest

from examples.nas_search import mobile_cost_model
from examples.nas_search.commands import sample
from examples.nas_search.costs import network_cost
from examples.nas_search.fronts import random_networks
from examples.nas_search.spaces import search_spaces
from examples.runs.errors import UserError
from nas_search import nas_searches

SSD = "digits_search"
# The cheapest and the most expensive network of the space, in million multiply-adds.
CHEAPEST, DEAREST = (
    mobile_cost_model.estimate_cost(indices, SSD)
    for indices in (
        [0] + [0, 0, 0, 0, 1, 0] + [0, 0, 0, 0, 1, 0] + [0],
        [0] + [1, 1, 1, 1, 0, 2] + [1, 1, 1, 1, 0, 2] + [0],
    )
)


def run(capsys, *flags):
    """Runs `sample`; returns its exit status, stdout and stderr."""
    parser = argparse.ArgumentParser()
    sample.add_flags(parser)
    status = sample.main(parser.parse_args(flags))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_networks_cost_what_they_should(capsys):
    window = ("--min_cost=0.010", "--max_cost=0.012", "--num_samples=20", "--seed=3")
    status, out, err = run(capsys, f"--ssd={SSD}", *window)
    assert status == 0
    networks = json.loads(out)  # and nothing else
    assert len(networks) == 20
    for network in networks:
        indices = [int(index) for index in network["indices"].split(":")]
        assert 0.010 <= network["cost"] <= 0.012
        assert network["cost"] == pytest.approx(mobile_cost_model.estimate_cost(indices, SSD))
        spec = search_spaces.get_search_space_spec(SSD)
        exact = network_cost.network_cost(spec, (8, 8, 1), 10, indices).madds / 1e6
        assert network["cost"] == pytest.approx(exact, rel=0.005)
    assert "20 of 20 found" in err
    assert len({network["indices"] for network in networks}) > 10


def test_the_window_is_by_default_around_the_target(capsys):
    _, out, _ = run(capsys, f"--ssd={SSD}", "--seed=1")
    (network,) = json.loads(out)
    target = mobile_cost_model.target_cost(SSD)
    assert 0.99 * target <= network["cost"] <= 1.01 * target


def test_a_search_gives_space_images_and_target(capsys, tmp_path):
    search = nas_searches.write_search(tmp_path, image_shape=[16, 16, 1], rl_cost_model_target=0.04)
    _, out, _ = run(capsys, f"--search_dir={search}", "--seed=1")
    (network,) = json.loads(out)
    indices = [int(index) for index in network["indices"].split(":")]
    exact = (
        network_cost.network_cost(
            search_spaces.get_search_space_spec(SSD), (16, 16, 1), 10, indices
        ).madds
        / 1e6
    )
    assert network["cost"] == pytest.approx(exact, rel=0.005)
    assert 0.0396 <= network["cost"] <= 0.0404
    with pytest.raises(UserError, match="--ssd must be that of the search, but is 'mobilenet_v2'"):
        run(capsys, f"--search_dir={search}", "--ssd=mobilenet_v2")
    nas_searches.write_search(tmp_path, rl_cost_model_target=None)
    with pytest.raises(UserError, match="must name a search in which cost counts"):
        run(capsys, f"--search_dir={search}")


def test_the_same_seed_draws_the_same_networks():
    def draw(seed):
        return random_networks.sample_networks(SSD, 0, 10, 50, seed=seed)

    assert draw(5) == draw(5)
    assert draw(5) != draw(6)
    assert draw(None) != draw(None)


def test_every_alternative_is_as_probable_as_the_others():
    networks = random_networks.sample_networks(SSD, 0, 10, 4000, seed=0)
    drawn = np.array([[int(index) for index in n["indices"].split(":")] for n in networks])
    # The share of 4,000 has a standard deviation of at most 0.5 / √4000 = 0.8 %.
    for column, number in zip(drawn.T, [1] + [2, 2, 2, 2, 2, 3] * 2 + [1]):
        np.testing.assert_allclose(
            np.bincount(column) / 4000, np.full(number, 1 / number), atol=0.04
        )


@pytest.mark.parametrize(
    ("min_cost", "max_cost", "tries"), [(-1.0, 0.9 * CHEAPEST, 10), (1.1 * DEAREST, 99.0, 2500)]
)
def test_an_empty_window_ends_with_what_networks_cost(min_cost, max_cost, tries):
    progress = io.StringIO()
    message = (
        rf"Only 0 of {tries:,} random networks .* but 2 are wanted\. They cost .*Move or widen"
    )
    with pytest.raises(UserError, match=message) as caught:
        random_networks.sample_networks(
            SSD, min_cost, max_cost, 2, seed=0, max_tries=tries, progress=progress
        )
    low, high = (
        float(word) for word in _between(str(caught.value), "They cost ", ",").split(" to ")
    )
    assert CHEAPEST - 1e-3 <= low < high <= DEAREST + 1e-3
    assert progress.getvalue().endswith(f"{tries:,} tries: 0 of 2 found\n")


def _between(text, start, end):
    return text.split(start)[1].split(end)[0]


def test_too_few_networks_are_none(capsys):
    # A third of all draws are in the window, so that ten tries find some but not ten.
    target = mobile_cost_model.target_cost(SSD)
    with pytest.raises(UserError, match=r"Only [1-9] of 10 random networks"):
        run(capsys, f"--ssd={SSD}", f"--max_cost={target}", "--num_samples=10", "--max_tries=10",
            "--min_cost=0", "--seed=0")  # fmt: skip
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_samples": 0}, "`num_samples` must be at least 1, but is 0"),
        ({"min_cost": 2.0, "max_cost": 1.0}, "`max_cost` must not be less .* 2, but is 1"),
        ({"ssd": "nowhere"}, "`ssd` must be one of .* but is 'nowhere'"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"ssd": SSD, "min_cost": 0.0, "max_cost": 1.0, "num_samples": 1, **changes}
    with pytest.raises(UserError, match=message):
        random_networks.sample_networks(**arguments)


def test_an_unknown_space_is_named(capsys):
    with pytest.raises(UserError, match=r"`ssd` must be one of .* but is 'nowhere'"):
        run(capsys, "--ssd=nowhere")
