"""`--fix`: what is mechanical, and nothing is lost."""

import os
import stat
import subprocess

import pytest

import planted
from bodies import matching
from planted import find
from replicate.migration.scan import command, contrib, files, fixing, reading, scan

BEFORE = """\
import tensorflow as tf
from tensorflow.contrib import layers
from tensorflow.contrib.layers import xavier_initializer as xavier
rnn = tf.contrib.rnn


def f(x):
    w = tf.get_variable("w", [2], initializer=layers.xavier_initializer(seed=1))  # é
    cell = rnn.LSTMCell(3)
    return xavier(), tf.contrib.data.prefetch_to_device("x"), tf.contrib.slim.conv2d, w, cell
"""
AFTER = """\
import tensorflow.compat.v1 as tf
from tensorflow.compat.v1 import glorot_uniform_initializer as xavier


def f(x):
    w = tf.get_variable("w", [2], initializer=tf.glorot_uniform_initializer(seed=1))  # é
    cell = tf.nn.rnn_cell.LSTMCell(3)
    return xavier(), tf.data.experimental.prefetch_to_device("x"), tf.contrib.slim.conv2d, w, cell
"""


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(contrib, "_find", find)


def git(path, *arguments):
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(path), *own, *arguments], check=True, stdout=subprocess.PIPE)


@pytest.fixture
def tree(tmp_path):
    """A git work tree with one file that is committed."""
    (tmp_path / "a.py").write_bytes(BEFORE.encode())
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "a")
    return tmp_path


def run(*arguments):
    """Returns the exit status of the command."""
    try:
        return command.main([str(one) for one in arguments])
    except SystemExit as ended:
        return ended.code


def test_what_is_mechanical_is_done_and_shown(tree, capsys):
    assert run(tree, "--fix") == 1
    assert (tree / "a.py").read_text(encoding="utf-8") == AFTER
    shown = capsys.readouterr().out
    assert "-import tensorflow as tf\n" in shown
    assert "+import tensorflow.compat.v1 as tf\n" in shown
    assert [one.name for one in scan([str(tree)]).findings] == ["tf.contrib.slim.conv2d"]


def test_a_second_time_finds_nothing_to_fix(tree, capsys):
    run(tree, "--fix")
    git(tree, "commit", "-q", "-am", "b")
    capsys.readouterr()
    run(tree, "--fix")
    assert capsys.readouterr().out.startswith("nothing to fix\n")
    assert (tree / "a.py").read_text(encoding="utf-8") == AFTER


def test_without_it_nothing_is_changed(tree):
    before = (tree / "a.py").stat()
    assert run(tree) == 1
    assert (tree / "a.py").read_text(encoding="utf-8") == BEFORE
    assert (tree / "a.py").stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("ends", [b"\r\n", b"\r"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"# coding: latin-1\n"])
def test_bytes_that_are_none_of_its_business_stay(tmp_path, start, ends):
    encoding = "latin-1" if b"latin" in start else "utf-8"
    path = tmp_path / "a.py"
    path.write_bytes((start + BEFORE.encode(encoding)).replace(b"\n", ends))
    path.chmod(0o751)
    run(tmp_path, "--fix", "--force")
    assert path.read_bytes() == (start + AFTER.encode(encoding)).replace(b"\n", ends)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert sorted(os.listdir(str(tmp_path))) == ["a.py", "a.py.orig"]
    kept = (start + BEFORE.encode(encoding)).replace(b"\n", ends)
    assert (tmp_path / "a.py.orig").read_bytes() == kept


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import tensorflow\ntensorflow.placeholder\n",
            "import tensorflow.compat.v1 as tensorflow",
        ),
        ("import os, tensorflow as tf\ntf.placeholder\n", "import os, tensorflow.compat.v1 as tf"),
        (
            "from tensorflow import nn, layers\nlayers.dense\n",
            "from tensorflow.compat.v1 import nn,",
        ),
        (
            "import tensorflow as tf\ntf.contrib.rnn.LSTMCell\ntf.placeholder\n",
            "import tensorflow.compat.v1 as tf\ntf.nn.rnn_cell.LSTMCell",
        ),
        (
            "import tensorflow as tf\ntf.contrib.data.prefetch_to_device\n",
            "import tensorflow as tf\ntf.data.experimental.prefetch_to_device",
        ),
        (
            "import tensorflow as tf\ntf . contrib .  rnn . LSTMCell\ntf.placeholder\n",
            "import tensorflow.compat.v1 as tf\ntf.nn.rnn_cell.LSTMCell",
        ),
    ],
)
def test_forms_of_imports(tmp_path, before, after):
    (tmp_path / "a.py").write_text(before)
    run(tmp_path, "--fix", "--force")
    assert (tmp_path / "a.py").read_text().startswith(after)


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\ntf.placeholder, tf.autodiff\n",  # Version 2 alone has it.
        "import tensorflow as tf\ntf.placeholder, tf.python.x\n",
        "import tensorflow, tensorflow.contrib.slim\ntensorflow.placeholder\n",
        "from tensorflow import placeholder, keras\n",
        "import tensorflow as tf\ntf.contrib.rnn.LSTMCell.x\n",
        "from tensorflow.contrib.rnn import LSTMCell\n",
        "from tensorflow.contrib import rnn\nrnn.LSTMCell\n",
        "import tensorflow as tf\nif tf.__version__ < '2':\n    tf.contrib.rnn.LSTMCell\n",
    ],
)
def test_what_is_not_safe_stays(tmp_path, text):
    (tmp_path / "a.py").write_text(text)
    assert [one.edits for one in scan([str(tmp_path)]).findings if one.edits] == []


