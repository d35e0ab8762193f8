"""Python functions that a step calls, of which TensorFlow keeps what their gradients need by name.

A `tf.py_function` records a tape when it is called, and its gradient, another one, takes it again.
TensorFlow keeps the tape under the function's token, so that copies of one token would take each
other's.
"""

import copy
import inspect

from tensorflow.python.ops import script_ops


class Tokens:
    """Tokens of the functions that one tower calls, where they are not tower 0's.

    Args:
        graph: The graph.
    """

    def __init__(self, graph):
        self._graph = graph
        self._own = {}  # By tower 0's.

    def change(self, node):
        """Gives the node of a `tf.py_function`, and that of a gradient of one, a token of its own.

        Args:
            node: The `NodeDef` of the tower's copy.
        """
        if is_kept_by_token(node):
            node.attr["token"].s = self._of(node.attr["token"].s.decode()).encode()

    def _of(self, token):
        if token not in self._own:
            function = script_ops._py_funcs._funcs.get(token)
            if function is None:  # Of a graph that was imported, from where there is no function.
                return token
            forward = _differentiated(function)
            if forward is not None:
                function = copy.copy(function)
                function._func = _gradient(self._of(forward))
                self._graph._py_funcs_used_in_graph.append(function)  # Tokens keep none alive.
            self._own[token] = script_ops._py_funcs.insert(function)
        return self._own[token]


def is_kept_by_token(node):
    """Whether TensorFlow keeps tapes of what a `NodeDef` calls."""
    return node.op == "EagerPyFunc"


def _differentiated(function):
    """Returns the token of which a function is the gradient, None if it is none."""
    if not function._is_grad_func:
        return None
    found = inspect.getclosurevars(inspect.unwrap(function._func)).nonlocals.get("token")
    return found.decode() if isinstance(found, bytes) else found


def _gradient(token):
    def gradient(*upstream):
        tape, inputs, outputs = script_ops.tape_cache.pop(token.encode())
        return tape.gradient(outputs, inputs, output_gradients=upstream)

    return gradient
