"""The one place that says which network a search found, and how far the search is."""

from typing import Any, List, Mapping, Optional, Sequence

import numpy as np

from examples.nas_search.search.strategies import history
from examples.nas_search.search.strategies.history import Evaluation
from examples.nas_search.search.strategies.registry import has_controller
from examples.runs import checkpoints


def found(
    probabilities: Sequence[np.ndarray], evaluations: Optional[Sequence[Evaluation]]
) -> List[int]:
    """Returns the indices of the network that a search found, int for each of C choices.

    Args:
        probabilities: For each choice, those that its controller gives to the options.
        evaluations: Networks that were evaluated, at least one. None if the controller decides.

    Returns:
        The most probable option of each choice; without a controller, the network with the largest
        reward, the first of several.
    """
    if evaluations is None:
        return [int(np.argmax(row)) for row in probabilities]
    return list(best(evaluations).indices)


def best(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Returns the evaluation with the largest reward, the first of several."""
    return max(evaluations, key=lambda evaluation: evaluation.reward)


def steps_done(directory: str, params: Mapping[str, Any]) -> int:
    """Returns how many steps the search in a directory has made, both parts together.

    Args:
        directory: Where its checkpoints are.
        params: Its settings.

    Raises:
        UserError: If its history is damaged.
    """
    step = checkpoints.latest_step(directory)
    if has_controller(params) or step < params.get("supernet_steps", 0):
        return step
    return max([step, *(evaluation.step for evaluation in history.read(directory))])
