"""Rules of recurrent networks are true of several steps, and of gradients of peepholes."""

from __future__ import annotations

import pytest

from layouts.cases_recurrent import gradient_of_lstm_steps, lstm_steps
from layouts.proof import Proof

STEPS = {
    "BlockLSTM": lstm_steps,
    "BlockLSTMV2": lstm_steps,
    "BlockLSTMGrad": gradient_of_lstm_steps,
    "BlockLSTMGradV2": gradient_of_lstm_steps,
}


@pytest.mark.parametrize("name", STEPS)
def test_a_rule_is_true_of_several_steps(name: str) -> None:
    found = Proof(name, [STEPS[name]], missing=False).run()
    assert found.asked
    assert not found.wrong, "\n".join(found.wrong.values())
