"""A program moves by the steps of docs/moving.md, and runs after each; what is forgotten shows."""

import re

import numpy as np
import pytest

import codebases
import page_steps as steps
import pages
import runs
import runs_once
from page_steps import (
    BATCH,
    BEHAVIOUR,
    COUNT,
    FIRST_FILE,
    IDENTITY,
    KERAS,
    NEWEST,
    OLDEST,
    SUM,
    TOWERS,
)

pytestmark = pytest.mark.slow  # The first test waits for all of them.

LAST = f"after {IDENTITY}"
PROOF = "Prove it"
IS_1 = NEWEST.startswith("1.")
needs_2 = pytest.mark.skipif(IS_1, reason="TensorFlow 2 is not here")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where the program has been run after each step, once for all processes of pytest."""
    return runs_once.folder(tmp_path_factory, "steps", steps.run_all)


def deviation(root, version, name, prefix="", wanted=(OLDEST, "before")):
    """Returns by how much what a run wrote deviates from what one device did before moving."""
    got, want = (
        {key: x for key, x in steps.training(root, *run).items() if key.startswith(prefix)}
        for run in ((version, name), wanted)
    )
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


@needs_2
@pytest.mark.parametrize("name", [f"after {TOWERS}", f"without {BATCH}"])
def test_with_a_static_batch_size_it_ends_as_the_page_says(root, name):
    log = steps.log(root, NEWEST, name)
    assert any(is_in(text, log) for text in texts(BATCH))  # Which one is first is chance.


def test_after_each_step_it_is_nearer(root):
    """The loss is wrong until what divides it is mended; then what is summarised is."""
    assert deviation(root, NEWEST, f"after {BATCH}", "loss ") > 1e-3
    assert deviation(root, NEWEST, f"after {SUM}", "loss ") > 0.5
    assert deviation(root, NEWEST, f"after {COUNT}", "loss ") < 1e-6
    assert deviation(root, NEWEST, f"after {COUNT}", "perplexity ") > 0.5
    assert deviation(root, NEWEST, LAST) < 1e-6


@pytest.mark.parametrize("heading", [SUM, COUNT, IDENTITY])
def test_what_is_forgotten_differs_as_the_page_says(root, heading):
    shape = r"(\w+) of step (\d+): ([\d.]+) on one device, ([\d.]+) over towers"
    (found,) = filter(None, (re.fullmatch(shape, text) for text in texts(heading)))
    tag, step, *shown = found.groups()
    name = f"without {heading}" if heading in steps.FORGOTTEN else f"after {COUNT}"
    runs = (OLDEST, "before"), (NEWEST, name)
    made = [steps.training(root, *run)[f"{tag} {step}"] for run in runs]
    assert [f"{number:.4g}" for number in made] == shown


@pytest.mark.parametrize(
    ("heading", "op", "what"), [(COUNT, "truediv", "word"), (SUM, "Sum", "word")]
)
def test_what_is_forgotten_is_logged_with_its_line(root, heading, op, what):
    text, name = texts(heading)[0], f"without {heading}"
    lines = steps.program(*(other for other in steps.ORDER if other != heading)).splitlines()
    (line,) = [number for number, each in enumerate(lines, 1) if f"{what}_loss = " in each]
    # On the page, the line is one of the program as it is shown there.
    assert f"({op}, caption.py:{line})" in text
    logged = re.sub(rf"\({op}, \S*caption\.py", f"({op}, caption.py", steps.log(root, NEWEST, name))
    assert text in logged


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
