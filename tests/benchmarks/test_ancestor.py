"""The benchmark beside the ancestor, which TensorFlow 1.15 alone has."""

import json

import pytest

import programs
from benchmarks import ancestor_behaviours as behaviours

pytestmark = pytest.mark.filterwarnings("ignore")  # `tf.contrib` warns of much.

# Results with the ancestor.
SHOWN = {
    "a linear model, `minimize`": "equal",
    "uneven batch, 7 rows": "ValueError: Batch size 7 needs to be divisible",
    "`apply_gradients(zip(...))`": "differs by 0.3",
    "the same, by `replicate.batch_normalization`": "differs by ",
    "a hook that reads the norm of the gradient": "differs by 0.5, what the hook saw",
}


@pytest.mark.parametrize("name", SHOWN)
def test_behaviours_are_compared_with_those_of_one_device(name):
    (one,) = [each for each in behaviours.BEHAVIOURS if each.name == name]
    cells = behaviours.compared(one)
    assert cells["ancestor"].startswith(SHOWN[name])
    assert cells["replicate"].startswith("equal, ")


@pytest.mark.slow
@pytest.mark.thorough
def test_a_quick_run_prints_a_line_per_engine_and_behaviour_and_two_tables():
    flags = ["--quick", "--cases", "mlp2"]
    result = programs.run("-W", "ignore", "-m", "benchmarks.ancestor", *flags)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [line.get("engine") for line in lines] == ["single", "ancestor", "replicate", None]
    for line in lines:
        assert line["tf"].startswith("1.15") and line["cores"] and line["date"]
    assert lines[-1]["behaviour"] in result.stdout
    assert "| mlp2 | step ms | " in result.stdout
