"""The files that `scan` reads, and how; each ends in a line, even if it cannot be read."""

import ast
import codecs
import gc
import os
import socket

import pytest

from replicate.migration.scan import codebase, files, python_2, reading, report, scan, scopes


def found(path):
    """Returns what is found at a path, (end of the path, line, rule, name)."""
    return [(os.path.basename(f.path), f.line, f.rule, f.name) for f in scan([str(path)]).findings]


def of_bytes(tmp_path, data):
    (tmp_path / "a.py").write_bytes(data)
    ((_, line, rule, name),) = found(tmp_path)
    return line, rule, name


DEEP = "nested too deeply"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"(" * 100_000, DEEP),
        (b"x = " + b"-" * 100_000 + b"1", DEEP),
        (b"x = " + b"not " * 50_000 + b"1", DEEP),
        (b"import tensorflow as tf\ntf" + b".a" * 50_000, DEEP),
        (b"import tensorflow\nx = " + b"+".join([b"1"] * 50_000), DEEP),
        (b"x = " + b"lambda: " * 5_000 + b"0", DEEP),
        (b"x = 1\n\0", "null bytes"),
        ("import os\n".encode("utf-16"), "UTF-16"),
        (b"# caf\xe9\n", "not encoded as it says"),
        (b"# coding: nonsense\n", "not encoded as it says: unknown encoding: nonsense"),
        (b"# coding: rot13\n", "not encoded as it says"),
        (b"# coding: hex\n00\n", "not encoded as it says"),
        (b"# coding: punycode\n" + b"a" * 1_000_000, "unknown encoding: punycode"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", "not encoded as it says"),
        (b"x = (\n", "not of the Python that runs here"),
        (b"'" * 9_999, "not of the Python that runs here"),
        (b"def f(:\n", "not of the Python that runs here"),
        (b"#" * (files.LARGEST + 1), "larger than the limit, 4 MiB"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_python_ends_in_a_line(tmp_path, data, name):
    _line, rule, what = of_bytes(tmp_path, data)
    assert rule == "unreadable"
    assert name in what


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("print 'x'\n", 1, "a print statement"),
        ("import os\nif 1: print os\n", 2, "a print statement"),
        ("print >>f, 1\n", 1, "a print statement"),
        ("try:\n  x\nexcept X, e:\n  pass\n", 3, "`except X, e:`"),
        ("try:\n  x\nexcept (X, Y), e:\n  pass\n", 3, "`except X, e:`"),
        ("x = `y`\n", 1, "backticks"),
        ("exec 'x'\n", 1, "an exec statement"),
        ("if x <> y: pass\n", 1, "`<>`"),
        ("os.chmod(x, 0777)\n", 1, "an octal number such as 0777"),
        ("raise ValueError, 'x'\n", 1, "`raise X, text`"),
        ("x = 10L\n", 1, "a long number such as 10L"),
        ("x = ur'a'\n", 1, "a string such as ur''"),
        ("f = lambda (a, b): a\n", 1, "a tuple among arguments"),
        ("def f(a, (b, c)):\n  pass\n", 1, "a tuple among arguments"),
        ("'''\nprint x\n'''\nprint 'x'\n", 4, "a print statement"),
    ],
)
def test_python_2_is_told_by_its_line(tmp_path, text, line, what):
    assert of_bytes(tmp_path, text.encode()) == (line, "python-2", what)


@pytest.mark.parametrize("text", ["print(x\ny = 0\n", "# print x\n)\n", "'print x'\n)\n", "a b\n"])
def test_what_is_merely_broken_is_not_called_python_2(text):
    assert python_2.find(text, text.count("\n")) is None


def test_the_advice_names_the_converters(tmp_path):
    (tmp_path / "a.py").write_text("print 'x'\n")
    (one,) = scan([str(tmp_path)]).findings
    assert "2to3, futurize or python-modernize" in one.message


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF8 + b"x = 1\n",
        b"# coding: latin-1\nx = '\xe9'\n",
        b"x = 1\r\ny = 2\r\n",
        b"x = 1\ry = 2\r",
        b"\x0cx = '\xe2\x80\xa8'\n",
        b"x = '\\d'\n",
        b"",
    ],
)
def test_what_python_reads_is_read(tmp_path, data):
    (tmp_path / "a.py").write_bytes(data)
    assert found(tmp_path) == []


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_places_are_those_of_any_editor(ends):
    text = ends.join(["# \u2028\x0c", "x = 'é€😀'; import tensorflow as tf; tf.contrib"])
    source = reading.source("a.py", text.encode())
    (node,) = [one for one in source.tree.body if hasattr(one, "names")]
    start = source.offset(node.lineno, node.col_offset)
    assert source.text[start:].startswith("import tensorflow")


