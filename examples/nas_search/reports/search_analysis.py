"""The network that a search found, and how sure its controller is.

A *node* is a choice of the search space; its *probability* of an alternative is the softmax of the
controller's logits. The network *found* takes the most probable alternative of every node; if there
is no controller, it is the one with the largest reward, see `search/strategies`. A node
is *reached* if the branch that it stands in is taken: the kernel size of a skipped layer is not.
Entropies are in nats, costs in millions of multiply-adds.
"""

import contextlib
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import (
    analyze_mobile_search_lib,
    mobile_cost_model,
    search_space_utils,
)
from examples.nas_search.basic_specs import ConvTowerSpec
from examples.nas_search.costs import network_cost
from examples.nas_search.reports import architecture_text, search_files, search_history
from examples.nas_search.reports.network_distribution import (
    enclosing,
    entropy,
    entropy_of_node,
    name_of,
    open_nodes,
    softmax,
)
from examples.nas_search.reports.search_files import UnreadableError
from examples.nas_search.search import search_costs, strategies
from examples.nas_search.search.strategies import Evaluation
from examples.nas_search.spaces import space_files


class Node(NamedTuple):
    """A choice of the space and what the controller makes of it."""

    path: str  # e.g. blocks/0/filters
    tag: str
    choices: List[str]  # the alternatives, in words
    index: int  # of the most probable one
    # Both None without a controller.
    probability: Optional[float]  # of that one, where the node is reached
    entropy: Optional[float]  # in [0, log(alternatives)]
    reached: bool  # by the network found


class Cost(NamedTuple):
    """One of the costs of the network found."""

    label: str  # the objective; with a number if another has the same
    estimate: float  # in `unit`
    target: float  # what the search aimed at
    unit: str
    weight: float
    unit_and_device: str  # the unit, and on what it was measured


class Analysis(NamedTuple):
    """Facts read from a search directory: after step `global_step`, or by step."""

    directory: str
    global_step: int
    ssd: str
    indices: List[int]  # of the network found, in visiting order
    cost_model: Optional[float]  # estimate of its first cost; None if the search had no cost model
    cost_target: Optional[float]  # what the search aimed at; None likewise
    cost_unit: Optional[str]  # of cost_model and cost_target; None likewise
    madds: int  # multiply-adds for one image, exact
    params: int  # trainable weights of the network alone, exact
    # All three None without a controller.
    probability: Optional[float]  # with which the controller draws the network found
    entropy: Optional[float]  # of the controller's distribution over distinct networks
    initial_entropy: Optional[float]  # with equal probabilities
    layers: List[str]  # the network found, in words
    nodes: List[Node]
    starts: Dict[str, int]  # step at which a part of the search starts, by words that say which
    # 'reward', 'accuracy' in [0, 1], 'entropy', 'cost' or of several 'cost/<label>', and without a
    # controller 'best', the largest reward so far: {step: value}, empty if not logged
    history: Dict[str, Dict[int, float]]
    # By step: of each node, those of its alternatives. Without a controller, the one that the
    # network found takes has 1.
    probabilities: Dict[int, List[np.ndarray]]
    network: ConvTowerSpec  # the network found: its choices have one alternative each
    layer_costs: List[network_cost.LayerCost]
    settings: Dict[str, Any]  # params.json
    costs: List[Cost]  # in the order of --cost_model; empty without
    evaluations: Optional[List[Evaluation]]  # the networks evaluated; None with a controller


