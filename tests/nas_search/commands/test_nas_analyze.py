"""Reports of `analyze` on a search directory."""

import argparse
import csv
import io
import json
import math

import numpy as np
import pytest

from examples.nas_search import basic_specs, mobile_classifier_factory, mobile_cost_model, schema
from examples.nas_search.commands import PROGRAM, analyze
from examples.nas_search.costs import network_cost
from examples.nas_search.reports import network_distribution, report, search_analysis
from examples.runs import figures
from examples.runs.command_line import BAD_INPUT
from examples.runs.errors import UserError
from nas_search import nas_searches
from nas_search.nas_searches import INDICES, SSD, log, logits, write_search


def run(capsys, *flags):
    """Runs `analyze`; returns its exit status, stdout and stderr."""
    parser = argparse.ArgumentParser()
    analyze.add_flags(parser)
    status = analyze.main(parser.parse_args([str(flag) for flag in flags]))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def undrawn(monkeypatch):
    """Has pictures and page written without being drawn, which takes seconds."""
    monkeypatch.setattr(figures, "png", lambda draw, file: file.write(b"a picture"))
    monkeypatch.setattr(report, "page", lambda analysis: "a page")


def test_the_network_found_is_the_most_probable_at_the_last_step(tmp_path):
    found = search_analysis.analyze(str(write_search(tmp_path)))
    assert found.global_step == 20
    assert found.indices == INDICES
    assert found.ssd == SSD
    spec = mobile_classifier_factory.get_model_spec(SSD, indices=INDICES)
    cost = network_cost.network_cost(spec, [8, 8, 1], 10)
    assert (found.madds, found.params) == (cost.madds, cost.params)
    assert found.cost_model == mobile_cost_model.estimate_cost(INDICES, SSD)
    assert found.cost_target == 0.5
    assert found.starts == {"controller starts": 10, "layers may be skipped": 0}
    assert found.history["reward"] == pytest.approx({0: 0.5, 10: 0.6, 20: 0.7})
    assert found.history["accuracy"] == pytest.approx({0: 0.6, 10: 0.7, 20: 0.8})
    assert found.history["cost"] == pytest.approx({0: 0.4, 10: 0.4, 20: 0.4})
    assert found.history["entropy"][0] == found.initial_entropy
    assert found.history["entropy"][20] == found.entropy
    assert sorted(found.probabilities) == [0, 10, 20]
    assert [row.argmax() for row in found.probabilities[20]] == INDICES
    np.testing.assert_allclose(found.probabilities[0][0], [1 / len(found.nodes[0].choices)])
    assert found.network == spec
    assert found.layer_costs == cost.layers
    assert found.settings["rl_cost_model_target"] == 0.5


def test_a_search_without_cost_model_has_no_estimate(tmp_path):
    found = search_analysis.analyze(str(write_search(tmp_path, enable_cost_model=False)))
    assert found.cost_model is None
    assert found.cost_target is None


def test_nodes_say_how_sure_the_controller_is(tmp_path):
    found = search_analysis.analyze(str(write_search(tmp_path)))
    nodes = {node.path: node for node in found.nodes}
    # Logits 3 and 0: softmax gives e³ / (e³ + 1); with a second 0, e³ / (e³ + 2).
    two, three = math.exp(3) / (math.exp(3) + 1), math.exp(3) / (math.exp(3) + 2)
    kernel, width = nodes["blocks/1/layers/0/kernel_size"], nodes["blocks/1/filters"]
    assert (kernel.choices, kernel.index, kernel.reached) == (["3", "5"], 1, True)
    assert kernel.probability == pytest.approx(two)
    assert kernel.entropy == pytest.approx(-two * math.log(two) - (1 - two) * math.log(1 - two))
    assert (width.choices, width.index) == (["2", "4", "8"], 2)
    assert width.probability == pytest.approx(three)
    outer = nodes["blocks/1/layers/1/layer"]
    assert (outer.choices, outer.index, outer.reached) == (["bottleneck", "skip"], 1, True)
    unreached = [node.path for node in found.nodes if not node.reached]
    assert unreached == [
        "blocks/1/layers/1/layer/choices/0/kernel_size",
        "blocks/1/layers/1/layer/choices/0/expansion_filters",
    ]
    # Of 14 choices two have one alternative and two are not reached; two are widths.
    assert found.probability == pytest.approx(two**8 * three**2)


