"""All that CI installs is pinned with hashes, and pinned alike in all files."""

import importlib.metadata
import platform
import re

import pytest

import pages
from tools import lock

NAMES = sorted(lock.ENVIRONMENTS)
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[.*\])?==([^\s;\\]+)(.*)$", re.MULTILINE)


def normalized(name):
    """Returns a name as the package index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text):
    """Returns the versions that a text pins by names, those that a marker leaves out included."""
    return {normalized(name): version for name, version, _ in PIN.findall(text)}


def locked(name):
    """Returns the text of a lock."""
    return (lock.LOCKED / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_has_the_versions_of_the_constraints(name):
    text = (lock.CONSTRAINTS / f"{lock.ENVIRONMENTS[name].constraints}.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    wanted = {}
    for package, version, _ in PIN.findall("\n".join(lines)):
        wanted.setdefault(normalized(package), set()).add(version)
    for package, version in pins(locked(name)).items():
        assert version in wanted[package], f"{package} is pinned in one of the files alone"


@pytest.mark.parametrize("name", NAMES)
def test_every_pin_has_hashes_and_no_line_names_a_host(name):
    text = locked(name)
    assert text.splitlines()[0] == lock.first_line(lock.ENVIRONMENTS[name])
    entries = re.split(r"\n(?=\S)", re.sub(r"^(#.*\n)+", "", text).rstrip())
    for entry in entries:
        assert PIN.match(entry), entry
        assert re.fullmatch(r"\S+.*?( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry
    assert "://" not in text


def test_all_that_an_environment_imports_is_locked():
    """The environment that runs this has what its lock has, and no more."""
    distributions = list(importlib.metadata.distributions())
    found = {normalized(one.metadata["Name"]): one.version for one in distributions}
    name = f"tf-{'.'.join(found['tensorflow'].split('.')[:2])}"
    python = ".".join(platform.python_version_tuple()[:2])
    here = f"# CPython {python} on {platform.system()}-{platform.machine()}"
    if lock.first_line(lock.ENVIRONMENTS[name]) != here:
        pytest.skip(f"`make` installs by no lock here: {here}")
    wanted = pins(locked(name))
    assert {one: found.get(one) for one in wanted} == wanted
    # Nothing else is there but pip, which `venv` brings, and the library itself.
    assert set(found) - set(wanted) <= {"pip", "replicate-estimator"}


@pytest.mark.parametrize("name", NAMES)
def test_make_installs_by_every_lock(name):
    makefile = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"constraints/locked/{name}.txt" in makefile


def test_commands_resolve_for_the_python_of_the_lock():
    command = lock.command(lock.ENVIRONMENTS["tf-1.15"])
    assert command[3:].index("compile") == 1
    assert command[command.index("--python-version") :][:2] == ("--python-version", "3.7.16")
    assert command[command.index("--constraint") :][:2] == (
        "--constraint",
        "constraints/tf-1.15.txt",
    )
    assert "constraints/docs.txt" in lock.command(lock.ENVIRONMENTS["docs"])
