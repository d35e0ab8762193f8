"""Facts of a model card, read from the directory of a training, and checked.

Files may be from elsewhere, or of an older version: a fact that is missing, or is no such fact, is
left out.
"""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from examples.classifiers.training import METRICS
from examples.data import splits
from examples.nas_search.costs import network_cost
from examples.nas_search.reports import architecture_text
from examples.nas_search.search import run_facts
from examples.nas_search.training.mobile_train_eval import EVALUATED
from examples.nas_search.training.train_model_fn import model_spec
from examples.runs import settings_file

_TWO_SIDED = 1.959964  # standard deviations around the mean that hold 95 % of a normal distribution


class Measured(NamedTuple):
    """An accuracy that was measured."""

    accuracy: float  # in [0, 1]
    num_images: int

    @property
    def interval(self) -> Tuple[float, float]:
        """Ends of the 95 % interval of the accuracy, as shares.

        The formula is from E. B. Wilson, "Probable Inference, the Law of Succession, and
        Statistical Inference" (JASA 1927): unlike mean ± 2 s.d. it holds near 100 %, too.
        """
        n, square = self.num_images, _TWO_SIDED**2
        middle = (self.accuracy + square / (2 * n)) / (1 + square / n)
        variance = self.accuracy * (1 - self.accuracy) / n + square / (4 * n * n)
        half = _TWO_SIDED * math.sqrt(variance) / (1 + square / n)
        return max(0.0, middle - half), min(1.0, middle + half)


class Facts(NamedTuple):
    """Facts of a model card."""

    params: Dict[str, Any]  # settings of the training
    record: Dict[str, Any]  # of network.json
    layers: List[str]  # the network in words
    measured: Dict[str, Optional[Measured]]  # by part; None: not measured
    images: Dict[str, int]  # number of images by part; empty if not known
    machines: List[Dict[str, str]]  # on which it was trained
    # `settings`, `global_step`, `indices`, `costs` and `machines` of the search; None if not known
    search: Optional[Dict[str, Any]]


def gather(params, record):
    """Returns the `Facts` of a network.

    Args:
        params: Settings with which it was trained.
        record: Dict of what its network.json holds.
    """
    kept = run_facts.read(params["checkpoint_dir"])
    network = model_spec(params)
    cost = network_cost.network_cost(network, params["image_shape"], params["num_classes"])
    return Facts(
        params=params,
        record=record,
        layers=architecture_text.describe(network, cost.layers),
        measured=_measured(params["checkpoint_dir"], record),
        images=_images(kept.get("images")),
        machines=run_facts.machines_of(kept),
        search=_search(kept.get("search")),
    )


def _measured(directory, record):
    """Returns the accuracies of this checkpoint by part; of training images only if measured."""
    step = record["global_step"]
    found = dict.fromkeys(("validation", "test"))
    for name in (METRICS, *map(EVALUATED.format, splits.PARTS)):
        metrics = settings_file.read_metrics(directory, name, step) or {}
        accuracy, count = metrics.get("accuracy"), metrics.get("num_images")
        is_right = _is_number(accuracy) and 0 <= accuracy <= 1 and type(count) is int and count > 0
        if is_right and metrics.get("split") in splits.PARTS:
            found[metrics["split"]] = Measured(float(accuracy), count)
    return found


def _images(sizes):
    if not isinstance(sizes, dict) or not all(
        type(sizes.get(part)) is int for part in splits.PARTS
    ):
        return {}
    return {part: sizes[part] for part in splits.PARTS}


def _search(search):
    rules = {"settings": dict, "global_step": int, "indices": str, "costs": list, "facts": dict}
    if not isinstance(search, dict):
        return None
    if not all(isinstance(search.get(name), kind) for name, kind in rules.items()):
        return None
    costs = list(filter(_is_cost, search["costs"]))
    return {**search, "costs": costs, "machines": run_facts.machines_of(search["facts"])}


def _is_cost(cost):
    return (
        isinstance(cost, dict)
        and isinstance(cost.get("unit_and_device"), str)
        and all(_is_number(cost.get(name)) for name in ("target", "estimate"))
    )


def _is_number(value):
    return type(value) in (int, float)
