"""Lists the types of operations that TensorFlow has, which it does not tell publicly."""

from __future__ import annotations

from tensorflow.python.framework import c_api_util


def operation_types() -> list[str]:
    """Returns the types of operations that the running TensorFlow has, in order."""
    return sorted(c_api_util.ApiDefMap().op_names())
