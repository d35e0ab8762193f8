"""A whole codebase: each of its files is read once, and what they tell together is put together."""

import contextlib
import fnmatch
import gc
import os
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from replicate.scan import (
    batch_norms,
    contrib,
    files,
    installing,
    model_fns,
    private_paths,
    reading,
    removed,
    replicas,
    sessions,
    training,
    values,
    version_1,
)
from replicate.scan.findings import Edit, Finding
from replicate.scan.imports import Imports, own_key
from replicate.scan.module import Module, is_entry

# Of these, one finding tells all of a codebase.
_ONCE = ("compat-install", "version-2-behavior")
# Of files of which nothing else is known.
_UNREAD = ("python-2", "unreadable")
# What a file names of which rules tell something; others are read for their syntax alone.
_WORDS = ("tensorflow", "Estimator", "keras", "model_fn", "replicate")


class Found(NamedTuple):
    """What was found in a codebase.

    Attributes:
        findings: In order, the most important first.
        model_fns: Of each `model_fn` its path, line and name.
        files: How many files were read.
        unused: By path, for imports that are of no use after some edits, a set of these, and
            their own.
        digests: By path, of files with edits, of what was read: see `files.digest`.
        install: Where `replicate.compat.install()` goes, None if that is called or not needed.
    """

    findings: List[Finding]
    model_fns: List[Tuple[str, int, str]]
    files: int
    unused: Dict[str, list]
    digests: Dict[str, bytes]
    install: Optional[installing.Install] = None


class _File(NamedTuple):
    findings: List[Finding]
    facts: Set[str]
    unused: List[Tuple[frozenset, Edit]]
    is_entry: bool = False
    digest: bytes = b""
    model_fns: Tuple[Tuple[int, str], ...] = ()
    links: FrozenSet[Tuple[str, str]] = frozenset()


def scan(paths, skip=lambda path: False):
    """Reads a codebase, without importing it, and returns what was `Found`.

    Args:
        paths: Files and directories.
        skip: Function of a path, whether it is left out.
    """
    with _uncollected():
        return _scan(paths, skip)


