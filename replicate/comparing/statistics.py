"""Where a loss depends on what a tower's rows have in common, which is another thing in each tower.

A *reduction* is over rows: a sum, mean or largest value that has no rows any more. A loss that is a
mean or a sum of what each row gives by itself has one, at its end, and adds up over towers. Others
do not: one that goes back into rows, as the moments of batch norm do; one that something else than
a number is divided by; one of which another function than a sum is taken; a largest value.
"""

import tensorflow.compat.v1 as tf

from replicate.compat.graph import id_of
from replicate.graphs import ROWS, state

_REDUCTIONS = frozenset(["Mean", "Sum", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm"])
_ADD_UP = frozenset(["Mean", "Sum"])
_OF_NUMBERS = frozenset(["Prod", "Max", "Min"])  # Of integers, they make shapes.
_DIVISIONS = frozenset(["RealDiv", "Div", "DivNoNan", "Xdivy"])
_CURVED = frozenset(
    ["Abs", "Elu", "Exp", "Expm1", "L2Loss", "Log", "Log1p", "Maximum", "Minimum", "Pow", "Relu"]
    + ["Reciprocal", "Rsqrt", "Sigmoid", "Softplus", "Sqrt", "Square", "SquaredDifference", "Tanh"]
)
_BATCH_NORMS = frozenset(["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
_PRODUCTS = frozenset(["MatMul", "BatchMatMul", "BatchMatMulV2"])
# What they give goes by the shape of what they take.
_OF_SHAPES = frozenset(["Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"])


def leading_to(tensors, known):
    """Returns the operations that tensors are computed by, in the order in which they were made.

    Args:
        tensors: List of tensors.
        known: Function of an operation that says whether to go on to what it takes.
    """
    pending, seen = [tensor.op for tensor in tensors], {}
    while pending:
        op = pending.pop()
        if id_of(op) not in seen and known(op):
            seen[id_of(op)] = op
            pending += [given.op for given in op.inputs]
    return [seen[number] for number in sorted(seen)]


class Statistics:
    """What a loss takes from all rows of a tower at once.

    Args:
        group: The `Towers`, finished.
        losses: List of tensors, tower 0's.
    """

    def __init__(self, group, losses):
        self._rows = group.copies.rows
        self._kind = group.extents.of
        self._is_boundary = group.copies.is_boundary
        self._behind = {}  # By id of an operation: the reductions that it is computed from.
        self._by_value = {}  # By id of an operation: whether the values of rows enter it.
        self._unsure = set()  # Names of reductions over an axis that may be another than rows.
        # Others are the same in all towers.
        self._ops = leading_to(losses, self._rows.reach_op)

    def find(self):
        """Yields `(kind, operation, sentence)` of each place, in the order of the model."""
        for op in self._ops:
            self._by_value[id_of(op)] = op.type not in _OF_SHAPES and any(
                map(self._is_of_values, op.inputs)
            )
            kinds = [self._kind(tensor) for tensor in op.inputs]
            found = [self._reductions(tensor) for tensor in op.inputs]
            yield from self._at(op, kinds, found)
            behind = frozenset().union(*found)
            if self._is_reduction(op, kinds):
                behind = frozenset([op.name]) if self._by_value[id_of(op)] else frozenset()
            elif ROWS in kinds:
                behind = frozenset()  # It is in rows again.
            self._behind[id_of(op)] = behind

    def _is_of_values(self, tensor):
        return self._is_boundary(tensor) or (
            self._rows.reach(tensor) and self._by_value.get(id_of(tensor.op), False)
        )

    def _reductions(self, tensor):
        """Returns the names of the reductions that a tensor without rows is computed from."""
        if not self._rows.reach(tensor) or self._kind(tensor) == ROWS:
            return frozenset()
        return self._behind.get(id_of(tensor.op), frozenset())

    def _is_reduction(self, op, kinds):
        """Whether an operation takes rows and gives what has none."""
        if op.type in _PRODUCTS:
            return kinds == [ROWS] * 2 and _transposes_rows(op)
        if op.type not in _REDUCTIONS or kinds[0] not in (ROWS, None):
            return False
        given, axes = op.inputs[0], tf.get_static_value(op.inputs[1])
        if given.shape.rank == 0 or given.op.type in ("Pack", "ConcatV2"):
            return False  # Of several values, which were reduced before.
        if op.type in _OF_NUMBERS and not given.dtype.is_floating:
            return False
        if kinds[0] is None:
            self._unsure.add(op.name)
        if axes is None or given.shape.rank is None:
            return op.outputs[0].shape.rank == 0
        return 0 in [int(axis) % given.shape.rank for axis in axes.ravel()]

    def _at(self, op, kinds, found):
        if op.type in _BATCH_NORMS and kinds[0] is not None and op.get_attr("is_training"):
            yield "batch statistics", op, "normalises with the moments of the tower's rows"
            return
        if not op.outputs or not op.outputs[0].dtype.base_dtype.is_floating:
            return
        if self._is_reduction(op, kinds):
            if op.type not in _ADD_UP | _PRODUCTS and self._is_of_values(op.inputs[0]):
                yield "batch statistics", op, f"{op.type} over rows, of each tower's own"
            return
        if op.type in _PRODUCTS and kinds == [ROWS] * 2:
            yield "batch statistics", op, "each row meets the other rows of its tower"
            return
        divides = op.type in _DIVISIONS and found[-1] and ROWS not in kinds
        names = sorted(found[-1] if divides else frozenset().union(*found))
        if not names:
            return
        what = f"'{names[0]}'" + (" and others" if len(names) > 1 else "")
        rows = "what may be the tower's rows" if names[0] in self._unsure else "the tower's rows"
        if ROWS in kinds:
            yield "batch statistics", op, f"takes {what}, reduced over {rows}, into rows"
        elif divides:
            yield "count", op, f"divides by {what}, reduced over {rows}, not by their number"
        elif op.type in _CURVED or (op.type == "Mul" and all(found)):
            yield "reduction", op, f"{op.type} of {what}, which is reduced over {rows}"


def _transposes_rows(op):
    name = "transpose_a" if op.type == "MatMul" else "adj_x"
    return op.get_attr(name)


class Inside:
    """The functions of a graph that hold operations which are looked for.

    Args:
        bodies: `FunctionDef`s by name.
        is_wanted: Function of a `NodeDef` that says whether it is looked for.
    """

    def __init__(self, bodies, is_wanted):
        self._bodies = bodies
        self._is_wanted = is_wanted
        self._known = {}

    def of(self, op):
        """Returns the name of a wanted node in the functions that an operation calls, or None."""
        return self._of_node(op.node_def) if state.kind(op).calls_functions else None

    def _of_node(self, node):
        names = [attr.func.name for attr in node.attr.values()]
        names += [func.name for attr in node.attr.values() for func in attr.list.func]
        for name in filter(None, names):
            if name not in self._known:
                self._known[name] = None  # What calls itself holds nothing more.
                inner = self._bodies[name].node_def if name in self._bodies else ()
                for each in inner:
                    found = each.name if self._is_wanted(each) else self._of_node(each)
                    self._known[name] = self._known[name] or found
            if self._known[name]:
                return self._known[name]
        return None
