"""How the towers' gradients get to where they are summed: the choices that a user has.

On one host the sum itself costs little; what a step waits for is what crosses the links between
devices. `replicate.tower_report` says how much that is.
"""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, NamedTuple

import tensorflow.compat.v1 as tf

if TYPE_CHECKING:
    from typing import Literal  # Which Python 3.7 lacks.

    Where = Literal["consolidation", "round_robin", "auto", "nccl"]

_WHERE = ("consolidation", "round_robin", "auto", "nccl")
_NARROW = (tf.float16, tf.bfloat16)
_WIDE = (tf.float32, tf.float64)


class Gather(NamedTuple):
    """How `TowerOptimizer` gathers the gradients of towers, as its argument `gather`.

        gather = replicate.Gather("round_robin", wire_dtype=tf.bfloat16)
        optimizer = replicate.TowerOptimizer(optimizer, gather=gather)

    Of several optimizers in a model, the last one decides. TPU cores and replicas of tf.distribute
    sum gradients in their engine's own way.
    """

    where: Where = "consolidation"
    """`'consolidation'`: on the consolidation device, which receives the gradients of all others.

    `'round_robin'`: each on the device that holds its variable, so that no device receives them
    all. For `variable_placement='round_robin'`; with `'replicated'`, on the towers' devices in
    turn.

    `'auto'`: as `'round_robin'` where variables are on several devices, or have replicas; else as
    `'consolidation'`. For `variable_placement='auto'`.

    `'nccl'`: by NCCL's all-reduce over GPUs, for dense gradients. It was reported to give wrong
    sums on some hosts; so in every session it first adds up known numbers, and wrong sums end
    training with an error.
    """

    small_bytes: int = 64 * 2**10
    """Gradients of up to so many bytes are packed: each tensor that crosses devices costs time.

    So are weights that towers take of other devices.
    """

    pack_bytes: int = 2 * 2**20
    """What packs hold, about, in bytes. With 0, nothing is packed."""

    wire_dtype: tf.DType | str | None = None
    """Type in which gradients of float32 and float64 cross devices: `tf.float16` or `tf.bfloat16`.

    They are summed in their own type; the part of the tower that is on the device of the sum never
    loses precision. float16 holds 6e-8 to 65,504: gradients are sent multiplied by the loss scale,
    if there is one. None: their own type.
    """

    @classmethod
    def of(cls, given: Gather | Where) -> Gather:
        """Returns the `Gather` that the argument `gather` of `TowerOptimizer` means.

        Args:
            given: A `Gather`, or what it has for `where`.

        Raises:
            TypeError: If it is something else.
            ValueError: If one of its values is.
        """
        gather = cls(given) if isinstance(given, str) else given
        if not isinstance(gather, cls):
            raise TypeError(
                f"`gather` must be one of {', '.join(map(repr, _WHERE))}, or a "
                f"`replicate.Gather`, but is {given!r}."
            )
        if gather.where not in _WHERE:
            raise ValueError(
                "Gradients are gathered in one of the ways "
                f"{', '.join(map(repr, _WHERE))}, but `gather` says {gather.where!r}."
            )
        for name in ("small_bytes", "pack_bytes"):
            value = getattr(gather, name)
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
                raise ValueError(
                    f"`{name}` must be a number of bytes, an integer of at least 0, but is "
                    f"{value!r}."
                )
        if gather.wire_dtype is not None:
            try:
                wire = tf.as_dtype(gather.wire_dtype)
            except TypeError:
                wire = None
            if wire not in _NARROW:
                raise ValueError(
                    "`wire_dtype` must be tf.float16 or tf.bfloat16, in which gradients are "
                    f"narrower than in float32, or None, but is {gather.wire_dtype!r}."
                )
            if gather.where == "nccl":
                raise ValueError(
                    "NCCL adds up gradients in their own type, but `wire_dtype` is "
                    f"{gather.wire_dtype!r}. Leave it or `'nccl'` out."
                )
            gather = gather._replace(wire_dtype=wire)
        return gather

    def packs(self, size: int | None) -> bool:
        """Returns whether a gradient of `size` bytes, None if unknown, is packed with others."""
        return bool(self.pack_bytes) and size is not None and size <= self.small_bytes

    def narrows(self, dtype: tf.DType) -> bool:
        """Returns whether gradients of `dtype` cross devices in another type."""
        return self.wire_dtype is not None and dtype in _WIDE
