"""The tables of the documentation: commands write them, and their rows are those of the code."""

import re

import pytest

import pages
import tables
from benchmarks import ancestor, loss_scaling, towers
from benchmarks import pages as made_pages
from conformance import __main__ as conformance_command
from contract import models
from engines import harness as engines

DOCS = pages.ROOT / "docs"
PAGE = """# A page

| what | TensorFlow 2.15.0, 2 towers | TensorFlow 2.21.0, 2 towers |
| --- | --- | --- |
| One | of a kind (`one`) | 1 | 2 |
| Two (`two`) | 3 | 4 |

Text.
"""
# How each table is made, and how its titles begin.
MADE = {
    "conformance.md": ("`python -m tests.conformance --page docs/conformance.md`", "| `model_fn`"),
    "engines.md": ("`python -m tests.engines --page docs/engines.md`", "| `model_fn` | 2 towers |"),
    "figures.md": (
        "`python -m benchmarks.towers --cases wide8,wide2,cnn2,mlp2 --rounds 3 "
        "--page docs/figures.md`",
        "<!-- made by benchmarks.towers -->",
    ),
    "ancestor.md": (
        "`python -m benchmarks.ancestor --page docs/ancestor.md`",
        "<!-- made by benchmarks.ancestor: figures -->",
    ),
    "versions.md": (
        "`python tests/compat/test_one_curve.py --page docs/versions.md`",
        "<!-- made by test_one_curve -->",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_page_says_how_its_table_is_made(name):
    command, titles = MADE[name]
    before, _, _ = (DOCS / name).read_text().partition(titles)
    assert command in re.sub(r"\s+", " ", before)


def test_every_complete_program_has_a_row():
    found = tables.find((DOCS / "conformance.md").read_text())
    assert sorted(found.rows) == sorted(models.rows("program"))
    for cells in found.rows.values():
        for cell in cells[1:]:
            assert re.fullmatch(r"pass \de-\d+, pass \de-\d+", cell)


def test_every_engine_has_a_row_and_a_column():
    found = tables.find((DOCS / "engines.md").read_text())
    assert list(found.rows) == list(engines.MODELS)
    titles = [engine.title for name, engine in engines.ENGINES.items() if name != "one_device"]
    assert found.titles == ["`model_fn`", *titles, "TPU graph"]


def cases(page, command):
    """Returns the cases in the table that a command has written, such as `wide8`."""
    _, _, rest = (DOCS / page).read_text().partition(f"<!-- made by {command} -->")
    table, _, _ = rest.partition("<!-- end -->")
    return re.findall(r"^\| (\w+\d) \|", table, flags=re.MULTILINE)


def test_the_figures_have_the_cases_of_their_commands():
    large = {"resnet50x4", "resnet50x8"}  # The text has these.
    assert sorted(cases("figures.md", "benchmarks.towers")) == sorted(set(towers.CASES) - large)
    assert sorted(cases("ancestor.md", "benchmarks.ancestor: figures")) == sorted(ancestor.CASES)
    scaled = cases("figures.md", "benchmarks.loss_scaling")
    assert scaled and set(scaled) <= set(loss_scaling.NAMES)


def test_a_command_writes_its_part_of_a_page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("a\n\n<!-- made by x -->\n\nold\n\n<!-- end -->\n\nb\n<!-- end -->\n")
    written = "a\n\n<!-- made by x -->\n\n| new |\n\n<!-- end -->\n\nb\n<!-- end -->\n"
    for _ in range(2):
        made_pages.write(path, "x", "| new |")
        assert path.read_text() == written


@pytest.mark.parametrize(
    ("text", "firsts", "lasts"),
    [
        ("", 0, 0),
        ("<!-- made by y -->\n<!-- end -->\n", 0, 0),
        ("<!-- made by x -->\n", 1, 0),
        ("<!-- made by x -->\n<!-- end -->\n" * 2, 2, 2),
    ],
)
def test_a_page_must_have_one_part_for_a_command(text, firsts, lasts, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(text)
    rule = "must have one part that begins with the line '<!-- made by x -->' and ends with "
    found = f"it has {firsts} of the first line and {lasts} of the other"
    with pytest.raises(ValueError, match=f"{rule}'<!-- end -->', but {found}"):
        made_pages.write(path, "x", "new")
    assert path.read_text() == text


def test_a_command_writes_its_column(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE.replace("One | of", "One of"))
    tables.write(
        path, {"two": {"TensorFlow 2.15.1, 2 towers": "5"}}, conformance_command.is_column_of
    )
    made = PAGE.replace("One | of", "One of").replace("2.15.0", "2.15.1").replace("| 3 |", "| 5 |")
    assert path.read_text() == made


def test_a_row_that_the_page_lacks_is_an_error(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE.replace("One | of", "One of"))
    with pytest.raises(KeyError, match="three"):
        tables.write(path, {"three": {"what": "5"}})
