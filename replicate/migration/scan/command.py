"""`python -m replicate scan`: lists the changes that moving a codebase takes, by file and line."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Callable, Iterable, Sequence, TextIO

from replicate.migration.scan import codebase, fixing, installing, report
from replicate.migration.scan.contrib import INSTALL
from replicate.migration.scan.findings import RULES


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m replicate scan",
        description="Reads a codebase of TensorFlow 1 without importing it, and lists the changes "
        "that moving it to replicate and the newest TensorFlow takes, the most important first. "
        "Exits with 0 if there is nothing to do, 1 if there is, 2 if an argument is wrong.",
    )
    made.add_argument("paths", nargs="+", metavar="PATH", help="a directory or a file of Python")
    made.add_argument("--json", action="store_true", help="print one line of JSON, no report")
    made.add_argument("--only", nargs="+", action="append", metavar="RULE", help="rules to look at")
    made.add_argument(
        "--exclude", nargs="+", action="append", metavar="RULE", help="rules to leave out"
    )
    made.add_argument(
        "--skip",
        nargs="+",
        action="append",
        metavar="PATTERN",
        help="files and directories to leave out, such as third_party or *_test.py",
    )
    made.add_argument(
        "--fix",
        action="store_true",
        help="make mechanical changes, and show them as a diff; git must be able to restore files",
    )
    made.add_argument(
        "--force",
        action="store_true",
        help="with --fix: change files even if git cannot restore them; keeps copies as FILE.orig",
    )
    return made


def main(argv: Sequence[str]) -> int:
    """Scans what the command line `argv` names; returns the exit status."""
    try:
        return _main(argv)
    except KeyboardInterrupt:
        print("Interrupted: nothing is left half done.", file=sys.stderr)
        return 130


def _main(argv: Sequence[str]) -> int:
    of_flags = parser()
    args = of_flags.parse_args(argv)
    try:
        skip = _checked(args)
    except ValueError as error:
        of_flags.error(str(error))
    found = _found(args, skip)
    if not found.files and not found.findings:
        of_flags.error(
            f"`PATH` must lead to files of Python, but there are none in {_names(args.paths)}. "
            "Name the directory of the codebase."
        )
    fixed: list = []
    if args.fix:
        try:
            fixed = _fix(found, args)
        except fixing.NotFixedError as error:
            of_flags.exit(2, report.shown(f"{of_flags.prog}: {error}") + "\n")
        found = _found(args, skip)
    if args.json:
        print(report.as_json(found, fixed))
    else:
        for line in report.text(found):
            _print(line)
    return 1 if found.findings else 0


def _checked(args: argparse.Namespace) -> Callable[[str], bool]:
    """Checks the arguments; returns the function that tells which paths are left out.

    Raises:
        ValueError: If an argument is wrong.
    """
    for flag, given in (("--only", args.only), ("--exclude", args.exclude)):
        for rule in (name for names in given or () for name in names):
            if rule not in RULES:
                raise ValueError(
                    f"`{flag}` must name rules, but {rule!r} is none. Those that there are: "
                    f"{', '.join(RULES)}."
                )
    if args.force and not args.fix:
        raise ValueError("`--force` must come with `--fix`, but came without. Say both, or none.")
    for path in args.paths:
        if "\0" in path or not os.path.lexists(path):
            raise ValueError(
                f"`PATH` must be there, but {_names([path])} is not. Name the directory of the "
                "codebase."
            )
    patterns = [pattern for patterns in args.skip or () for pattern in patterns]
    return lambda path: any(codebase.is_below(path, pattern) for pattern in patterns)


def _names(paths: Iterable[str]) -> str:
    return ", ".join(report.shown(path) for path in paths)


def _found(args: argparse.Namespace, skip: Callable[[str], bool]) -> codebase.Found:
    """Scans, and returns the results with findings of the selected rules only."""
    found = codebase.scan(args.paths, skip)
    only = {rule for rules in args.only or () for rule in rules} or set(RULES)
    only -= {rule for rules in args.exclude or () for rule in rules}
    return found._replace(findings=[one for one in found.findings if one.rule in only])


def _fix(found: codebase.Found, args: argparse.Namespace) -> list[str]:
    """Makes the mechanical changes; returns the paths of the files that were changed.

    Raises:
        NotFixedError: If git could not restore them.
    """
    to = sys.stderr if args.json else sys.stdout

    def problem(path: str, why: object) -> None:
        print(report.shown(f"not fixed: {path}: {why}"), file=sys.stderr)

    made = fixing.changes(found, problem)
    if made and not args.force:
        fixing.check(made)
    fixed = []
    for one in made:
        try:
            fixing.write(one, keep=args.force)
        except fixing.NotFixedError as error:
            problem(one.path, error)
            continue
        fixed.append(one.path)
        for line in one.diff:
            _print(line, to)
    install = installing.wanted(found)
    if install is not None and install.edit is None:
        problem(install.path or INSTALL, f"{install.why} Write `{INSTALL}` there by hand.")
    if not made:
        _print("nothing to fix", to)
    return fixed


def _print(line: str, to: TextIO | None = None) -> None:
    to = to or sys.stdout
    text = report.shown(line.replace("\t", "    ")) if line else ""
    encoding = getattr(to, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=to)
