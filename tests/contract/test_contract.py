"""The contract as one table: model functions × optimizers × towers × batches × reductions.

Each row trains on one device, un-replicated, and on N towers, and everything is compared after
every step. The full product has 34·3·4·3·2·2 = 4896 runs, so the table takes a covering subset:
every model with all towers and batches (8 towers, slow to build, with one kind of batch, and 1,
whose graph is the un-replicated one, likewise); with every batch another optimizer; reductions and
placements in turn, so that the models together meet all pairs.

`make test` has two of the eight runs of a model; see `is_quick`.
"""

import itertools

import pytest

import contract
import selection
from contract import models

BATCHES = {"even": contract.EVEN, "uneven": contract.UNEVEN, "dynamic": contract.DYNAMIC}
TOWERS = (1, 2, 3, 8)
# TensorFlow's own queue runner dies of the end of its session, on one device, too.
DIES = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def is_quick(row, batch, towers):
    """Whether a run is one of the two of each model that are not `thorough`.

    One has uneven shards, of a size that the graph knows or does not. The other is in turn on one
    tower, on two with even shards, and on eight. The first alone meets all optimizers, reductions
    and placements.
    """
    if towers == 3:
        return batch == 1 + row // 2 % 2
    return towers == (1, 2, 8)[row % 3] and (towers != 2 or batch == 0)


def table():
    """Yields one pytest parameter set per run."""
    reductions = {"mean": contract.MEAN, "sum": contract.SUM}
    placements = ("consolidation", "round_robin")
    for row, (model, declared) in enumerate(models.rows("way").items()):
        for (b, batch), (t, towers) in itertools.product(enumerate(BATCHES), enumerate(TOWERS)):
            if towers in (1, 8) and b != (row + towers) % 3:
                continue
            optimizer = list(contract.OPTIMIZERS)[(row + b) % 3]
            reduction = list(reductions)[(row // 3 + b) % 2]
            placement = placements[(row + b + t) % 2]
            name = f"{model}-{optimizer}-{towers}-{batch}-{reduction}-{placement}"
            yield selection.cell(
                model,
                optimizer,
                towers,
                BATCHES[batch],
                reductions[reduction],
                placement,
                id=name,
                is_quick=is_quick(row, b, towers),
                marks=DIES if "dies" in declared.marks else (),
            )


@pytest.mark.parametrize("model, optimizer, towers, batches, reduction, placement", list(table()))
def test_towers_train_as_one_device(model, optimizer, towers, batches, reduction, placement):
    row = models.TABLE[model]
    contract.check(row, towers, batches, optimizer, reduction, variable_placement=placement)
