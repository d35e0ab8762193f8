"""Reports of `analyze` on several searches."""

import csv
import io
import json

import pytest

from examples.nas_search import mobile_classifier_factory, schema
from examples.nas_search.basic_specs import OP_TAG, ConvTowerSpec, block
from examples.nas_search.commands import PROGRAM
from examples.nas_search.mobile_search_space_v3 import ConvSpec
from examples.nas_search.reports import comparison, report
from examples.runs import figures
from examples.runs.command_line import BAD_INPUT
from nas_search.nas_searches import write_search


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Has pictures and pages written without being drawn, which takes seconds."""
    monkeypatch.setattr(figures, "png", lambda draw, file: file.write(b"a picture"))
    monkeypatch.setattr(report, "page", lambda analysis: "a page")
    monkeypatch.setattr(
        comparison, "page", lambda found: " ".join(each.directory for each in found)
    )


@pytest.fixture
def folders(tmp_path):
    """Two searches."""
    return [str(write_search(tmp_path / "runs" / name)) for name in ("b", "a")]


def run(capsys, *flags):
    """Runs `analyze`; returns its exit status, stdout and stderr."""
    status = PROGRAM.main(["analyze", *map(str, flags)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_several_are_compared_beside_the_first(folders, tmp_path, capsys):
    status, out, err = run(capsys, "--dirname", *folders)
    assert (status, err) == (0, "")
    page = tmp_path / "runs" / "comparison.html"
    assert out.splitlines()[-1] == f"comparison = {page}"
    assert page.read_text() == " ".join(folders)  # in the order in which they were given
    for folder in folders:
        assert f"directory = {folder}" in out
        assert f"page = {folder}/search.html" in out


def test_one_is_not_compared(folders, tmp_path, capsys):
    status, out, _ = run(capsys, "--dirname", folders[0])
    assert status == 0
    assert "comparison" not in out
    assert not (tmp_path / "runs" / "comparison.html").exists()


@pytest.mark.parametrize("is_compared", [True, False])
def test_those_of_a_pattern_are_compared_if_there_is_an_output(
    folders, tmp_path, capsys, is_compared
):
    page = tmp_path / "page.html"
    flags = ["--output", page] if is_compared else []
    status, out, _ = run(capsys, "--dirname", tmp_path / "runs" / "*", *flags)
    assert status == 0
    assert page.exists() == is_compared
    assert (f"comparison = {page}" in out.splitlines()) == is_compared
    assert not (tmp_path / "runs" / "comparison.html").exists()


def test_a_file_that_the_shell_matched_too_is_left_out(folders, tmp_path, capsys):
    page = tmp_path / "runs" / "comparison.html"
    page.write_text("of before")
    status, _, err = run(capsys, "--dirname", *folders, page)
    assert (status, err) == (0, f"skipping {page}: it is no directory\n")
    assert page.read_text() == " ".join(folders)


def test_without_plots_there_is_no_page(folders, tmp_path, capsys):
    status, out, _ = run(capsys, "--dirname", *folders, "--noplot")
    assert status == 0
    assert "comparison" not in out
    assert not list(tmp_path.rglob("*.html"))


def test_json_and_csv_of_several(folders, tmp_path, capsys):
    _, out, _ = run(capsys, "--dirname", *folders, "--output_format=json")
    page = str(tmp_path / "runs" / "comparison.html")
    assert [record["comparison"] for record in json.loads(out)] == [page, page]
    _, out, _ = run(capsys, "--dirname", folders[0], "--output_format=json")
    assert json.loads(out)[0]["comparison"] is None
    _, out, _ = run(capsys, "--dirname", *folders, "--output_format=csv")
    assert [row["directory"] for row in csv.DictReader(io.StringIO(out))] == folders


def refused(capsys, *flags):
    """Runs `analyze`; returns the error, one line and all that is said."""
    status, out, err = run(capsys, *flags)
    assert (status, out) == (BAD_INPUT, "")
    (line,) = err.splitlines()
    start = "python -m examples.nas_search analyze: error: "
    assert line.startswith(start)
    return line[len(start) :]


@pytest.mark.parametrize("again", ["{}", "{}/", "{}/../b"])
def test_the_same_search_twice_is_refused(folders, tmp_path, capsys, again):
    error = refused(capsys, "--dirname", *folders, again.format(folders[0]))
    assert error.startswith(f"--dirname must name each search once, but {folders[0]} and ")
    assert error.endswith(" are the same. Leave out one of the two.")
    assert not list(tmp_path.rglob("*.html"))


def test_a_link_to_a_search_is_the_same_search(folders, tmp_path, capsys):
    (tmp_path / "link").symlink_to(folders[0])
    assert "must name each search once" in refused(
        capsys, "--dirname", folders[0], tmp_path / "link"
    )


def test_searches_of_different_spaces_are_refused(folders, tmp_path, capsys):
    kernels = schema.OneOf([ConvSpec(3, 1), ConvSpec(5, 1)], OP_TAG)
    spec = ConvTowerSpec([block([kernels], 8)], 8)
    steps = {3: {f"rlpathlogits/blocks/0/layers/0/{i}": float(i) for i in range(2)}}
    steps[3].update({"rlpathlogits/blocks/0/filters/0": 0.0, "rlcontroller/reward": 0.5})
    settings = {"ssd": "mine", "enable_cost_model": False}
    other = write_search(tmp_path / "other", steps, spec, **settings)
    error = refused(capsys, "--dirname", *folders, other)
    assert error.startswith(
        f"--dirname must name searches of one space to compare them, but that of {folders[0]} "
        f"(digits_search) and that of {other} (mine) differ: at blocks/"
    )
    assert error.endswith(". Leave out one of the two.")


def test_the_name_of_a_space_does_not_matter(folders, tmp_path, capsys):
    spec = mobile_classifier_factory.get_model_spec("digits_search")
    write_search(tmp_path / "same", None, spec, ssd="mine", enable_cost_model=False)
    assert run(capsys, "--dirname", folders[0], tmp_path / "same")[0] == 0


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("empty", "--dirname must name a search, but {0}: there is no {0}/params.json, which a"),
        ("absent", "--dirname must name a directory, but nothing matches '{0}'."),
        ("e*", "--dirname must name a search, but {1}: there is no {1}/params.json, which a"),
    ],
)
def test_a_folder_without_a_search_is_refused(folders, tmp_path, capsys, name, error):
    (tmp_path / "empty").mkdir()
    given = tmp_path / name
    wanted = error.format(given, tmp_path / "empty")
    assert refused(capsys, "--dirname", *folders, given).startswith(wanted)
    assert not list(tmp_path.rglob("*.html"))


def test_one_search_cannot_be_compared(folders, tmp_path, capsys):
    wanted = "To compare, --dirname must name two searches or more, but it names "
    error = refused(capsys, "--dirname", folders[0], "--output", tmp_path / "page.html")
    assert error == f"{wanted}{folders[0]}. Name others, or leave out --output."


def test_files_alone_are_no_searches(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    status, _, err = run(capsys, "--dirname", tmp_path / "a", tmp_path / "b")
    assert status == BAD_INPUT
    assert "must name two searches or more, but it names none." in err.splitlines()[-1]


def test_an_output_and_no_plots_do_not_go_together(folders, tmp_path, capsys):
    flags = ("--output", tmp_path / "page.html", "--noplot")
    error = refused(capsys, "--dirname", *folders, *flags)
    assert error == "--output is a page, and --noplot writes none. Leave out one of the two."


@pytest.mark.parametrize("name", ["no folder/page.html", "runs"])
def test_an_output_that_cannot_be_written_is_refused(folders, tmp_path, capsys, name):
    path = tmp_path / name
    error = refused(capsys, "--dirname", *folders, "--output", path)
    assert error.startswith(f"--output must name a file that can be written, but {path} cannot: ")
    assert not list(tmp_path.glob(".*"))  # no draft stays
