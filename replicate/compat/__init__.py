"""The only package that touches private TensorFlow names or depends on TensorFlow's version.

`install` is for codebases written for TensorFlow 1. `environment` tells whether the installed
packages fit together. `estimator` is the Estimator API; `revival` brings it back where TensorFlow
has dropped it. `graph`, `keras` and `tpu` hold what the towers need of each.
"""

from __future__ import annotations

from typing import Any

_offered: dict[str, Any] = {}


def offer(**ancestors: Any) -> None:
    """Lets `install` know what takes the place of what was in `tf.contrib.estimator`, by name."""
    _offered.update(ancestors)


def install(replace_ancestor: bool = False) -> None:
    """Makes `tf.estimator` and `tf.contrib.estimator` work, for files written for TensorFlow 1.

    Afterwards these names resolve, in every file of the process:

        tensorflow.compat.v1.estimator                                the Estimator API, version 1
        tensorflow.compat.v1.contrib.estimator.replicate_model_fn     of `replicate`
        tensorflow.compat.v1.contrib.estimator.TowerOptimizer         of `replicate`
        tensorflow.estimator                                          the Estimator API, version 2

    What TensorFlow itself has is left as it is. A second call changes nothing.

    TensorFlow 1.15 has `tensorflow.contrib`, and in it the ancestor of this library, under the same
    names. Who asks for it gets this library in the ancestor's place, with no change to files that
    say `tf.contrib.estimator.replicate_model_fn`:

        replicate.compat.install(replace_ancestor=True)

    Args:
        replace_ancestor: Whether `tensorflow.contrib.estimator.replicate_model_fn` and
            `TowerOptimizer` are to be those of `replicate`, where TensorFlow has its own. What
            files have imported by name before stays what it was.

    Raises:
        ImportError: If the Estimator cannot work in this process. The message says what to run.
    """
    from replicate.compat import installation

    installation.install(replace_ancestor, _offered)
