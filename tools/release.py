"""Builds a release and tries it: `make release`. It publishes nothing and makes no tag.

The version in `replicate/version.py` must be the newest of CHANGELOG.md, and the tree without
changes. The source distribution and the wheel go to `dist/`, built twice: the second time must give
the same bytes. The wheel is installed in a clean environment, with the TensorFlow of the
constraints, and runs the quickstart of the README and the tutorial from a folder of its own. All
that is in that environment is listed beside the wheel, with versions and licences, in the format
CycloneDX. The last line says how to tag the commit.
"""

import argparse
import filecmp
import gzip
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tarfile
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints" / "tf-2.15.txt"
# Checks of the quickstart after it has run.
PROOF = """
import pathlib
assert np.allclose(model.get_variable_value("weights").T, [[1, 2, 3]], atol=0.1)
print("replicate", replicate.__version__, "of", pathlib.Path(replicate.__file__).parent)
"""


class NotReleasableError(Exception):
    """The version or the tree is not ready, or two builds differ."""


def newest(changelog):
    """Returns the name of the first version in the text of the changelog, a str."""
    found = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    if found is None:
        raise NotReleasableError(
            "CHANGELOG.md must have a heading such as `## 0.1.0 — 2026-12-31`."
        )
    return found[1]


def check(version, changelog, changes):
    """Raises an error unless this can be released.

    Args:
        version: That of `replicate/version.py`, a str.
        changelog: The text of CHANGELOG.md.
        changes: What `git status --porcelain` prints.

    Raises:
        NotReleasableError: If the versions differ, or there are changes.
    """
    if newest(changelog) != version:
        raise NotReleasableError(
            "The version in replicate/version.py must be the newest of CHANGELOG.md, but one is "
            f"{version} and the other {newest(changelog)}. Set the one, and date the heading of "
            "the other."
        )
    if changes.strip():
        raise NotReleasableError(
            "A release is made from what is committed, but there are changes:\n"
            f"{changes.rstrip()}\nCommit them, or put them aside."
        )


def programs():
    """Returns the texts of what readers copy, by name: the README's first block, the tutorial."""
    readme = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    tutorial = blocks((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    return {"quickstart": readme[0] + PROOF, "tutorial": "\n".join(tutorial)}


def blocks(page):
    """Returns the Python that a page shows, a list of its blocks."""
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def build(builder, folder, epoch):
    """Builds the source distribution, and the wheel from it; the same commit gives the same bytes.

    Args:
        builder: Path of a Python that has `build` and setuptools.
        folder: Path of an empty folder, for the two files.
        epoch: Time that all files get, in seconds since 1970, an int.

    Returns:
        The path of the wheel.
    """
    environment = {"SOURCE_DATE_EPOCH": str(epoch)}
    command = [builder, "-m", "build", "--no-isolation", "--outdir"]
    run(*command, folder, "--sdist", ".", environment=environment)
    (source,) = folder.glob("*.tar.gz")
    normalize(source, epoch)
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(source) as archive:
            archive.extractall(place)
        (unpacked,) = pathlib.Path(place).iterdir()
        run(*command, folder, "--wheel", unpacked, environment=environment)
    (wheel,) = folder.glob("*.whl")
    return wheel


def emptied(folder):
    """Returns a folder, which is made if it is missing, and whose files are removed."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    return folder


def normalize(source, epoch):
    """Writes a source distribution again, without what depends on the machine that made it.

    Members come in the order of their names, with the time `epoch`, an int, no owner, and the mode
    755 if they are folders or can be run, 644 if not.
    """
    with tarfile.open(source) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        contents = [archive.extractfile(one).read() if one.isfile() else b"" for one in members]
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in zip(members, contents):
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, len(content), epoch
            clean.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            archive.addfile(clean, io.BytesIO(content))
    source.write_bytes(gzip.compress(written.getvalue(), mtime=epoch))


def check_same(folder, other):
    """Raises an error unless two builds gave the same bytes.

    Raises:
        NotReleasableError: If a file differs, or is in one of the folders alone.
    """
    names = {path.name for place in (folder, other) for path in place.iterdir()}
    _, different, missing = filecmp.cmpfiles(folder, other, names, shallow=False)
    differing = sorted([*different, *missing])
    if differing:
        raise NotReleasableError(
            "Two builds of one commit must give the same bytes, but these differ: "
            f"{', '.join(differing)}. Compare them with diffoscope."
        )


def try_out(wheel, folder):
    """Installs the wheel in a clean environment in `folder`, and runs the programs there.

    Returns:
        The path of the environment's Python.
    """
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-c", CONSTRAINTS, wheel)
    for name, text in programs().items():
        program = folder / f"{name}.py"
        program.write_text(text, encoding="utf-8")
        # Neither this clone nor the user's own packages are to be found.
        run(python, "-I", program, cwd=folder)
    return python


def list_components(builder, python, wheel):
    """Lists all packages of an environment beside a wheel; returns the path of the list."""
    listed = wheel.with_name(wheel.name.partition("-py3")[0] + ".cdx.json")
    options = ["--output-reproducible", "--of", "JSON", "-o", listed]
    run(builder, "-m", "cyclonedx_py", "environment", *options, python)
    return listed


def run(*command, cwd=ROOT, environment=()):
    """Runs a command, whose failure ends the release."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    given = {**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", **dict(environment)}
    subprocess.run(list(map(str, command)), cwd=cwd, env=given, check=True)


def output_of_git(*arguments):
    """Returns what a command of git prints of this clone, a str."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


def main(argv=None):
    """Makes the release; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--builder", default=sys.executable, help="a Python that has `build`")
    args = parser.parse_args(argv)
    version = runpy.run_path(str(ROOT / "replicate" / "version.py"))["__version__"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    builder = pathlib.Path(args.builder).absolute()
    os.umask(0o022)  # Modes of files go into the wheel.
    with tempfile.TemporaryDirectory() as folder:
        again = pathlib.Path(folder) / "again"
        again.mkdir()
        try:
            check(version, changelog, output_of_git("status", "--porcelain"))
            epoch = int(output_of_git("log", "-1", "--format=%ct"))
            wheel = build(builder, emptied(ROOT / "dist"), epoch)
            build(builder, again, epoch)
            check_same(wheel.parent, again)
        except NotReleasableError as error:
            print(f"Not released: {error}", file=sys.stderr)
            return 1
        listed = list_components(builder, try_out(wheel, pathlib.Path(folder)), wheel)
    print(f"{listed.name} lists what it was tried with.")
    print(f"{version} is in {wheel.parent}; the README's program and the tutorial run with it.")
    print(f"Tag it: git tag -a v{version} -m 'replicate {version}' && git push origin v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
