"""Finds files that mean version 1 by `tensorflow`, by the names that they use."""

from __future__ import annotations

import ast
import re
from typing import Any, Iterator

from replicate.migration.scan import scopes, tensorflow_names
from replicate.migration.scan.findings import Edit, Finding
from replicate.migration.scan.module import Module

INSTALL_1 = "replicate.compat.install(tensorflow_1=True)"
# Methods that only version 1 has.
_METHODS = ("make_one_shot_iterator", "make_initializable_iterator")
# Calls that switch version 2's behavior off, or show that a program wants it.
_SWITCHES = (
    "disable_v2_behavior",
    "disable_eager_execution",
    "enable_eager_execution",
    "enable_v2_behavior",
)
_SESSIONS = ("Session", "InteractiveSession")
# Modules that `tensorflow` has and `compat.v1` does not.
_INSIDES = ("python", "core", "tools")


def facts(module: Module) -> None:
    """Records facts on the codebase's version of TensorFlow."""
    for call in module.names.calls:
        path = module.names.path(call.func)
        name = scopes.last(path)
        if path.startswith("tensorflow") and name in _SWITCHES:
            module.facts.add("switch")
        if path.startswith("replicate") and path.endswith("compat.install"):
            module.facts.add("install")
            if any(one.arg == "tensorflow_1" for one in call.keywords):
                module.facts |= {"tensorflow_1", "switch"}


