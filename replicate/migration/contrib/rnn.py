"""Stacks of bidirectional layers of `tf.contrib.rnn`."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def stack_bidirectional_dynamic_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Any,
    initial_states_fw: list[Any] | None = None,
    initial_states_bw: list[Any] | None = None,
    dtype: tf.DType | None = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[tf.Tensor, tuple[Any, ...], tuple[Any, ...]]:
    """Returns the outputs of the last layer, and the final states of all, forwards and backwards.

    Each layer reads the concatenated outputs of both directions of the layer before.

    Args:
        cells_fw: The cells that read forwards, one for each layer.
        cells_bw: The cells that read backwards, one for each layer.
        inputs: The input of the first layer.
        initial_states_fw: The initial states of `cells_fw`; None for zeros.
        initial_states_bw: The initial states of `cells_bw`; None for zeros.
        dtype: Type of the states, if there are no initial states.
        sequence_length: Length of each row.
        parallel_iterations: Number of steps that may run in parallel.
        time_major: Whether the first axis is time, not rows.
        scope: Scope of the variables; "stack_bidirectional_rnn" if None.
        swap_memory: Whether a GPU's tensors may be kept on the host.

    Raises:
        ValueError: If cells or states are not lists, or their numbers differ.
    """
    for name, cells in (("fw", cells_fw), ("bw", cells_bw)):
        if not cells or not isinstance(cells, list):
            raise ValueError(
                f"`cells_{name}` must be a list with a cell for each layer, but is {cells!r}."
            )
    if len(cells_fw) != len(cells_bw):
        raise ValueError(
            "Both directions must have as many layers, but have "
            f"{len(cells_fw)} and {len(cells_bw)}."
        )
    none = [None] * len(cells_fw)
    for name, states in (("fw", initial_states_fw), ("bw", initial_states_bw)):
        if states is not None and not (isinstance(states, list) and len(states) == len(none)):
            raise ValueError(
                f"`initial_states_{name}` must be None or a list of {len(none)} states, but is "
                f"{states!r}."
            )
    layer = inputs
    finals = []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        pairs = zip(cells_fw, cells_bw, initial_states_fw or none, initial_states_bw or none)
        for index, (cell_fw, cell_bw, state_fw, state_bw) in enumerate(pairs):
            with tf.variable_scope(f"cell_{index}"):
                outputs, states = tf.nn.bidirectional_dynamic_rnn(
                    cell_fw,
                    cell_bw,
                    layer,
                    sequence_length,
                    state_fw,
                    state_bw,
                    dtype,
                    parallel_iterations,
                    swap_memory,
                    time_major,
                )
                layer = tf.concat(outputs, 2)
            finals.append(states)
    states_fw, states_bw = zip(*finals)
    return layer, states_fw, states_bw
