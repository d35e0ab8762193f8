"""Scans a whole codebase: reads each file once, and combines their facts and findings."""

from __future__ import annotations

import contextlib
import fnmatch
import gc
import os
from typing import Any, Callable, Collection, Iterable, Iterator, NamedTuple

from replicate.migration.scan import (
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
from replicate.migration.scan.findings import Edit, Finding
from replicate.migration.scan.imports import Imports, own_key
from replicate.migration.scan.module import Module, is_entry

# One finding of these rules is enough for a codebase.
_ONCE = ("compat-install", "version-2-behavior")
# Rules for files that could not be parsed.
_UNREAD = ("python-2", "unreadable")
# Rules apply only to files that contain one of these words; others are only parsed.
_WORDS = ("tensorflow", "Estimator", "keras", "model_fn", "replicate")


class Found(NamedTuple):
    """Results of a scan.

    Attributes:
        findings: The findings, the most important first.
        model_fns: Path, line and name of each `model_fn`.
        files: Number of files that were read.
        unused: By path, imports that some edits make useless: pairs of the set of these edits, and
            the edit that removes the import.
        digests: Digests of files with edits, as they were read, by path; see `files.digest`.
        install: The place for `replicate.compat.install()`; None if it is called or not needed.
    """

    findings: list[Finding]
    model_fns: list[tuple[str, int, str]]
    files: int
    unused: dict[str, list]
    digests: dict[str, bytes]
    install: installing.Install | None = None


class _File(NamedTuple):
    findings: list[Finding]
    facts: set[str]
    unused: list[tuple[frozenset, Edit]]
    is_entry: bool = False
    digest: bytes = b""
    model_fns: tuple[tuple[int, str], ...] = ()
    links: frozenset[tuple[str, str]] = frozenset()


def scan(paths: Iterable[str], skip: Callable[[str], bool] = lambda path: False) -> Found:
    """Reads a codebase, without importing it.

    Args:
        paths: Files and directories.
        skip: Function of a path that tells whether to leave it out.

    Returns:
        The results, a `Found`.
    """
    with _uncollected():
        return _scan(paths, skip)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """A scope without garbage collection: syntax trees have many nodes, but no reference cycles."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def _scan(paths: Iterable[str], skip: Callable[[str], bool]) -> Found:
    findings: list[Finding] = []

    def problem(path: str, why: str) -> None:
        findings.append(reading.unreadable(path, why, "Let it be read, or leave it out by --skip."))

    imports = Imports()
    told = {path: _file(path, imports) for path in _listed(paths, skip, problem, imports)}
    facts: set[str] = set()
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


def _follow(facts: set[str], links: Iterable[tuple[str, str]]) -> None:
    """Adds to a set of facts all facts that follow from them.

    Args:
        facts: The set.
        links: Pairs of facts: the second holds if the first does.
    """
    after: dict[str, list[str]] = {}
    for first, second in links:
        after.setdefault(first, []).append(second)
    pending = list(facts)
    while pending:
        new = set(after.get(pending.pop(), ())) - facts
        facts |= new
        pending += new


def _listed(
    paths: Iterable[str],
    skip: Callable[[str], bool],
    problem: Callable[[str, str], None],
    imports: Imports,
) -> list[str]:
    """Returns the paths of all files, without duplicates, and adds them to `Imports`."""
    seen: dict = {}
    listed: dict[str, None] = {}
    for root in paths:
        for path in files.walk(root, skip, problem):
            which = files.identity(path)
            first = seen.setdefault(which, path) if which is not None else path
            imports.add(path, root)
            listed[first] = None
    return list(listed)


def _file(path: str, imports: Imports) -> _File:
    """Returns the findings and facts of one file, which may be unreadable."""
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
        advice = "Write generated code as data, or leave it out by --skip."
        what = "nested too deeply to be looked at"
        return _of_finding(reading.unreadable(path, what, advice))


def _again(path: str, digest: bytes) -> Module | None:
    """Returns the `Module` of a file that was read before, None if it has changed since."""
    try:
        data = files.read(path)
        source = reading.source(path, data) if files.digest(data) == digest else None
        return Module(source) if isinstance(source, reading.Source) else None
    except (files.NotReadError, RecursionError, MemoryError):
        return None


def _of_finding(finding: Finding) -> _File:
    return _File([finding], set(), [])


def _truths(source: reading.Source) -> set[str]:
    """Returns facts on names of a file whose value is True, which other files may use."""
    return {f"true {own_key(source.path, name)}" for name in values.truths(source)}


def _looked_at(source: reading.Source, imports: Imports) -> _File:
    module = Module(source, imports)
    module.facts |= _truths(source)
    version_1.facts(module)
    found = [*version_1.imports(module)]  # First: other rules depend on edits of imports.
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


def _together(
    findings: Iterable[Finding], facts: set[str], entries: Collection[str]
) -> list[Finding]:
    """Returns the findings whose needed facts hold for the whole codebase, in order."""
    kept: list[Finding] = []
    once: dict[Any, Finding] = {}
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


def _holds(need: str, facts: set[str]) -> bool:
    """Whether a fact that a finding needs holds."""
    if need.startswith("no "):
        return need[3:] not in facts
    return not need or need in facts


def is_below(path: str, pattern: str) -> bool:
    """Whether a path, or a directory above it, matches a pattern, fully or at the path's end."""
    path = os.path.abspath(path) if os.path.isabs(pattern) else os.path.normpath(path)
    path = path.replace(os.sep, "/")
    pattern = os.path.normpath(pattern).replace(os.sep, "/")
    return any(
        fnmatch.fnmatchcase(path, form) for form in (pattern, f"*/{pattern}", f"{pattern}/*")
    )
