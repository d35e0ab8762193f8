"""A whole codebase: each of its files is read once, and what they tell together is put together."""

import contextlib
import fnmatch
import gc
import os
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from replicate.scan import (
    batch_norms,
    contrib,
    files,
    following,
    installing,
    loading,
    model_fns,
    private_paths,
    reading,
    training,
    version_1,
)
from replicate.scan.findings import Edit, Finding
from replicate.scan.imports import Imports
from replicate.scan.module import is_entry

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
        digests: By path, of files with edits, of what was read: see `loading.digest`.
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


class _Codebase:
    """Looks at each file once, and notes what it tells."""

    def __init__(self):
        self.told: Dict[str, _File] = {}
        self.imports = Imports()
        self.load = loading.Loading(self._look)
        self.following = following.Following(self.imports, self.load)

    def _look(self, path):
        self.told[path], found = _file(path, self.following.start)
        return found


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

    codebase = _Codebase()
    listed = _listed(paths, skip, problem, codebase.imports)
    for path in listed:
        codebase.load.first(path)
        codebase.following.run()
    codebase.following.finish()
    told = [(path, codebase.told[path]) for path in listed]
    findings += codebase.following.findings
    facts: Set[str] = set()
    for _, one in told:
        findings += one.findings
        facts |= one.facts
    entries = {path for path, one in told if one.is_entry}
    together = _together(findings, facts, entries)
    digests = {path: one.digest for path, one in told if one.digest}
    install = None
    if "install" not in facts and any(map(installing.needs, together)):
        unread = {one.path for one in together if one.rule in _UNREAD}
        install = installing.find(entries, unread, codebase.load, codebase.imports)
        if install.edit is not None:
            digests[install.path] = codebase.load.digests[install.path]
    named = codebase.following.model_fns
    return Found(
        together,
        [(path, at.line, named[path][at]) for path in listed for at in sorted(named.get(path, ()))],
        len(listed),
        {path: one.unused for path, one in told if one.unused},
        digests,
        install,
    )


def _listed(paths, skip, problem, imports):
    """Returns the paths of all files, each once, and adds them to `Imports`."""
    seen: dict = {}
    listed: Dict[str, None] = {}
    for root in paths:
        for path in files.walk(root, skip, problem):
            which = files.identity(path)
            first = seen.setdefault(which, path) if which is not None else path
            imports.add(path, first, root)
            listed[first] = None
    return list(listed)


def _file(path, start):
    """Returns what one file tells, whatever it is, and its `Module` or `Source`, or None.

    Args:
        path: Of the file.
        start: Function of its `Module`, which notes what is to be followed.
    """
    if path.endswith(".ipynb"):
        advice = "Write it as a script first: `jupyter nbconvert --to script`."
        return _of_finding(Finding(path, 0, 0, "notebook", "a notebook", advice)), None
    try:
        data = files.read(path)
    except files.NotReadError as error:
        advice = "Let it be read, or leave it out by --skip."
        return _of_finding(reading.unreadable(path, str(error), advice)), None
    try:
        source = reading.source(path, data)
        if isinstance(source, Finding):
            return _of_finding(source), None
        if not any(word in source.text for word in _WORDS):
            return _File([], set(), [], is_entry(source)), source
        told, module = _looked_at(source)
        start(module)
        return told, module
    except (RecursionError, MemoryError):
        advice = "Write what is generated as data, or leave it out by --skip."
        what = "nested too deeply to be looked at"
        return _of_finding(reading.unreadable(path, what, advice)), None


def _of_finding(finding):
    return _File([finding], set(), [])


def _looked_at(source):
    module, found = loading.prepared(source)  # What becomes of imports decides on others.
    model_fns.facts(module)
    found += contrib.names(module)
    found += contrib.stars(module)
    found += version_1.removed(module)
    found += version_1.behavior(module)
    found += private_paths.imports(module)
    found += model_fns.installs(module)
    found += model_fns.unreplicated(module)
    found += training.in_conditions(module)
    found += training.session_loop(module)
    found += batch_norms.fused(module)
    found = [one for one in found if not source.is_ignored(one)]
    tells = loading.digest(source.data) if any(one.edits for one in found) else b""
    return _File(found, module.facts, module.unused, module.is_entry, tells), module


def _together(findings, facts, entries):
    """Returns the findings that hold of the whole codebase, in order."""
    kept, once = [], {}
    for one in sorted(findings, key=lambda one: one.key):
        needs = one.needs or ""
        if needs.startswith("no ") and needs[3:] in facts:
            continue
        if needs and not needs.startswith("no ") and needs not in facts:
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


def is_below(path, pattern):
    """Whether a path is, or lies below, one of a pattern's, relative or as it ends."""
    path = os.path.normpath(path).replace(os.sep, "/")
    pattern = os.path.normpath(pattern).replace(os.sep, "/")
    return any(
        fnmatch.fnmatchcase(path, form) for form in (pattern, f"*/{pattern}", f"{pattern}/*")
    )
