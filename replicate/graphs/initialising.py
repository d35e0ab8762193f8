"""Initialises the library's local variables if the user's scaffold initialises only its own."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import scaffolds

OF_SESSION = "replicate/of_session"  # Collection of the library's local variables.


def initialise(scaffold: tf.train.Scaffold | None) -> None:
    """Lets a scaffold also initialise the library's local variables.

    Args:
        scaffold: The scaffold of a spec; None for the default, which initialises all.
    """
    variables = tf.get_collection(OF_SESSION)
    if scaffold is None or not variables:
        return
    initialised = tf.variables_initializer(variables)
    if scaffold.local_init_op is not None:
        both = tf.group(scaffold.local_init_op, initialised)
        scaffolds.change(scaffold, local_init_op=both)
    if scaffold.init_fn is not None:
        given = scaffold.init_fn

        def init_fn(session: Any) -> None:
            session.run(initialised)  # First, since the user's function may run steps.
            given(session)

        scaffolds.change(scaffold, init_fn=init_fn)
