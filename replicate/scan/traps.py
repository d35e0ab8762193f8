"""What in a `model_fn` is of the whole batch, where a tower has its shard of it.

What `replicate` makes exact by itself is no finding: sums divided by sums or by the batch's size,
averages of means, clipping, metrics. See `docs/contract.md` and `docs/limits.md`.
"""

import ast
import re

from replicate.scan import batch_sizes, rows, tensorflow_names
from replicate.scan.model_fns import ModelFn, functions_called
from replicate.scan.module import constant, expression, keyword, once

_LOSS = re.compile(r"(?i)loss|cost|objective|nll|xent|cross_?ent|entropy|likelihood")
_DIVISIONS = ("div", "truediv", "divide", "realdiv", "div_no_nan", "divide_no_nan", "safe_div")
_ASSIGNS = ("assign", "assign_add", "assign_sub")
_CONDITIONS = ("cond", "case", "while_loop", "map_fn", "scan", "foldl", "foldr", "smart_cond")


@once
def controlled(module):
    """Returns the functions of a module that conditions and loops of the graph call."""
    found, named = set(), functions_called(module)
    for call in module.names.calls:
        if tensorflow_names.function_name(module.names, call) not in _CONDITIONS:
            continue
        for given in [*call.args, *(one.value for one in call.keywords)]:
            for node in ast.walk(given):
                if isinstance(node, ast.Lambda):
                    found.add(node)
                elif isinstance(node, ast.Name) and node is given and node.id in named:
                    found.add(named[node.id])
                elif isinstance(node, ast.Name) and isinstance(given, (ast.List, ast.Tuple)):
                    found.update([named[node.id]] if node.id in named else [])
    return found


