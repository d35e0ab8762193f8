"""What the `model_fn`s of a codebase call, function by function, in whichever file that is."""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from replicate.scan import batch_sizes, definitions, model_fns, reading, rows, tensorflow_names
from replicate.scan.findings import Finding
from replicate.scan.imports import Imports
from replicate.scan.module import Module, once
from replicate.scan.traps import Walk

_MOST = 20  # Calls with other kinds of arguments for which a function is looked at.


class Place(NamedTuple):
    """Where a function is."""

    path: str
    line: int
    column: int


class Call(NamedTuple):
    """A call of a function, in a `model_fn` or in what that calls.

    Attributes:
        importer: The path of the file that calls it.
        name: Its full name there, "" if it has none.
        place: Its `Place` if the name says none.
        given: Of arguments that have rows or are sizes, the name or number, whether it has rows,
            and its `batch_sizes.Given` or None.
        model: The `Place` of the `model_fn`, None if it is not known yet.
        is_for_tpus: Whether that is written for TPUEstimator.
    """

    importer: str
    name: str
    place: Optional[Place]
    given: Tuple[Tuple[Any, bool, Optional[batch_sizes.Given]], ...]
    model: Optional[Place]
    is_for_tpus: bool


def _place(module, node):
    return Place(module.source.path, node.lineno, node.col_offset)


@once
def _by_place(module):
    return {_place(module, node): node for node in module.names.functions}


