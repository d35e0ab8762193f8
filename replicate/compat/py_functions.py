"""Gives each tower's copies of a `tf.py_function` separate tokens.

A `tf.py_function` records a tape when it is called, and its gradient, another Python function,
takes the tape. TensorFlow stores the tape under the function's token, so that copies with the same
token would take each other's tapes.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, Callable

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import script_ops


class Tokens:
    """Tokens of the functions that one tower calls, other than tower 0.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        self._tokens: dict[str, str] = {}  # The tower's tokens, by those of tower 0.

    def change(self, node: tf.NodeDef) -> None:
        """Sets the tower's token in a node of a `tf.py_function` or of its gradient.

        Args:
            node: The `NodeDef` of the tower's copy.
        """
        if is_kept_by_token(node):
            node.attr["token"].s = self._copied(node.attr["token"].s.decode()).encode()

    def _copied(self, token: str) -> str:
        """Returns the tower's token for one of tower 0."""
        if token not in self._tokens:
            function = script_ops._py_funcs._funcs.get(token)
            if function is None:  # The graph was imported from another process.
                return token
            forward = _differentiated(function)
            if forward is not None:
                function = copy.copy(function)
                function._func = _gradient(self._copied(forward))
                # Tokens do not keep functions alive, but the graph does.
                self._graph._py_funcs_used_in_graph.append(function)
            self._tokens[token] = script_ops._py_funcs.insert(function)
        return self._tokens[token]


def is_kept_by_token(node: tf.NodeDef) -> bool:
    """Whether TensorFlow stores tapes by the token of a `NodeDef`."""
    return node.op == "EagerPyFunc"


def _differentiated(function: Any) -> str | None:
    """Returns the token of the function that a function is the gradient of; None if it is none."""
    if not function._is_grad_func:
        return None
    found = inspect.getclosurevars(inspect.unwrap(function._func)).nonlocals.get("token")
    return found.decode() if isinstance(found, bytes) else found


def _gradient(token: str) -> Callable[..., Any]:
    def gradient(*upstream: tf.Tensor) -> Any:
        tape, inputs, outputs = script_ops.tape_cache.pop(token.encode())
        return tape.gradient(outputs, inputs, output_gradients=upstream)

    return gradient
