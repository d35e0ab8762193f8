"""Formats the results of a scan, as text and as JSON."""

from __future__ import annotations

import collections
import json
from typing import Iterable, Iterator, Sequence

from replicate.migration.scan import installing
from replicate.migration.scan.codebase import Found
from replicate.migration.scan.findings import RULES, Finding

SCHEMA = 1
"""Version of the JSON. It changes if a field is removed or gets another meaning."""
UPGRADE = (
    "A file that should come out with version 2's own names instead: `tf_upgrade_v2`, which comes "
    "with TensorFlow, renames functions and arguments. It does not know tf.contrib."
)


def shown(text: str) -> str:
    """Returns a text as one line that any terminal can print."""
    plain = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
    return "".join(c if not 0xD800 <= ord(c[0]) <= 0xDFFF else repr(c)[1:-1] for c in plain)


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    """Returns the number of findings of each rule that has any, in the order of rules."""
    found = collections.Counter(one.rule for one in findings)
    return {rule: found[rule] for rule in RULES if found[rule]}


def text(found: Found) -> Iterator[str]:
    """Yields the lines of a report.

    Args:
        found: A `codebase.Found`.
    """
    rule = None
    for one in found.findings:
        if one.rule != rule:
            rule = one.rule
            yield f"{rule}: {RULES[rule].title}"
        place = f"{one.path}:{one.line}" if one.line else one.path
        yield shown(f"  {place}: {one.name}: {one.message}")
    if found.findings:
        yield ""
    for path, line, name in found.model_fns if found.findings else ():
        yield shown(f"model_fn: {path}:{line}: {name}")
    for name, count in counts(found.findings).items():
        yield f"{count:6} {name}"
    fixable = sum(1 for one in found.findings if _is_fixable(found, one))
    places = len({one.path for one in found.findings})
    total = _counted(len(found.findings), "finding")
    files = _counted(found.files, "file")
    end = f"; --fix does {fixable}" if fixable else ""
    yield f"{total} in {places} of {files}{end}" if found.findings else f"no findings in {files}"
    if any(one.rule == "tensorflow-1" for one in found.findings):
        yield UPGRADE


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _is_fixable(found: Found, one: Finding) -> bool:
    """Whether `--fix` resolves a finding."""
    is_written = found.install is not None and found.install.edit is not None
    # For names of a package, the package must be installed as well.
    is_done = is_written and one.rule != "contrib-package" and installing.needs(one)
    return bool(one.edits) or is_done


def as_json(found: Found, fixed: Sequence[str] = ()) -> str:
    """Returns a report as one line of JSON; the command line's page describes it.

    Args:
        found: A `codebase.Found`.
        fixed: Paths of files that were changed.
    """
    return json.dumps(
        {
            "version": SCHEMA,
            "files": found.files,
            "findings": [
                {
                    "path": one.path,
                    "line": one.line,
                    "column": one.column,
                    "rule": one.rule,
                    "severity": one.severity,
                    "name": one.name,
                    "message": one.message,
                    "replacement": one.replacement or None,
                    "fixable": _is_fixable(found, one),
                }
                for one in found.findings
            ],
            "model_fns": [
                {"path": path, "line": line, "name": name} for path, line, name in found.model_fns
            ],
            "counts": counts(found.findings),
            "fixed": list(fixed),
        }
    )
