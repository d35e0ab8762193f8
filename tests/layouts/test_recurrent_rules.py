"""Rules of recurrent networks are true of several steps, and of gradients of peepholes."""

from __future__ import annotations

import pytest

import selection
from layouts.cases_recurrent import gradient_of_lstm_steps, lstm_steps
from layouts.proof import Proof

STEPS = {
    "BlockLSTM": lstm_steps,
    "BlockLSTMV2": lstm_steps,
    "BlockLSTMGrad": gradient_of_lstm_steps,
    "BlockLSTMGradV2": gradient_of_lstm_steps,
}


# `test_proof.py` has one step of the others, by the same rules.
@pytest.mark.parametrize(
    "name", [selection.cell(name, is_quick=not name.endswith("V2")) for name in STEPS]
)
def test_a_rule_is_true_of_several_steps(name: str) -> None:
    found = Proof(name, [STEPS[name]], missing=False).run()
    assert found.asked
    assert not found.wrong, "\n".join(found.wrong.values())
