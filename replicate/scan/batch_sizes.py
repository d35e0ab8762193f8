"""Expressions that are the size of the whole batch, or of a shape that is known beforehand."""

import ast
import re
from typing import NamedTuple, Optional, Tuple

from replicate.scan import rows, scopes, tensorflow_names
from replicate.scan.findings import Finding
from replicate.scan.module import constant, expression, index, keyword

_NAME = re.compile(r"(?i)^(\w*_)?batch_?size$|^batchsize$")
# Of functions, which argument is a shape; a list there has sizes in it.
_SHAPED = {"reshape", "zeros", "ones", "fill", "tile", "broadcast_to", "placeholder", "slice"}
_SHAPED |= {"random_normal", "random_uniform", "truncated_normal", "normal", "uniform", "constant"}
_SHAPED |= {"set_shape", "ensure_shape", "TensorShape", "stack", "get_variable", "Variable"}
_SHAPED |= {"placeholder_with_default", "get_local_variable", "variable", "model_variable"}
# And which take a size by itself.
_SIZED = {"range", "zero_state", "get_initial_state", "eye", "split", "unstack", "initial_state"}
ADVICE = "a tower has its shard of the batch. Write `tf.shape(x)[0]`, of a tensor with its rows."


class Given(NamedTuple):
    """A size of the batch that a function gets from what calls it, in whichever file.

    Attributes:
        finding: That it is one, where it is.
        is_ignored: Whether a comment there says that this is none.
        argument: As which argument of which function it came, None where it is.
    """

    finding: Finding
    is_ignored: bool
    argument: Optional[Tuple] = None


def given(module, size):
    """Returns a size that is given to a function as a `Given`."""
    if isinstance(size, Given):
        return size
    finding = module.finding(size, "static-batch-size", expression(size), ADVICE)
    return Given(finding, module.source.is_ignored(finding))


def shown(size):
    """Returns the source of a size in a few words."""
    return size.finding.name if isinstance(size, Given) else expression(size)


