"""A complete program: a `model_fn`, and how an Estimator trains it.

Each is in a file of this folder, as code in the style of a library or paper. A row of the table in
`contract/models/programs.py` names the file and has the marks by which tests select it.
"""

import importlib
from typing import Any, Callable, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from contract import models
from replicate.comparing.deviations import TOLERANCES

MEAN = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS
SUM = tf.losses.Reduction.SUM
FLOAT16, FLOAT32, FLOAT64 = (TOLERANCES[name] for name in ("float16", "float32", "float64"))


class Batches(NamedTuple):
    """An epoch of `total` rows, `size` of them at a time."""

    # Over 2 and 3 towers, 7 rows make shards of 4+3 and 3+2+2; the last batch has 5 rows.
    total: int = 33
    size: int = 7

    def dataset(self, rows):
        """Returns a `tf.data.Dataset` of features and labels, dicts or arrays of `rows`."""
        # If all batches have one size, the graph knows it.
        even = self.total % self.size == 0
        return tf.data.Dataset.from_tensor_slices(rows).batch(self.size, drop_remainder=even)


UNEVEN = Batches()
EVEN = Batches(total=30, size=6)
# For shards that must have the same statistics: each batch of 24 rows is one of 4 rows six times.
TILED = Batches(total=96, size=24)


def train(model, input_fn, hooks):
    """The `drive` of most programs."""
    model.train(input_fn, hooks=hooks)
    return {}


class Program(NamedTuple):
    """A complete program.

    Attributes:
        make_model_fn: Function without arguments that returns the `model_fn`.
        rows: Function of a number of rows that returns features and labels, arrays.
        batches: The `Batches` to make of them.
        parse: Function of a batch's features and labels that `input_fn` maps. None: as they are.
        make_original: `make_model_fn` for one device, where more had to change for towers than
            that optimizers are wrapped. None: the same.
        reduction: How the loss is made of rows' losses, as `replicate_model_fn` takes it.
        tolerance: Largest deviation from one device, relative to the largest entry of an array.
        same_start: Whether both start from one checkpoint. If not, they must initialise alike.
        drive: Function of an Estimator, its `input_fn` and training hooks, that trains it and
            returns a dict of what else to compare.
        prepare: Function of a directory, called once before all else, in which the program may
            leave files that it finds again in `params["directory"]`.
        warm_start: Function of that directory that returns the Estimator's `warm_start_from`.
        params: More of `params`, as pairs.
        config: Arguments of the `RunConfig`, as pairs.
        predicts: Whether to predict.
    """

    make_model_fn: Callable
    rows: Callable
    batches: Batches = UNEVEN
    parse: Any = None
    make_original: Any = None
    reduction: str = MEAN
    tolerance: float = FLOAT32
    same_start: bool = True
    drive: Callable = train
    prepare: Any = None
    warm_start: Any = None
    params: Tuple = ()
    config: Tuple = ()
    predicts: bool = True


def load(name):
    """Returns the `Program` of a row, or one of several in a file: `<file>:<program>`."""
    file, _, entry = name.partition(":")
    if entry:
        return importlib.import_module(f"conformance.{file}").PROGRAMS[entry]
    return importlib.import_module(models.TABLE[name].program).PROGRAM


def as_model_fn(model_fn):
    """Returns the function of a program that has but one `model_fn`, ready made."""
    return lambda: model_fn


def is_plain(program):
    """Whether `replicate.compare` does all that a program asks for."""
    return program.drive is train and program.same_start and program.warm_start is None