def test_an_import_that_is_used_otherwise_stays(tmp_path):
    text = BEFORE + "print(layers)\n__version__ = rnn.other\n"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    run(tmp_path, "--fix", "--force")
    made = (tmp_path / "a.py").read_text(encoding="utf-8")
    assert "from tensorflow.contrib import layers\n" in made
    assert "rnn = tf.contrib.rnn\n" in made


def test_an_import_that_another_version_needs_stays(tmp_path):
    text = BEFORE + "    if hasattr(tf, 'contrib'):\n        layers.xavier_initializer()\n"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    run(tmp_path, "--fix", "--force")
    made = (tmp_path / "a.py").read_text(encoding="utf-8")
    assert "from tensorflow.contrib import layers\n" in made


def test_with_only_the_rule_of_names_their_import_comes_along(tmp_path):
    (tmp_path / "a.py").write_text("import tensorflow as tf\ntf.contrib.rnn.LSTMCell, tf.Print\n")
    run(tmp_path, "--fix", "--force", "--only", "contrib-name")
    assert (tmp_path / "a.py").read_text() == (
        "import tensorflow.compat.v1 as tf\ntf.nn.rnn_cell.LSTMCell, tf.Print\n"
    )


@pytest.mark.parametrize("name", list(planted.TRAPS))
def test_what_it_makes_of_all_that_is_planted_parses_and_stays(tmp_path, name):
    path = tmp_path / "a.py"
    path.write_text(planted.plain(planted.TRAPS[name]))
    run(tmp_path, "--fix", "--force")
    made = path.read_text()
    compile(made, "a.py", "exec")
    assert [one.edits for one in scan([str(path)]).findings if one.edits] == []
    run(tmp_path, "--fix", "--force")
    assert path.read_text() == made


NO_TREE = "`--fix` changes files that git can restore, but …is in no git work tree. Commit the code"
CHANGED = "but there are uncommitted changes, of …a.py. Commit or stash them"
NOT_TRUSTED = "git does not read the work tree: "
UNTRACKED = "`--fix` changes files that git can restore, but …b.py is not tracked. Commit it"
MEANWHILE = "it was changed while it was looked at. Run this again."
UNWRITTEN = "it cannot be written: …Let it be written."
ENCODING = "its encoding, …does not give it back as it is."
BROKEN = "the result cannot be parsed: …Edit it by hand."
# Of `reading` and `files`; see `test_reading.py`.
OTHERS = ("no regular file", "larger than the limit, …MiB", "unknown encoding: …")


def refused(capsys, *arguments):
    assert run(*arguments, "--fix") == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def check(text, phrases):
    with pytest.raises(ValueError, match=matching(phrases)):
        raise ValueError(text)


