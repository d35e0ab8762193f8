"""The benchmark of graph building, on a small network."""

import json
from unittest import mock

import pytest

from benchmarks import building, networks

SMALL = networks.CASES["lstm"]._replace(layers=1, width=8, global_batch=8, classes=20)
pytestmark = pytest.mark.filterwarnings("ignore:`tf.nn.rnn_cell:UserWarning")


def test_engines_build_what_they_say():
    ops = {engine: building.measure(SMALL, engine)["ops"] for engine in building.TITLES}
    assert ops["single"] < ops["copies_4"] < ops["towers_4"] < ops["towers_8"]
    # Forward and backward pass are copied four times, variables and updates are not.
    assert ops["copies_4"] - ops["single"] > ops["single"]


def test_bare_copies_are_about_what_towers_run():
    case = networks.CASES["bert"]._replace(layers=1, global_batch=8)
    ops = {name: building.measure(case, name)["ops"] for name in ("single", "copies_4", "towers_4")}
    added = {name: ops[name] - ops["single"] for name in ("copies_4", "towers_4")}
    assert 0.7 < added["copies_4"] / added["towers_4"] < 1


def test_a_run_prints_a_line_for_each_engine_and_a_table(capsys, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- made by benchmarks.building -->\n<!-- end -->\n")

    def run(module, request, timeout):
        del module, timeout
        made = {
            "build_s": 2.0 + 0.5 * list(building.TITLES).index(request["engine"]),
            "ops": 7,
            "load_average": 0.5,
        }
        return {**made, "tf": "2", "numpy": "1", "python": "3"}

    with mock.patch.object(building.harness, "run", run):
        building.main(["--cases", "lstm", "--rounds", "2", "--page", str(page)])
    *lines, _, _, _, row = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["to_one_device"]["median"] for line in lines] == [
        1,
        1.25,
        1.5,
        1.75,
        2,
    ]
    cells = [f"{ratio:.2f} ({ratio:.2f}, {ratio:.2f})" for ratio in (1.25, 1.5, 1.75, 2)]
    assert row == f"| lstm | 2.00 | {' | '.join(cells)} |"
    assert row in page.read_text()
