"""What a search found, and how sure its controller is of it.

A *node* is a choice of the search space; its *probability* of an alternative is the softmax of the
controller's logits. The network *found* takes the most probable alternative of every node. A node
is *reached* if the branch that it stands in is taken: the kernel size of a skipped layer is not.
Entropies are in nats, costs in millions of multiply-adds.
"""

import os
import reprlib
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import (
    analyze_mobile_search_lib,
    mobile_cost_model,
    schema_io,
    search_space_utils,
    space_check,
)
from examples.nas_search.basic_specs import ConvTowerSpec
from examples.nas_search.costs import network_cost, search_costs
from examples.nas_search.reports import architecture_text
from examples.nas_search.reports.network_distribution import (
    enclosing,
    entropy,
    entropy_of_node,
    name_of,
    open_nodes,
    softmax,
)
from examples.runs import checkpoints, json_file
from examples.runs.errors import UserError

# More than any search has; what is computed from them stays small.
_MOST_PIXELS, _MOST_CLASSES = 2**16, 2**24


class Node(NamedTuple):
    """A choice of the space and what the controller makes of it."""

    path: str  # e.g. blocks/0/filters
    tag: str
    choices: List[str]  # the alternatives, in words
    index: int  # of the most probable one
    probability: float  # of that one, where the node is reached
    entropy: float  # in [0, log(alternatives)]
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
    """What a search directory tells; but for what is by step, after step `global_step`."""

    directory: str
    global_step: int
    ssd: str
    indices: List[int]  # of the network found, in visiting order
    cost_model: Optional[float]  # estimate of its first cost; None if the search had no cost model
    cost_target: Optional[float]  # what the search aimed at; None likewise
    cost_unit: Optional[str]  # of cost_model and cost_target; None likewise
    madds: int  # multiply-adds for one image, exact
    params: int  # trainable weights of the network alone, exact
    probability: float  # with which the controller draws the network found
    entropy: float  # of the controller's distribution over distinct networks
    initial_entropy: float  # of the same with equal probabilities, with which a search starts
    layers: List[str]  # the network found, in words
    nodes: List[Node]
    controller_start: int  # step at which the controller started to learn
    # 'reward', 'accuracy' in [0, 1], 'entropy', 'cost' or of several 'cost/<label>': {step: value},
    # empty if not logged
    history: Dict[str, Dict[int, float]]
    probabilities: Dict[int, List[np.ndarray]]  # by step: of each node, those of its alternatives
    network: ConvTowerSpec  # the network found: its choices have one alternative each
    layer_costs: List[network_cost.LayerCost]
    settings: Dict[str, Any]  # params.json
    costs: List[Cost]  # in the order of --cost_model; empty without


class UnreadableError(UserError):
    """A directory has no search that could be analysed; says what is missing or wrong."""


def analyze(dirname):
    """Analyses the search in a directory.

    Args:
        dirname: The search's `checkpoint_dir`, with model_spec.json, params.json and event files.

    Returns:
        An `Analysis` of the latest checkpoint, or of a later summary whose logits are complete.

    Raises:
        UnreadableError: If a file is missing or damaged, or the logits are of another space.
    """
    params = _read(dirname, "params.json", _object)
    space = _read(dirname, "model_spec.json", _space)
    missing = [name for name in ("ssd", "image_shape", "num_classes") if name not in params]
    if missing:
        raise UnreadableError(
            f"params.json in {dirname} must hold the settings of a search, but lacks "
            f"{', '.join(missing)}. Name the `--checkpoint_dir` of a search."
        )
    _check_settings(dirname, params)
    oneofs = open_nodes(space)
    scalars = analyze_mobile_search_lib.read_scalars(dirname)
    probabilities = {
        step: [softmax(logits[name_of(path)]) for path, _ in oneofs]
        for step, logits in analyze_mobile_search_lib.path_logits(scalars).items()
        if not _mismatch(logits, oneofs)
    }
    # What the search ended with: summaries are fewer, and may stop before the last step.
    probabilities.update(_of_checkpoint(dirname, oneofs))
    if not probabilities:
        raise UnreadableError(_why_no_step(dirname, scalars, oneofs))

    step = max(probabilities)
    indices = [int(np.argmax(row)) for row in probabilities[step]]
    found = search_space_utils.prune_model_spec(space, indices)
    cost, layers = _cost_and_layers(dirname, found, params)
    nodes = _nodes(oneofs, probabilities[step], indices)
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
        probability=float(np.prod([node.probability for node in nodes if node.reached])),
        entropy=entropy(oneofs, probabilities[step]),
        initial_entropy=entropy(oneofs, [softmax(np.zeros(len(o.choices))) for _, o in oneofs]),
        layers=layers,
        nodes=nodes,
        controller_start=params.get("rl_delay_steps", 0),
        history={
            "reward": scalars.get("rlcontroller/reward", {}),
            "accuracy": scalars.get("rlcontroller/validation_accuracy", {}),
            **{
                f"cost{suffix}": scalars.get(f"rlcontroller/estimated_cost{suffix}", {})
                for suffix in search_costs.suffixes(costs)
            },
            "entropy": {at: entropy(oneofs, rows) for at, rows in probabilities.items()},
        },
        probabilities=probabilities,
        network=found,
        layer_costs=cost.layers,
        settings=params,
        costs=costs,
    )


