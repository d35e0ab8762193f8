"""Writes the table of licences of all that the library needs: `python -m tools.licences`.

Packages are those that `pip install .` brings into this environment, their dependencies included;
extras are left out. Licences are those that packages declare.
"""

import argparse
import importlib.metadata
import pathlib
import re
from typing import Dict, Iterator, List

from packaging.requirements import Requirement

from benchmarks import pages

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "supply.md"
PACKAGE = "replicate-estimator"
_CLASSIFIER = "License :: OSI Approved :: "
# Names that packages use, and those of the list of SPDX.
_SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "3-clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache-2": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def needed(name: str = PACKAGE) -> Dict[str, importlib.metadata.Distribution]:
    """Returns the packages that a package needs here, by name, itself left out."""
    found: Dict[str, importlib.metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        for requirement in _requirements(importlib.metadata.distribution(waiting.pop())):
            normalized = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if normalized not in found:
                found[normalized] = importlib.metadata.distribution(requirement.name)
                waiting.append(requirement.name)
    return dict(sorted(found.items()))


def _requirements(distribution: importlib.metadata.Distribution) -> Iterator[Requirement]:
    for line in distribution.requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def licence(distribution: importlib.metadata.Distribution) -> str:
    """Returns the licence that a package declares, by its SPDX name if that is known."""
    metadata = distribution.metadata
    classifiers: List[str] = metadata.get_all("Classifier") or []
    approved = [one[len(_CLASSIFIER) :] for one in classifiers if one.startswith(_CLASSIFIER)]
    # Some packages have the whole text of their licence in the field `License`.
    free = (metadata.get("License") or "").strip().split("\n")[0]
    declared = metadata.get("License-Expression") or (approved or [free])[0]
    return _SPDX.get(declared, declared)


def table() -> str:
    """Returns the table in Markdown."""
    rows = [
        f"| {name} | {one.version} | {licence(one)} |" for name, one in sorted(needed().items())
    ]
    return "\n".join(["| package | version | licence |", "| --- | --- | --- |", *rows])


def main() -> None:
    """Writes the table into its page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", type=pathlib.Path, default=PAGE, help="default: docs/supply.md")
    pages.write(parser.parse_args().page, "tools.licences", table())


if __name__ == "__main__":
    main()
