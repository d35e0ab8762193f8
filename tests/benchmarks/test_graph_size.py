"""The benchmark of large graphs, on small ones."""

import json
from unittest import mock

from benchmarks import graph_size


def test_a_graph_has_the_layers_that_were_asked_for():
    few, many = (graph_size.measure(layers) for layers in (10, 30))
    assert many["ops"] - few["ops"] == 20 * 32
    # Each of four towers has a copy of most of them.
    assert 2 * many["ops"] < many["all_ops"] < 5 * many["ops"]
    assert many["one_device_s"] > 0 < many["partition_s"]


def test_a_run_prints_a_line_for_each_size_and_a_table(capsys, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- made by benchmarks.graph_size -->\n<!-- end -->\n")

    def run(module, request, timeout):
        assert module == "benchmarks.graph_size" and timeout > 60
        ops = 10 * request["layers"]
        figures = {"one_device_s": 3e-4 * ops, "partition_s": 1e-4 * ops, "load_average": 0.5}
        return {"ops": ops, "all_ops": 4 * ops, **figures, "tf": "2", "numpy": "1"}

    with mock.patch.object(graph_size.harness, "run", run):
        graph_size.main(["--layers", "10,1000", "--rounds", "2", "--page", str(page)])
    *lines, _, _, _, first, second = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["partition_s"]["median"] for line in lines] == [0.01, 1.0]
    assert first == "| 10 | 100 | 400 | 300 | 100 |"
    assert second == "| 1,000 | 10,000 | 40,000 | 300 | 100 |"
    assert second in page.read_text()
