"""How metrics that do not add up become those of all towers' rows.

Metrics that keep sums, as all of `tf.metrics` and Keras do, need nothing from here: what they add
is added up over towers (see `replicate.towers.merged_updates`).
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate import towers as towers_lib

__all__ = ("declare_merge",)


class Declaration(NamedTuple):
    """What `declare_merge` was told."""

    variables: list[tf.Variable]
    merge: Callable[..., tf.Tensor | Sequence[tf.Tensor]]


def declare_merge(
    variables: tf.Variable | list[tf.Variable] | tuple[tf.Variable, ...],
    merge: Callable[..., tf.Tensor | Sequence[tf.Tensor]],
) -> None:
    """Declares how the towers' values of metric variables become one.

    For metrics that keep something else than sums, means and extremes of rows, in variables that
    are updated with the rows of a batch, such as a product of all:

        product = tf.get_variable("product", [], initializer=tf.ones_initializer(),
                                  collections=[tf.GraphKeys.LOCAL_VARIABLES])
        replicate.metrics.declare_merge(product, tf.reduce_prod)

    Sums need no declaration if the variable is made with
    `synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM`,
    as `tf.metrics` and Keras metrics do. Outside towers this does nothing.

    Args:
        variables: A local variable, or a list of those that are merged together, each of them
            updated by one assignment. Its initial value must be neutral: merging it in changes
            nothing.
        merge: Function of one tensor `[N, ...]` for each variable, the values of N towers stacked,
            that returns the merged value `[...]`, or a list of them. Tower 0's value covers all
            earlier batches, the others cover this step alone.

    Raises:
        ValueError: If a variable is global, and so a part of the model.
        TypeError: If `merge` cannot be called.
    """
    if not callable(merge):
        raise TypeError(f"`merge` must be a function of stacked values, but is {merge!r}.")
    group = towers_lib.current()
    if group is None or group.merging:
        return
    flat = list(variables) if isinstance(variables, (list, tuple)) else [variables]
    for variable in flat:
        if not any(variable is made and is_local for made, is_local in group.variables.made):
            raise ValueError(
                f"Only variables of metrics are merged, which are local, but '{variable.name}' "
                "is shared by all. Make it with `collections=[tf.GraphKeys.LOCAL_VARIABLES]`."
            )
    group.declarations.append(Declaration(flat, merge))
