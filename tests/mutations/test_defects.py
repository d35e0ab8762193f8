"""Every defect changes one place of the library as it is now, and leaves Python that runs."""

import ast
import pathlib

import pytest

import replicate
from mutations.defects import DEFECTS

ROOT = pathlib.Path(replicate.__file__).parent


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_changes_one_place(defect):
    text = (ROOT / defect.file).read_text()
    assert text.count(defect.right) == 1
    ast.parse(text.replace(defect.right, defect.wrong))


def test_there_are_forty_of_them_in_all_rooms():
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 40
    assert len({defect.file.split("/")[0] for defect in DEFECTS}) >= 8
