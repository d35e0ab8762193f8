"""Runs the code of the example's README, on towers too."""

import re

import numpy as np
import pytest

import programs
from revnet.revnet_runs import fresh_graph  # noqa: F401

README = programs.ROOT / "examples" / "revnet" / "README.md"


@pytest.mark.conformance
def test_the_code_of_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 3
    random = np.random.RandomState(0)
    names = {
        "images": random.normal(size=(4, 32, 32, 3)).astype(np.float32),
        "labels": np.arange(4),
    }
    found = []
    for block in blocks:
        exec(block, names)
        found.append([gradient.numpy() for gradient in names["grads"]])
    for by_tape, by_hand in zip(*found[:2]):
        np.testing.assert_allclose(by_tape, by_hand, rtol=1e-3, atol=1e-4)

    def input_fn():
        digits = random.normal(size=(5, 8, 8, 1)).astype(np.float32)
        return names["tf"].data.Dataset.from_tensors((digits, np.arange(5))).repeat(2)

    trained = names["trained"].train(input_fn)
    assert trained.evaluate(input_fn)["global_step"] == 2
    assert len(list(trained.predict(input_fn))) == 10
