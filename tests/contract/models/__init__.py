"""The table of models: each is declared once, in the file of its family, with its marks.

Tests select rows by marks: `row.MARKS` says what trains them. To add a model, add a `Model` to the
`ROWS` of the family whose mechanism it shares, or of a new file. Models of most families show what
can be done in a `model_fn`, one mechanism at a time; `programs` lists complete ones, in the styles
of libraries and papers, which are in files of `conformance/`.
"""

import collections

import versions
from contract.models import (
    changes,
    engines,
    losses,
    networks,
    programs,
    recipes,
    state,
    training,
)
from contract.models.networks import by_float32, tf_loss
from contract.models.parts import (
    F64,
    GLOROT,
    L2,
    SLOPE,
    biased,
    by_minimize,
    clip,
    get_variable,
    gradients,
    model_fn,
    optimizer,
    reduce_rows,
    spec,
    squared,
    step,
    two_layers,
    untrained,
)
from contract.models.row import MARKS, Model
from contract.models.training import by_adamw, by_clipping_optimizer, by_hand

__all__ = [
    "F64",
    "GLOROT",
    "L2",
    "MARKS",
    "MODELS",
    "SLOPE",
    "TABLE",
    "Model",
    "biased",
    "by_adamw",
    "by_clipping_optimizer",
    "by_float32",
    "by_hand",
    "by_minimize",
    "clip",
    "get_variable",
    "gradients",
    "model_fn",
    "optimizer",
    "reduce_rows",
    "rows",
    "spec",
    "squared",
    "step",
    "tf_loss",
    "two_layers",
    "untrained",
]

FAMILIES = (networks, training, losses, changes, recipes, state, engines, programs)
TABLE = {name: model for family in FAMILIES for name, model in family.ROWS.items()}
_NAMES = collections.Counter(name for family in FAMILIES for name in family.ROWS)
assert max(_NAMES.values()) == 1, f"two rows have one name: {_NAMES.most_common(1)}"
_MARKS = {name: {*row.marks.split()} for name, row in TABLE.items()}
_OTHERS = set().union(*_MARKS.values()) - {*MARKS}
assert not _OTHERS, f"`MARKS` does not explain marks of rows: {_OTHERS}"
_HERE = {name for name, own in _MARKS.items() if not (versions.IS_1 and "not_in_1" in own)}


def rows(*marks):
    """Returns the rows that have all of `marks`, of those that this TensorFlow can run, by name."""
    unknown = {*marks} - {*MARKS}
    assert not unknown, f"no marks of rows: {unknown}"
    return {name: TABLE[name] for name, own in _MARKS.items() if name in _HERE and {*marks} <= own}


MODELS = {name: row.fn for name, row in rows("way").items()}
"""The `model_fn`s that every option of the library can be tried with."""
