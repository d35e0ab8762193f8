"""The table of complete `model_fn`s: a row is a file each, and has marks for what tests do with it.

Rows of the contract (`contract/models/`) are what can be done in a `model_fn`, one at a time; these
are code in the styles of libraries and papers, as the documentation lists them.
"""

import importlib
from typing import Any, Callable, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

import versions
from replicate.comparing.deviations import TOLERANCES

MEAN = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS
SUM = tf.losses.Reduction.SUM
FLOAT16, FLOAT32, FLOAT64 = (TOLERANCES[name] for name in ("float16", "float32", "float64"))

MARKS = {
    "long": "others show the same: `make test` leaves it out",
    "exported": "`make test` exports it, too",
    "unwrapped": "`make test` trains it with one line changed, too",
    "own": "trains in a way of its own, or from no checkpoint: not compared by `replicate.compare`",
    "not_in_1": "asks for what TensorFlow 1.15 does not have: `global_clipnorm` of optimizers of "
    "Keras, or `saving_listeners` of `TrainSpec`",
    "coarser_in_1": "TensorFlow 1.15 makes it look like one of float32, which may deviate more",
    "resources": "needs resource variables, which TensorFlow 1.15 does not make: optimizers of "
    "Keras have slots for them alone, and what reads other variables may read them updated",
}
# Other rows show the properties of those that are `long`: of canned Estimators, `TELLING` of
# `test_conformance.py`, with `wide_deep_sparse`, `canned_v2_sums` and `canned_v1_unwrapped`; of
# heads, `multi_head` and `head_optimizer`; of recurrent networks, `keras_rnn`; of Keras' models,
# the others.
ROWS = {
    "layers_cnn": "exported",
    "keras_sequential": "",
    "keras_functional": "long",
    "keras_subclassed": "",
    "keras_optimizer": "unwrapped not_in_1",
    "keras_get_updates": "long not_in_1",
    "canned_dnn": "long",
    "canned_linear": "long",
    "canned_wide_deep": "long",
    "canned_dnn_regressor": "long",
    "canned_linear_regressor": "long",
    "bert_adamw": "",
    "gan_hooks": "own",
    "hook_statistics": "own",
    "train_and_evaluate": "own not_in_1",
    "rnn_while_loop": "long coarser_in_1",
    "keras_rnn": "",
    "multi_head": "exported resources",
    "head_api": "long",
    "wide_deep_sparse": "unwrapped",
    "functions": "",
    "partitioned": "",
    "warm_start": "own",
    "init_from_checkpoint": "own",
    "gradient_accumulation": "",
    "loss_scale": "",
    "moving_average": "exported",
    "ema_restore": "",
    "unused_variables": "",
    "canned_v2_wide_deep": "long exported",
    "canned_v2_sums": "",
    "canned_v2_dnn": "long",
    "canned_v2_baseline": "long",
    "canned_v1_unwrapped": "",
    "rnn_canned": "long",
    "head_optimizer": "resources",
    "keras_estimator": "exported resources",
    "keras_estimator_v1": "long",
    "slim_train_op": "",
    "distributions": "",
    "modules": "long resources",
    "keras_averaging": "resources",
}
"""The marks of each row, by the name of its file."""

NOT_HERE = [name for name, marks in ROWS.items() if versions.IS_1 and "not_in_1" in marks]


def rows(*marks):
    """Returns the names of the rows that this TensorFlow has; if `marks`, of those with all."""
    unknown = {*marks} - {*MARKS}
    assert not unknown, f"no marks of rows: {unknown}"
    return [
        name for name, own in ROWS.items() if name not in NOT_HERE and {*marks} <= {*own.split()}
    ]


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
    """The `drive` of most rows."""
    model.train(input_fn, hooks=hooks)
    return {}


class Row(NamedTuple):
    """A row of the table.

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
        prepare: Function of a directory, called once before all else, in which the row may leave
            files that it finds again in `params["directory"]`.
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
    """Returns the `Row` in the file of this name, or in a table there: `<file>:<row>`."""
    file, _, entry = name.partition(":")
    module = importlib.import_module(f"conformance.{file}")
    return module.ROWS[entry] if entry else module.ROW


def as_model_fn(model_fn):
    """Returns the function of a row that has but one `model_fn`, ready made."""
    return lambda: model_fn


def is_plain(row):
    """Whether `replicate.compare` does all that a row asks for."""
    return row.drive is train and row.same_start and row.warm_start is None
