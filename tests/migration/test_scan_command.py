"""`python -m replicate scan`: its arguments, what it prints, and the status it exits with."""

import io
import json
import os
import pathlib
import sys

import pytest

import replicate
from bodies import matching
from planted import find
from replicate import __main__ as main
from replicate.migration.scan import RULES, codebase, contrib

ROOT = pathlib.Path(replicate.__file__).resolve().parents[1]
TEXT = "import tensorflow as tf\ntf.Print\ntf.contrib.eager.x\n"


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(contrib, "_find", find)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(TEXT)
    return tmp_path


def run(*arguments):
    try:
        return main.main(["scan", *map(str, arguments)])
    except SystemExit as ended:
        return ended.code


def test_the_report(path, capsys):
    assert run(".") == 1
    assert capsys.readouterr().out == (
        "contrib-none: names of tf.contrib that nothing replaces exactly\n"
        "  a.py:3: tf.contrib.eager.x: Write it by hand.\n"
        "tensorflow-1: files that mean version 1 by `tensorflow`\n"
        "  a.py:1: import tensorflow as tf: version 2 lacks tf.Print (line 2). Write `import "
        "tensorflow.compat.v1 as tf`, or call `replicate.compat.install(tensorflow_1=True)` in the "
        "file that runs first.\n"
        "\n"
        "     1 contrib-none\n"
        "     1 tensorflow-1\n"
        "2 findings in 1 of 1 file; --fix does 1\n"
        "A file that should come out with version 2's own names instead: `tf_upgrade_v2`, which "
        "comes with TensorFlow, renames functions and arguments. It does not know tf.contrib.\n"
    )


def test_nothing_to_do(path, capsys):
    (path / "a.py").write_text("x = 1\n")
    assert run(path) == 0
    assert capsys.readouterr().out == "no findings in 1 file\n"


def test_json(path, capsys):
    (path / "b.py").write_text("def model_fn(features, mode):\n    EstimatorSpec()\n")
    assert run("--json", ".") == 1
    (line,) = capsys.readouterr().out.splitlines()
    made = json.loads(line)
    assert made.pop("findings")[0] == {
        "path": "a.py",
        "line": 3,
        "column": 1,
        "rule": "contrib-none",
        "severity": "error",
        "name": "tf.contrib.eager.x",
        "message": "Write it by hand.",
        "replacement": None,
        "fixable": False,
    }
    assert made == {
        "version": 1,
        "files": 2,
        "model_fns": [{"path": "b.py", "line": 1, "name": "model_fn"}],
        "counts": {"contrib-none": 1, "tensorflow-1": 1},
        "fixed": [],
    }


def test_json_after_fixing(path, capsys):
    assert run("--json", "--fix", "--force", ".") == 1
    printed = capsys.readouterr()
    made = json.loads(printed.out)
    assert (made["fixed"], made["counts"]) == (["a.py"], {"contrib-none": 1})
    assert "+import tensorflow.compat.v1 as tf" in printed.err


def test_rules_that_are_asked_for(path, capsys):
    assert run("--only", "tensorflow-1", "star-import", "--", ".") == 1
    assert "contrib-none" not in capsys.readouterr().out
    assert run(".", "--exclude", "tensorflow-1", "--exclude", "contrib-none") == 0


def test_files_that_are_left_out(path, capsys):
    (path / "tests").mkdir()
    (path / "tests" / "b.py").write_text(TEXT)
    assert run(".", "--skip", "tests", "a.py", "--json") == 2
    assert run(".", "--skip", "tests", "--json") == 1
    assert '"files": 1' in capsys.readouterr().out


BAD = [
    (["no such"], "`PATH` must be there, but …no such is not. Name the directory"),
    (["empty"], "`PATH` must lead to files of Python, but there are none in …empty. Name the"),
    ([".", "--only", "all"], "`--only` must name rules, but …'all' is none. Those that there are"),
    ([".", "--exclude", "x"], "`--exclude` must name rules, but …'x'"),
    ([".", "--force"], "`--force` must come with `--fix`, but came without. Say both"),
    ([], "the following arguments are required: PATH"),
    (["\0"], "`PATH` must be there, but "),
]
# As the source spells their beginnings.
RULES_OF_ARGUMENTS = ("` must name rules, but …", "`PATH` must be there, but …")


@pytest.mark.parametrize(("arguments", "phrases"), BAD)
def test_bad_usage(path, capsys, arguments, phrases):
    (path / "empty").mkdir()
    assert run(*arguments) == 2
    with pytest.raises(ValueError, match=matching(phrases)):
        raise ValueError(capsys.readouterr().err)


def test_names_that_terminals_cannot_print(path, capsys, monkeypatch):
    (path / "a.py").rename(path / "\u202e\nä\udcff.py")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert run(".") == 1
    sys.stdout.flush()
    printed = sys.stdout.buffer.getvalue().decode("ascii")
    assert "  \\u202e\\n\\xe4\\udcff.py:3: tf.contrib" in printed


@pytest.mark.parametrize("command", [["scan", "."], []], ids=str)
def test_a_reader_may_close_the_output(command, path, monkeypatch):
    """As in `python -m replicate scan . | head -1`."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert main.main(command) == 1


def test_an_interruption(path, monkeypatch, capsys):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(codebase, "scan", interrupted)
    assert run(".") == 130
    assert capsys.readouterr().err == "Interrupted: nothing is left half done.\n"


def test_there_is_nothing_in_this_repository(monkeypatch):
    """There is no finding in programs for TensorFlow 1 that are not to be modernised."""
    monkeypatch.chdir(ROOT)
    # All that `install` brings; only those programs have names that it does not bring.
    monkeypatch.setattr(contrib, "_find", lambda name: find("training.HParams"))
    skipped = ("--skip", "tests/migration", "--skip", "tests/moving", "--exclude", "cross-replica")
    assert run(".", *skipped) == 0


def test_the_page_names_every_rule():
    page = (ROOT / "docs" / "reference" / "command_line.md").read_text()
    for rule, known in RULES.items():
        assert f"| `{rule}` | {known.severity} |" in page
