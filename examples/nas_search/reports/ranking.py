"""Networks in the order of their accuracies with shared weights, beside those trained alone.

A *network* is a tuple of the indices of its choices. The *accuracy* of a network is that with
shared weights, the *trained accuracy* that of the network trained alone, the mean of several
trainings.
"""

import os
import reprlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search.reports import architecture_text, rank_correlation
from examples.runs import json_file
from examples.runs.errors import UserError
from examples.runs.settings_file import write_json

Network = Tuple[int, ...]
_ACCURACIES = ("test", "validation", "accuracy")  # names in records, the preferred one first
_COEFFICIENTS = {"spearman": rank_correlation.spearman, "kendall": rank_correlation.kendall}
_METRICS = "metrics.json"  # of a training by `train`


def read_networks(path: str) -> List[Network]:
    """Returns the networks in a file.

    Args:
        path: File of a JSON list of objects, as `sample` prints it, of an object in each line, or
            of an object that has them as its `networks`, as `rank` and `finalists` write it; the
            networks are their `indices`. Objects without are left out.

    Raises:
        UserError: If it cannot be read, or has no networks.
    """
    networks = [_network(record, path) for record in _records(path)]
    if not networks:
        raise UserError(
            f"A file of networks must have an object with `indices` for each, but {path} has none. "
            "`sample` prints such objects."
        )
    return networks


