"""Cells of recurrent networks as one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from layouts.cases import Fixed, cases, sizes


def single(draw: np.random.RandomState, *shape: int) -> np.ndarray:
    return np.asarray(draw.normal(size=shape), np.float32)


@cases("GRUBlockCell")
def gru(draw: np.random.RandomState) -> dict[str, Any]:
    rows, inputs, cells = sizes(draw, 3)
    return {
        "x": single(draw, rows, inputs),
        "h_prev": single(draw, rows, cells),
        "w_ru": single(draw, inputs + cells, 2 * cells),
        "w_c": single(draw, inputs + cells, cells),
        "b_ru": single(draw, 2 * cells),
        "b_c": single(draw, cells),
    }


@cases("GRUBlockCellGrad")
def gru_gradient(draw: np.random.RandomState) -> dict[str, Any]:
    drawn = gru(draw)
    made = {name: single(draw, *drawn["h_prev"].shape) for name in ("r", "u", "c", "d_h")}
    return {**drawn, **made}


@cases("LSTMBlockCell")
def lstm(draw: np.random.RandomState) -> dict[str, Any]:
    rows, inputs, cells = sizes(draw, 3)
    return {
        "x": single(draw, rows, inputs),
        **{name: single(draw, rows, cells) for name in ("cs_prev", "h_prev")},
        **lstm_weights(draw, inputs, cells),
        **clipped(draw),
    }


def lstm_weights(draw: np.random.RandomState, inputs: int, cells: int) -> dict[str, Any]:
    return {
        "w": single(draw, inputs + cells, 4 * cells),
        **{name: single(draw, cells) for name in ("wci", "wcf", "wco")},
        "b": single(draw, 4 * cells),
        "use_peephole": bool(draw.randint(2)),
    }


def clipped(draw: np.random.RandomState) -> dict[str, Any]:
    return {"cell_clip": float(draw.choice([-1.0, 0.5]))}


LSTM_MAKES = ("i", "cs", "f", "o", "ci", "co")


@cases("LSTMBlockCellGrad")
def lstm_gradient(draw: np.random.RandomState) -> dict[str, Any]:
    drawn = lstm(draw)
    del drawn["cell_clip"]
    shape = drawn["h_prev"].shape
    return {**drawn, **{name: single(draw, *shape) for name in (*LSTM_MAKES, "cs_grad", "h_grad")}}


@cases("BlockLSTM", "BlockLSTMV2")
def lstm_step(draw: np.random.RandomState) -> dict[str, Any]:
    """Has one step: the search for what is missing cuts several up, which ends the process."""
    return {**some_steps(draw, 1), **clipped(draw)}


def some_steps(draw: np.random.RandomState, steps: int) -> dict[str, Any]:
    rows, inputs, cells = sizes(draw, 3)
    return {
        "seq_len_max": Fixed(np.int64(steps)),
        "x": single(draw, steps, rows, inputs),
        **{name: single(draw, rows, cells) for name in ("cs_prev", "h_prev")},
        **lstm_weights(draw, inputs, cells),
    }


def lstm_steps(draw: np.random.RandomState) -> dict[str, Any]:
    """Draws several steps, of which all are run: kernels leave gates of others uninitialized."""
    return {**some_steps(draw, draw.randint(2, 5)), **clipped(draw)}


def gradient_of_lstm_steps(draw: np.random.RandomState) -> dict[str, Any]:
    steps = draw.randint(1, 5)
    drawn = some_steps(draw, steps)
    shape = (steps, *drawn["h_prev"].shape)
    made = {name: single(draw, *shape) for name in (*LSTM_MAKES, "h", "cs_grad", "h_grad")}
    return {**drawn, **made, "seq_len_max": Fixed(np.int64(draw.randint(1, steps + 1)))}


@cases("BlockLSTMGrad", "BlockLSTMGradV2")
def gradient_without_peepholes(draw: np.random.RandomState) -> dict[str, Any]:
    """Draws empty peepholes: the search would cut others so that the kernel ends the process."""
    peepholes = {name: single(draw, 0) for name in ("wci", "wcf", "wco")}
    return {**gradient_of_lstm_steps(draw), **peepholes, "use_peephole": False}
