"""`--fix` writes `replicate.compat.install()` into the file that runs first, if it is certain."""

import os

import pytest

from planted import find
from replicate.migration.scan import command, contrib, files, report, scan

MODEL = """\
import tensorflow.compat.v1 as tf
def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode)
"""
LINES = "import replicate\n\nreplicate.compat.install()\n\n"
MAIN = 'if __name__ == "__main__":\n    main()\n'
RUN = "tf.app.run()\n"


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(contrib, "_find", find)


@pytest.fixture
def fixed(tmp_path, monkeypatch, capsys):
    """Returns a function that writes files, fixes them, and returns what they became."""
    monkeypatch.chdir(tmp_path)

    def of(files, *arguments):
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(".", name)), exist_ok=True)
            (tmp_path / name).write_bytes(text.encode())
        capsys.readouterr()
        command.main([".", "--fix", "--force", *arguments])
        return {name: (tmp_path / name).read_bytes().decode() for name in files}

    return of


BEFORE = {
    "TensorFlow": "import os\nos.environ['A'] = ''\n| import tensorflow.compat.v1 as tf\n",
    "an import of a model": "import sys\n| import model\nimport tensorflow.compat.v1 as tf\n",
    "from a package": "from absl import app\n| from pkg import net\n",
    "from this package": "| from . import model\n",
    "what must be first": '#!/bin/x\n"""Doc."""\nfrom __future__ import division\n| import model\n',
    "tried": "try:\n    import abc\nfinally:\n    x\n| try:\n    import model\nfinally:\n    x\n",
    "other libraries": "import numpy as np\n| import tf_slim as slim\n",
    "in functions": "def f():\n    import model\n| import model\n",
    "in conditions": "import os\n| if os:\n    from tensorflow import x\nimport model\n",
    "where it is imported": "import replicate\n- import model\n",
    "where it is imported later": "| import model\nimport replicate\n",
}


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", BEFORE)
def test_the_line_is_before_what_imports_tensorflow(fixed, name, ends):
    text = BEFORE[name] + MAIN
    before = text.replace("| ", "").replace("- ", "").replace("\n", ends)
    after = text.replace("| ", LINES).replace("- ", "replicate.compat.install()\n\n")
    files = {"main.py": before, "model.py": MODEL, "pkg/net.py": ""}
    made = fixed(files)
    assert made == {**files, "main.py": after.replace("\n", ends)}
    compile(made["main.py"], "main.py", "exec")
    assert scan(["."]).findings == []
    assert fixed(made) == made


def test_tf_app_run_is_an_entry(fixed, capsys):
    files = {"main.py": "import tensorflow.compat.v1 as tf\n" + RUN, "model.py": MODEL}
    assert fixed(files)["main.py"] == LINES + files["main.py"]
    assert "+replicate.compat.install()\n" in capsys.readouterr().out


def test_it_goes_with_what_else_is_changed_there(fixed):
    text = "import tensorflow as tf\ntf.contrib.training.HParams, tf.placeholder\n" + MAIN
    made = fixed({"main.py": text})["main.py"]
    assert made == LINES + text.replace("tensorflow as", "tensorflow.compat.v1 as")
    text = "from tensorflow.contrib import layers\nimport tensorflow as tf\n"
    text += "tf.Print(layers.xavier_initializer(), tf.estimator)\n" + MAIN
    made = fixed({"main.py": text})["main.py"]
    assert made.startswith(LINES + "import tensorflow.compat.v1 as tf\ntf.Print(tf.glorot")