def test_the_entropy_counts_a_node_as_often_as_it_is_reached():
    # A network takes branch 0, with one of two kernels, or branch 1: three distinct networks with
    # the probabilities .8 · .9, .8 · .1 and .2.
    inner = schema.OneOf([3, 5], basic_specs.OP_TAG)
    nodes = network_distribution.open_nodes({"x": schema.OneOf([[inner], 0], basic_specs.OP_TAG)})
    assert [path for path, _ in nodes] == [("x", "choices", 0, 0), ("x",)]
    got = network_distribution.entropy(nodes, [np.array([0.9, 0.1]), np.array([0.8, 0.2])])
    assert got == pytest.approx(-sum(p * math.log(p) for p in (0.72, 0.08, 0.2)))


def test_what_is_called_choices_need_not_be_a_choice():
    nodes = network_distribution.open_nodes({"choices": [schema.OneOf([3, 5], basic_specs.OP_TAG)]})
    assert network_distribution.entropy(nodes, [np.array([0.5, 0.5])]) == pytest.approx(math.log(2))


def test_the_entropy_of_a_decided_controller_is_zero(tmp_path):
    steps = {1: logits(1000.0)}
    found = search_analysis.analyze(str(write_search(tmp_path, steps)))
    assert found.entropy == 0
    assert found.probability == 1
    # Equal probabilities: of 3 widths log 3 in two blocks, of 2 alternatives log 2: in each of the
    # two blocks 3 choices always, and 2 in the half of the networks that do not skip a layer.
    assert found.initial_entropy == pytest.approx(2 * (math.log(3) + 4 * math.log(2)))


def test_the_checkpoint_counts_where_it_is_later_than_the_summaries(tmp_path):
    write_search(tmp_path)
    nodes = network_distribution.open_nodes(mobile_classifier_factory.get_model_spec(SSD))
    last = [len(oneof.choices) - 1 for _, oneof in nodes]
    logits = {
        "rl_controller/independent_sample/" + "/".join(map(str, path)): np.float32(
            5.0 * np.eye(len(oneof.choices))[-1]
        )
        for path, oneof in nodes
    }
    nas_searches.save_checkpoint(tmp_path, 23, **logits)
    found = search_analysis.analyze(str(tmp_path))
    assert (found.global_step, found.indices) == (23, last)
    assert max(found.history["reward"]) == 20


def test_incomplete_steps_do_not_count(tmp_path):
    partial = dict(list(logits(2.0).items())[:5])
    found = search_analysis.analyze(str(write_search(tmp_path, {4: logits(1.0), 5: partial})))
    assert found.global_step == 4


def spoil_params(directory):
    (directory / "params.json").write_text("{")


def spoil_ssd(directory):
    (directory / "params.json").write_text("{}")


def spoil_spec(directory):
    (directory / "model_spec.json").write_text('["unheard of"]')


def remove(name):
    def spoil(directory):
        for path in directory.glob(name):
            path.unlink()

    return spoil


def spoil_cost_model(directory):
    (directory / "cost_model.json").write_text("{}")


def other_space(directory):
    remove("events*")(directory)
    log(directory, {3: {**logits(1.0), "rlpathlogits/elsewhere/0": 1.0}})


def other_choices(directory):
    remove("events*")(directory)
    log(directory, {3: {**logits(1.0), "rlpathlogits/blocks/0/filters/1": 1.0}})


def missing_node(directory):
    remove("events*")(directory)
    log(directory, {3: {key: x for key, x in logits(1.0).items() if "blocks/0" not in key}})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (remove("params.json"), r"there is no .*params\.json.*`--checkpoint_dir` of a search"),
        (remove("model_spec.json"), r"there is no .*model_spec\.json"),
        (remove("events*"), "no event file in .* has logits.*Let the search run"),
        (spoil_params, r"params\.json is damaged"),
        (spoil_ssd, "lacks ssd, image_shape, num_classes"),
        (spoil_cost_model, r"the cost model of .* cannot be used: .*cost_model\.json|format"),
        (spoil_spec, r"model_spec\.json is damaged.*unheard of"),
        (other_space, "At step 3: elsewhere is not in the space"),
        (other_choices, "At step 3: blocks/0/filters has 2 logits for 1 choices"),
        (missing_node, "At step 3: blocks/0/filters is missing"),
    ],
)
@pytest.mark.parametrize("output_format", ["lines", "csv", "json"])
def test_a_bad_directory_is_skipped_with_a_notice(tmp_path, capsys, spoil, message, output_format):
    write_search(tmp_path / "a_good")
    spoil(write_search(tmp_path / "b_bad"))
    write_search(tmp_path / "c_good")
    (tmp_path / "file").write_text("")
    with pytest.raises(search_analysis.UnreadableError, match=message):
        search_analysis.analyze(str(tmp_path / "b_bad"))

    flags = (f"--output_format={output_format}", "--noplot")
    status, out, err = run(capsys, f"--dirname={tmp_path}/*", *flags)
    assert status == 0
    assert err.startswith(f"skipping {tmp_path / 'b_bad'}: ")
    assert len(err.splitlines()) == 1
    assert "b_bad" not in out
    assert "a_good" in out
    assert "c_good" in out

    with pytest.raises(UserError, match=message):
        run(capsys, f"--dirname={tmp_path / 'b_bad'}", *flags)


