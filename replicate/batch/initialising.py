"""Initialises the library's local variables if the user's scaffold initialises only its own."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

OF_SESSION = "replicate/of_session"  # Collection of the library's local variables.


def initialising(spec: tf.estimator.EstimatorSpec) -> tf.estimator.EstimatorSpec:
    """Returns a spec whose scaffold also initialises the library's local variables.

    Args:
        spec: The `EstimatorSpec`.
    """
    scaffold, variables = spec.scaffold, tf.get_collection(OF_SESSION)
    if scaffold is None or not variables:
        return spec  # The default scaffold initialises all local variables.
    initialised, given = tf.variables_initializer(variables), {}
    if scaffold.local_init_op is not None:
        given["local_init_op"] = tf.group(scaffold.local_init_op, initialised)
    if scaffold.init_fn is not None:

        def init_fn(_: Any, session: Any) -> None:
            session.run(initialised)  # First, since the user's function may run steps.
            scaffold.init_fn(session)

        given["init_fn"] = init_fn
    if not given:
        return spec
    return spec._replace(scaffold=tf.train.Scaffold(copy_from_scaffold=scaffold, **given))
