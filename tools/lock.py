"""Writes `constraints/locked/`, exact pins with hashes of all that CI installs: `make lock`.

The pins are those of `constraints/`. A lock is for one Python and one platform, which its first
line names; `make` installs by it there, and nothing whose hash it does not have. Other Pythons and
platforms take `constraints/`. uv (https://docs.astral.sh/uv) resolves, and asks the package index
for hashes of all files of a release.
"""

import pathlib
import subprocess
import sys
from typing import NamedTuple, Tuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints"
LOCKED = CONSTRAINTS / "locked"
PLATFORM = "Linux-x86_64"
_UV_PLATFORM = "x86_64-manylinux_2_28"


class Environment(NamedTuple):
    """An environment that `make` makes."""

    constraints: str  # name of the file that pins versions
    python: str
    extras: Tuple[str, ...] = ()  # of setup.py; none: all that the file pins


ENVIRONMENTS = {
    "tf-1.15": Environment("tf-1.15", "3.7.16", ("test",)),
    "tf-2.15": Environment("tf-2.15", "3.11.7", ("test", "types", "coverage", "fuzz")),
    "tf-2.21": Environment("tf-2.21", "3.11.7", ("test", "keras2")),
    "contrib": Environment("tf-2.15", "3.11.7", ("contract", "contrib")),
    "docs": Environment("docs", "3.11.7"),
    "release": Environment("release", "3.11.7"),
}


def first_line(environment: Environment) -> str:
    """Returns the first line of a lock: the Python and the platform that it is for."""
    python = ".".join(environment.python.split(".")[:2])
    return f"# CPython {python} on {PLATFORM}"


def command(environment: Environment) -> Tuple[str, ...]:
    """Returns the command that prints the pins of an environment with their hashes."""
    pins = f"constraints/{environment.constraints}.txt"
    if environment.extras:
        extras = [word for extra in environment.extras for word in ("--extra", extra)]
        what = ("setup.py", *extras, "--constraint", pins)
    else:
        what = (pins,)
    target = ("--python-version", environment.python, "--python-platform", _UV_PLATFORM)
    # Users have package indexes of their own, which the file must not name.
    output = ("--generate-hashes", "--no-annotate", "--no-header", "--no-emit-index-url")
    return (sys.executable, "-m", "uv", "pip", "compile", "--quiet", *what, *target, *output)


def main() -> int:
    """Writes all locks; returns the status of the first command that failed, or 0."""
    LOCKED.mkdir(exist_ok=True)
    for name, environment in ENVIRONMENTS.items():
        done = subprocess.run(
            command(environment), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            return done.returncode
        text = f"{first_line(environment)}\n# Written by `make lock`.\n{done.stdout}"
        (LOCKED / f"{name}.txt").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