class Sizes:
    """What is known of sizes in a function.

    Args:
        module: The `Module`.
        model_fn: The `ModelFn`.
        known: The `Rows`.
    """

    def __init__(self, module, model_fn, known):
        self._module = module
        self._model_fn = model_fn
        self._rows = known
        self.static = {}
        """By names, the expression in which the size was first, or `Given`: None if it is none."""
        self.shapes = {}
        """By names that are lists of sizes known beforehand, the expression of it."""

    def assign(self, target, value):
        """Notes what is assigned."""
        if isinstance(target, ast.Name):
            self.static[target.id] = self.of(value)
            self.shapes[target.id] = value if self._is_shape(value) else None
        elif isinstance(target, (ast.Tuple, ast.List)) and target.elts:
            first = target.elts[0]
            for one in target.elts:
                if isinstance(one, ast.Name):
                    self.static[one.id] = None
            if isinstance(first, ast.Name) and self._is_shape(value):
                self.static[first.id] = value

    def of(self, node, depth=0):
        """Returns the expression or `Given` by which an expression is a size of the batch."""
        if depth > 50:
            return None
        if isinstance(node, ast.Name):
            return self._of_name(node)
        if isinstance(node, ast.Attribute):
            if node.attr == "value":
                return self.of(node.value, depth + 1)
            return node if self._is_named(node, node.attr, node.value) else None
        if isinstance(node, ast.Subscript):
            key = constant(index(node))
            if isinstance(key, str):
                return node if self._is_named(node, key, node.value) else None
            # A model for TPUs counts on a number there, which it gets where shards are equal.
            is_first = type(key) is int and key == 0 and not self._model_fn.is_for_tpus
            return node if is_first and self._is_shape(node.value) else None
        if isinstance(node, ast.BinOp):
            return self.of(node.left, depth + 1) or self.of(node.right, depth + 1)
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called == "get" and node.args and isinstance(constant(node.args[0]), str):
                key = constant(node.args[0])
                return node if self._is_named(node, key, node.func.value) else None
            if called in ("int", "dimension_value", "dimension_at_index") and node.args:
                return self.of(node.args[0], depth + 1)
        return None

    def _of_name(self, node):
        if node.id in self.static:
            return self.static[node.id]
        names = self._module.names
        if not _NAME.match(node.id) or node not in names.scopes:
            return None
        bindings = names.bindings(node.id, names.scopes[node])
        if not bindings:
            return None
        scope = names.scopes[node].find(node.id)
        of_function = scope is not None and isinstance(scope.node, scopes.FUNCTIONS)
        if of_function and any(b.kind == "other" and b.node is scope.node for b in bindings):
            # What a function around the model is given is the same for all its calls.
            model = self._model_fn.node
            inside = scope.node is model or model in names.around(scope.node)
            return node if not inside and scope.node in names.around(model) else None
        if all(b.kind == "value" and not _is_dynamic(b.value) for b in bindings):
            return node
        return node if all(b.kind == "import" for b in bindings) else None

    def _is_named(self, node, name, base):
        """Whether an entry or attribute is one that is called a size of the batch."""
        if not _NAME.match(name) or not isinstance(base, (ast.Name, ast.Attribute)):
            return False
        if self._rows.of(base) != rows.NONE:
            return False
        text = expression(base)
        if self._model_fn.is_for_tpus and text.rpartition(".")[2] in ("params", "hparams"):
            return name != "batch_size"  # Which is the size of the shard there.
        if text == "self":
            return not any(
                any(getattr(target, "attr", "") == name for target in one.targets)
                and _is_dynamic(one.value)
                for one in self._module.names.assigns
            )
        return True

    def _is_shape(self, node):
        """Whether an expression is a shape known beforehand, of what has rows."""
        for _ in range(10):
            if isinstance(node, ast.Name):
                return self.shapes.get(node.id) is not None
            if isinstance(node, ast.Subscript):
                if not isinstance(index(node), ast.Slice):
                    return False
                lower = index(node).lower
                if lower is not None and constant(lower) != 0:
                    return False
                node = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "get_shape" and not node.args:
                    return self._rows.of(node.func.value) == rows.ROWS
                if node.func.attr not in ("as_list",):
                    return False
                node = node.func.value
            elif isinstance(node, ast.Attribute) and node.attr in ("shape", "dims"):
                if node.attr == "shape":
                    return self._rows.of(node.value) == rows.ROWS
                node = node.value
            else:
                return False
        return False

    def asked(self, call):
        """Yields the expressions by which a call takes a size of the batch for its own rows'.

        Args:
            call: An `ast.Call`.
        """
        name = tensorflow_names.function_name(self._module.names, call)
        called = getattr(call.func, "attr", getattr(call.func, "id", ""))
        is_method = isinstance(call.func, ast.Attribute) and not name
        if name in _SHAPED or called in ("set_shape", "TensorShape"):
            for given in [*call.args, *(one.value for one in call.keywords)]:
                yield from self._in_lists(given)
            if name == "reshape":
                yield from self._constant(call)
        elif name in _SIZED or called == "range" or (is_method and called in _SIZED):
            for given in [*call.args, *(one.value for one in call.keywords)]:
                found = self.of(given)
                if found is not None:
                    yield found

    def _in_lists(self, node, depth=0):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and depth < 50:
            yield from self._in_lists(node.left, depth + 1)
            yield from self._in_lists(node.right, depth + 1)
        elif isinstance(node, (ast.List, ast.Tuple)):
            for one in node.elts:
                found = self.of(one)
                if found is not None:
                    yield found

    def _constant(self, call):
        """Yields the first size of a constant shape to which rows are reshaped."""
        shape = keyword(call, "shape", 1)
        if not isinstance(shape, (ast.List, ast.Tuple)) or not call.args or not shape.elts:
            return
        sizes = [constant(one) for one in shape.elts]
        is_constant = all(type(size) is int and size > 0 for size in sizes) and sizes[0] > 1
        if is_constant and self._rows.of(call.args[0]) == rows.ROWS:
            yield shape.elts[0]


def _is_dynamic(node):
    """Whether an expression asks for a size when it runs, be it as a way out."""
    return any(
        isinstance(one, ast.Call) and getattr(one.func, "attr", "") in ("shape", "size")
        for one in ast.walk(node)
    )