def analyze(dirname):
    """Analyses the search in a directory.

    Args:
        dirname: The search's `checkpoint_dir`, with model_spec.json, params.json and event files.

    Returns:
        An `Analysis` of the latest checkpoint, or of a later summary whose logits are complete.

    Raises:
        UnreadableError: If a file is missing or damaged, or the logits are of another space.
    """
    params = search_files.read_settings(dirname)
    _read_own_space(params["ssd"], dirname)
    space = search_files.read_space(dirname)
    oneofs = open_nodes(space)
    scalars = analyze_mobile_search_lib.read_scalars(dirname)
    evaluations = search_files.read_evaluations(dirname, params, space)
    if evaluations is None:
        probabilities = search_files.read_probabilities(dirname, scalars, oneofs)
        step = max(probabilities)
    else:
        step = evaluations[-1].step
        probabilities = {step: _certain(oneofs, strategies.found([], evaluations))}
    indices = strategies.found(probabilities[step], evaluations)
    found = search_space_utils.prune_model_spec(space, indices)
    cost, layers = _cost_and_layers(dirname, found, params)
    is_drawn = evaluations is None
    with _refusing_what_cannot_be_built(dirname, "one with other choices"):
        nodes = _nodes(oneofs, probabilities[step], indices, is_drawn)
    costs = _costs(dirname, params, indices) if params.get("enable_cost_model", True) else []
    first = costs[0] if costs else None
    return Analysis(
        directory=dirname,
        global_step=step,
        ssd=params["ssd"],
        indices=indices,
        cost_model=first and first.estimate,
        cost_target=first and first.target,
        cost_unit=first and first.unit,
        madds=cost.madds,
        params=cost.params,
        probability=_probability(nodes) if is_drawn else None,
        entropy=entropy(oneofs, probabilities[step]) if is_drawn else None,
        initial_entropy=_initial_entropy(oneofs) if is_drawn else None,
        layers=layers,
        nodes=nodes,
        starts=_starts(params, is_drawn),
        history={
            **search_history.history(scalars, search_costs.suffixes(costs), evaluations),
            "entropy": {
                at: entropy(oneofs, rows) for at, rows in probabilities.items() if is_drawn
            },
        },
        probabilities=probabilities,
        network=found,
        layer_costs=cost.layers,
        settings=params,
        costs=costs,
        evaluations=evaluations,
    )


def _starts(params, has_controller):
    part = "controller starts" if has_controller else "evaluation starts"
    # Older searches have no such delays.
    starts = {part: "rl_delay_steps", "layers may be skipped": "skip_delay_steps"}
    return {words: params.get(name, 0) for words, name in starts.items()}


def _probability(nodes):
    return float(np.prod([node.probability for node in nodes if node.reached]))


def _initial_entropy(oneofs):
    return entropy(oneofs, [softmax(np.zeros(len(oneof.choices))) for _, oneof in oneofs])


def _certain(oneofs, indices):
    """Returns probabilities of 1 for the alternatives of a network, an array for each node."""
    return [np.eye(len(oneof.choices))[index] for (_, oneof), index in zip(oneofs, indices)]


def _read_own_space(ssd, dirname):
    try:
        space_files.read_kept(ssd, dirname)
    except ValueError as error:
        raise UnreadableError(f"the space of {dirname} cannot be used: {error}") from error


def _cost_and_layers(dirname, network, params):
    """Returns what a network costs, and its layers in words."""
    with _refusing_what_cannot_be_built(dirname, "the one found"), np.errstate(all="raise"):
        cost = network_cost.network_cost(network, params["image_shape"], params["num_classes"])
        return cost, architecture_text.describe(network, cost.layers)


@contextlib.contextmanager
def _refusing_what_cannot_be_built(dirname, network):
    """A scope in which layers with values that they cannot have are an `UnreadableError`."""
    try:
        yield
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise UnreadableError(
            f"model_spec.json in {dirname} must describe networks that can be built, but "
            f"{network} cannot: {error}. Name the `--checkpoint_dir` of a search."
        ) from error


def _costs(dirname, params, indices):
    """Returns the `Cost`s of a network as the search estimated them."""
    try:
        return [
            Cost(
                cost.label,
                mobile_cost_model.estimate_cost(indices, params["ssd"], cost.model),
                cost.target,
                cost.model.unit,
                cost.weight,
                cost.model.unit_and_device,
            )
            # The directory may have moved.
            for cost in search_costs.load({**params, "checkpoint_dir": dirname}, keep=False)
        ]
    except (ValueError, tf.errors.OpError) as error:
        reason = getattr(error, "message", error)
        raise UnreadableError(f"the cost model of {dirname} cannot be used: {reason}") from error


def _nodes(oneofs, probabilities, indices, is_drawn):
    chosen = {path: index for (path, _), index in zip(oneofs, indices)}
    return [
        Node(
            path=name_of(path),
            tag=oneof.tag,
            choices=[architecture_text.brief(choice) for choice in oneof.choices],
            index=index,
            probability=float(row[index]) if is_drawn else None,
            entropy=entropy_of_node(row) if is_drawn else None,
            reached=all(chosen[outer] == choice for outer, choice in enclosing(path, chosen)),
        )
        for (path, oneof), row, index in zip(oneofs, probabilities, indices)
    ]
