"""Checks that the installed packages and the process fit together, before TensorFlow is used.

Imports only the standard library, so that it works even if TensorFlow cannot be imported. Each
problem is one message: the rule, the versions that were found, and the command that fixes it.
"""

from __future__ import annotations

import os
import sys
from importlib import util
from typing import Any

try:
    from importlib import metadata
except ImportError:  # Python 3.7
    try:
        # A dependency of TensorFlow depends on it there.
        import importlib_metadata as metadata  # type: ignore[no-redef]
    except ImportError:
        metadata = None  # type: ignore[assignment]

# TensorFlow is published under several names.
_DISTRIBUTIONS = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-gpu",
    "tensorflow-macos",
    "tf-nightly",
)
_OLDEST = (1, 15)
_FIRST_2 = (2,)
_NEEDS = "replicate needs TensorFlow 1.15 or newer, but "
_FIRST_WITH_PROTOBUF_4 = (2, 12)
FIRST_WITHOUT_ESTIMATOR = (2, 16)
_FIRST_WITH_NUMPY_2 = (2, 18)
_ESTIMATOR = "2.15.0"
_LEGACY = "TF_USE_LEGACY_KERAS"
_TRUE = ("1", "true", "True")  # Values that TensorFlow treats as true.


def check_packages() -> None:
    """Raises an ImportError if TensorFlow is missing or does not fit other packages."""
    _raise(
        packages_problem(
            version_of(*_DISTRIBUTIONS) if find("tensorflow") else None,
            version_of("numpy"),
            sys.version_info,
            version_of("protobuf"),
        )
    )


def check_estimator() -> None:
    """Raises an ImportError if the Estimator cannot work here, or only with another Keras."""
    _raise(estimator_problem())


def estimator_problem() -> str | None:
    """Returns the problem that keeps the Estimator from working in this process, or None."""
    import tensorflow as tf2
    import tensorflow.compat.v1 as tf

    return keras_problem(
        tensorflow=tf.__version__,
        estimator=version_of("tensorflow-estimator") if find("tensorflow_estimator") else None,
        tf_keras=version_of("tf-keras", "tf_keras") if find("tf_keras") else None,
        is_asked_for=os.environ.get(_LEGACY) in _TRUE,
        # TensorFlow >= 2.16 stores the choice that it made at import in this attribute. If the
        # environment changes later, `tf.keras` is Keras 2, but `from tensorflow.keras import
        # layers` gives Keras 3.
        was_asked_for=all(getattr(module, "_tf_uses_legacy_keras", True) for module in (tf2, tf)),
    )


def packages_problem(
    tensorflow: str | None, numpy: str, python: tuple[Any, ...], protobuf: str = "unknown"
) -> str | None:
    """Returns the problem that keeps TensorFlow from being imported, or None.

    Args:
        tensorflow: Its version; None if it is not installed, "unknown" if it cannot be read.
        numpy: The version of NumPy, in the same form.
        python: The version of Python, a tuple.
        protobuf: The version of protobuf, in the same form.
    """
    if not tensorflow:
        return f"{_NEEDS}none is installed. Run: {_install_command(python)}"
    version = parse(tensorflow)
    if version is None:
        return None
    if version < _OLDEST:
        return f"{_NEEDS}{tensorflow} is installed. Run: {_install_command(python)}"
    if version < _FIRST_WITH_PROTOBUF_4 and (parse(protobuf) or (0,)) >= (3, 21):
        return (
            f"TensorFlow {tensorflow} needs protobuf older than 3.21, but protobuf {protobuf} is "
            "installed. Run: pip install 'protobuf<3.21'"
        )
    if version < _FIRST_WITH_NUMPY_2 and (parse(numpy) or (0,)) >= (2,):
        return (
            f"TensorFlow {tensorflow} needs NumPy 1, but NumPy {numpy} is installed. Run: "
            "pip install 'numpy<2'"
        )
    return None


def keras_problem(
    tensorflow: str,
    estimator: str | None,
    tf_keras: str | None,
    is_asked_for: bool,
    was_asked_for: bool,
) -> str | None:
    """Returns the problem that keeps the Estimator from working, or None.

    Args:
        tensorflow: The version of TensorFlow.
        estimator: The version of tensorflow-estimator, None if it is not installed.
        tf_keras: The version of tf-keras, None if it is not installed.
        is_asked_for: Whether the environment asks for Keras 2 from tf-keras now.
        was_asked_for: Whether the environment did so when TensorFlow was imported.
    """
    version = parse(tensorflow) or _FIRST_2
    if version < FIRST_WITHOUT_ESTIMATOR:
        if not is_1(tensorflow) and is_asked_for and not tf_keras:
            return (
                f"{_LEGACY} is set, but TensorFlow {tensorflow} has Keras 2 of its own and breaks "
                f"without tf-keras then. Run: unset {_LEGACY}"
            )
        return None
    minor = ".".join(map(str, version[:2]))
    if not estimator or parse(estimator) != parse(_ESTIMATOR):
        found = f"{estimator} is" if estimator else "it is not"
        return (
            f"TensorFlow {tensorflow} has no Estimator of its own; replicate brings back that of "
            f"tensorflow-estimator {_ESTIMATOR}, but {found} installed. Run: "
            f"pip install tensorflow-estimator=={_ESTIMATOR}"
        )
    if not tf_keras or (parse(tf_keras) or ())[:2] != version[:2]:
        found = f"{tf_keras} is" if tf_keras else "it is not"
        return (
            f"The Estimator and tf.layers need Keras 2, which for TensorFlow {tensorflow} is in "
            f"tf-keras {minor}, but {found} installed. Run: pip install 'tf-keras=={minor}.*'"
        )
    if not is_asked_for:
        return (
            f"TensorFlow {tensorflow} uses Keras 3, with which neither the Estimator nor tf.layers "
            f"works, unless {_LEGACY} is 1; it is {os.environ.get(_LEGACY)!r}. Run, before Python: "
            f"export {_LEGACY}=1"
        )
    if not was_asked_for:
        return (
            f"{_LEGACY} must be 1 when TensorFlow is imported, but was set after that. Set it "
            f"above the first import of TensorFlow, or run, before Python: export {_LEGACY}=1"
        )
    return None


def is_1(tensorflow: str) -> bool:
    """Whether a version of TensorFlow is one of TensorFlow 1."""
    return (parse(tensorflow) or _FIRST_2) < _FIRST_2


def find(module: str) -> bool:
    """Whether a module can be found; it is not imported."""
    return module in sys.modules or util.find_spec(module) is not None


def version_of(*distributions: str) -> str:
    """Returns the version of the first distribution that is installed, or "unknown"."""
    for name in distributions if metadata else ():
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return "unknown"


def parse(version: str | None) -> tuple[int, ...] | None:
    """Returns the leading numbers of a version, `(2, 15, 1)`; None if there are none."""
    numbers = []
    for part in (version or "").split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers) or None


def _install_command(python: tuple[Any, ...]) -> str:
    if python < (3, 8):
        return "pip install 'tensorflow==1.15.*' 'protobuf<3.21'"
    if python < (3, 9):
        return "pip install 'tensorflow==2.13.*'"
    if python < (3, 12):
        return "pip install 'tensorflow==2.15.*'"
    return f"pip install tensorflow tf-keras tensorflow-estimator=={_ESTIMATOR}"


def _raise(problem: str | None) -> None:
    if problem:
        raise ImportError(problem)