def test_it_refuses_what_git_could_not_give_back(tree, capsys, monkeypatch):
    (tree / "b.py").write_text("import tensorflow as tf\ntf.Print\n")
    check(refused(capsys, tree), UNTRACKED + "…`--force`")
    git(tree, "add", "-A")
    check(refused(capsys, tree), "there are uncommitted changes, of b.py")
    git(tree, "commit", "-q", "-m", "b")
    (tree / "a.py").write_text(BEFORE + "# more\n", encoding="utf-8")
    check(refused(capsys, tree), CHANGED + "…`--force`")
    assert (tree / "b.py").read_text() == "import tensorflow as tf\ntf.Print\n"
    monkeypatch.setenv("PATH", "")
    check(refused(capsys, tree), NO_TREE + "…`--force`")


def test_a_work_tree_that_git_does_not_trust(tree, capsys, monkeypatch):
    said = f"fatal: detected dubious ownership in repository at '{tree}'"
    done = subprocess.CompletedProcess([], 128, b"", said.encode())
    monkeypatch.setattr(fixing.subprocess, "run", lambda *args, **kwargs: done)
    check(refused(capsys, tree), NOT_TRUSTED + said)


def test_outside_of_a_work_tree(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "a.py").write_text(BEFORE, encoding="utf-8")
    check(refused(capsys, tmp_path), NO_TREE)
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == BEFORE


def test_what_was_kept_before_is_kept(tmp_path):
    (tmp_path / "a.py.orig").write_text("mine")
    (tmp_path / "a.py").write_text("import tensorflow as tf\ntf.Print\n")
    run(tmp_path, "--fix", "--force")
    assert (tmp_path / "a.py.orig").read_text() == "mine"
    assert (tmp_path / "a.py.orig.1").read_text() == "import tensorflow as tf\ntf.Print\n"


def problems(tmp_path, found):
    said = []
    made = fixing.changes(found, lambda path, why: said.append(why))
    assert (made, len(said)) == ([], 1)
    return said[0]


def test_a_file_that_changes_meanwhile_stays(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import tensorflow as tf\ntf.Print\n")
    found = scan([str(tmp_path)])
    (change,) = fixing.changes(found, None)
    path.write_text("x = 1\n")
    check(problems(tmp_path, found), MEANWHILE)
    with pytest.raises(fixing.NotFixedError, match=matching(MEANWHILE)):
        fixing.write(change, keep=False)
    path.unlink()
    assert problems(tmp_path, found) == "No such file or directory"
    assert os.listdir(str(tmp_path)) == []


def test_a_file_that_cannot_be_written_is_as_it_was(tree, monkeypatch, capsys):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run(tree, "--fix") == 1
    check(capsys.readouterr().err, UNWRITTEN)
    assert (tree / "a.py").read_text(encoding="utf-8") == BEFORE
    assert sorted(os.listdir(str(tree))) == [".git", "a.py"]


def test_what_would_not_be_the_same_stays(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    # Bytes that this encoding reads, and writes otherwise.
    path.write_bytes(b"# coding: utf-7\nimport tensorflow as tf\ntf.Print, '+AGE-'\n")
    check(problems(tmp_path, scan([str(tmp_path)])), ENCODING)
    path.write_bytes(b"import tensorflow as tf\ntf.Print\n")
    found = scan([str(tmp_path)])
    edit = found.findings[0].edits[0]._replace(text="(")
    broken = found._replace(findings=[found.findings[0]._replace(edits=(edit,))])
    check(problems(tmp_path, broken), BROKEN)


@pytest.mark.parametrize("phrases", OTHERS)
def test_texts_that_are_looked_for_elsewhere(phrases, tmp_path):
    (tmp_path / "a.py").write_bytes(b"#" * (files.LARGEST + 1))
    with pytest.raises(files.NotReadError, match="larger than the limit, 4 MiB"):
        files.read(str(tmp_path / "a.py"))
    with pytest.raises(files.NotReadError, match="no regular file"):
        files.read("/dev/zero")
    assert "unknown encoding: x" in reading.source("a.py", b"# coding: x\n").name


def test_a_link_stays_a_link(tree):
    (tree / "sub").mkdir()
    (tree / "sub" / "b.py").symlink_to("../a.py")
    run(tree / "sub", "--fix")
    assert (tree / "sub" / "b.py").is_symlink()
    assert (tree / "a.py").read_text(encoding="utf-8") == AFTER
