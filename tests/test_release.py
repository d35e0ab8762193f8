"""Checks the refusals and the trials of a release, without running `make release`."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

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


# Builds by the interface that `build` calls, with the setuptools that is here.
BUILD = """
import os, sys
from setuptools import build_meta
os.umask(int(sys.argv[3], 8))
print(getattr(build_meta, f"build_{sys.argv[1]}")(sys.argv[2]), file=sys.stderr)
"""


def built(kind, source, folder, epoch, umask):
    """Builds an `sdist` or a `wheel` of a tree; returns its path."""
    folder.mkdir(exist_ok=True)
    before = set(folder.iterdir())
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-c", BUILD, kind, str(folder), umask]
    subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)
    (new,) = set(folder.iterdir()) - before
    return new


@pytest.mark.slow
def test_two_builds_on_two_machines_give_the_same_bytes(tmp_path):
    """The trees have other paths, times and modes, and only one has been built from before."""
    epoch = 1_700_000_000
    for number, umask in enumerate(["022", "077"]):
        tree, folder = tmp_path / f"tree_{number}" / "clone", tmp_path / f"dist_{number}"
        shutil.copytree(pages.ROOT / "replicate", tree / "replicate")
        for name in ("setup.py", "README.md", "LICENSE", "pyproject.toml"):
            shutil.copy(pages.ROOT / name, tree)
        for path in tree.rglob("*.py"):
            os.utime(path, (number, number))
        if number:
            built("sdist", tree, tmp_path / "before", epoch, umask)
        source = built("sdist", tree, folder, epoch, umask)
        release.normalize(source, epoch)
        with tarfile.open(source) as archive:
            archive.extractall(tmp_path / f"unpacked_{number}")
        (unpacked,) = (tmp_path / f"unpacked_{number}").iterdir()
        built("wheel", unpacked, folder, epoch, "022")
    assert len(list(folder.iterdir())) == 2
    release.check_same(tmp_path / "dist_0", folder)


def test_builds_that_differ_are_refused(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same").write_text("1")
        (tmp_path / name / "x.whl").write_text(name)
    with pytest.raises(release.NotReleasableError, match=r"these differ: x\.whl\. Compare them"):
        release.check_same(tmp_path / "one", tmp_path / "other")
    shutil.copy(tmp_path / "one" / "x.whl", tmp_path / "other")
    release.check_same(tmp_path / "one", tmp_path / "other")
    (tmp_path / "one" / "x.tar.gz").touch()
    with pytest.raises(release.NotReleasableError, match=r"these differ: x\.tar\.gz"):
        release.check_same(tmp_path / "one", tmp_path / "other")


def test_what_is_built_replaces_what_was_there(tmp_path):
    old = tmp_path / "dist" / "old.whl"
    assert release.emptied(old.parent) == old.parent
    old.touch()
    assert not list(release.emptied(old.parent).iterdir())


def test_components_are_listed_beside_the_wheel(monkeypatch):
    commands = []
    monkeypatch.setattr(release, "run", lambda *command: commands.append(command))
    wheel = pathlib.Path("dist") / "replicate_estimator-0.2.0-py3-none-any.whl"
    listed = release.list_components("builder", "python", wheel)
    assert listed == pathlib.Path("dist") / "replicate_estimator-0.2.0.cdx.json"
    assert commands[0][:4] == ("builder", "-m", "cyclonedx_py", "environment")
    assert commands[0][-2:] == (listed, "python")
