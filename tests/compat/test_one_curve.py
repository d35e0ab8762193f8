"""One program, one checkpoint and the same batches give one curve on every TensorFlow.

Those that are installed take part: the environments that `make` makes beside this one. As a table:

    python tests/compat/test_one_curve.py --page docs/versions.md
"""

import argparse
import concurrent.futures
import functools
import itertools
import pathlib
import sys
import tempfile

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.append(str(ROOT / "tests"))

import curve_program  # noqa: E402
import selection  # noqa: E402
from environments import HERE, OTHERS, PYTHONS, run  # noqa: E402

# The first test waits for all of them.
pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("tests/compat/test_one_curve.py")]

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}  # Relative to the largest entry.
CASES = list(curve_program.CASES)
# Rounding would show in float64.
mostly_float64 = pytest.mark.parametrize(
    "case", [selection.cell(case, is_quick=case == "float64") for case in CASES]
)
PAIRS = list(itertools.product(PYTHONS, PYTHONS))


def _order(version):
    return tuple(map(int, version.split(".")))


def _run(version, *args):
    done = run(version, ROOT / "tests" / "compat" / "curve_program.py", *args)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-1].startswith(version + ".")


@functools.lru_cache(maxsize=None)
def found(case):
    """Returns what each version found, in training, and in going on with what others trained."""
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        trained, gone_on = made / "trained", made / "gone_on"

        def train(version):
            _run(version, "train", case, trained / version, made / "start")

        def go_on(version):
            others = [trained / other for other in PYTHONS]
            _run(version, "go_on", case, gone_on / version, *others)

        train(HERE)  # It makes the checkpoint that all begin with.
        with concurrent.futures.ThreadPoolExecutor(2) as processes:
            list(processes.map(train, OTHERS))
            list(processes.map(go_on, PYTHONS))
        return tuple(
            {version: dict(np.load(str(path / version / "found.npz"))) for version in PYTHONS}
            for path in (trained, gone_on)
        )


def deviation(got, want):
    """Returns by how much two dicts of arrays differ, of the largest entry of each."""
    assert {*got} == {*want} and got
    return max(
        float(np.max(np.abs(got[key] - want[key])) / max(np.max(np.abs(want[key])), 1e-30))
        for key in want
    )


def trained_by(version, case):
    return found(case)[0][version]


def continued(version, first, case, whole):
    """Returns what `version` made of the checkpoint of `first`, and what is to come out."""
    prefix = f"{first}/whole/{case}/" if whole else f"{first}/served/{case}"
    got = {key: value for key, value in found(case)[1][version].items() if key.startswith(prefix)}
    want = found(case)[0][HERE]
    return got, {key: want[key.partition("/")[2]] for key in got}


@mostly_float64
@pytest.mark.parametrize("version", PYTHONS)
def test_losses_weights_and_slots(version, case):
    losses = found(case)[0][version][f"{case}/losses"]
    assert losses.shape == (curve_program.STEPS,) and losses.dtype == case
    assert np.ptp(losses) > 0.1
    found_here = deviation(trained_by(version, case), trained_by(HERE, case))
    assert found_here < TOLERANCE[case]


@mostly_float64
@pytest.mark.parametrize(("version", "first"), PAIRS)
def test_a_checkpoint_of_one_is_continued_by_another(version, first, case):
    assert deviation(*continued(version, first, case, whole=True)) < TOLERANCE[case]


@mostly_float64
@pytest.mark.parametrize(
    ("version", "first"),
    [pair for pair in PAIRS if _order(pair[1]) <= _order(pair[0])],
)
def test_a_saved_model_is_served_by_newer_ones(version, first, case):
    assert deviation(*continued(version, first, case, whole=False)) < TOLERANCE[case]


def table():
    """Returns the largest deviations from this version, as a table in Markdown."""
    titles = ["TensorFlow", *CASES, *(f"from {first}" for first in sorted(PYTHONS, key=_order))]
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    for version in sorted(PYTHONS, key=_order):
        cells = [deviation(trained_by(version, c), trained_by(HERE, c)) for c in CASES]
        cells = [f"{cell:.0e}" for cell in cells]
        for first in sorted(PYTHONS, key=_order):
            pairs = [continued(version, first, case, whole=True) for case in CASES]
            cells.append(" / ".join(f"{deviation(*pair):.0e}" for pair in pairs))
        lines.append("| " + " | ".join([version, *cells]) + " |")
    return "\n".join(lines)


def main():
    """Prints the table, and writes it into the page that `--page` names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", help="page of the documentation into which to write the table")
    made, args = table(), parser.parse_args()
    print(made)
    if args.page:
        sys.path.append(str(ROOT))
        from benchmarks import pages

        pages.write(args.page, "test_one_curve", made)


if __name__ == "__main__":
    main()
