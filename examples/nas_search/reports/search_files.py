"""Files that a search left in its directory: settings, space and probabilities, checked.

All may come from elsewhere, so that nothing is computed from what is out of bounds.
"""

import os
import reprlib

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import analyze_mobile_search_lib, schema_io
from examples.nas_search.reports.network_distribution import name_of, softmax
from examples.nas_search.search import strategies
from examples.nas_search.search.shared_weights import check_networks
from examples.nas_search.search.strategies import history
from examples.nas_search.spaces import space_check
from examples.runs import checkpoints, json_file
from examples.runs.errors import UserError

# More than any search has; what is computed from them stays small.
_MOST_PIXELS, _MOST_CLASSES = 2**16, 2**24
_STEPS = ("rl_delay_steps", "skip_delay_steps", "supernet_steps")  # Older searches lack some.


class UnreadableError(UserError):
    """A directory has no search that could be analysed; says what is missing or wrong."""


def read_settings(dirname):
    """Returns the settings of params.json, a dict.

    Raises:
        UnreadableError: If the file is missing or damaged, or no settings of a search.
    """
    params = _read(dirname, "params.json", _object)
    missing = [name for name in ("ssd", "image_shape", "num_classes") if name not in params]
    if missing:
        raise UnreadableError(
            f"params.json in {dirname} must hold the settings of a search, but lacks "
            f"{', '.join(missing)}. Name the `--checkpoint_dir` of a search."
        )
    _check_settings(dirname, params)
    return params


def read_space(dirname):
    """Returns the search space of model_spec.json.

    Raises:
        UnreadableError: If the file is missing or damaged, or holds no space.
    """
    return _read(dirname, "model_spec.json", _space)


def read_probabilities(dirname, scalars, oneofs):
    """Returns the probabilities of all alternatives, by global step.

    Args:
        dirname: The search's directory.
        scalars: What `analyze_mobile_search_lib.read_scalars` returned of it.
        oneofs: Pairs of path and node, as `network_distribution.open_nodes` returns them.

    Returns:
        Dict of lists of arrays, one for each node: of steps with complete summaries, and of the
        latest checkpoint.

    Raises:
        UnreadableError: If there is no such step, or the checkpoint is damaged.
    """
    probabilities = {
        step: [softmax(logits[name_of(path)]) for path, _ in oneofs]
        for step, logits in analyze_mobile_search_lib.path_logits(scalars).items()
        if not _mismatch(logits, oneofs)
    }
    # The last probabilities: summaries are fewer, and may stop before the last step.
    probabilities.update(_of_checkpoint(dirname, oneofs))
    if not probabilities:
        raise UnreadableError(_why_no_step(dirname, scalars, oneofs))
    return probabilities


def read_evaluations(dirname, params, space):
    """Returns the networks that a search without controller evaluated, a list of `Evaluation`s.

    Args:
        dirname: The search's directory.
        params: Its settings.
        space: Its space.

    Returns:
        The list; None if the search has a controller.

    Raises:
        UnreadableError: If there are none yet, or the history is damaged or belongs to another
            search.
    """
    try:
        if strategies.has_controller(params):
            return None
        evaluations = history.read(dirname)
        check_networks(space, [evaluation.indices for evaluation in evaluations])
    except UserError as error:
        raise UnreadableError(str(error)) from error
    numbers = {len(evaluation.costs) for evaluation in evaluations}
    if not evaluations or len(numbers) > 1:
        raise UnreadableError(
            f"{history.path_in(dirname)} must have networks that the search evaluated, but has "
            f"{len(evaluations)}, with {len(numbers)} numbers of costs. Let the search run until "
            "it evaluates networks: it is at step "
            f"{checkpoints.latest_step(dirname)} of {params.get('supernet_steps')} before that."
        )
    return evaluations


def _check_settings(dirname, params):
    """Checks those settings that the analysis computes with."""

    def is_count(value, most):
        return type(value) is int and 0 < value <= most

    shape = params["image_shape"]
    faults = {
        "ssd": not isinstance(params["ssd"], str),
        "image_shape": not isinstance(shape, list)
        or len(shape) != 3
        or not all(is_count(size, _MOST_PIXELS) for size in shape),
        "num_classes": not is_count(params["num_classes"], _MOST_CLASSES),
        **{name: type(params.get(name, 0)) is not int for name in _STEPS},
    }
    for name, is_wrong in faults.items():
        if is_wrong:
            raise UnreadableError(
                f"params.json in {dirname} must hold the settings of a search, but {name} is "
                f"{reprlib.repr(params[name])}. Name the `--checkpoint_dir` of a search."
            )


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
