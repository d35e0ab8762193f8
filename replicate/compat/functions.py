"""Copies the functions of a graph for each tower."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import tensorflow.compat.v1 as tf

# Distance between the seeds of towers. It is large, so that they differ from the seeds that
# TensorFlow gives to operations, which are consecutive.
_SEED_STRIDE = 1000003


def change_seed(node: tf.NodeDef, index: int) -> None:
    """Gives the copy of a random operation a different seed, if it has one.

    Args:
        node: The `NodeDef` of the copy.
        index: Index of the tower.
    """
    if "seed2" not in node.attr or "seed" not in node.attr:
        return
    seed, second = node.attr["seed"], node.attr["seed2"]
    # If both are 0, the operation chooses a seed at random.
    if seed.WhichOneof("value") == "i" and (seed.i or second.i):
        second.i += index * _SEED_STRIDE


class Bodies:
    """Copies functions of a graph for one tower, with the tower's devices and seeds.

    Args:
        functions: Function that returns the functions of the graph, by name.
        suffix: Suffix of the names of the tower's functions.
        devices: The tower's devices, by those of tower 0.
        seed: Index that changes the tower's random seeds; 0 keeps those of tower 0.

    Attributes:
        added: The tower's functions, `FunctionDef`s.
    """

    def __init__(
        self,
        functions: Callable[[], Mapping[str, Any]],
        suffix: str,
        devices: Mapping[str, str],
        seed: int = 0,
    ) -> None:
        self._functions = functions
        self._suffix = suffix
        self._devices = devices
        self._seed = seed
        self._names: dict[str, str] = {}  # Names of the tower's functions, by the originals'.
        self.added: list[Any] = []

    def change(self, node: tf.NodeDef) -> None:
        """Makes a node call the tower's functions."""
        for attr in node.attr.values():
            for function in [attr.func, *attr.list.func]:
                if function.name:
                    function.name = self._copied(function.name)

    def _copied(self, name: str) -> str:
        """Returns the name of the tower's copy of a function; its own name if it needs no copy."""
        if name not in self._names:
            self._names[name] = name
            body = self._functions().get(name)
            if body is not None and self._differs(body, set()):
                self._names[name] = name + self._suffix
                copied = type(body)()
                copied.CopyFrom(body)
                copied.signature.name = self._names[name]
                for node in copied.node_def:
                    change_seed(node, self._seed)
                    node.device = self._devices.get(node.device, node.device)
                    self.change(node)
                self.added.append(copied)
        return self._names[name]

    def _differs(self, body: Any, seen: set[str]) -> bool:
        """Whether a `FunctionDef`, or a function that it calls, differs in the tower."""
        seen.add(body.signature.name)
        bodies = self._functions()
        for node in body.node_def:
            seeds = self._seed and "seed2" in node.attr
            if seeds and (node.attr["seed"].i or node.attr["seed2"].i):
                return True
            if self._devices.get(node.device, node.device) != node.device:
                return True
            for name in functions_of(node):
                if name in bodies and name not in seen and self._differs(bodies[name], seen):
                    return True
        return False


def function_bodies(graph: tf.Graph) -> dict[str, Any]:
    """Returns the functions in `graph`, `FunctionDef`s, by name."""
    return {body.signature.name: body for body in graph.as_graph_def().library.function}


def functions_of(node: tf.NodeDef) -> list[str]:
    """Returns the names of the functions that a `NodeDef` calls."""
    names = [attr.func.name for attr in node.attr.values()]
    names += [function.name for attr in node.attr.values() for function in attr.list.func]
    return [name for name in names if name]