def _check_settings(dirname, params):
    """Checks those settings that the analysis computes with."""

    def is_count(value, most):
        return type(value) is int and 0 < value <= most

    shape, delay = params["image_shape"], params.get("rl_delay_steps", 0)
    faults = {
        "ssd": not isinstance(params["ssd"], str),
        "image_shape": not isinstance(shape, list)
        or len(shape) != 3
        or not all(is_count(size, _MOST_PIXELS) for size in shape),
        "num_classes": not is_count(params["num_classes"], _MOST_CLASSES),
        "rl_delay_steps": type(delay) is not int,
    }
    for name, is_wrong in faults.items():
        if is_wrong:
            raise UnreadableError(
                f"params.json in {dirname} must hold the settings of a search, but {name} is "
                f"{reprlib.repr(params[name])}. Name the `--checkpoint_dir` of a search."
            )


def _cost_and_layers(dirname, network, params):
    """Returns what a network costs, and its layers in words."""
    try:
        with np.errstate(all="raise"):
            cost = network_cost.network_cost(network, params["image_shape"], params["num_classes"])
            return cost, architecture_text.describe(network, cost.layers)
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise UnreadableError(
            f"model_spec.json in {dirname} must be of networks that can be built, but the one "
            f"found cannot: {error}. Name the `--checkpoint_dir` of a search."
        ) from error


def _of_checkpoint(dirname, oneofs):
    """Returns `{step: probabilities}` of the latest checkpoint, empty if there is none."""
    try:
        checkpoint = tf.train.latest_checkpoint(dirname)
        if not checkpoint:
            return {}
        reader = tf.train.load_checkpoint(checkpoint)
        shapes = reader.get_variable_to_shape_map()
        names = [f"rl_controller/independent_sample/{name_of(path)}" for path, _ in oneofs]
        wanted = [[len(oneof.choices)] for _, oneof in oneofs]
        if [shapes.get(name) for name in names] != wanted:
            return {}
        logits = [reader.get_tensor(name) for name in names]
        step = checkpoints.step_of(checkpoint)
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        reason = getattr(error, "message", error)
        raise UnreadableError(f"the checkpoint in {dirname} cannot be read: {reason}") from error
    return {step: [softmax(row) for row in logits]} if _are_finite(logits) else {}


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


def _nodes(oneofs, probabilities, indices):
    chosen = {path: index for (path, _), index in zip(oneofs, indices)}
    return [
        Node(
            path=name_of(path),
            tag=oneof.tag,
            choices=[architecture_text.brief(choice) for choice in oneof.choices],
            index=index,
            probability=float(row[index]),
            entropy=entropy_of_node(row),
            reached=all(chosen[outer] == choice for outer, choice in enclosing(path, chosen)),
        )
        for (path, oneof), row, index in zip(oneofs, probabilities, indices)
    ]


def _read(dirname, name, parse):
    """Returns what `parse` makes of a file of the directory."""
    path = os.path.join(dirname, name)
    try:
        return parse(json_file.read_text(path))
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError, NotADirectoryError):
        raise UnreadableError(
            f"there is no {path}, which a search writes when it starts. Name the "
            "`--checkpoint_dir` of a search."
        ) from None
    except (tf.errors.OpError, ValueError, KeyError) as error:
        reason = getattr(error, "message", error)
        raise UnreadableError(f"{path} is damaged, or of another program: {reason}") from error


def _object(text):
    value = json_file.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"it must hold an object, but holds {reprlib.repr(value)}")
    return value


def _space(text):
    space = schema_io.deserialize(text)
    space_check.check_space(space)
    return space


def _are_finite(logits):
    return all(np.all(np.isfinite(row)) for row in logits)


def _why_no_step(dirname, scalars, oneofs):
    steps = analyze_mobile_search_lib.path_logits(scalars)
    if not steps:
        return (
            f"no event file in {dirname} has logits of a controller (rlpathlogits/...). Let the "
            "search run until it has written summaries."
        )
    return (
        f"no step in the event files of {dirname} has all logits of the space in model_spec.json. "
        f"At step {max(steps)}: {_mismatch(steps[max(steps)], oneofs)}. Have two searches written "
        "to this directory?"
    )


def _mismatch(logits, oneofs):
    """Returns how {path: logits} differs from the nodes of the space, empty if it does not."""
    wanted = {name_of(path): len(oneof.choices) for path, oneof in oneofs}
    given = {path: len(row) for path, row in logits.items()}
    parts = [f"{path} is missing" for path in wanted if path not in given]
    parts += [f"{path} is not in the space" for path in given if path not in wanted]
    parts += [
        f"{path} has {given[path]} logits for {number} choices"
        for path, number in wanted.items()
        if given.get(path, number) != number
    ]
    parts += [
        f"{path} has logits that are not finite"
        for path in wanted
        if not _are_finite([logits.get(path, [])])
    ]
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return ", ".join(parts[:3]) + more