UNCERTAIN = {
    "none": (
        {"a.py": MODEL},
        "replicate.compat.install(): it is not certain which file runs first: none",
    ),
    "two": ({"a.py": MODEL + MAIN, "b.py": MAIN}, "runs first: a.py, b.py may. Write `"),
    "many": ({f"{n}.py": MODEL + MAIN for n in range(9)}, "runs first: 0.py, 1.py, 2.py, … may."),
    "one that is not read": (
        {"a.py": MODEL + MAIN, "b.py": "print 1\n"},
        "b.py could not be read.",
    ),
    "nothing at its beginning": (
        {"a.py": "def f():\n    import model\n" + MAIN, "model.py": MODEL},
        "not fixed: a.py: nothing tells where it imports TensorFlow first. Write",
    ),
    "another statement of the line": (
        {"a.py": "x = 1; import tensorflow.compat.v1 as tf\ntf.estimator\n" + MAIN},
        "not fixed: a.py: nothing tells",
    ),
    "another replicate": (
        {"a.py": "import tensorflow.compat.v1 as tf\nreplicate = tf.estimator\n" + MAIN},
        "not fixed: a.py: nothing tells",
    ),
}


@pytest.mark.parametrize("name", UNCERTAIN)
def test_what_is_not_certain_stays_and_is_said(fixed, name, capsys):
    files, why = UNCERTAIN[name]
    assert fixed(files) == files
    printed = capsys.readouterr()
    assert why in printed.err and printed.out.startswith("nothing to fix\n")
    (install,) = [one for one in scan(["."]).findings if one.rule == "compat-install"]
    assert install.edits == ()


@pytest.mark.parametrize(
    "files",
    [
        {"main.py": "import tensorflow.compat.v1 as tf\n" + MAIN},  # Nothing needs it.
        {"main.py": MODEL + MAIN, "b.py": "import replicate\nreplicate.compat.install()\n"},
        {"main.py": MODEL.replace("Spec(mode)", "Spec(mode)  # replicate: ignore") + MAIN},
    ],
)
def test_what_needs_none_gets_none(fixed, files, capsys):
    assert fixed(files) == files
    assert capsys.readouterr().err == ""


def test_rules_that_are_not_asked_for_do_not_write_it(fixed, capsys):
    files = {"main.py": MODEL + MAIN}
    assert fixed(files, "--exclude", "compat-install") == files
    assert capsys.readouterr().err == ""


def test_a_file_that_changes_while_all_is_scanned_gets_none(fixed, monkeypatch, capsys):
    def changed(path):
        text = read(path)
        (reads if path == "main.py" else []).append(path)
        return text + b"# more\n" if len(reads) == 2 else text

    read, reads = files.read, []
    monkeypatch.setattr(files, "read", changed)
    assert fixed({"main.py": MODEL + MAIN}) == {"main.py": MODEL + MAIN}
    assert "not fixed: main.py: nothing tells" in capsys.readouterr().err


BESIDE = {
    "here": ("main.py", "net.py", "import net"),
    "a package": ("main.py", "pkg/net.py", "import pkg.net"),
    "a package itself": ("main.py", "net/__init__.py", "from net import build"),
    "from the root": ("a/b/main.py", "a/c/net.py", "from a.c import net"),
    "from src": ("scripts/main.py", "src/pkg/net.py", "from pkg import net"),
}


@pytest.mark.parametrize("name", BESIDE)
def test_the_line_is_before_a_file_of_the_codebase(fixed, name):
    main, other, line = BESIDE[name]
    text = f"import os\n{line}\n{MAIN}"
    made = fixed({main: text, other: MODEL, "x.py": ""})
    assert made[main] == text.replace(line, LINES + line)


def test_the_line_is_not_before_a_library_of_another_name(fixed):
    text = f"import numpy.net\nimport net\n{MAIN}"
    made = fixed({"main.py": text, "net.py": MODEL, "numpy_/net.py": ""})
    assert made["main.py"] == text.replace("import net\n", f"{LINES}import net\n")


def test_a_file_that_changes_meanwhile_stays(fixed, tmp_path, monkeypatch, capsys):
    (tmp_path / "main.py").write_text(MODEL + MAIN)
    found = scan(["."])
    assert report.text(found) and '"fixable": true' in report.as_json(found)
    (tmp_path / "main.py").write_text(MODEL + MAIN + "# more\n")
    monkeypatch.setattr(command.codebase, "scan", lambda *args: found)
    command.main([".", "--fix", "--force"])
    assert "not fixed: main.py: it was changed while" in capsys.readouterr().err
    assert (tmp_path / "main.py").read_text() == MODEL + MAIN + "# more\n"