class Following:
    """Goes through a codebase's `model_fn`s and what they call.

    Args:
        imports: Its `Imports`.
        load: Function of a path that returns its `Module`, None if it cannot be read.
    """

    def __init__(self, imports: Imports, load):
        self.findings: List[Finding] = []
        self.model_fns: Dict[str, Dict[Place, str]] = {}
        """By path, the names of its `model_fn`s."""
        self._imports = imports
        self._load = load
        self._definitions = definitions.Definitions(imports, load)
        self._pending: List[Call] = []
        self._known: Dict[Tuple[str, str], Optional[Place]] = {}
        self._names: Dict[Place, Tuple[str, ...]] = {}
        self._seen: Dict[Place, set] = {}
        self._inner: Set[Place] = set()
        self._reported: set = set()
        self._sizes: Dict[tuple, Dict[batch_sizes.Given, None]] = {}
        """By arguments, the sizes that these are given."""
        self._asked: Dict[tuple, str] = {}
        """By arguments that are taken for a size of a function's own rows, where."""

    def start(self, module: Module):
        """Notes the `model_fn`s of a file, and those that it gives to Estimators."""
        path = module.source.path
        for name in model_fns.elsewhere(module):
            self._pending.append(Call(path, name, None, (), None, False))
        for one in reversed(model_fns.find(module)):
            self._add(module, one)

    def _add(self, module, one):
        place = _place(module, one.node)
        self.model_fns.setdefault(place.path, {})[place] = one.name
        given = tuple((name, True, None) for name in one.batch)
        self._pending.append(Call(place.path, "", place, given, place, one.is_for_tpus))

    def run(self):
        """Goes through all that was noted."""
        while self._pending:
            call = self._pending.pop()
            path = call.importer
            try:
                place = self._found(call)
                if place is not None:
                    path = place.path
                    self._look(call, place)
            except (RecursionError, MemoryError):
                advice = "Write what is generated as data, or leave it out by --skip."
                what = "nested too deeply to be looked at"
                self.findings.append(reading.unreadable(path, what, advice))

    def finish(self):
        """Reports the sizes that were given to what takes them for that of its own rows."""
        pending, seen = list(self._asked.items()), set(self._asked)
        while pending:
            argument, where = pending.pop()
            for size in self._sizes.get(argument, ()):
                if size.argument is None:
                    self._report([] if size.is_ignored else [_taken(size.finding, where)])
                elif size.argument not in seen:
                    seen.add(size.argument)
                    pending.append((size.argument, where))

    def _found(self, call):
        """Returns the `Place` of what is called, None if it is not known."""
        key = os.path.dirname(call.importer), call.name
        if call.name.startswith(":"):
            key = call.importer, call.name
        if call.name and key not in self._known:
            self._known[key] = None
            found = self._definitions.find(call.name, call.importer)
            if found is not None:
                self._known[key] = _place(found.module, found.node)
        return (self._known[key] if call.name else None) or call.place

    def _look(self, call, place):
        if call.model is None:
            return self._look_at_passed(place)
        if place in self._inner:
            return None
        contexts = self._seen.setdefault(place, set())
        names = self._names.get(place)
        if names is None:
            node = self._node(place)
            names = self._names[place] = () if node is None else tuple(model_fns.own(node))
        batch = tuple(sorted({_name(names, key) for key, has_rows, _ in call.given if has_rows}))
        sizes = {_name(names, key): size for key, _, size in call.given if size}
        context = batch, tuple(sorted(sizes)), call.is_for_tpus
        static = {}
        for name, size in sizes.items():
            argument = place, context, name
            static[name] = size._replace(argument=argument)
            self._sizes.setdefault(argument, {})[size] = None
        if context in contexts or len(contexts) >= _MOST:
            return None
        contexts.add(context)
        return self._walk(call, place, batch, static)

    def _node(self, place):
        module = self._load(place.path)
        return _by_place(module).get(place) if module is not None else None

    def _look_at_passed(self, place):
        """Notes a function that an Estimator of another file is given."""
        node = self._node(place)
        if node is not None and place not in self.model_fns.get(place.path, {}):
            self._add(self._load(place.path), model_fns.of_passed(node))

    def _walk(self, call, place, batch, static):
        module = self._load(place.path)
        node = self._node(place)
        if node is None:
            return
        model = model_fns.ModelFn(self._node_of_model(call, module), "", (), call.is_for_tpus)
        made: List[Call] = []

        def called(inner, known_rows, sizes):
            made.extend(self._calls(module, call, inner, known_rows, sizes))

        walk = Walk(module, model, called)
        walk.function(node, batch, static)
        self._pending += reversed(made)
        self._inner.update(_place(module, one) for one in walk.inner)
        for argument, line in walk.asked:
            self._asked.setdefault(argument, f"{place.path}:{line}")
        self._report(walk.findings)

    def _report(self, findings):
        for found in findings:
            key = found.path, found.line, found.column, found.rule
            if key not in self._reported:
                self._reported.add(key)
                self.findings.append(found)

    @staticmethod
    def _node_of_model(call, module):
        return _by_place(module).get(call.model)

    def _calls(self, module, outer, call, known_rows, sizes):
        """Yields the `Call` of a function of the codebase."""
        place, name = None, definitions.full_name(module, call.func)
        if name and not name.startswith(":") and not self._is_ours(module, name):
            return
        short = getattr(call.func, "id", "")
        if not short and getattr(getattr(call.func, "value", None), "id", "") == "self":
            short = call.func.attr
        node = model_fns.functions_called(module).get(short)
        if node is not None and not module.names.path(call.func):
            place = _place(module, node)
        if name or place:
            given = tuple(_given(module, call, known_rows, sizes))
            yield Call(module.source.path, name, place, given, outer.model, outer.is_for_tpus)

    def _is_ours(self, module, name):
        if tensorflow_names.parse(name).api:
            return False
        return next(self._imports.find(name, module.source.path), None) is not None


def _taken(finding, where):
    """Returns the finding of a size, with where it is taken if that is another file."""
    if where.rpartition(":")[0] == finding.path:
        return finding
    return finding._replace(message=f"{finding.message} {where} takes it.")


def _name(names, key):
    """Returns the name of an argument, "" if a function has no such."""
    if isinstance(key, int):
        return names[key] if key < len(names) else ""
    return key


def _given(module, call, known_rows, sizes):
    """Yields what is known of the arguments of a call."""
    given: list = []
    for place, value in enumerate(call.args):
        if type(value).__name__ == "Starred":
            break
        given.append((place, value))
    given += [(one.arg, one.value) for one in call.keywords if one.arg]
    for key, value in given:
        has_rows = known_rows.of(value) == rows.ROWS
        size = sizes.of(value)
        if has_rows or size is not None:
            yield key, has_rows, batch_sizes.given(module, size) if size is not None else None
