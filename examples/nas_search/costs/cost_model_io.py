"""A fitted cost model, and its JSON, which may come from another machine."""

import dataclasses
import json
import math
from typing import Any, Dict, Optional, Tuple

import numpy as np

from examples.nas_search.costs import cost_features, network_batch
from examples.nas_search.spaces import search_spaces, space_files
from examples.runs import json_file

_FORMAT = 2  # of the JSON text


@dataclasses.dataclass(frozen=True)
class CostModel:
    """A fitted cost model of a space: estimate = bias + Σ kernel · features.

    Attributes:
        ssd: Name of the space, or of one in a file its identity, see `space_files.py`.
        objective: Key of `cost_fit.OBJECTIVES`, or `'latency'`.
        unit: Unit of the estimate.
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs of the classifier.
        seed: Of the random networks.
        kernel: Float64 [features], in `unit`.
        bias: The estimate where all features are 0, in `unit`.
        statistics: Of the random networks, all distinct: `num_fitted`, how many it was fitted to;
            `num_held_out`, how many others it was tried on, and on those `mean_relative_error` and
            `max_relative_error`, `mean_error`, the mean absolute error as a share of the mean, and
            `r_squared`, the share of the variance that it explains; and of all networks
            `lower_quartile`, `least`, `mean` and `largest`, in `unit`.
        measurement: Of what was measured, how: `device`, `device_model`, `batch_size`, `threads`,
            `rounds`, `tensorflow`, `numpy`, `python`, `os`, `date`, `reference_network`, by name or
            by indices, and `reference_latency`, in `unit`. None for what was computed.
    """

    ssd: str
    objective: str
    unit: str
    input_shape: Tuple[int, int, int]
    num_classes: int
    seed: int
    kernel: Any
    bias: float
    statistics: Dict[str, float]
    measurement: Optional[Dict[str, Any]] = None

    def estimate(self, positions):
        """Returns estimates, float64 [n], of networks with features at `positions`, [n, L]."""
        return self.bias + self.kernel[positions].sum(axis=1)

    def __str__(self):
        """Returns what it estimates, in words."""
        return f"{self.objective}, {self.unit_and_device}"

    @property
    def unit_and_device(self):
        """The unit; of what was measured, on what and how."""
        if self.measurement is None:
            return self.unit
        how = self.measurement
        threads = f"{how['threads']} thread{'' if how['threads'] == 1 else 's'}"
        return f"{self.unit} on {how['device_model']}, batch {how['batch_size']}, {threads}"


def to_json(model):
    """Returns a `CostModel` as text; what `from_json` makes of it is equal to the last bit."""
    fields = dict(dataclasses.asdict(model), kernel=model.kernel.tolist(), format=_FORMAT)
    return json.dumps(fields, indent=None, sort_keys=True)


def from_json(text):
    """Returns the `CostModel` of a text by `to_json`.

    Raises:
        json_file.JsonError: If it is no such text, or does not fit the space that it names.
    """
    try:
        fields = json_file.loads(text)
        if not isinstance(fields, dict) or fields.pop("format", None) != _FORMAT:
            raise _FormatError(f"is not of format {_FORMAT}")
        return _parse(fields)
    except (TypeError, ValueError, OverflowError) as error:
        reason = getattr(error, "fault", error)
        reason = reason if isinstance(error, _FormatError) else f"cannot be read ({reason})"
        raise json_file.JsonError(
            f"A cost model must be JSON by `fit-cost`, but {text[:80]!r} {reason}",
            "Let it be fitted again",
        ) from error


class _FormatError(ValueError):
    """A fault in the fields of a cost model."""


_TEXTS = ("device", "device_model", "tensorflow", "numpy", "python", "os", "date")
_COUNTS = ("batch_size", "threads", "rounds")
_MEASUREMENT = (*_TEXTS, *_COUNTS, "reference_network", "reference_latency")
STATISTICS = (
    *("num_fitted", "num_held_out", "mean_relative_error", "max_relative_error", "mean_error"),
    *("r_squared", "lower_quartile", "least", "mean", "largest"),
)


def _parse(fields):
    """Returns the `CostModel` of the fields of the text."""
    _check_names(fields, [field.name for field in dataclasses.fields(CostModel)], "fields")
    for name in ("ssd", "objective", "unit"):
        _check(fields, name, _is_text, "a text")
    _check(fields, "num_classes", _is_count, "an integer > 0")
    _check(fields, "seed", lambda value: _is_count(value + 1), "an integer >= 0")
    _check(fields, "input_shape", _is_shape, "three integers > 0")
    _check(fields, "bias", _is_number, "a finite number")
    _check(fields, "statistics", lambda value: isinstance(value, dict), "an object")
    _check_names(fields["statistics"], STATISTICS, "statistics")
    for name in STATISTICS:
        _check(fields["statistics"], name, _is_number, "a finite number")
    if fields["measurement"] is not None:
        _check_measurement(fields["measurement"])
    ssd = fields["ssd"]
    if space_files.has_identity(ssd) and not space_files.is_known(ssd):
        raise _FormatError(f"is for {ssd!r}, a space of another file than the one here")
    if ssd not in search_spaces.ALL_SSDS and not space_files.has_identity(ssd):
        raise _FormatError(
            f"is for the space {ssd!r}, which is none of {list(search_spaces.ALL_SSDS)}"
        )
    size = num_features(fields["ssd"])
    _check(fields, "kernel", lambda value: _is_kernel(value, size), f"{size} finite numbers")
    kernel = np.array(fields["kernel"], np.float64)
    return CostModel(**{**fields, "kernel": kernel, "input_shape": tuple(fields["input_shape"])})


def num_features(ssd):
    """Returns the number of cost features of a space."""
    spec = search_spaces.get_search_space_spec(ssd)
    first = network_batch.random_index_lists(spec, 1, np.random.RandomState(0))
    return cost_features.feature_positions(spec, first)[0]


def _check_measurement(fields):
    if not isinstance(fields, dict):
        raise _FormatError(f"has measurement {fields!r}, which must be an object or null")
    _check_names(fields, _MEASUREMENT, "measurement")
    for name in (*_TEXTS, "reference_network"):
        _check(fields, name, _is_text, "a text")
    for name in _COUNTS:
        _check(fields, name, _is_count, "an integer > 0")
    _check(fields, "reference_latency", lambda x: _is_number(x) and x > 0, "a number > 0")


def _check_names(fields, names, what):
    if set(fields) != set(names):
        differing = ", ".join(sorted(set(fields) ^ set(names)))
        raise _FormatError(f"has other {what} than it should: {differing}")


def _check(fields, name, is_right, rule):
    if not is_right(fields[name]):
        raise _FormatError(f"has {name} {json.dumps(fields[name])[:60]}, which must be {rule}")


def _is_text(value):
    # It can be printed: no half of a surrogate pair, no control character of a terminal.
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_number(value):
    return isinstance(value, (int, float)) and type(value) is not bool and math.isfinite(value)


def _is_count(value):
    return isinstance(value, int) and type(value) is not bool and value > 0


def _is_shape(value):
    return isinstance(value, list) and len(value) == 3 and all(map(_is_count, value))


def _is_kernel(value, size):
    return isinstance(value, list) and len(value) == size and all(map(_is_number, value))
