"""Applies the edits of findings to the files of a codebase, so that nothing can be lost."""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
import re
import stat
import subprocess
import tempfile
import warnings
from typing import Any, Callable, Iterable, NamedTuple

from replicate.migration.scan import files, installing, reading
from replicate.migration.scan.codebase import Found
from replicate.migration.scan.findings import Edit

_ADVICE = "or pass `--force`, which keeps a copy of each file as FILE.orig."


class NotFixedError(Exception):
    """A file or codebase that is not changed; the error's text has the reason and the remedy."""


class Change(NamedTuple):
    """A change of a file.

    Attributes:
        path: Path of the file, relative like the paths of the command line.
        before: Its bytes.
        after: Its new bytes.
        diff: Lines of a unified diff, without line ends.
    """

    path: str
    before: bytes
    after: bytes
    diff: list


def changes(found: Found, problem: Callable[[str, str], None]) -> list[Change]:
    """Returns a `Change` for each file that has edits.

    Args:
        found: A `codebase.Found`.
        problem: Function that is called with the path of an unchanged file, and the reason.
    """
    edits: dict[str, set[Any]] = {}
    for one in found.findings:
        edits.setdefault(one.path, set()).update(one.edits)
    install = installing.wanted(found)
    if install is not None and install.edit is not None:
        edits.setdefault(install.path, set()).add(install.edit)
    made = []
    for path in sorted(path for path, wanted in edits.items() if wanted):
        chosen = edits[path]
        for needed, removal in found.unused.get(path, ()):
            if needed <= chosen:
                chosen = chosen | {removal}
        try:
            made.append(_change(path, chosen, found.digests[path]))
        except (NotFixedError, files.NotReadError) as error:
            problem(path, str(error))
    return made


def _change(path: str, edits: Iterable[Edit], known: bytes) -> Change:
    data = files.read(path)
    source = reading.source(path, data) if files.digest(data) == known else None
    if not isinstance(source, reading.Source):
        raise NotFixedError("it was changed while it was looked at. Run this again.")
    text: list[str] = []
    end = 0
    for edit in sorted(edits):
        if edit.start >= end:
            text += [source.text[end : edit.start], edit.text]
            end = edit.end
    after = "".join([*text, source.text[end:]])
    try:
        if source.text.encode(source.encoding) != data[len(source.bom) :]:
            raise NotFixedError(f"its encoding, {source.encoding}, does not give it back as it is.")
        encoded = source.bom + after.encode(source.encoding)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(after)
    except (SyntaxError, ValueError) as error:
        raise NotFixedError(f"the result cannot be parsed: {error}. Edit it by hand.") from None
    diff = difflib.unified_diff(
        _lines(source.text), _lines(after), f"a/{path}", f"b/{path}", lineterm=""
    )
    return Change(path, data, encoded, list(diff))


def _lines(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)


def check(found_changes: Iterable[Change]) -> None:
    """Checks that git can restore all files that are to be changed.

    Raises:
        NotFixedError: If not.
    """
    trees: dict[str, list[tuple[str, str]]] = {}
    for one in found_changes:
        real = os.path.realpath(one.path)
        tree = _git(os.path.dirname(real), "rev-parse", "--show-toplevel").rstrip("\n")
        if not tree:
            raise NotFixedError(
                f"`--fix` changes files that git can restore, but {one.path} is in no git work "
                f"tree. Commit the codebase, {_ADVICE}"
            )
        trees.setdefault(tree, []).append((one.path, real))
    for tree, paths in trees.items():
        changed = _git(tree, "status", "--porcelain", "-z", "--untracked-files=no").split("\0")
        changed = [line[3:] for line in changed if line]
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise NotFixedError(
                "`--fix` changes files that git can restore, but there are uncommitted changes, "
                f"of {changed[0]}{more}. Commit or stash them, {_ADVICE}"
            )
        tracked = _git(tree, "ls-files", "-z").split("\0")
        known = {os.path.realpath(os.path.join(tree, name)) for name in tracked if name}
        for path, real in paths:
            if real not in known:
                raise NotFixedError(
                    f"`--fix` changes files that git can restore, but {path} is not tracked. "
                    f"Commit it, {_ADVICE}"
                )


def _git(directory: str, *arguments: str) -> str:
    """Returns the output of git; "" if there is no git, or no work tree.

    Raises:
        NotFixedError: If git refuses to read a work tree that belongs to someone else.
    """
    command = ["git", "-C", directory, "-c", "core.fsmonitor=false", *arguments]
    try:
        made = subprocess.run(command, capture_output=True)
    except OSError:
        return ""
    errors = os.fsdecode(made.stderr).strip()
    if "dubious ownership" in errors:
        raise NotFixedError(f"git does not read the work tree: {errors}")
    return os.fsdecode(made.stdout) if made.returncode == 0 else ""


def write(change: Change, keep: bool) -> None:
    """Replaces a file atomically.

    Args:
        change: The `Change`.
        keep: Whether to keep a copy of the old file beside it, as FILE.orig.

    Raises:
        NotFixedError: If the file has changed meanwhile, or cannot be written.
    """
    real = os.path.realpath(change.path)
    temporary = None
    try:
        if files.read(real) != change.before:
            raise NotFixedError("it was changed while it was looked at. Run this again.")
        if keep:
            _keep(real, change.before)
        opened, temporary = tempfile.mkstemp(prefix=".replicate-", dir=os.path.dirname(real))
        with os.fdopen(opened, "wb") as file:
            file.write(change.after)
            file.flush()
            os.fsync(opened)
        os.chmod(temporary, stat.S_IMODE(os.stat(real).st_mode))
        os.replace(temporary, real)
        temporary = None
    except (OSError, files.NotReadError) as error:
        why = getattr(error, "strerror", None) or error
        raise NotFixedError(f"it cannot be written: {why}. Let it be written.") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _keep(real: str, data: bytes) -> None:
    """Writes the old content beside a file, under a free name."""
    number = 0
    while True:
        try:
            name = f"{real}.orig{f'.{number}' if number else ''}"
            with open(name, "xb") as file:
                file.write(data)
            return
        except FileExistsError:
            number += 1
