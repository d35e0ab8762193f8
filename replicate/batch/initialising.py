"""Makes local variables ready that a scaffold of the user's knows nothing of."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

OF_SESSION = "replicate/of_session"  # Collection of the library's own local variables.


def initialising(spec: Any) -> Any:
    """Returns a spec whose scaffold makes the library's own local variables ready, too.

    Args:
        spec: The `EstimatorSpec`.
    """
    scaffold, variables = spec.scaffold, tf.get_collection(OF_SESSION)
    if scaffold is None or not variables:
        return spec  # The default makes all local variables ready.
    own, given = tf.variables_initializer(variables), {}
    if scaffold.local_init_op is not None:
        given["local_init_op"] = tf.group(scaffold.local_init_op, own)
    if scaffold.init_fn is not None:

        def init_fn(_: Any, session: Any) -> None:  # Which may run steps already.
            session.run(own)
            scaffold.init_fn(session)

        given["init_fn"] = init_fn
    if not given:
        return spec
    return spec._replace(scaffold=tf.train.Scaffold(copy_from_scaffold=scaffold, **given))
