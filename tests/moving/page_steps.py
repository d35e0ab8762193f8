"""The program of `steps/`, moved step by step as docs/moving.md does, which holds the steps.

A *step* is a block of `diff` on that page. The lines that it removes or keeps are found in the
program, and replaced by those that it adds or keeps; `@@` divides places.
"""

import json
import pathlib
import re
import shutil

import codebases
import environments
import pages

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = pages.ROOT / "docs" / "moving.md"
NEWEST = "2.21" if "2.21" in environments.PYTHONS else environments.HERE
OLDEST = codebases.OLDEST
STEPS = 8

TOWERS = "Replicate it"
ORDER = (TOWERS,)  # The headings of the steps, in order.
FIRST_FILE, BEHAVIOUR, KERAS = (
    "The file that runs first",
    "The behaviour of TensorFlow 1",
    "Keras 2",
)


def sections():
    """Returns the blocks of the page by the heading that they are under."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return {name: pages.blocks(text) for name, text in zip(parts[1::2], parts[2::2])}


def shown(heading, language):
    """Returns the text of the blocks of a language under a heading."""
    return [block.text for block in sections()[heading] if block.language == language]


def changed(text, diff):
    """Returns a program after a step.

    Raises:
        AssertionError: If what the step changes is not there, or more than once.
    """
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = [(line[:1] or " ", line[1:]) for line in hunk.splitlines()]
        assert {sign for sign, _ in lines} <= set(" +-"), hunk
        before, after = (
            "".join(line + "\n" for sign, line in lines if sign in signs) for signs in (" -", " +")
        )
        assert text.count(before) == 1, f"found {text.count(before)} times:\n{before}"
        text = text.replace(before, after)
    return text


def program(*headings):
    """Returns the program after some steps, in the order of the page."""
    text = (FOLDER / "steps" / "caption.py").read_text()
    for heading in ORDER:
        if heading in headings:
            (diff,) = shown(heading, "diff")
            text = changed(text, diff)
    return text


def with_another_import():
    """Returns the program with its imports changed by hand, and version 1's behaviour forgotten."""
    text = program()
    new = "import replicate\nimport tensorflow.compat.v1 as tf\n\nreplicate.compat.install()\n"
    assert text.count("import tensorflow as tf\n") == 1
    return text.replace("import tensorflow as tf\n", new)


def variants():
    """Returns programs by name: before the first step, with its imports changed, and after each."""
    made = {"before": program(), BEHAVIOUR: with_another_import()}
    for number, heading in enumerate(ORDER):
        made[f"after {heading}"] = program(*ORDER[: number + 1])
    return made


def planned(root, version, name, is_moved=True, run=""):
    """Returns an entry for `runs.py`, which goes on from the first step."""
    model_dir = root / version / f"{name}{run}".replace(" ", "_")
    is_start = run == " start"
    return {
        "program": str(root / name.replace(" ", "_") / "caption.py"),
        "flags": [str(model_dir), "1" if is_start else str(STEPS)],
        "is_moved": is_moved,
        "from": None if is_start else str(root / OLDEST / "before_start"),
        "model_dir": str(model_dir),
        "log": f"{model_dir}.log",
    }


def run_all(root):
    """Runs the program of each step, and what forgets what comes before them."""
    for name, text in variants().items():
        path = root / name.replace(" ", "_") / "caption.py"
        path.parent.mkdir()
        path.write_text(text)
    last = f"after {TOWERS}"
    proof = {**planned(root, NEWEST, last, run=" proof"), "from": None}
    proof["program"] = str(root / last.replace(" ", "_") / "prove.py")
    proof["flags"] = [str(root / OLDEST / "before_start")]
    shutil.copy(str(FOLDER / "steps" / "prove.py"), proof["program"])
    plans = {version: [] for version in (OLDEST, *codebases.VERSIONS)}
    plans[OLDEST].append(planned(root, OLDEST, "before", OLDEST != "1.15", " start"))
    for version, plan in plans.items():
        plan.append(planned(root, version, "before", version != "1.15"))
        if version != NEWEST:
            plan.append(planned(root, version, last))
    plans[NEWEST] += [
        planned(root, NEWEST, "before", False, " bare"),
        planned(root, NEWEST, BEHAVIOUR, False),
        *(planned(root, NEWEST, name) for name in variants() if name.startswith("after")),
        proof,
    ]
    for version, plan in plans.items():
        codebases.run(root, version, plan)
    if NEWEST == "2.21":
        path = root / "without_keras.json"
        path.write_text(json.dumps([planned(root, NEWEST, "before", True, " without Keras 2")]))
        environments.run(NEWEST, "-W", "ignore", FOLDER / "runs.py", path, keras_2=False)


def log(root, version, name, run=""):
    """Returns what a run printed, with one blank between words."""
    text = pathlib.Path(planned(root, version, name, run=run)["log"]).read_text()
    return " ".join(text.split())


def training(root, version, name):
    """Returns what a run wrote at each step, by tag and step."""
    return codebases.events(pathlib.Path(planned(root, version, name)["model_dir"]))
