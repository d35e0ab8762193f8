"""Workflows and hooks name targets of make, every TensorFlow and the right ruff."""

import re

import pytest

import pages

MAKEFILE = (pages.ROOT / "Makefile").read_text()
BETWEEN = re.findall(r"^BETWEEN := (.*)$", MAKEFILE, re.MULTILINE)[0].split()
TARGETS = {*re.findall(r"^([\w.-]+):", MAKEFILE, re.MULTILINE)}
TARGETS |= {f"test-{version}" for version in BETWEEN}
# The TensorFlow of targets that do not name it.
NAMED = {"test-oldest": "2.12", "test-newest": "2.21"}
WORKFLOWS = sorted((pages.ROOT / ".github" / "workflows").glob("*.yml"))


def targets(path):
    """Returns the targets of make that a workflow names, itself or in its matrix."""
    text = path.read_text()
    found = re.findall(r"- run: make ([\w.-]+)", text)
    found += re.findall(r"\{target: ([\w.-]+),", text)
    for several in re.findall(r"^ +target: \[(.*)\]$", text, re.MULTILINE):
        found += several.split(", ")
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_targets_of_make(path):
    assert targets(path)
    assert sorted({*targets(path)} - TARGETS) == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_have_a_version(path):
    used = re.findall(r"uses: (.*)$", path.read_text(), re.MULTILINE)
    assert used
    assert [
        action for action in used if not re.match(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+$", action)
    ] == []


def test_every_tensorflow_has_a_job():
    (path,) = [path for path in WORKFLOWS if path.name == "tests.yml"]
    run = {NAMED.get(target, target[len("test-") :]) for target in targets(path)}
    constraints = (pages.ROOT / "constraints").glob("tf-*.txt")
    assert sorted({path.stem[len("tf-") :] for path in constraints} - run) == []


def test_hooks_have_the_ruff_of_the_constraints():
    hooks = (pages.ROOT / ".pre-commit-config.yaml").read_text()
    pinned = (pages.ROOT / "constraints" / "tf-2.15.txt").read_text()
    (version,) = {*re.findall(r"ruff==([\d.]+)", hooks)}
    assert re.search(rf"^ruff=={re.escape(version)}$", pinned, re.MULTILINE)
