"""Which types of operations TensorFlow has, which it does not say publicly."""

from __future__ import annotations

from tensorflow.core.framework import op_def_pb2

try:
    from tensorflow.python.client.pywrap_tf_session import TF_GetAllOpList, TF_GetBuffer
except ImportError:  # TensorFlow 1.15
    from tensorflow.python.pywrap_tensorflow import TF_GetAllOpList, TF_GetBuffer


def operation_types() -> list[str]:
    """Returns the types of operations that the running TensorFlow has, in order."""
    found = op_def_pb2.OpList()
    found.ParseFromString(TF_GetBuffer(TF_GetAllOpList()))
    return sorted(operation.name for operation in found.op)
