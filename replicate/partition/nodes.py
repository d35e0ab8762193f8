"""The `NodeDef`s of a tower, and the names of their inputs."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import partitioning
from replicate.partition import frames
from replicate.partition.constants import Constant
from replicate.partition.inputs import Given


class Nodes:
    """The `NodeDef`s of a tower, and the names of their inputs.

    Args:
        shared: Names of frames that all towers share.

    Attributes:
        shared: These.
        nodes: The `NodeDef`s.
        inputs: Tensors of the graph that they take, by name.
    """

    def __init__(self, shared: frozenset[str]) -> None:
        self.shared = shared
        self.nodes: list[Any] = []
        self.inputs: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def name_of(self, given: Given, loops: Sequence[Any], tower: int) -> str:
        """Returns the name by which a node, perhaps within loops, takes an input."""
        name = self._name_outside(given)
        # The input enters one loop after the other, once for all nodes that take it there.
        for depth, loop in enumerate(loops):
            key = name, *loops[: depth + 1]
            if key not in self._names:
                self._names[key] = self._new_name()
                dtype = tf.as_dtype(given.dtype)
                node = frames.enter(self._names[key], name, dtype, loop, tower, self.shared)
                self.nodes.append(node)
            name = self._names[key]
        return name

    def sum_of(self, name: str, dtype: tf.DType, other: str) -> str:
        """Returns the name of the sum of two inputs of a type."""
        key = "sum", name, other
        if key not in self._names:
            self._names[key] = self._new_name()
            node = tf.NodeDef(name=self._names[key], op="AddV2", input=[name, other])
            node.attr["T"].type = dtype.as_datatype_enum
            self.nodes.append(node)
        return self._names[key]

    def _name_outside(self, given: Given) -> str:
        if isinstance(given, Constant):  # Graphs have many constants of the same value.
            if given.key not in self._names:
                name = self._names[given.key] = self._new_name()
                inputs = [self._name_outside(one) for one in given.inputs]
                node = tf.NodeDef()
                node.CopyFrom(given.node)
                node.name = name
                node.input.extend([*inputs, *(f"^{one}" for one in given.waits)])
                self.nodes.append(node)
            return f"{self._names[given.key]}:{given.output}"
        if isinstance(given, np.ndarray):
            key = given.tobytes(), given.shape, given.dtype.str
            if key not in self._names:
                node = tf.NodeDef(name=self._new_name(), op="Const")
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(given))
                node.attr["dtype"].type = tf.as_dtype(given.dtype).as_datatype_enum
                self.nodes.append(node)
                self._names[key] = node.name
            return self._names[key]
        if given.name not in self._names:
            self._names[given.name] = self._new_name()
            self.inputs[self._names[given.name]] = given
        return self._names[given.name]

    def _new_name(self) -> str:
        return f"{partitioning.RESERVED}given_{len(self._names)}"
