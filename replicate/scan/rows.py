"""What expressions of a `model_fn` have of the batch's rows, as far as its text tells."""

import ast

from replicate.scan import tensorflow_names
from replicate.scan.module import constant, expression, index, keyword

# From the least to the most: what several lead to is the most of them.
NONE = 0
"""No row enters, or nothing is known of it."""
REDUCED = 1
"""A mean, a sum, a largest or smallest value over rows."""
ROWS = 2
"""A value for each row."""
CHOSEN = 3
"""Values of the rows that a condition chooses."""
COUNT = 4
"""How many rows are chosen."""
ONE_ROW = 5
"""Of one row, or another value that towers cannot put together."""
UNKNOWN = 6

_REDUCTIONS = {"reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_any", "reduce_all"}
_MORE_REDUCTIONS = {
    "moments",
    "l2_loss",
    "zero_fraction",
    "count_nonzero",
    "global_norm",
    "fraction",
}
_OF_NO_ROW = {"rank", "zeros", "ones", "fill", "get_variable", "Variable", "range", "no_op"}
_OF_NO_ROW |= {"zeros_like", "ones_like", "get_shape", "placeholder", "get_global_step"}
_OF_NO_ROW |= {"get_or_create_global_step", "Print", "control_dependencies", "group"}
_SIZES = {"shape", "size", "shape_n"}
_NOT_FOLLOWED = {"einsum", "tensordot", "cond", "case", "while_loop", "scan", "foldl", "foldr"}
_NOT_FOLLOWED |= {"py_func", "transpose", "gather_nd", "dynamic_partition", "custom_gradient"}
_STATIC = ("shape", "dtype", "name", "op", "graph", "device")


class Rows:
    """What names and expressions of a function have of rows.

    Args:
        module: The `Module`.
        batch: Names of the arguments that are the batch.
    """

    def __init__(self, module, batch):
        self._names = module.names
        self.kinds = dict.fromkeys(batch, ROWS)
        """By names."""
        self.is_merged = set()
        """Names of variables that say how they are merged, by `aggregation`."""

    def assign(self, target, value):
        """Notes what is assigned to a target, an expression; to several, if it is a tuple."""
        kind = self.of(value)
        if isinstance(value, ast.Call) and keyword(value, "aggregation") is not None:
            self.is_merged.add(expression(target))
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self.kinds[node.id] = kind

    def of(self, node, depth=0):
        """Returns what an expression has of rows."""
        if depth > 200:
            return UNKNOWN
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id, NONE)
        if isinstance(node, ast.Attribute):
            return NONE if node.attr in _STATIC else self.of(node.value, depth + 1)
        if isinstance(node, ast.Subscript):
            return self._part(node, depth)
        if isinstance(node, ast.Call):
            return self._result(node, depth)
        if isinstance(node, (ast.Lambda, ast.Compare)):
            inside = [] if isinstance(node, ast.Lambda) else [node.left, *node.comparators]
            return max([self.of(one, depth + 1) for one in inside] or [NONE])
        kinds = [self.of(one, depth + 1) for one in ast.iter_child_nodes(node)]
        return max(kinds or [NONE])

    def _part(self, node, depth):
        kind = self.of(node.value, depth + 1)
        if kind != ROWS:
            return kind
        inside = index(node)
        if isinstance(node.value, ast.Name) and node.value.id in ("features", "labels", "batch"):
            return ROWS  # An entry of the batch.
        place = inside.elts[0] if isinstance(inside, ast.Tuple) and inside.elts else inside
        return ONE_ROW if type(constant(place)) is int else ROWS

    def _result(self, call, depth):
        func = call.func
        name = tensorflow_names.function_name(self._names, call)
        given = [*call.args, *(one.value for one in call.keywords)]
        kinds = [self.of(one, depth + 1) for one in given]
        most = max(kinds or [NONE])
        if not name:
            return self._of_others(call, func, most, depth)
        if name in _SIZES:
            return COUNT if most in (CHOSEN, COUNT) else REDUCED if most else NONE
        if name in _OF_NO_ROW or most == NONE:
            return NONE
        if name in _NOT_FOLLOWED:
            return UNKNOWN
        if name == "boolean_mask":
            return CHOSEN
        if name == "where":
            return CHOSEN if len(given) == 1 else most
        if name == "gather":
            chosen = kinds[1:2] == [CHOSEN] and kinds[0] == ROWS
            return CHOSEN if chosen else UNKNOWN if CHOSEN in kinds else most
        if name in _REDUCTIONS:
            return self._reduced(call, kinds[0] if kinds else most)
        if name == "reduce_prod" and kinds[0] == ROWS:
            return ONE_ROW if is_over_rows(call) else ROWS
        module = tensorflow_names.function(self._names, call).rest.split(".")[0]
        if name in _MORE_REDUCTIONS or module in ("losses", "metrics"):
            return UNKNOWN if keyword(call, "reduction") is not None else min(most, REDUCED)
        if name == "matmul" and keyword(call, "transpose_a") is not None:
            return REDUCED
        return most

    def _reduced(self, call, kind):
        if kind not in (ROWS, CHOSEN):
            return kind
        return REDUCED if is_over_rows(call) else kind

    def _of_others(self, call, func, most, depth):
        if isinstance(func, ast.Call):  # `tf.layers.Dense(3)(x)`
            return most
        if isinstance(func, ast.Attribute):
            if func.attr in ("get_shape", "as_list"):
                return NONE
            if func.attr in ("get", "pop", "items", "values"):
                return self.of(func.value, depth + 1)
            if func.attr.startswith(("cross_tower", "merge_call")):
                return NONE
        name = getattr(func, "id", "")
        if name.startswith(("cross_tower", "merge_call")) or name in ("len", "isinstance", "print"):
            return NONE
        return UNKNOWN if most else NONE


def is_over_rows(call):
    """Whether a reduction is over axis 0, or over all."""
    axis = keyword(call, "axis", 1) or keyword(call, "reduction_indices")
    if axis is None:
        return True
    axes = axis.elts if isinstance(axis, (ast.List, ast.Tuple)) else [axis]
    return any(constant(one) in (0, None) and not _is_negative(one) for one in axes)


def _is_negative(node):
    value = constant(node)
    return isinstance(value, int) and value < 0
