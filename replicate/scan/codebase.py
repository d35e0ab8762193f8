"""A whole codebase: each of its files is read once, and what they tell together is put together."""

import fnmatch
import hashlib
import os
from typing import Dict, List, NamedTuple, Set, Tuple

from replicate.scan import contrib, files, model_fns, reading, training, traps, version_1
from replicate.scan.findings import Edit, Finding
from replicate.scan.module import Module

# Of these, one finding tells all of a codebase.
_ONCE = ("compat-install", "version-2-behavior")
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
        digests: By path, of files with edits, of what was read: see `digest`.
    """

    findings: List[Finding]
    model_fns: List[Tuple[str, int, str]]
    files: int
    unused: Dict[str, list]
    digests: Dict[str, bytes]


class _File(NamedTuple):
    findings: List[Finding]
    facts: Set[str]
    model_fns: list
    unused: List[Tuple[frozenset, Edit]]
    is_entry: bool = False
    digest: bytes = b""


def scan(paths, skip=lambda path: False):
    """Reads a codebase, without importing it, and returns what was `Found`.

    Args:
        paths: Files and directories.
        skip: Function of a path, whether it is left out.
    """
    findings: List[Finding] = []
    facts: Set[str] = set()
    entries, seen, named, count = set(), set(), [], 0
    unused: Dict[str, list] = {}
    digests: Dict[str, bytes] = {}

    def problem(path, why):
        findings.append(reading.unreadable(path, why, "Let it be read, or leave it out by --skip."))

    for root in paths:
        for path in files.walk(root, skip, problem):
            which = files.identity(path)
            if which is not None and which in seen:
                continue
            seen.add(which)
            count += 1
            one = _file(path)
            findings += one.findings
            facts |= one.facts
            named += one.model_fns
            entries.update([path] if one.is_entry else [])
            if one.unused:
                unused[path] = one.unused
            if one.digest:
                digests[path] = one.digest
    return Found(_together(findings, facts, entries), named, count, unused, digests)


def digest(data):
    """Returns what tells whether a file is still as it was read."""
    return hashlib.sha256(data).digest()


def _file(path):
    """Returns what one file tells, whatever it is."""
    if path.endswith(".ipynb"):
        advice = "Write it as a script first: `jupyter nbconvert --to script`."
        return _File([Finding(path, 0, 0, "notebook", "a notebook", advice)], set(), [], [])
    try:
        data = files.read(path)
    except files.NotReadError as error:
        advice = "Let it be read, or leave it out by --skip."
        return _File([reading.unreadable(path, str(error), advice)], set(), [], [])
    try:
        source = reading.source(path, data)
        if isinstance(source, Finding):
            return _File([source], set(), [], [])
        if not any(word in source.text for word in _WORDS):
            return _File([], set(), [], [])
        return _looked_at(source)
    except (RecursionError, MemoryError):
        advice = "Write what is generated as data, or leave it out by --skip."
        what = "nested too deeply to be looked at"
        return _File([reading.unreadable(path, what, advice)], set(), [], [])


def _looked_at(source):
    module = Module(source)
    version_1.facts(module)
    model_fns.facts(module)
    found = [*version_1.imports(module)]  # First: what becomes of imports decides on others.
    functions = model_fns.find(module)
    found += contrib.names(module)
    found += contrib.stars(module)
    found += version_1.removed(module)
    found += version_1.behavior(module)
    found += model_fns.installs(module)
    found += model_fns.unreplicated(module)
    found += traps.find(module, functions)
    found += training.in_conditions(module)
    found += training.session_loop(module)
    found += training.fused(module)
    named = [(source.path, one.node.lineno, one.name) for one in functions]
    found = [one for one in found if not source.is_ignored(one)]
    tells = digest(source.data) if any(one.edits for one in found) else b""
    return _File(found, module.facts, named, module.unused, module.is_entry, tells)


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