def test_what_is_no_file_does_not_block(tmp_path):
    os.mkfifo(str(tmp_path / "pipe.py"))
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(str(tmp_path / "socket.py")))
        assert found(tmp_path) == [
            ("pipe.py", 0, "unreadable", "no regular file"),
            ("socket.py", 0, "unreadable", "no regular file"),
        ]
    assert found("/dev/zero") == [("zero", 0, "unreadable", "no regular file")]


def test_what_becomes_a_pipe_meanwhile_does_not_block(tmp_path, monkeypatch):
    os.mkfifo(str(tmp_path / "pipe.py"))
    (tmp_path / "a.py").write_text("")
    before = os.stat(str(tmp_path / "a.py"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", lambda *args, **kwargs: before)
        with pytest.raises(files.NotReadError, match="no regular file"):
            files.read(str(tmp_path / "pipe.py"))


def test_what_old_pythons_read_may_be_too_deep():
    node = ast.Name(id="a", ctx=ast.Load())
    for _ in range(2000):
        node = ast.Attribute(value=node, attr="b", ctx=ast.Load())
    with pytest.raises(RecursionError):
        scopes.Names(ast.Module(body=[ast.Expr(value=node)], type_ignores=[]))


def test_links_end(tmp_path):
    (tmp_path / "real.py").write_text("print 'x'\n")
    for name, to in [("a.py", "b.py"), ("b.py", "a.py"), ("gone.py", "none"), ("all", ".")]:
        (tmp_path / name).symlink_to(to)
    (tmp_path / "same.py").symlink_to("real.py")
    (tmp_path / "folder.py").symlink_to(".")
    assert found(tmp_path) == [
        ("real.py", 1, "python-2", "a print statement"),
        ("a.py", 0, "unreadable", "a link that leads nowhere"),
        ("b.py", 0, "unreadable", "a link that leads nowhere"),
        ("gone.py", 0, "unreadable", "a link that leads nowhere"),
    ]


def test_what_vanishes_or_is_forbidden_ends_in_a_line(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("x = 1\n")
    listed = files.walk
    monkeypatch.setattr(files, "walk", lambda *args: [*listed(*args), str(tmp_path / "gone.py")])
    assert found(tmp_path) == [("gone.py", 0, "unreadable", "No such file or directory")]
    monkeypatch.setattr(files, "walk", listed)

    def forbidden(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", forbidden)
    ((_, _, rule, name),) = found(tmp_path)
    assert (rule, name) == ("unreadable", "cannot be listed: Permission denied")


def test_what_others_put_there_is_left_out(tmp_path):
    others = (".git", "__pycache__", "node_modules", "x.egg-info", "env", "build")
    for folder in (*others, "own/build"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("print 'x'\n")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "data.txt").write_text("print 'x'\n")
    assert [f.path for f in scan([str(tmp_path)]).findings] == [str(tmp_path / "own/build/a.py")]
    assert len(scan([str(tmp_path / "build")]).findings) == 1  # Asked for by name.
    assert len(scan([str(tmp_path / "data.txt")]).findings) == 1


def test_a_notebook_is_said(tmp_path):
    (tmp_path / "a.ipynb").write_text("{}")
    (one,) = scan([str(tmp_path)]).findings
    assert (one.rule, "nbconvert" in one.message) == ("notebook", True)


def test_a_file_is_read_once(tmp_path):
    (tmp_path / "a.py").write_text("print 'x'\n")
    os.link(str(tmp_path / "a.py"), str(tmp_path / "b.py"))
    assert scan([str(tmp_path), str(tmp_path / "a.py")]).files == 1


def test_the_stack_of_what_looks_at_it_is_not_the_programs(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("import tensorflow as tf\n")

    def deep(source, imports):
        raise RecursionError

    monkeypatch.setattr(codebase, "_looked_at", deep)
    assert found(tmp_path) == [("a.py", 0, "unreadable", "nested too deeply to be looked at")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\nb\x1b[0m\u202e", "a\\nb\\x1b[0m\\u202e"), ("\udcff", "\\udcff"), ("é 😀", "é 😀")],
)
def test_names_are_shown_in_one_line(text, shown):
    assert report.shown(text) == shown


@pytest.mark.parametrize(
    ("path", "pattern", "is_below"),
    [
        ("a/b/c.py", "b", False),
        ("a/b/c.py", "a", True),
        ("a/b", "b", True),
        ("a/b_test.py", "*_test.py", True),
        ("x/a/b", "./a/b/", True),
        ("ab", "a", False),
    ],
)
def test_patterns(path, pattern, is_below):
    assert codebase.is_below(path, pattern) == is_below


def test_an_absolute_pattern():
    below = os.path.abspath("a")
    assert codebase.is_below("a/b/c.py", below)
    assert codebase.is_below(os.path.join(below, "c.py"), below)
    assert not codebase.is_below("ab/c.py", below)


def test_collecting_circles_is_as_it_was(tmp_path):
    scan([str(tmp_path)])
    assert gc.isenabled()
    gc.disable()
    try:
        scan([str(tmp_path)])
        assert not gc.isenabled()
    finally:
        gc.enable()
