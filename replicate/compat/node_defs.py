"""Makes `NodeDef`s."""

from __future__ import annotations

from typing import Any, Mapping

import tensorflow.compat.v1 as tf


def node_of(kind: str, name: str, attrs: Mapping[str, Any], *shapes: Any) -> Any:
    """Returns a `NodeDef` without inputs and device.

    Args:
        kind: Its type.
        name: Its name.
        attrs: Its attributes: Booleans, integers, strings, types and `AttrValue`s.
        *shapes: A `TensorShapeProto` for each output, for the import. None if none is known.
    """
    node = tf.NodeDef(name=name, op=kind)
    for key, value in attrs.items():
        if isinstance(value, tf.DType):
            node.attr[key].type = value.as_datatype_enum
        elif isinstance(value, bool):
            node.attr[key].b = value
        elif isinstance(value, int):
            node.attr[key].i = value
        elif isinstance(value, str):
            node.attr[key].s = value.encode()
        else:
            node.attr[key].CopyFrom(value)
    if shapes and None not in shapes:
        node.attr["_output_shapes"].list.shape.extend(shapes)
    return node
