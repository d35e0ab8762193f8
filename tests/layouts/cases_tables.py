"""Look-ups in tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Made, cases
from layouts.cases_indexing import shapes


def table() -> Any:
    """Returns the handle of a table that has some of the keys."""
    keys = tf.constant([0, 2, 4], tf.int64)
    values = tf.constant([1.5, 2.5, 3.5])
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    return tf.lookup.StaticHashTable(initializer, -1.0).resource_handle


@cases("LookupTableFindV2")
def look_up(draw: np.random.RandomState) -> dict[str, Any]:
    return {
        "table_handle": Made(table),
        "keys": np.asarray(draw.randint(0, 6, shapes(draw, 0, 3)), np.int64),
        "default_value": np.array(-1, np.float32),
    }
