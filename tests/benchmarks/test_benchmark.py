"""The benchmark runs, checks what it measures, and describes its figures."""

import json

import pytest

import programs
from benchmarks.loss_scaling import VARIANTS


@pytest.mark.slow
def test_a_quick_run_prints_a_line_per_engine_and_a_table():
    cases = ["--cases", "wide8", "--engines", "single,replicate"]
    result = programs.run("-m", "benchmarks.towers", "--quick", *cases)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [(line["case"], line["engine"], line["towers"]) for line in lines] == [
        ("wide8", "single", 1),
        ("wide8", "replicate", 8),
    ]
    for line in lines:
        for figure in (
            "step_ms_p50",
            "build_s",
            "first_step_s",
            "ops_in_session",
            "ops_run",
            "peak_rss_mb",
        ):
            assert line[figure] > 0
            assert figure in line["ratio_to"]["replicate" if line["towers"] == 1 else "single"]
        assert line["global_batch"] % 8 == 0
        assert line["first_step_s"] > line["build_s"]
    assert "| wide8 | step ms |" in result.stdout


@pytest.mark.slow
@pytest.mark.thorough
def test_a_quick_comparison_of_loss_scales_prints_a_line_per_way_and_a_table():
    result = programs.run("-m", "benchmarks.loss_scaling", "--quick", "--cases", "cnn1")
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [line["way"] for line in lines] == list(VARIANTS)
    for line in lines:
        assert line["step_ms"]["median"] > 0 and line["ratio_to_plain"]["median"] > 0
    ops = {line["way"]: line["ops"] for line in lines}
    assert ops["plain"] < ops["fixed"] < ops["dynamic"]
    assert ops["plain"] < ops["accumulate 4"] < ops["dynamic, accumulate 4"]
    assert "| cnn1 | " in result.stdout


@pytest.mark.thorough
def test_a_quick_comparison_of_reversible_networks_prints_a_line_per_way_and_a_table():
    ways = ["stored", "by hand"]
    flags = ["--quick", "--cases", "cifar38", "--ways", ",".join(ways)]
    result = programs.run("-m", "benchmarks.revnet", *flags)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [line["way"] for line in lines] == ways
    for line in lines:
        assert line["activations_mb"] > 0 and line["peak_rss_mb"] > 0
        assert line["time_to_stored"]["median"] > 0
    assert "| 6 | by hand |" in result.stdout


@pytest.mark.thorough
def test_quick_comparisons_of_how_exact_and_how_accurate_reversible_networks_are():
    precision = ("revnet_precision", "--quick", "--units", "2", "--train_steps", "1")
    accuracy = ("revnet_accuracy", "--seeds", "1", "--steps", "2")
    for (name, *flags), column in ((precision, "dtype"), (accuracy, "way")):
        result = programs.run("-m", f"benchmarks.{name}", *flags)
        assert result.returncode == 0, result.stderr
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        assert len(lines) == len({line[column] for line in lines}) == 2
        assert result.stdout.splitlines()[-1].startswith("| ")
