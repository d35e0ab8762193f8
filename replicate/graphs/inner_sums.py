"""Whether what comes out of a loop, condition or function is a sum, as far as that can be told."""

from typing import Any, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from replicate.compat.functions import function_bodies, functions_of
from replicate.compat.graph import id_of
from replicate.graphs import loss_operations, state
from replicate.graphs.static_values import static_value

_SUMS = frozenset(["Sum", "SegmentSum", "UnsortedSegmentSum", "SparseSegmentSum"])
# Before which nothing tells of a scalar.
_OTHERS = frozenset(["Mean", "L2Loss", "Max", "Min", "Prod", "Norm", "All", "Any"])
_FLOWS = frozenset(["Merge", "RefMerge", "Exit", "RefExit"])
_SIZES = frozenset(["Size", "Shape"])
_NEAR = 1000  # How many operations are looked at.


class _Step(NamedTuple):
    """An operation of a graph, or a node of a function.

    Attributes:
        key: What tells it from others.
        type: Its type.
        before: What it takes.
        value: Its value, an array, if it is a constant.
        calls_sum: Of what calls functions, whether these are sums.
    """

    key: Any
    type: str
    before: List[Any]
    value: Any
    calls_sum: Optional[bool] = None


def may_add_up(tensor, rows):
    """Whether a scalar that a loop, a condition or a function gives may be a sum over rows.

    Args:
        tensor: The scalar. What any other operation gives is none.
        rows: How many rows the tower has, None if that is no number. Sums that are divided by
            them, or by the size of something, are means.
    """
    op = tensor.op
    if op.type in _FLOWS:
        return _finds_sum(op, _step_of_op, rows)
    if not state.kind(op).calls_functions:
        return False
    return _Bodies(op.graph, rows).sum_up(op.node_def, tensor.value_index)


def _step_of_op(op):
    value = static_value(op.outputs[0]) if op.type == "Const" else None
    return _Step(id_of(op), op.type, [given.op for given in op.inputs], value)


class _Bodies:
    """The functions of a graph."""

    def __init__(self, graph, rows):
        self._bodies = function_bodies(graph)
        self._rows = rows
        self._seen = set()

    def sum_up(self, call, index):
        """Whether functions that a `NodeDef` calls sum up the output of an index."""
        names = [call.op] if call.op in self._bodies else functions_of(call)
        for name in names:
            if name in self._bodies and (name, index) not in self._seen:
                self._seen.add((name, index))
                if self._sums_up(self._bodies[name], index):
                    return True
        return False

    def _sums_up(self, body, index):
        nodes = {node.name: node for node in body.node_def}

        def step(place):
            name, output = place
            node = nodes.get(name)
            if node is None:  # An argument.
                return _Step(name, "", [], None)
            value = tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None
            calls = bool(functions_of(node)) or node.op in self._bodies
            calls_sum = self.sum_up(node, output) if calls else None
            return _Step(name, node.op, [_place(given) for given in node.input], value, calls_sum)

        outputs = [body.ret[argument.name] for argument in body.signature.output_arg]
        # What decides whether a loop goes on has one output alone.
        return index < len(outputs) and _finds_sum(_place(outputs[index]), step, self._rows)


def _place(name):
    """Returns which node an input of a `FunctionDef` names, and which of its outputs."""
    node, _, rest = name.partition(":")
    index = rest.rpartition(":")[2]
    return node, int(index) if index.isdigit() else 0


def _finds_sum(last, step_of, rows):
    """Whether sums are the nearest reductions before something.

    Args:
        last: What `step_of` takes.
        step_of: Function that returns the `_Step` of an operation or node.
        rows: See `may_add_up`.
    """
    pending, seen = [last], set()
    while pending and len(seen) < _NEAR:
        step = step_of(pending.pop())
        if step.key in seen or step.calls_sum is False or step.type in _OTHERS:
            continue
        seen.add(step.key)
        if step.calls_sum or step.type in _SUMS:
            return True
        if step.type in loss_operations.DIVISIONS:
            divided, divisor = step.before[:2]
            pending += [] if _counts(divisor, step_of, rows) else [divided]
        else:
            pending += step.before
    return False


def _counts(divisor, step_of, rows):
    """Whether a divisor is how many numbers there are of something."""
    pending, seen = [divisor], set()
    while pending and len(seen) < _NEAR:
        step = step_of(pending.pop())
        # A constant shape begins with the rows.
        is_rows = step.value is not None and step.value.size and step.value.item(0) == rows
        if step.type in _SIZES or is_rows:
            return True
        if step.key not in seen and step.type not in _SUMS:
            seen.add(step.key)
            pending += step.before
    return False
