"""The second part of a search without controller: evaluates networks until its last step."""

import sys
import time
from typing import Any, List, Mapping, Optional, Sequence, TextIO

from examples.nas_search.costs import network_batch
from examples.nas_search.search import network_rewards
from examples.nas_search.search.search_costs import SearchCost
from examples.nas_search.search.shared_weights import SharedWeights
from examples.nas_search.search.strategies import history
from examples.nas_search.search.strategies.aims import Aim
from examples.nas_search.search.strategies.found import best
from examples.nas_search.search.strategies.history import Evaluation
from examples.nas_search.search.strategies.proposals import Network
from examples.nas_search.search.strategies.registry import strategy_of
from examples.nas_search.spaces import search_spaces
from examples.runs.progress_display import Display
from examples.runs.stop_on_signal import StopOnSignal


def evaluate(
    params: Mapping[str, Any], stop: StopOnSignal, stream: Optional[TextIO] = None
) -> bool:
    """Evaluates the networks that a strategy proposes; goes on where the history ends.

    Args:
        params: Resolved settings of a search, whose first part is at its end.
        stop: Tells, between two steps, whether to stop.
        stream: Where to show how it goes. None: `sys.stderr`.

    Returns:
        Whether the search is at its end.

    Raises:
        UserError: If the history is damaged.
    """
    directory = params["checkpoint_dir"]
    costs = network_rewards.costs_of_search(params, keep=True)
    aim = Aim(costs, params)
    first, last = params["supernet_steps"], params["max_global_step"]
    towers = params["num_towers"]
    evaluations = history.read(directory)
    # Only whole steps: all networks of a step come from the same history.
    evaluations = evaluations[: len(evaluations) // towers * towers]
    history.start(directory, evaluations)
    step = first + len(evaluations) // towers
    if step >= last:
        return True
    stop.catch()
    display = Display("evaluation", "step", step, last, sys.stderr if stream is None else stream)
    try:
        with SharedWeights(params) as shared:
            while step < last and not stop.is_stopped:
                step += 1
                made = _step(params, shared, costs, aim, evaluations, step)
                history.append(directory, made)
                evaluations += made
                display.show(step, _note(evaluations))
    finally:
        display.close()
    return step >= last


def _step(
    params: Mapping[str, Any],
    shared: SharedWeights,
    costs: Sequence[SearchCost],
    aim: Aim,
    evaluations: Sequence[Evaluation],
    step: int,
) -> List[Evaluation]:
    """Proposes and evaluates a network for each tower."""
    start = time.process_time()
    position = len(evaluations)
    networks = _proposed(params, aim, evaluations, position + shared.num_towers)
    accuracies = shared.accuracies(networks)
    estimates = network_rewards.estimate(costs, params["ssd"], networks)
    rewards = network_rewards.rewards(accuracies, estimates, costs, params)
    seconds = (time.process_time() - start) / len(networks)
    return [
        Evaluation(position + number, step, network, accuracy, reward, tuple(cost), seconds)
        for number, (network, accuracy, reward, cost) in enumerate(
            zip(networks, accuracies.tolist(), rewards.tolist(), estimates.T.tolist())
        )
    ]


def _proposed(
    params: Mapping[str, Any], aim: Aim, evaluations: Sequence[Evaluation], end: int
) -> List[Network]:
    """Returns the networks of the positions after the history up to `end`."""
    propose = strategy_of(params).propose
    sizes = network_batch.option_counts(search_spaces.get_search_space_spec(params["ssd"]))
    assert propose is not None
    return [
        propose(position, evaluations, sizes, params, aim.misses)
        for position in range(len(evaluations), end)
    ]


def _note(evaluations: Sequence[Evaluation]) -> Any:
    """Returns what a display shows of the best network so far."""
    top = best(evaluations)

    def note(wide: bool) -> str:
        if not wide:
            return f"best reward {top.reward:.3f}"
        return f"best reward {top.reward:.3f}, accuracy {top.accuracy:.1%}, network {top.position}"

    return note
