"""Checks the refusals and the trials of a release, without running `make release`."""

import ast
import re

import pytest

import pages
from tools import release

CHANGELOG = "# Changelog\n\n## 0.2.0 — 2027-01-31\n\n### Added\n\n## 0.1.0 — 2026-12-01\n"


def test_the_newest_version_without_changes_is_released():
    release.check("0.2.0", CHANGELOG, "")


@pytest.mark.parametrize(
    ("version", "changelog", "changes", "text"),
    [
        ("0.1.0", CHANGELOG, "", r"must be the newest .* 0\.1\.0 and the other 0\.2\.0"),
        ("0.2.0", "## Unreleased\n\n" + CHANGELOG, "", "the other Unreleased.* date"),
        ("0.2.0", "# Changelog\n", "", "must have a heading"),
        ("0.2.0", CHANGELOG, " M setup.py\n", "(?s)but there are changes:\n M setup.py\nCommit"),
        ("0.2.0", CHANGELOG, "?? new.py\n", "new.py"),
    ],
)
def test_what_is_not_released(version, changelog, changes, text):
    with pytest.raises(release.NotReleasableError, match=text):
        release.check(version, changelog, changes)


def test_the_quickstart_is_the_readmes_first_block():
    readme = (pages.ROOT / "README.md").read_text()
    program = release.programs()["quickstart"]
    assert program == pages.blocks(readme)[0].text + release.PROOF
    assert "model.train(" in program
    # In a namespace of what the program makes, the proof finds what it asks for.
    asked = set(re.findall(r"\b(np|model|replicate)\.", release.PROOF))
    assert all(re.search(rf"\b{name}\b", program) for name in asked)


def test_the_tutorial_is_a_program_from_one_device_to_a_savedmodel():
    program = release.programs()["tutorial"]
    ast.parse(program)
    steps = ["def model_fn(", "replicate_model_fn(", "replicate.compare(", "export_saved_model("]
    assert sorted(steps, key=program.index) == steps


def test_the_changelog_begins_with_a_version():
    assert release.newest((pages.ROOT / "CHANGELOG.md").read_text())


def test_the_citation_has_the_version_and_the_date_of_the_changelog():
    citation = (pages.ROOT / "CITATION.cff").read_text()
    changelog = (pages.ROOT / "CHANGELOG.md").read_text()
    version, date = re.findall(r"^## (\d\S+) — (\S+)$", changelog, re.MULTILINE)[0]
    assert f"\nversion: {version}\ndate-released: {date}\n" in citation
