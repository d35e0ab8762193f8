"""Different random networks about a target."""

import itertools
import re

import numpy as np
import pytest

from examples.nas_search import mobile_classifier_factory
from examples.nas_search.costs import network_batch, network_cost
from examples.nas_search.fronts import random_networks
from examples.nas_search.reports import architecture_text
from examples.nas_search.spaces import search_spaces
from examples.runs.errors import UserError
from nas_search import nas_searches

SSD = nas_searches.SSD


def numbers(text):
    return [int(index) for index in text.split(":")]


def layers(indices):
    """Returns a network in words, in which settings of skipped layers are not."""
    spec = mobile_classifier_factory.get_model_spec(SSD, indices=indices)
    return tuple(architecture_text.describe(spec))


def test_all_networks_in_a_window_are_drawn_once():
    spec = search_spaces.get_search_space_spec(SSD)
    sizes = network_batch.option_counts(spec)
    index_lists = np.array(list(itertools.product(*map(range, sizes))))
    madds, _ = network_cost.costs_of_many(spec, index_lists, (8, 8, 1), 10)
    wanted = {layers(list(each)) for each in index_lists[abs(madds / 6000 - 1) <= 0.02]}
    drawn = random_networks.distinct_networks(SSD, 0.006, 0.02, len(wanted))
    assert {layers(numbers(text)) for text in drawn} == wanted
    message = (
        f"--num_random must be as many different networks as there are about the target, but is "
        f"{len(wanted) + 1}, and 100,000 random networks of {SSD} have {len(wanted)} that cost "
        "0.00588 to 0.00612 million MAdds. Pass fewer, or a wider --window."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        random_networks.distinct_networks(SSD, 0.006, 0.02, len(wanted) + 1)


def test_fewer_networks_are_the_first_of_more():
    more = random_networks.distinct_networks(SSD, 0.01, 0.1, 20, seed=3)
    assert random_networks.distinct_networks(SSD, 0.01, 0.1, 5, seed=3) == more[:5]
    assert random_networks.distinct_networks(SSD, 0.01, 0.1, 5, seed=4) != more[:5]


def test_the_cost_is_that_of_a_model():
    # A ms per 10,000 multiply-adds.
    model = nas_searches.latency_model()
    drawn = random_networks.distinct_networks(SSD, 1.0, 0.05, 8, cost_model=model)
    assert drawn == random_networks.distinct_networks(SSD, 0.01, 0.05, 8)


def test_there_must_be_such_a_space():
    with pytest.raises(UserError, match="nothing"):
        random_networks.distinct_networks("nothing", 1.0, 0.1, 1)
