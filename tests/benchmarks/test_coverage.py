"""Networks of every family run in towers, with almost all of their multiplications."""

import json
from unittest import mock

import pytest

from benchmarks import coverage, covered
from replicate.layouts import rule

# The costliest three operations that take joined rows and run once: sums of gradients of repeated
# rows of a table, gradients of a product with a mask as wide as the longest row, and the sparse
# gradient of a table that is looked up twice, and of ragged rows.
ONCE = {
    "bilstm_crf": {"Unique", "Sum", "Sum_1"},
    "deepfm": {"Unique"},
    "din": {"concat"},
    "gpt": {"Unique"},
    "lstm": {"Unique"},
    "ragged_words": {"GatherV2"},
    "seq2seq": {"Unique", "Sum", "Sum_1"},  # Gradients of a product of unknown shape.
    "wide_and_deep": {"Unique"},
}
LARGE = ("bert", "mobilenet_v2", "resnet50")  # Built in seconds each.
pytestmark = pytest.mark.filterwarnings(
    "ignore:`tf.nn.rnn_cell:UserWarning", "ignore:`layer.add_variable`:UserWarning"
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] if name in LARGE else [])
        for name in covered.NETWORKS
    ],
)
def test_a_network_is_in_towers(name):
    measured = coverage.measured(name, 3)
    assert measured["share"] > 0.999, measured
    assert {one.rpartition("/")[2] for one in measured["once"]} == ONCE.get(name, set())
    assert measured["by_kind"]["gradients"] > 0


def test_a_rule_that_is_lost_is_seen():
    with mock.patch.dict(rule._rules):
        del rule._rules["Relu"]
        measured = coverage.measured("vae", 3)
    assert "dense/Relu" in measured["once"]


def test_a_run_prints_a_line_for_each_network_a_table_and_the_log(capsys, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- made by benchmarks.coverage -->\n<!-- end -->\n")
    coverage.main(["--networks", "vae", "--towers", "2", "--page", str(page)])
    line, _, *text = capsys.readouterr().out.splitlines()
    assert json.loads(line)["network"] == "vae"
    (row,) = (line for line in text if line.startswith("| `vae` |"))
    assert "| 100.00 % |" in row and row in page.read_text()
    told = "replicate: 100 % of the multiplications run in 2 towers; 854 k gradients are summed in"
    (logged,) = (line for line in text if line.startswith("vae: "))
    assert told in logged and logged in page.read_text()
