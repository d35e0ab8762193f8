"""`Reduction`: options for how gradients reach the device that sums them.

On one host the sum itself costs little. A step waits for the transfers between devices, which
`replicate.tower_report` counts.
"""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import renamed

if TYPE_CHECKING:
    from typing import Literal  # Python 3.7 lacks it.

    Where = Literal["consolidation", "round_robin", "auto", "nccl"]

_WHERE = ("consolidation", "round_robin", "auto", "nccl")
_NARROW = (tf.float16, tf.bfloat16)
_WIDE = (tf.float32, tf.float64)


@renamed.fields(wire_dtype="communication_dtype")
class Reduction(NamedTuple):
    """How `TowerOptimizer` sums the gradients of towers; its argument `reduction`.

        reduction = replicate.Reduction("round_robin", communication_dtype=tf.bfloat16)
        optimizer = replicate.TowerOptimizer(optimizer, reduction=reduction)

    If a model has several optimizers, the last one decides. TPU cores and replicas of tf.distribute
    sum gradients by their engine's means and ignore these options.
    """

    where: Where = "consolidation"
    """`'consolidation'`: on the consolidation device, which receives the gradients of all others.

    `'round_robin'`: each gradient on the device of its variable, so that no device receives all of
    them. Use it with `variable_placement='round_robin'`; with `'replicated'`, the sums go to the
    towers' devices in turn.

    `'auto'`: like `'round_robin'` if variables are on several devices or have replicas, else like
    `'consolidation'`. Use it with `variable_placement='auto'`.

    `'nccl'`: by NCCL's all-reduce over GPUs, for dense gradients. It was reported to give wrong
    sums on some hosts. Therefore every session first sums known numbers, and wrong sums end
    training with an error.
    """

    small_bytes: int = 64 * 2**10
    """Gradients of at most this many bytes are packed, since each tensor that crosses costs time.

    The same limit holds for weights that towers read from other devices.
    """

    pack_bytes: int = 2 * 2**20
    """Approximate size of a pack in bytes. 0 packs nothing."""

    communication_dtype: tf.DType | str | None = None
    """Type in which float32 and float64 gradients cross devices: `tf.float16` or `tf.bfloat16`.

    They are summed in their original type, and the gradient of the tower on the device of the sum
    keeps its full precision. float16 holds 6e-8 to 65,504; if there is a loss scale, gradients
    cross multiplied by it. Larger ones cross as infinity, so a dynamic scale skips the step and is
    halved, which one device need not do. None: their original type.
    """

    @classmethod
    def of(cls, given: Reduction | Where) -> Reduction:
        """Returns the `Reduction` that the argument `reduction` of `TowerOptimizer` stands for.

        Args:
            given: A `Reduction`, or a value of its field `where`.

        Returns:
            The `Reduction`, with `communication_dtype` as a `tf.DType` or None.

        Raises:
            TypeError: If `given` is of another type.
            ValueError: If a field has an invalid value.
        """
        reduction = cls(given) if isinstance(given, str) else given
        if not isinstance(reduction, cls):
            raise TypeError(
                f"`reduction` must be one of {', '.join(map(repr, _WHERE))}, or a "
                f"`replicate.Reduction`, but is {given!r}."
            )
        if reduction.where not in _WHERE:
            raise ValueError(
                f"`where` of a reduction must be one of {', '.join(map(repr, _WHERE))}, but "
                f"`reduction` has {reduction.where!r}."
            )
        for name in ("small_bytes", "pack_bytes"):
            value = getattr(reduction, name)
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
                raise ValueError(
                    f"`{name}` must be a number of bytes, an integer of at least 0, but is "
                    f"{value!r}."
                )
        if reduction.communication_dtype is not None:
            try:
                dtype = tf.as_dtype(reduction.communication_dtype)
            except TypeError:
                dtype = None
            if dtype not in _NARROW:
                raise ValueError(
                    "`communication_dtype` must be tf.float16 or tf.bfloat16, which are narrower "
                    f"than float32, or None, but is {reduction.communication_dtype!r}."
                )
            if reduction.where == "nccl":
                raise ValueError(
                    "NCCL sums gradients in their original type, but `communication_dtype` is "
                    f"{reduction.communication_dtype!r}. Leave it or `'nccl'` out."
                )
            reduction = reduction._replace(communication_dtype=dtype)
        return reduction

    def packs(self, size: int | None) -> bool:
        """Returns whether a gradient is packed with others.

        Args:
            size: Its size in bytes, None if unknown.
        """
        return bool(self.pack_bytes) and size is not None and size <= self.small_bytes

    def narrows(self, dtype: tf.DType) -> bool:
        """Returns whether gradients of `dtype` cross devices in another type."""
        return self.communication_dtype is not None and dtype in _WIDE
