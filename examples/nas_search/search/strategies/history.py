"""The history of a search that evaluates networks: a line of JSON for each, in the order of time.

The *position* of a network is its number in the history, from 0 on. N towers evaluate N networks in
a step, so that those of one step have the positions N·k to N·k + N − 1. Each line is an object:

    position, step     ints; a step of the search, which come after those that train the weights
    indices            the network, its choices separated by colons
    accuracy, reward   with the shared weights
    costs              list of what it costs, one for each cost of the search
    seconds            of the processor, all threads together, that its evaluation took
"""

import json
import os
from typing import Any, List, Mapping, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from examples.runs import json_file
from examples.runs.errors import UserError

NAME = "evaluations.jsonl"


class Evaluation(NamedTuple):
    """A network that was evaluated, see above."""

    position: int
    step: int
    indices: Tuple[int, ...]
    accuracy: float
    reward: float
    costs: Tuple[float, ...]
    seconds: float


def path_in(directory: str) -> str:
    """Returns the path of the history of the search in a directory."""
    return os.path.join(directory, NAME)


def read(directory: str) -> List[Evaluation]:
    """Returns the evaluations of the search in a directory, in order; none if there is no history.

    A last line that is not whole, because the process was killed, is left out.

    Raises:
        UserError: If another line is damaged, or the positions are not 0, 1, 2 and so on.
    """
    path = path_in(directory)
    if not tf.io.gfile.exists(path):
        return []
    try:
        lines = json_file.read_text(path).split("\n")[:-1]
        evaluations = [_parsed(line) for line in lines]
    except (tf.errors.OpError, json_file.JsonError) as error:
        raise _damaged(path, json_file.reason(error)) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"a line lacks a value, or has a wrong one ({error!r})") from error
    if [evaluation.position for evaluation in evaluations] != list(range(len(evaluations))):
        raise _damaged(path, "its positions are not 0, 1, 2 and so on")
    return evaluations


def start(directory: str, evaluations: Sequence[Evaluation]) -> None:
    """Writes a history that has these evaluations, in place of the one that is there."""
    _write(directory, evaluations, "w")


def append(directory: str, evaluations: Sequence[Evaluation]) -> None:
    """Adds evaluations to a history that is there."""
    _write(directory, evaluations, "a")


def _write(directory: str, evaluations: Sequence[Evaluation], mode: str) -> None:
    text = "".join(json.dumps(_as_object(each)) + "\n" for each in evaluations)
    with tf.io.gfile.GFile(path_in(directory), mode) as file:
        file.write(text)


def _as_object(evaluation: Evaluation) -> Mapping[str, Any]:
    return {**evaluation._asdict(), "indices": ":".join(map(str, evaluation.indices))}


def _parsed(line: str) -> Evaluation:
    value = json_file.loads(line)
    return Evaluation(
        position=int(value["position"]),
        step=int(value["step"]),
        indices=tuple(int(index) for index in value["indices"].split(":")),
        accuracy=float(value["accuracy"]),
        reward=float(value["reward"]),
        costs=tuple(float(cost) for cost in value["costs"]),
        seconds=float(value["seconds"]),
    )


def _damaged(path: str, reason: str) -> UserError:
    return UserError(
        f"{path} must be the history that a search wrote, but is damaged: {reason}. Delete it to "
        "evaluate the networks again."
    )
