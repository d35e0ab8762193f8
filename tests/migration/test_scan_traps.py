"""Planted traps in programs of several styles are found, and nothing else."""

import pathlib
import re

import pytest

from replicate.migration import scan

ROOT = pathlib.Path(__file__).parents[1] / "moving"
TRAPS = sorted((ROOT / "traps").glob("*.py"))
# One finding is enough for a whole codebase, in any file.
ONCE = {"compat-install", "version-2-behavior"}


def planted(path):
    """Returns the lines and rules of a file's `# trap: rule in words`."""
    lines = path.read_text(encoding="utf-8").splitlines()
    marks = [(number, re.search(r"# trap: (.*)", line)) for number, line in enumerate(lines, 1)]
    return {(number, mark[1].replace(" ", "-")) for number, mark in marks if mark}


@pytest.mark.parametrize("path", TRAPS, ids=lambda path: path.stem)
def test_each_trap_is_found_and_nothing_else(path):
    found = {(one.line, one.rule) for one in scan.scan([str(path)]).findings}
    assert {one for one in found if one[1] not in ONCE} == planted(path) != set()


def test_every_rule_of_traps_is_planted():
    rules = {rule for path in TRAPS for _, rule in planted(path)}
    assert len(rules) >= 8 and rules <= set(scan.RULES)


# Programs, with the changes that moving them takes; `scan` finds no other traps in them.
STYLES = {
    "captions": {"contrib-name"},
    "mnist": {"contrib-name"},
    "ssd": {"contrib-package", "contrib-name"},
    "tpu": {"contrib-name", "cross-replica"},
}


@pytest.mark.parametrize("name", STYLES)
def test_programs_that_need_no_change_have_no_trap(name):
    rules = {one.rule for one in scan.scan([str(ROOT / "styles" / name)]).findings}
    moving = {"tensorflow-1", "compat-install", "version-2-behavior", "replicate-model-fn"}
    assert rules - moving == STYLES[name]
