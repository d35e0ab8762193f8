"""Networks of every family run in towers, as the documentation says: shares, bytes, log lines."""

import json
from unittest import mock

import pytest

import programs
from benchmarks import coverage, covered
from replicate.layouts import rule

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
    measured = coverage.measured(name, 4)
    assert measured["share"] > 0.999, measured
    *_, row = coverage.table([measured]).splitlines()
    page = (programs.ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    assert row in page and measured["log"] in page


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
