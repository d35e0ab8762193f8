"""Matrix products and einsums."""

from __future__ import annotations

from typing import Any

import numpy as np

from layouts.cases import cases, sizes


def matrix(draw: np.random.RandomState, rows: int, columns: int, transposed: bool) -> np.ndarray:
    return draw.randn(*((columns, rows) if transposed else (rows, columns)))


@cases("MatMul")
def matmul(draw: np.random.RandomState) -> dict[str, Any]:
    m, k, n = sizes(draw, 3)
    a, b = (bool(flag) for flag in draw.rand(2) < 0.5)
    return {
        "a": matrix(draw, m, k, a),
        "b": matrix(draw, k, n, b),
        "transpose_a": a,
        "transpose_b": b,
    }


@cases("SparseMatMul")
def sparse_matmul(draw: np.random.RandomState) -> dict[str, Any]:
    drawn = matmul(draw)
    for name in ("a", "b"):
        kept = draw.rand(*drawn[name].shape) < 0.5
        drawn[name] = (drawn[name] * kept).astype(np.float32)
    return {**drawn, "a_is_sparse": bool(draw.randint(2)), "b_is_sparse": bool(draw.randint(2))}


def batches(draw: np.random.RandomState, broadcast: bool) -> tuple[list[int], list[int]]:
    """Returns the batch axes of two operands."""
    batch = sizes(draw, draw.randint(0, 4))
    if not broadcast:
        return batch, batch
    both = [[1 if draw.rand() < 0.25 else size for size in batch] for _ in range(2)]
    cut = draw.randint(len(batch) + 1) if draw.rand() < 0.4 else 0
    both[draw.randint(2)][:cut] = []
    return both[0], both[1]


def batch_product(draw: np.random.RandomState, broadcast: bool) -> dict[str, Any]:
    (m, k, n), (x, y) = sizes(draw, 3), batches(draw, broadcast)
    adj_x, adj_y = (bool(flag) for flag in draw.rand(2) < 0.5)
    return {
        "x": draw.randn(*x, *((k, m) if adj_x else (m, k))),
        "y": draw.randn(*y, *((n, k) if adj_y else (k, n))),
        "adj_x": adj_x,
        "adj_y": adj_y,
    }


@cases("BatchMatMul", "BatchMatMulV2")
def equal_batches(draw: np.random.RandomState) -> dict[str, Any]:
    return batch_product(draw, broadcast=False)


@cases("BatchMatMulV2")
def broadcast_batches(draw: np.random.RandomState) -> dict[str, Any]:
    return batch_product(draw, broadcast=True)


@cases("BatchMatMulV2")
def complex_batches(draw: np.random.RandomState) -> dict[str, Any]:
    arguments = batch_product(draw, broadcast=True)
    for name in ("x", "y"):
        arguments[name] = arguments[name] + 1j * draw.randn(*arguments[name].shape)
    return arguments


@cases("BatchMatMulV3")
def wider_batches(draw: np.random.RandomState) -> dict[str, Any]:
    arguments = batch_product(draw, broadcast=True)
    kind = [np.float64, np.int32, np.int8][draw.randint(3)]
    for name in ("x", "y"):
        arguments[name] = (3 * arguments[name]).astype(kind)
    return {**arguments, "Tout": np.int32 if kind == np.int8 else kind}


@cases("Einsum")
def einsum(draw: np.random.RandomState) -> dict[str, Any]:
    """Draws letters for each operand, then those of the result among them."""
    letters = dict(zip("abcdE", sizes(draw, 5)))
    batch_axes = batches(draw, broadcast=True)
    terms, inputs = [], []
    for index in range(draw.randint(1, 3)):
        term = [str(letter) for letter in draw.permutation(list(letters))[: draw.randint(0, 4)]]
        if term and draw.rand() < 0.1:
            term.append(term[0])  # A diagonal.
        shape = [letters[letter] for letter in term]
        if draw.rand() < 0.4:
            place = draw.randint(len(term) + 1)
            term.insert(place, "...")
            shape[place:place] = batch_axes[index]
        terms.append("".join(term))
        inputs.append(np.asarray(draw.randn(*shape)))
    given = ",".join(terms)
    used = sorted(set(given) - set(".,"))
    made = [str(letter) for letter in draw.permutation(used)[: draw.randint(len(used) + 1)]]
    if "..." in given:
        made.insert(draw.randint(len(made) + 1), "...")
    return {"inputs": inputs, "equation": f"{given}->{''.join(made)}"}


@cases("Cross")
def cross(draw: np.random.RandomState) -> dict[str, Any]:
    shape = [*sizes(draw, draw.randint(0, 3)), 3]
    return {"a": draw.randn(*shape), "b": draw.randn(*shape)}
