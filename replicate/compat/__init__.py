"""The only package that uses private TensorFlow names or depends on TensorFlow's version.

`install` is for codebases written for TensorFlow 1; `replicate.migration` does its work, and `kept`
and `slim` have what that takes from TensorFlow's insides.
`environment` checks that the installed packages fit together. `estimator` is the Estimator API;
`revival` restores it on versions of TensorFlow that have dropped it. `graph`, `keras` and `tpu`
wrap private names that towers need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Sequence, Union

from replicate.compat import environment

if TYPE_CHECKING:
    _Installer = Callable[[bool, Union[bool, Sequence[str]]], None]

_installers: list[_Installer] = []


def install_by(installer: _Installer) -> None:
    """Sets the function that does the work of `install`, because this package imports no other.

    Args:
        installer: Takes the arguments of `install`, by position.
    """
    _installers[:] = [installer]


def install(replace_ancestor: bool = False, tensorflow_1: bool | Sequence[str] = False) -> None:
    """Makes `tf.estimator` and `tf.contrib` work, for files written for TensorFlow 1.

    Call it before any other part of the program imports TensorFlow. Then these names resolve, in
    every file of the process:

        tensorflow.compat.v1.estimator     the Estimator API, version 1
        tensorflow.estimator               the Estimator API, version 2
        tensorflow.compat.v1.contrib       replacements for `tf.contrib`
        tensorflow.contrib                 the same, also in import statements

    `from tensorflow.contrib.estimator import TowerOptimizer`, `import tensorflow.contrib.slim as
    slim`, `from tensorflow.contrib import layers` and `tf.contrib.layers.xavier_initializer` work.
    A name of `tf.contrib` resolves to an object that does the same as on TensorFlow 1.15: one of
    TensorFlow, a small function or class of replicate, or one of tf-slim, tensorflow-gan or
    tensorflow-probability, which `pip install "replicate-estimator[contrib]"` installs.
    `tensorflow.python.estimator` and `tf.keras.mixed_precision.experimental`, which newer versions
    lack, exist as well. Other names raise an error that says what to write instead, or that nothing
    replaces them: an ImportError in an import statement, an AttributeError elsewhere.
    `replicate.migration.contrib.find` returns the place of a name. If other code has set
    `tensorflow.contrib`, its names stay, and names that it lacks are added.

    Names that TensorFlow has are not changed; on TensorFlow 1.15 that holds for all of
    `tf.contrib`. A second call only adds the effects of its arguments.

    **Files that mean TensorFlow 1.** In a file, `import tensorflow as tf` gives TensorFlow 2, in
    which `tf.placeholder` is missing and `tf.metrics` is another module.
    `replicate.compat.install(tensorflow_1=True)` calls `tf.disable_v2_behavior()`, and makes
    `tensorflow` mean `tensorflow.compat.v1` to the files of the program, however they import it:
    `tf.train`, `from tensorflow import layers`, `import tensorflow.keras`, `from
    tensorflow.keras.layers import Dense`, which is version 1's Keras as well. Files of installed
    libraries still get TensorFlow 2's names. These are files below `site-packages` or
    `dist-packages`, in a folder that `pip install --target` has filled, and those of Python and
    of replicate itself. If the codebase is an installed package, name it:
    `replicate.compat.install(tensorflow_1=("mypackage",))`.

    The API depends on the file that has the line `tf.name`. If Python acts for a file, as
    `unittest.mock.patch("tensorflow.name")` and `pickle` do, it depends on the file that called
    Python. So a file may set and patch attributes of the API that it sees. `tf.compat`,
    `tf.contrib`, `tensorflow.python` and other modules outside the public API are the same for all
    files. `tf.__version__` is the installed version, such as "2.15.1".

    Names that were bound before the call keep their meaning. A warning lists modules of the program
    that have imported TensorFlow by then; another one is logged if operations have run eagerly.
    Graphs and sessions of both APIs are the same. Code that AutoGraph makes of a library's function
    counts as part of the program.

    TensorFlow 1.15 has `tensorflow.contrib`, and in it the ancestor of this library, under the same
    names. To put this library in its place, without changing files that use
    `tf.contrib.estimator.replicate_model_fn`, call:

        replicate.compat.install(replace_ancestor=True)

    Args:
        replace_ancestor: Whether `tensorflow.contrib.estimator.replicate_model_fn` and
            `TowerOptimizer` become those of `replicate` on TensorFlow 1.15, which has its own.
            Names that files have imported before are not changed.
        tensorflow_1: On TensorFlow 2, whether `tensorflow` means version 1 to the files of the
            program; or the names of installed packages to which it means that as well. It cannot be
            undone in the process. On TensorFlow 1.15, it has no effect.

    Raises:
        ImportError: If the Estimator cannot work in this process. The message says what to run.
        TypeError: If `tensorflow_1` is neither a boolean nor names of packages.
    """
    environment.check_packages()
    for installer in _installers:
        installer(replace_ancestor, tensorflow_1)