@contextlib.contextmanager
def _uncollected():
    """A scope in which nobody looks for circles in syntax trees: there are none, but many nodes."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def _scan(paths, skip):
    findings: List[Finding] = []

    def problem(path, why):
        findings.append(reading.unreadable(path, why, "Let it be read, or leave it out by --skip."))

    imports = Imports()
    told = {path: _file(path, imports) for path in _listed(paths, skip, problem, imports)}
    facts: Set[str] = set()
    for one in told.values():
        findings += one.findings
        facts |= one.facts
    _follow(facts, {link for one in told.values() for link in one.links})
    entries = {path for path, one in told.items() if one.is_entry}
    together = _together(findings, facts, entries)
    has_edits = {one.path for one in together if one.edits}
    digests = {path: told[path].digest for path in has_edits}
    install = None
    if "install" not in facts and any(map(installing.needs, together)):
        unread = {one.path for one in together if one.rule in _UNREAD}
        install = installing.find(
            entries, unread, lambda path: _again(path, told[path].digest), imports
        )
        if install.edit is not None:
            digests[install.path] = told[install.path].digest
    return Found(
        together,
        [(path, line, name) for path, one in told.items() for line, name in one.model_fns],
        len(told),
        {path: one.unused for path, one in told.items() if one.unused},
        digests,
        install,
    )


def _follow(facts, links):
    """Adds to facts what follows from them.

    Args:
        facts: A set of them.
        links: Pairs, of which the second holds if the first does.
    """
    after: Dict[str, List[str]] = {}
    for first, second in links:
        after.setdefault(first, []).append(second)
    pending = list(facts)
    while pending:
        new = set(after.get(pending.pop(), ())) - facts
        facts |= new
        pending += new


def _listed(paths, skip, problem, imports):
    """Returns the paths of all files, each once, and adds them to `Imports`."""
    seen: dict = {}
    listed: Dict[str, None] = {}
    for root in paths:
        for path in files.walk(root, skip, problem):
            which = files.identity(path)
            first = seen.setdefault(which, path) if which is not None else path
            imports.add(path, root)
            listed[first] = None
    return list(listed)


def _file(path, imports) -> _File:
    """Returns what one file tells, whatever it is."""
    if path.endswith(".ipynb"):
        advice = "Write it as a script first: `jupyter nbconvert --to script`."
        return _of_finding(Finding(path, 0, 0, "notebook", "a notebook", advice))
    try:
        data = files.read(path)
    except files.NotReadError as error:
        advice = "Let it be read, or leave it out by --skip."
        return _of_finding(reading.unreadable(path, str(error), advice))
    try:
        source = reading.source(path, data)
        if isinstance(source, Finding):
            return _of_finding(source)
        if not any(word in source.text for word in _WORDS):
            facts = _truths(source)
            return _File([], facts, [], is_entry(source), files.digest(data))
        return _looked_at(source, imports)
    except (RecursionError, MemoryError):
        advice = "Write what is generated as data, or leave it out by --skip."
        what = "nested too deeply to be looked at"
        return _of_finding(reading.unreadable(path, what, advice))


def _again(path, digest) -> Optional[Module]:
    """Returns the `Module` of a file that was read before, None if it is not as it was."""
    try:
        data = files.read(path)
        source = reading.source(path, data) if files.digest(data) == digest else None
        return Module(source) if isinstance(source, reading.Source) else None
    except (files.NotReadError, RecursionError, MemoryError):
        return None


def _of_finding(finding):
    return _File([finding], set(), [])


def _truths(source):
    """Returns facts of what a file names that is True, which other files may ask for."""
    return {f"true {own_key(source.path, name)}" for name in values.truths(source)}


def _looked_at(source, imports) -> _File:
    module = Module(source, imports)
    module.facts |= _truths(source)
    version_1.facts(module)
    found = [*version_1.imports(module)]  # What becomes of imports decides on others.
    model_fns.facts(module)
    found += contrib.names(module)
    found += contrib.stars(module)
    found += removed.names(module)
    found += version_1.behavior(module)
    found += private_paths.imports(module)
    found += model_fns.installs(module)
    found += model_fns.unreplicated(module)
    found += training.keras_optimizers(module)
    found += sessions.loops(module)
    found += batch_norms.fused(module)
    found += replicas.sums(module)
    found = [one for one in found if not source.is_ignored(one)]
    return _File(
        found,
        module.facts,
        module.unused,
        module.is_entry,
        files.digest(source.data),
        tuple(model_fns.find(module)),
        frozenset(module.links),
    )


def _together(findings, facts, entries):
    """Returns the findings that hold of the whole codebase, in order."""
    kept, once = [], {}
    for one in sorted(findings, key=lambda one: one.key):
        if not all(_holds(need, facts) for need in (one.needs or "").split(", ")):
            continue
        if one.rule in _ONCE:
            before = once.get(one.rule)
            if before is None or (one.path in entries and before.path not in entries):
                once[one.rule] = one
        elif one.rule == "contrib-package" and "install" in facts:
            once.setdefault((one.rule, one.message), one)  # Once for each package.
        else:
            kept.append(one)
    found = sorted({*kept, *once.values()}, key=lambda one: one.key)
    return [one for at, one in enumerate(found) if at == 0 or one[:5] != found[at - 1][:5]]


def _holds(need, facts):
    """Whether facts are as a finding needs them."""
    if need.startswith("no "):
        return need[3:] not in facts
    return not need or need in facts


def is_below(path, pattern):
    """Whether a path is, or lies below, one of a pattern's, relative or as it ends."""
    path = os.path.normpath(path).replace(os.sep, "/")
    pattern = os.path.normpath(pattern).replace(os.sep, "/")
    return any(
        fnmatch.fnmatchcase(path, form) for form in (pattern, f"*/{pattern}", f"{pattern}/*")
    )