class Walk:
    """Goes through a function that a `model_fn` is or calls, statement by statement.

    Args:
        module: The `Module` of its file.
        model_fn: The `ModelFn`, without its node if that is of another file.
        called: Function of a call, of what is known of its rows and of its sizes.
    """

    def __init__(self, module, model_fn: ModelFn, called):
        self.findings: list = []
        self.inner: list = []
        """Functions inside of it, which were looked at with it."""
        self.asked: list = []
        """Arguments of it that are taken for its own rows' size, and in which line."""
        self._module = module
        self._names = module.names
        self._model_fn = model_fn
        self._inside = controlled(module)
        self._follow = called

    def function(self, node, batch, static):
        """Looks at a function whose arguments `batch` have rows, and `static` are sizes."""
        self._rows = rows.Rows(self._module, batch)
        self._sizes = batch_sizes.Sizes(self._module, self._model_fn, self._rows)
        self._sizes.static.update(static)
        body = node.body if isinstance(node.body, list) else [node.body]
        self._block(body, node in self._inside)

    def _block(self, statements, inside):
        for statement in statements:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.inner.append(statement)
                self._block(statement.body, inside or statement in self._inside)
                continue
            blocks = []
            for name, value in ast.iter_fields(statement):
                if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                    blocks.append(value)
                elif name == "handlers":
                    blocks += [handler.body for handler in value]
                else:
                    for one in value if isinstance(value, list) else [value]:
                        if isinstance(one, ast.AST):
                            self._look(one, statement, inside)
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._assign(target, statement.value)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._assign(statement.target, statement.value)
            elif isinstance(statement, ast.AugAssign):
                self._look_at_division(statement, statement.value, statement, inside)
            for block in blocks:
                self._block(block, inside)

    def _assign(self, target, value):
        self._rows.assign(target, value)
        self._sizes.assign(target, value)

    def _look(self, expression_node, statement, inside):
        pending = [(expression_node, inside)]
        while pending:
            node, within = pending.pop()
            if isinstance(node, ast.Lambda):
                within = within or node in self._inside
            if isinstance(node, ast.Call):
                self._look_at_call(node, statement, within)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
                self._look_at_division(node, node.right, statement, within)
            pending += [(child, within) for child in ast.iter_child_nodes(node)]

    def _add(self, node, rule, name, message, **kwargs):
        found = self._module.finding(node, rule, name, message, **kwargs)
        self.findings += [] if self._module.source.is_ignored(found) else [found]

    def _look_at_call(self, call, statement, inside):
        name = tensorflow_names.function_name(self._names, call)
        for size in self._sizes.asked(call):
            if isinstance(size, batch_sizes.Given):
                self.asked.append((size.argument, call.lineno))
            else:
                self._add(size, "static-batch-size", expression(size), batch_sizes.ADVICE)
        if name == "reduce_mean" and call.args:
            self._look_at_mean(call, statement)
        if name in _DIVISIONS and len(call.args) > 1:
            self._look_at_division(call, call.args[1], statement, inside)
        self._look_at_update(call, name, inside)
        self._look_at_optimizer(call)
        self._follow(call, self._rows, self._sizes)

    def _look_at_mean(self, call, statement):
        chosen = self._rows.of(call.args[0]) == rows.CHOSEN and rows.is_over_rows(call)
        if chosen and self._is_loss(statement, call.args[0]):
            self._add(
                call,
                "loss-per-count",
                f"{expression(call.func)} of rows that the model chooses",
                "each tower takes the mean of its own. Write `tf.reduce_sum(losses * mask) / "
                "tf.reduce_sum(mask)`, which is that of one device.",
            )

    def _look_at_division(self, node, divisor, statement, inside):
        if isinstance(node, ast.AugAssign):
            if not isinstance(node.op, ast.Div):
                return
            divided = node.target
        else:
            divided = node.left if isinstance(node, ast.BinOp) else node.args[0]
        if not self._is_loss(statement, divided):
            return
        kind = self._rows.of(divisor)
        size = self._sizes.of(divisor)
        if kind == rows.COUNT:
            self._add(
                node,
                "loss-per-count",
                f"a loss divided by {expression(divisor)}",
                "the count is the tower's, of rows that the model chooses. Divide by "
                "`tf.reduce_sum(mask)`, or by a `replicate.cross_tower_sum` of the count.",
            )
        elif inside and (size is not None or kind == rows.REDUCED):
            self._add(
                node,
                "loss-per-count",
                f"a loss divided by {expression(divisor)} in a condition or loop",
                "there the graph does not tell that it is a sum. Divide outside of it, or pass "
                "`replicate_model_fn` the `loss_reduction`.",
            )
        elif size is not None and self._has_factor(divisor):
            self._add(
                node,
                "loss-per-count",
                f"a loss divided by a multiple of {batch_sizes.shown(size)}",
                "where shards are equal, the graph does not tell it from a mean over the shard. "
                "Divide by the batch's size, and by the number apart.",
            )
        elif size is not None:
            self._add(
                node,
                "loss-by-batch-size",
                f"a loss divided by {batch_sizes.shown(size)}",
                "a tower has its shard of the batch. Where the graph tells that a sum over rows is "
                "divided, that is exact; where it does not, as behind `tf.nn.dynamic_rnn`, the log "
                "says so: pass `loss_reduction=tf.losses.Reduction.SUM`.",
            )

    @staticmethod
    def _has_factor(divisor):
        """Whether a number but 1 is multiplied with the size."""
        if not isinstance(divisor, ast.BinOp) or not isinstance(divisor.op, ast.Mult):
            return False
        factors = [constant(divisor.left), constant(divisor.right)]
        return any(isinstance(one, (int, float)) and one not in (0, 1) for one in factors)

    def _is_loss(self, statement, divided):
        """Whether what a statement makes, or what is divided, is called a loss."""
        named = [*getattr(statement, "targets", []), getattr(statement, "target", None), divided]
        if isinstance(statement, ast.Return):
            function = self._names.function_of(statement)
            if _LOSS.search(getattr(function, "name", "")):
                return True
        for node in named:
            for one in ast.walk(node) if node is not None else ():
                if _LOSS.search(str(getattr(one, "id", getattr(one, "attr", "")))):
                    return True
        return False

    def _look_at_update(self, call, name, inside):
        if isinstance(call.func, ast.Attribute) and not name and call.func.attr in _ASSIGNS:
            variable, value = call.func.value, keyword(call, "value", 0)
        elif name in _ASSIGNS:
            variable, value = keyword(call, "ref", 0), keyword(call, "value", 1)
        else:
            return
        if value is None or variable is None or expression(variable) in self._rows.is_merged:
            return
        kind = self._rows.of(value)
        if kind in (rows.ROWS, rows.CHOSEN, rows.ONE_ROW) or (inside and kind == rows.REDUCED):
            where = " in a condition or loop" if kind == rows.REDUCED else ""
            self._add(
                call,
                "update-from-rows",
                f"{expression(variable)} is assigned {expression(value)}{where}",
                "it takes tower 0's rows alone. Assign a `replicate.cross_tower_mean` or "
                "`cross_tower_sum`, or give the variable an `aggregation`.",
            )

    def _look_at_optimizer(self, call):
        path = self._names.path(call.func)
        found = tensorflow_names.parse(path)
        rest = found.rest[6:] if found.rest.startswith("keras.") else found.rest
        is_named = re.match(r"optimizers\.[A-Z]\w*$", rest)
        if not is_named or found.api not in ("tensorflow", "v2", ""):
            return
        if found.api == "" and not path.startswith("keras."):
            return
        root = call.func
        while isinstance(root, ast.Attribute):
            root = root.value
        bindings = self._names.bindings(root.id, self._names.scopes[root])
        if any(binding.node in self._module.of_version_1 for binding in bindings):
            return  # Whose import is changed, so that it becomes what version 1 has.
        short = rest.rpartition(".")[2]
        self._add(
            call,
            "keras-optimizer",
            expression(call.func),
            "since TensorFlow 2.11 it updates nothing in a graph. Write "
            f"`tf.keras.optimizers.legacy.{short}`.",
            replacement=f"tf.keras.optimizers.legacy.{short}",
        )
