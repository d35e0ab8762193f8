"""Cells of recurrent networks as one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from layouts.cases import cases, sizes


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