class _Import:
    """An import of `tensorflow`, with the names that are used through it."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.definite: dict[str, int] = {}  # Names that only version 1 has, with their first line.
        self.possible: dict[str, int] = {}  # Those with another meaning in version 2, likewise.
        self.of_2 = False
        self.is_fixable = True


def imports(module: Module) -> Iterator[Finding]:
    """Yields the imports of `tensorflow` by which a file means version 1."""
    found = {node: _Import(node) for node in module.names.imports if _is_plain(node)}
    if not found:
        return
    of_contrib = any(name.api == "contrib" for _, name in module.uses)
    first = min(found.values(), key=lambda one: one.node.lineno)
    for use, name in module.uses:
        bindings = module.names.bindings(use.root.id, use.scope)
        nodes = [binding.node for binding in bindings if binding.node in found]
        one = found[nodes[0]] if nodes else first
        if name.api == "tensorflow":
            _look(module, one, use, name)
    for call in module.names.calls:
        method = getattr(call.func, "attr", "")
        is_version_1 = method in _METHODS and not module.names.path(call.func)
        if is_version_1 and not module.is_guarded(call):
            first.definite.setdefault(f".{method}", call.lineno)
    for one in found.values():
        # A file that uses tf.contrib means version 1.
        is_sure = bool(one.definite or (of_contrib and one.possible))
        if is_sure:
            module.facts.add("tensorflow-1")
        if (is_sure or (one.possible and not one.of_2)) and not module.is_guarded(one.node):
            yield _finding(module, one, is_sure)


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == "tensorflow" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module == "tensorflow" and not node.level


def _look(module: Module, one: _Import, use: scopes.Use, name: tensorflow_names.Name) -> None:
    parts = name.rest.split(".")
    if parts[0] in _INSIDES or use.path == "tensorflow":
        one.is_fixable = one.is_fixable and use.path == "tensorflow"
        return
    found = tensorflow_names.known(name.rest)
    if found is None or module.is_guarded(use.node):
        one.of_2 = one.of_2 or name.rest == "function"
        return
    full, known = found
    parent = module.names.parents[use.node]
    given = parent.keywords if isinstance(parent, ast.Call) and parent.func is use.node else []
    if known.status == "new":
        one.of_2, one.is_fixable = True, False
    elif known.status == "lacks" or any(argument.arg in known.more for argument in given):
        one.definite.setdefault(f"tf.{_short(name.rest, full)}", use.node.lineno)
    elif known.status == "means":
        one.possible.setdefault(f"tf.{full}", use.node.lineno)


def _short(rest: str, full: str) -> str:
    """Returns a name up to the first part that is not a module."""
    parts = rest.split(".")
    return ".".join(parts[: max(len(full.split(".")), 2)])


def _finding(module: Module, one: _Import, is_sure: bool) -> Finding:
    names = sorted((one.definite or one.possible).items(), key=lambda item: item[1])
    listed = ", ".join(f"{name} (line {line})" for name, line in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    edit = _edit(module, one)
    after = _replacement(one.node)
    why = "version 2 lacks" if one.definite else "version 2 has another meaning for"
    apart = "" if one.is_fixable else ", and import private modules and version 2's names apart"
    made = module.finding(
        one.node,
        "tensorflow-1",
        _statement(one.node),
        f"{why} {listed}{more}. Write `{after}`{apart}, or call `{INSTALL_1}` in the file that "
        "runs first.",
        replacement=after,
        edits=(edit,) if edit else (),
        needs="no tensorflow_1" if is_sure else "tensorflow-1",
    )
    if is_sure and not module.source.is_ignored(made):
        module.of_version_1[one.node] = edit
    return made


def _statement(node: Any) -> str:
    if isinstance(node, ast.Import):
        alias = next(alias for alias in node.names if alias.name == "tensorflow")
        return "import tensorflow" + (f" as {alias.asname}" if alias.asname else "")
    return "from tensorflow import " + ", ".join(alias.name for alias in node.names[:3])


def _replacement(node: Any) -> str:
    if isinstance(node, ast.Import):
        alias = next(alias for alias in node.names if alias.name == "tensorflow")
        return f"import tensorflow.compat.v1 as {alias.asname or 'tensorflow'}"
    return _statement(node).replace("tensorflow", "tensorflow.compat.v1", 1)


def _edit(module: Module, one: _Import) -> Edit | None:
    """Returns the `Edit` of an import; None if it must be made by hand."""
    text, start = module.source.text, module.offset(one.node)
    if not one.is_fixable:
        return None
    if isinstance(one.node, ast.ImportFrom):
        names = [alias.name for alias in one.node.names]
        others = {"contrib", "compat", "keras", "estimator", "*", *_INSIDES}
        match = re.compile(r"from\s+(tensorflow)\s+import\b").match(text, start)
        return (
            Edit(*match.span(1), "tensorflow.compat.v1")
            if match and not others & set(names)
            else None
        )
    alias = next(alias for alias in one.node.names if alias.name == "tensorflow")
    if alias.asname:
        match = re.compile(r"import\b[^\n]*?\b(tensorflow)[ \t]+as[ \t]").match(text, start)
        return Edit(*match.span(1), "tensorflow.compat.v1") if match else None
    is_ambiguous = len(module.names.module.bindings.get("tensorflow", ())) > 1
    match = re.compile(r"import[^\n]*?[ \t,](tensorflow)(?=[ \t]*(,|;|#|\r|\n|\Z))").match(
        text, start
    )
    if is_ambiguous or not match:
        return None
    return Edit(*match.span(1), "tensorflow.compat.v1 as tensorflow")


def behavior(module: Module) -> Iterator[Finding]:
    """Yields code that fails or changes unless version 2's behavior is switched off."""
    advice = (
        "Call `tf.disable_v2_behavior()`, of `tensorflow.compat.v1`, in the file that runs first; "
        f"`{INSTALL_1}` does so."
    )
    if not any("tensorflow" in _imported(node) for node in module.names.imports):
        return
    for node in module.names.attributes:
        if node.attr == "value" and _is_dimension(node.value) and not module.is_guarded(node):
            yield module.finding(
                node,
                "version-2-behavior",
                module.text(node),
                f"a dimension is a plain number in version 2, which has no `.value`. {advice}",
                needs="no switch",
            )
    graphs = any(getattr(call.func, "attr", "") == "as_default" for call in module.names.calls)
    if not module.is_entry or graphs:
        return
    for call in module.names.calls:
        name = tensorflow_names.function(module.names, call)
        is_session = name.api in ("tensorflow", "v1") and name.rest in _SESSIONS
        if is_session and not _names_graph(call) and not module.is_guarded(call):
            yield module.finding(
                call,
                "version-2-behavior",
                f"tf.{name.rest}",
                f"version 2 runs operations at once, so the session has none. {advice}",
                needs="no switch",
            )


def _imported(node: Any) -> set[str]:
    """Returns the top-level packages that a statement imports."""
    paths = [alias.name for alias in node.names]
    paths = [node.module or ""] if isinstance(node, ast.ImportFrom) else paths
    return {path.split(".")[0] for path in paths}


def _names_graph(call: ast.Call) -> bool:
    """Whether a call has the argument `graph`."""
    return any(argument.arg == "graph" for argument in call.keywords)


def _is_dimension(node: ast.Attribute) -> bool:
    if not isinstance(node, ast.Subscript):
        return False
    shape = node.value
    if isinstance(shape, ast.Call):
        return getattr(shape.func, "attr", "") == "get_shape"
    return isinstance(shape, ast.Attribute) and shape.attr in ("shape", "dims")
