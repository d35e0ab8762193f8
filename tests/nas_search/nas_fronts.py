"""Fronts of networks that were never trained, and stand-ins for searches and trainings."""

import contextlib
import pathlib
from unittest import mock

from examples.nas_search import mobile_cost_model
from examples.nas_search.fronts import alone, front_record, front_run, front_settings
from examples.nas_search.fronts.front_run import Results
from examples.nas_search.fronts.trained import Trained, Training
from nas_search import nas_searches

TARGETS = (0.006, 0.01, 0.02)
# Networks of about these costs.
FOUND = {
    0.006: [0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0],
    0.01: [0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0],
    0.02: [0, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 2, 0],
}


def plan(out, **given):
    """Returns the plan of a front in a directory, with three random networks for each target."""
    return front_settings.resolve(out=str(out), **{"targets": TARGETS, "num_random": 3, **given})


def results(plan, num_trainings=1):
    """Returns results as if searches had found better networks than random ones are."""
    networks = []
    for target in plan.settings["targets"]:
        for number in range(plan.settings["num_seeds"]):
            networks.append(_network(plan, "found", target, number, FOUND[target], num_trainings))
        for number, text in enumerate(plan.random[target]):
            indices = [int(index) for index in text.split(":")]
            networks.append(_network(plan, "random", target, number, indices, num_trainings))
    return Results(tuple(networks), 40.0)


def _network(plan, kind, target, number, indices, num_trainings):
    base = 0.7 + 8 * target + (0.02 if kind == "found" else 0.01 * number)
    trainings = [
        Training(seed, base - 0.1, base + 0.004 * seed, 10.0) for seed in range(num_trainings)
    ]
    cost = mobile_cost_model.estimate_cost(indices, plan.model.ssd, plan.model)
    text = ":".join(map(str, indices))
    sizes = (round(1e6 * target), 1000)
    return Trained(kind, target, number, text, cost, *sizes, tuple(trainings))


def front(out, num_trainings=1, **given):
    """Returns a `Front` of such results."""
    made = plan(out, num_trainings=num_trainings, **given)
    return front_record.evaluate(made, results(made, num_trainings))


class StandIns:
    """Does what searches and trainings do, at once; can be told to stop like them.

    Attributes:
        searched: Targets and seeds of the searches so far.
        trained: Indices and seeds of the trainings so far.
        stops_at: How many of both are done until it is told to stop; None is never.
    """

    def __init__(self):
        self.searched, self.trained, self.stops_at = [], [], None

    def search(self, params):
        if self._is_stopped():
            return False
        [target] = params["rl_cost_model_target"]
        self.searched.append((target, params["seed"]))
        steps = {20: nas_searches.logits(3.0, FOUND[target])}
        nas_searches.write_search(pathlib.Path(params["checkpoint_dir"]), steps)
        return True

    def train(self, params):
        if self._is_stopped():
            return False
        self.trained.append((params["indices"], params["seed"]))
        return True

    def evaluate(self, params, split):
        accuracy = 0.5 + 0.01 * len(self.trained) + (0.1 if split == "test" else 0)
        return {"accuracy": accuracy, "madds": 1}

    def _is_stopped(self):
        return self.stops_at == len(self.searched) + len(self.trained)


@contextlib.contextmanager
def stand_ins():
    """Gives `StandIns` in place of searches and trainings."""
    stand_in = StandIns()
    with mock.patch.object(front_run.search_loop, "run", stand_in.search), mock.patch.multiple(
        alone.mobile_train_eval, train=stand_in.train, evaluate_network=stand_in.evaluate
    ):
        yield stand_in
