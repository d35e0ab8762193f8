"""The results of a front as a dict that can be written as JSON: front.json."""

from __future__ import annotations

import datetime
import os
import statistics
from typing import Any, NamedTuple

import replicate
from examples import data as data_lib
from examples.nas_search.fronts import front_statistics
from examples.nas_search.fronts.front_run import Results
from examples.nas_search.fronts.front_settings import Plan
from examples.nas_search.fronts.front_statistics import Comparison
from examples.nas_search.latency import device_info

UNIT = "accuracy × doublings of the cost"


class Front(NamedTuple):
    """A front that is at its end."""

    plan: Plan
    results: Results
    comparison: Comparison
    record: dict[str, Any]  # front.json


def evaluate(plan: Plan, results: Results) -> Front:
    """Compares the networks, and returns all that there is to say.

    Args:
        plan: Of the front.
        results: What running it has led to.

    Returns:
        A `Front`. Its record has `settings`; `cost`, which names the cost, its unit, and the range
        that networks of the space have; `networks`, see `Trained`; `hypervolume`, see
        `front_statistics.compare`, with the reference point; `steps`, pairs of cost and best
        accuracy up to it; `seconds` of the processor, means; `images`, how many accuracies are
        measured on; `date`, on which it was written; and versions and machine.
    """
    networks = results.networks
    reference = front_statistics.reference_point(networks, plan.settings["reference_accuracy"])
    number = front_statistics.affordable(networks, results.search_seconds)
    comparison = front_statistics.compare(networks, reference, number)
    least, largest = plan.cost_range
    trainings = [each.seconds for network in networks for each in network.trainings]
    params = plan.searches[0].params
    data = data_lib.open_data(params)
    record = {
        "settings": plan.settings,
        "cost": {
            "objective": plan.model.objective,
            "unit": plan.model.unit_and_device,
            "least": least,
            "largest": largest,
        },
        "networks": [network.as_json() for network in networks],
        "hypervolume": {
            **comparison.figures,
            "unit": UNIT,
            "reference": reference._asdict(),
            "random_networks_in_the_time_of_a_search": number,
            "random_same_time_is_best_of": comparison.affordable,
        },
        "steps": {kind: [list(step) for step in steps] for kind, steps in comparison.steps.items()},
        "seconds": {"search": results.search_seconds, "training": statistics.mean(trainings)},
        "images": {split: data.size(split) for split in ("train", "validation", "test")},
        "date": datetime.date.today().isoformat(),
        "machine": {**device_info.describe(params["devices"][0]), "cores": os.cpu_count()},
        "replicate": replicate.__version__,
    }
    return Front(plan, results, comparison, record)