def test_what_cannot_be_analysed_is_an_error_in_one_line(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    for pattern, error in (
        ("no*", "--dirname must name a directory, but nothing matches"),
        ("?", "--dirname must name a search, but none matches"),
    ):
        given = f"--dirname={tmp_path}/{pattern}"
        assert PROGRAM.main(["analyze", given, "--output_format=json"]) == BAD_INPUT
        printed = capsys.readouterr()
        assert printed.out == ""
        program = "python -m examples.nas_search analyze: error: "
        assert printed.err.splitlines()[-1].startswith(f"{program}{error}")


def test_lines_are_for_people(tmp_path, capsys, undrawn):
    write_search(tmp_path)
    status, out, err = run(capsys, f"--dirname={tmp_path}")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    cost = mobile_cost_model.estimate_cost(INDICES, SSD)
    assert lines[:7] == [
        f"directory = {tmp_path}",
        "global_step = 20",
        "indices = 0:1:1:0:1:1:2:0:0:1:0:0:1:0",
        f"cost_model = {cost:.6f}",
        "cost_target = 0.500000",
        f"cost madds = {cost:.4g} million MAdds; {cost / 0.5:.1%} of the target 0.5; weight 1",
        "ssd = digits_search",
    ]
    for name in ("search", "network", "choices"):
        assert f"plot = {tmp_path / name}.png" in lines
    assert f"page = {tmp_path / 'search.html'}" in lines
    assert any(line.startswith("  bottleneck 5×5, expansion ×3, stride 2, relu ") for line in lines)
    words = [line.split() for line in lines]
    # e³ / (e³ + 2) = 0.909, and its entropy is 0.368.
    assert ["blocks/1/filters", "8", "90.9%", "0.37", "2", "4", "8"] in words
    assert ["blocks/1/layers/1/layer", "skip", "95.3%", "0.19", "bottleneck", "skip"] in words
    assert sum("(not reached)" in line for line in lines) == 2


@pytest.mark.parametrize("with_cost", [True, False])
def test_csv_starts_with_the_published_columns(tmp_path, capsys, with_cost):
    write_search(tmp_path, enable_cost_model=with_cost)
    _, out, _ = run(capsys, f"--dirname={tmp_path}", "--output_format=csv", "--noplot")
    assert out.startswith("indices,global_step,directory,cost_model,")
    (row,) = csv.DictReader(io.StringIO(out))
    cost = mobile_cost_model.estimate_cost(INDICES, SSD)
    assert row["cost_model"] == (f"{cost:.6f}" if with_cost else "")
    assert row["indices"] == ":".join(map(str, INDICES))
    assert int(row["global_step"]) == 20
    assert int(row["madds"]) > 0


def test_json_holds_everything(tmp_path, capsys, undrawn):
    write_search(tmp_path)
    _, out, _ = run(capsys, f"--dirname={tmp_path}", "--output_format=json")
    (record,) = json.loads(out)
    assert record["indices"] == ":".join(map(str, INDICES))
    names = ("search.html", "search.png", "network.png", "choices.png")
    assert record["files"] == [str(tmp_path / name) for name in names]
    assert record["layers"][3] == "block 1, width 8"
    assert record["nodes"][1]["choices"] == ["3", "5"]
    assert record["cost_target"] == 0.5


# Pictures; see test_nas_report.py for what is in them.


def test_page_and_pictures_are_beside_the_search(tmp_path, capsys):
    write_search(tmp_path)
    run(capsys, f"--dirname={tmp_path}")
    for name in ("search", "network", "choices"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "search.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_no_plot_leaves_the_directory_alone(tmp_path, capsys):
    write_search(tmp_path)
    run(capsys, f"--dirname={tmp_path}", "--noplot")
    assert not [*tmp_path.glob("*.png"), *tmp_path.glob("*.html")]


def test_a_picture_that_cannot_be_written_is_no_reason_to_fail(tmp_path, capsys, undrawn):
    write_search(tmp_path)
    (tmp_path / "search.png").mkdir()
    status, out, err = run(capsys, f"--dirname={tmp_path}", "--output_format=json")
    assert status == 0
    assert [path.rsplit("/", 1)[1] for path in json.loads(out)[0]["files"]] == [
        *("search.html", "network.png", "choices.png")
    ]
    assert err.startswith(f"no search.png in {tmp_path}")
