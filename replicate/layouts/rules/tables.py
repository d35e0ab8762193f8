"""Look-ups in hash tables, which all towers share."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule

# Tables whose keys are scalars: each entry of the input is a key.
OF_SCALARS = ("HashTableV2", "MutableHashTableV2")


@rule("LookupTableFindV2")
def look_up(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of keys, if a key is one entry."""
    keys = layouts[1]
    if not isinstance(keys, Shard) or op.inputs[0].op.type not in OF_SCALARS:
        return None
    return Strategy((WHOLE, keys, WHOLE), (keys,))
