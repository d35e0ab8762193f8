"""Builds a release and tries it: `make release`. It publishes nothing and makes no tag.

The version in `replicate/version.py` must be the newest of CHANGELOG.md, and the tree without
changes. The source distribution and the wheel go to `dist/`. The wheel is installed in a clean
environment, with the TensorFlow of the constraints, and runs the quickstart of the README and the
tutorial from a folder of its own. The last line says how to tag the commit.
"""

import argparse
import os
import pathlib
import re
import runpy
import subprocess
import sys
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
    """The version is not the newest of the changelog, or the tree has uncommitted changes."""


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


def build(builder):
    """Builds `dist/` again with a Python that has `build`; returns the path of the wheel."""
    for old in (ROOT / "dist").glob("*"):
        old.unlink()
    run(builder, "-m", "build", "--outdir", "dist", ".")
    (wheel,) = (ROOT / "dist").glob("*.whl")
    return wheel


def try_out(wheel, folder):
    """Installs the wheel in a clean environment in `folder`, and runs the programs there."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-c", CONSTRAINTS, wheel)
    for name, text in programs().items():
        program = folder / f"{name}.py"
        program.write_text(text, encoding="utf-8")
        # Neither this clone nor the user's own packages are to be found.
        run(python, "-I", program, cwd=folder)


def run(*command, cwd=ROOT):
    """Runs a command, whose failure ends the release."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    subprocess.run(list(map(str, command)), cwd=cwd, env=environment, check=True)


def main(argv=None):
    """Makes the release; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--builder", default=sys.executable, help="a Python that has `build`")
    args = parser.parse_args(argv)
    version = runpy.run_path(str(ROOT / "replicate" / "version.py"))["__version__"]
    git = ["git", "-C", str(ROOT), "status", "--porcelain"]
    changes = subprocess.run(git, stdout=subprocess.PIPE, check=True)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        check(version, changelog, changes.stdout.decode())
    except NotReleasableError as error:
        print(f"Not released: {error}", file=sys.stderr)
        return 1
    wheel = build(pathlib.Path(args.builder).absolute())
    with tempfile.TemporaryDirectory() as folder:
        try_out(wheel, pathlib.Path(folder))
    print(f"{version} is in {wheel.parent}; the README's program and the tutorial run with it.")
    print(f"Tag it: git tag -a v{version} -m 'replicate {version}' && git push origin v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
