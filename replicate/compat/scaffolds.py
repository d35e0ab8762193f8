"""Changes a `tf.train.Scaffold` after it was made; `init_fn` and hooks hold the same object."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def change(scaffold: tf.train.Scaffold, **given: Any) -> None:
    """Replaces parts of a scaffold that no session has finalized yet.

    Args:
        scaffold: The scaffold.
        **given: New values of its properties, such as `local_init_op`. An `init_fn` takes the
            session alone, as that property does.
    """
    for name, value in given.items():
        setattr(scaffold, f"_{name}", value)
