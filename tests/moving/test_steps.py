"""A program moves by the steps of docs/moving.md, and runs after each; what is forgotten shows."""

import re

import numpy as np
import pytest

import codebases
import page_steps as steps
import pages
import runs
import runs_once
from page_steps import BEHAVIOUR, FIRST_FILE, KERAS, NEWEST, OLDEST, TOWERS

# The first test waits for all of them.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tests/moving/test_steps.py")]

LAST = f"after {TOWERS}"
PROOF = "Prove it"
IS_1 = NEWEST.startswith("1.")
needs_2 = pytest.mark.skipif(IS_1, reason="TensorFlow 2 is not here")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where the program has been run after each step, once for all processes of pytest."""
    return runs_once.folder(tmp_path_factory, "steps", steps.run_all)


def deviation(root, version, name):
    """Returns by how much what a run wrote deviates from what one device did before moving."""
    got, want = (steps.training(root, *run) for run in ((version, name), (OLDEST, "before")))
    assert sorted(got) == sorted(want) and len(want) >= steps.STEPS
    return max(abs(got[key] - want[key]) / abs(want[key]) for key in want)


def texts(heading):
    """Returns what a section shows that something prints, one blank between words."""
    return [" ".join(text.split()) for text in steps.shown(heading, "text")]


def is_in(text, log):
    """Whether a log has what the page shows, in which `…` stands for anything."""
    return re.search(re.escape(text).replace("…", ".*?"), log)


@pytest.mark.parametrize("version", codebases.VERSIONS)
@pytest.mark.parametrize("name", ["before", LAST])
def test_it_trains_on_every_tensorflow_as_on_the_first(root, version, name):
    assert deviation(root, version, name) < 1e-6, steps.log(root, version, name)[-2000:]


@pytest.mark.parametrize("version", codebases.VERSIONS)
def test_its_weights_are_those_of_the_first(root, version):
    want = codebases.weights(root / OLDEST / "before")
    got = codebases.weights(root / version / LAST.replace(" ", "_"))
    assert sorted(got) == sorted(want) and len(want) > 10
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-11, atol=1e-13, err_msg=name)


@needs_2
def test_without_the_first_file_it_ends_as_the_page_says(root):
    (text,) = texts(FIRST_FILE)
    assert text in steps.log(root, NEWEST, "before", " bare")


@needs_2
def test_without_the_behaviour_of_version_1_it_ends_as_the_page_says(root):
    (text,) = texts(BEHAVIOUR)
    assert text in steps.log(root, NEWEST, BEHAVIOUR)


@pytest.mark.skipif(NEWEST != "2.21", reason="TensorFlow 2.21 is not here")
def test_without_keras_2_it_ends_as_the_page_says(root):
    (text,) = texts(KERAS)
    assert text in steps.log(root, NEWEST, "before", " without Keras 2")


def test_nothing_is_logged_of_the_moved_program(root):
    assert "replicate:" not in steps.log(root, NEWEST, LAST)


def test_the_comparison_of_the_moved_program_says_what_the_page_does(root):
    (text,) = texts(PROOF)
    assert is_in(text, steps.log(root, NEWEST, LAST, " proof"))


def test_the_page_shows_the_files_of_the_tests():
    launch = (steps.FOLDER / "launch.py").read_text()
    prove = (steps.FOLDER / "steps" / "prove.py").read_text()
    (shown,) = steps.shown(FIRST_FILE, "python")
    assert shown in launch
    (shown,) = (b.text for b in steps.sections()[PROOF] if b.note.startswith("not run"))
    assert shown.strip() in re.sub(r"^    ", "", prove, flags=re.MULTILINE)


def test_every_diff_of_the_page_is_a_step():
    found = [name for name in steps.sections() if steps.shown(name, "diff")]
    assert tuple(found) == steps.ORDER
    whole = pages.blocks(steps.PAGE.read_text())
    assert sum(block.language == "diff" for block in whole) == len(steps.ORDER)


def test_what_goes_on_at_once_writes_over_nothing(tmp_path):
    for folder in ("", "eval"):
        (tmp_path / "first" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "first" / folder / "events.out.tfevents.5.host").touch()
    runs.copy(str(tmp_path / "first"), str(tmp_path / "second"))
    assert not list((tmp_path / "second").rglob("*.host"))
    assert len(list((tmp_path / "second").rglob("events*"))) == 2


@pytest.mark.parametrize("diff", [" absent\n+more\n", " import numpy as np\n+x\n@@\n-absent\n"])
def test_a_step_that_does_not_fit_is_an_error(diff):
    with pytest.raises(AssertionError, match="found 0 times:\nabsent"):
        steps.changed(steps.program(), diff)


def test_a_step_changes_what_it_says():
    made = steps.changed("a\nb\nc\n", " a\n-b\n+d\n+\n@@\n-c\n")
    assert made == "a\nd\n\n"