def read_trained(path: str) -> Dict[Network, Dict[str, Any]]:
    """Returns the accuracies of networks that were trained alone.

    Args:
        path: File as of `read_networks`; or a directory, below which each metrics.json by `train`
            is a record. A record has an accuracy as `test`, `validation` or `accuracy`: the first
            of these that all records have is taken.

    Returns:
        Dict by network of dicts: `accuracy`, the mean over its records, `trainings`, their number,
        and `field`, the name that the accuracy had.

    Raises:
        UserError: If nothing can be read, records have no accuracy in common, or there are fewer
            than three networks.
    """
    records = list(_metrics(path) if tf.io.gfile.isdir(path) else _records(path))
    found: Dict[Network, List[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(_network(record, path), []).append(record)
    if len(found) < rank_correlation.LEAST:
        raise UserError(
            f"To tell how well shared weights predict takes {rank_correlation.LEAST} trained "
            f"networks at least, but {path} has {len(found)}. Train more, each with --indices that "
            "`sample` prints."
        )
    names = [name for name in _ACCURACIES if all(map(_has_accuracy(name), records))]
    if not names:
        raise UserError(
            "Trained networks must all have an accuracy in [0, 1] of the same name, one of "
            f"{', '.join(_ACCURACIES)}, but those in {path} have not. Name another file."
        )
    return {
        network: {
            "accuracy": float(np.mean([record[names[0]] for record in own])),
            "trainings": len(own),
            "field": names[0],
        }
        for network, own in found.items()
    }


def rank(
    networks: Sequence[Network],
    accuracies: Sequence[float],
    costs: Optional[Sequence[float]],
    trained: Mapping[Network, Mapping[str, Any]],
) -> Dict[str, Any]:
    """Returns networks in order, the most accurate first, and how well their order predicts.

    Args:
        networks: n networks.
        accuracies: Float [n].
        costs: Float [n], or None.
        trained: As of `read_trained`; may be empty.

    Returns:
        Dict that can be written as JSON: `networks`, a list of dicts of `rank`, `indices`,
        separated by colons, `accuracy`, `cost`, and for trained ones `trained_accuracy` and
        `trainings`; and `prediction`, None if `trained` is empty, else a dict of the number of
        `networks` compared, the `field` of their accuracies, and `spearman` and `kendall`, dicts of
        `value` and `interval` (95 %), None if all accuracies of a kind are equal.
    """
    rows = []
    for place, index in enumerate(np.argsort(-np.asarray(accuracies), kind="stable"), start=1):
        row = {
            "rank": place,
            "indices": ":".join(map(str, networks[index])),
            "accuracy": float(accuracies[index]),
            "cost": None if costs is None else float(costs[index]),
        }
        own = trained.get(networks[index])
        if own:
            row.update(trained_accuracy=own["accuracy"], trainings=own["trainings"])
        rows.append(row)
    return {"networks": rows, "prediction": _prediction(rows, trained) if trained else None}


def in_words(result: Mapping[str, Any]) -> List[str]:
    """Returns lines that tell what `rank` returned, with `ssd`, `global_step` and the images."""
    rows = result["networks"]
    columns = ["rank", "accuracy", *(["cost"] if rows[0]["cost"] is not None else [])]
    columns += ["trained_accuracy"] if result["prediction"] else []
    columns.append("indices")
    table = [tuple(name.replace("_", " ") for name in columns)]
    table += [tuple(_shown(name, row.get(name)) for name in columns) for row in rows]
    lines = [
        f"{len(rows)} networks of {result['ssd']} with the weights of step "
        f"{result['global_step']:,}, on {result['num_images']:,} {result['split']} images",
        "",
        *architecture_text.aligned(table, ">" * (len(columns) - 1) + "<"),
    ]
    return (
        lines + ["", *_prediction_in_words(result["prediction"])] if result["prediction"] else lines
    )


def write(path: str, result: Mapping[str, Any]) -> None:
    """Writes a result as JSON; raises a UserError if it cannot be."""
    try:
        write_json(result, os.path.dirname(path) or ".", os.path.basename(path))
    except UserError as error:
        raise UserError(
            f"--output must name a file that can be written, but {path}: {error}"
        ) from error


def _prediction(
    rows: Sequence[Mapping[str, Any]], trained: Mapping[Network, Mapping[str, Any]]
) -> Dict[str, Any]:
    both = [row for row in rows if "trained_accuracy" in row]
    pairs = [[row[name] for row in both] for name in ("accuracy", "trained_accuracy")]
    correlations = {
        name: rank_correlation.correlate(coefficient, *pairs)
        for name, coefficient in _COEFFICIENTS.items()
    }
    shown = {name: found and found._asdict() for name, found in correlations.items()}
    return {"networks": len(both), "field": next(iter(trained.values()))["field"], **shown}


def _prediction_in_words(prediction: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"Order of {prediction['networks']} trained networks by their accuracy "
        f"({prediction['field']}), as shared weights predict it:"
    )
    for name in _COEFFICIENTS:
        found = prediction[name]
        if found is None:
            yield f"  {name.capitalize()}: none, as all networks are equally accurate"
        else:
            low, high = found["interval"]
            yield f"  {name.capitalize()}: {found['value']:.2f}, 95% in [{low:.2f}, {high:.2f}]"


def _shown(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in ("accuracy", "trained_accuracy"):
        return f"{value:.2%}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _has_accuracy(name: str) -> Any:
    def has(record: Mapping[str, Any]) -> bool:
        value = record.get(name)
        return type(value) in (int, float) and 0 <= value <= 1

    return has


def _network(record: Mapping[str, Any], path: str) -> Network:
    """Returns the network of a record of a file."""
    text = record["indices"]
    try:
        indices = text.split(":") if isinstance(text, str) else text
        return tuple(int(index) for index in indices)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"`indices` must be whole numbers separated by colons, but in {path} some are "
            f"{reprlib.repr(text)}. Take them from `sample` or `analyze`."
        ) from error


def _records(path: str) -> Iterator[Dict[str, Any]]:
    """Yields the objects with indices in a file; see `read_networks`."""
    try:
        values = _values(json_file.read_text(path))
    except (tf.errors.OpError, json_file.JsonError) as error:
        raise UserError(
            f"Networks must be in a file of JSON, but {path} cannot be read: "
            f"{json_file.reason(error)}. Name another file."
        ) from error
    yield from (value for value in values if isinstance(value, dict) and "indices" in value)


def _values(text: str) -> List[Any]:
    if text.lstrip().startswith("["):
        return json_file.loads(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if lines[:1] != ["{"]:
        return [json_file.loads(line) for line in lines]
    # An object of many lines.
    listed = json_file.loads(text).get("networks")
    return listed if isinstance(listed, list) else []


def _metrics(directory: str) -> Iterator[Dict[str, Any]]:
    """Yields the metrics of all trainings below a directory."""
    for folder, _, files in sorted(tf.io.gfile.walk(directory)):
        if _METRICS in files:
            yield from _records_of_one(os.path.join(folder, _METRICS))


def _records_of_one(path: str) -> Iterator[Dict[str, Any]]:
    try:
        value = json_file.read(path)
    except (tf.errors.OpError, json_file.JsonError):
        return  # Of a training that is still being written, or of another program.
    if isinstance(value, dict) and value.get("indices"):
        yield value
