"""The only package that touches private TensorFlow names or depends on TensorFlow's version.

`install` is for codebases written for TensorFlow 1, and `contrib` what it gives them.
`environment` tells whether the installed packages fit together. `estimator` is the Estimator API;
`revival` brings it back where TensorFlow has dropped it. `graph`, `keras` and `tpu` hold what the
towers need of each.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from replicate.compat import environment

_offered: list[Callable[[], dict[str, Any]]] = []


def offer(ancestors: Callable[[], dict[str, Any]]) -> None:
    """Lets `install` know what takes the place of what was in `tf.contrib.estimator`.

    Args:
        ancestors: Called when it is needed, returns it by name.
    """
    _offered[:] = [ancestors]


def install(replace_ancestor: bool = False, tensorflow_1: bool | Sequence[str] = False) -> None:
    """Makes `tf.estimator` and `tf.contrib` work, for files written for TensorFlow 1.

    Call it before anything else of the program imports TensorFlow. Afterwards these names resolve,
    in every file of the process:

        tensorflow.compat.v1.estimator     the Estimator API, version 1
        tensorflow.estimator               the Estimator API, version 2
        tensorflow.compat.v1.contrib       what is left of `tf.contrib`, and where it is now
        tensorflow.contrib                 likewise, also where it is imported

    `from tensorflow.contrib.estimator import TowerOptimizer`, `import tensorflow.contrib.slim as
    slim`, `from tensorflow.contrib import layers` and `tf.contrib.layers.xavier_initializer` work.
    A name of `tf.contrib` stands for what TensorFlow has of it, a small function or class of
    replicate's own, or what tf-slim, tensorflow-gan or tensorflow-probability has, which `pip
    install "replicate-estimator[contrib]"` installs, if it does the same as on TensorFlow 1.15.
    `tensorflow.python.estimator` and `tf.keras.mixed_precision.experimental`, which newer versions
    lack, are there as well. Other names are errors that say what to write, or that nothing
    replaces them: an ImportError where they are imported, an AttributeError elsewhere.
    `replicate.compat.contrib.find` tells where a name is. What somebody else has put at
    `tensorflow.contrib` stays there, and what it lacks comes from here.

    What TensorFlow itself has is left as it is; so is all of `tf.contrib` on TensorFlow 1.15. A
    second call changes nothing but what it asks for in addition.

    **Files that mean TensorFlow 1.** `import tensorflow as tf` is TensorFlow 2 to a file, where
    `tf.placeholder` is gone and `tf.metrics` something else.
    `replicate.compat.install(tensorflow_1=True)` calls `tf.disable_v2_behavior()`, and makes
    `tensorflow` mean `tensorflow.compat.v1` to the program's own files, however they import it:
    `tf.train`, `from tensorflow import layers`, `import tensorflow.keras`, `from
    tensorflow.keras.layers import Dense`, which is version 1's Keras as well. The files of
    installed libraries, which are those below `site-packages` or `dist-packages`, in a folder that
    `pip install --target` has filled, or of Python and of replicate itself, go on to get TensorFlow
    2's names. A codebase that is installed itself is named:
    `replicate.compat.install(tensorflow_1=("mypackage",))`.

    What decides is the file that has the line `tf.name`; for what Python does on a file's behalf,
    as `unittest.mock.patch("tensorflow.name")` and `pickle` do, the file that called it. So a file
    may set attributes, and patch them, of the API that it sees. `tf.compat`, `tf.contrib`,
    `tensorflow.python` and other modules that are not of the public API are the same for all.
    `tf.__version__` says what is installed, such as "2.15.1".

    It cannot reach what was bound before the call: modules of the program that have imported
    TensorFlow by then are named in a warning, and there is another if something has run eagerly.
    Graphs and sessions of both APIs are the same. Code that AutoGraph makes of a library's function
    counts as the program's.

    TensorFlow 1.15 has `tensorflow.contrib`, and in it the ancestor of this library, under the same
    names. Who asks for it gets this library in the ancestor's place, with no change to files that
    say `tf.contrib.estimator.replicate_model_fn`:

        replicate.compat.install(replace_ancestor=True)

    Args:
        replace_ancestor: Whether `tensorflow.contrib.estimator.replicate_model_fn` and
            `TowerOptimizer` are to be those of `replicate`, where TensorFlow has its own. What
            files have imported by name before stays what it was.
        tensorflow_1: Whether `tensorflow` is to mean version 1 to the program's own files, on
            TensorFlow 2; or the names of installed packages to which it is to mean that, too. It
            stays so for the rest of the process. On TensorFlow 1.15, nothing changes.

    Raises:
        ImportError: If the Estimator cannot work in this process. The message says what to run.
        TypeError: If `tensorflow_1` is neither a boolean nor names of packages.
    """
    environment.check_packages()
    from replicate.compat import installation

    offered = {name: value for ancestors in _offered for name, value in ancestors().items()}
    installation.install(replace_ancestor, tensorflow_1, offered)
