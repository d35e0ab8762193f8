"""Sums and means over towers, in the middle of the model, differentiable.

Outside towers these are identities: the one tower has the whole batch. In a TPU replica they are
sums over the replicas, whose shards are of equal size.
"""

import functools
from typing import List, NamedTuple

import tensorflow.compat.v1 as tf

from replicate import gradients, rendezvous, tpu

_GRADIENT = "ReplicateCrossTowerSum"


def cross_tower_sum(x):
    """Sums `x` over all towers.

    The gradient is that of the whole loss: on tower i it is Σⱼ (wⱼ/wᵢ)·dyⱼ, with dyⱼ the gradient
    that tower j's loss has for the result and wⱼ the weight of that loss.

    Args:
        x: Nested structure of numeric tensors, or of what converts to them. Each must have the
            same shape in every tower. None stays None.

    Returns:
        The structure, with each tensor summed over the towers, element by element; the same values
        in every tower.

    Raises:
        RuntimeError: If the towers' calls differ, or are in the body of a `tf.cond` or
            `tf.while_loop`.
        TypeError: If a tensor is not numeric.
    """
    return tf.nest.pack_sequence_as(x, _sum_over_towers(_tensors(x)))


def cross_tower_mean(x):
    """Averages `x` over all towers, each weighted by its share of the batch's rows.

    With tensors that are means over the tower's rows, this gives the mean over the whole batch, no
    matter how evenly it was split.

    Args:
        x: Like that of `cross_tower_sum`; the tensors must be floating or complex.

    Returns:
        The structure, with each tensor averaged over the towers; the same values in every tower.

    Raises:
        RuntimeError: As `cross_tower_sum`.
        TypeError: If a tensor is neither floating nor complex.
    """
    leaves = _tensors(x)
    for leaf in leaves:
        if leaf is not None and leaf.dtype.is_integer:
            raise TypeError(
                f"`cross_tower_mean` takes floating or complex tensors, but got {leaf.dtype.name} "
                f"in {leaf!r}. Cast it first, or use `cross_tower_sum`."
            )
    tower = rendezvous.current()
    if tower is not None:
        share = functools.partial(tower.towers.row_weights.of, tower.index)
        leaves = [None if leaf is None else leaf * share(leaf.dtype) for leaf in leaves]
    elif tpu.number_of_shards():
        return tf.nest.pack_sequence_as(x, [tpu.mean(leaf) for leaf in leaves])
    return tf.nest.pack_sequence_as(x, _sum_over_towers(leaves))


def _tensors(x):
    """Returns the leaves of `x` as numeric tensors, or None."""
    leaves = [None if leaf is None else tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(x)]
    for leaf in leaves:
        if leaf is not None and not (
            leaf.dtype.is_floating or leaf.dtype.is_integer or leaf.dtype.is_complex
        ):
            raise TypeError(
                f"Only numeric tensors can be summed over towers, but got {leaf.dtype.name} in "
                f"{leaf!r}. Cast it first."
            )
    return leaves


def _sum_over_towers(leaves):
    """Returns the tensors `leaves`, each summed over the towers; None stays None."""
    own = [leaf for leaf in leaves if leaf is not None]
    if rendezvous.num_towers() == 1 or not own:
        return leaves
    if tpu.number_of_shards():
        return [None if leaf is None else tpu.total(leaf) for leaf in leaves]
    tower = rendezvous.current()
    if tower is not None:  # What a tower without rows computes does not count.
        mask = functools.partial(tower.towers.row_weights.mask, tower.index)
        own = [mask(leaf, tf.zeros_like(leaf)) for leaf in own]
    sums = iter(_differentiable_sum(own))
    return [None if leaf is None else next(sums) for leaf in leaves]


def _differentiable_sum(own):
    """Returns the sums over towers of the tensors `own`, with a gradient for `own`.

    Of an identity of `own` and the sums, only the sums are used, while the overridden gradient
    leads to `own` alone: back through the sums, it would cross into the graphs of all other
    towers, once from every tower.
    """
    signature = ", ".join(f"{tensor.dtype.name}{tensor.shape}" for tensor in own)
    sums = rendezvous.meet(_add, own, f"cross-tower sum of {signature}")
    with tf.get_default_graph().gradient_override_map({"IdentityN": _GRADIENT}):
        outputs = tf.identity_n(own + [tf.stop_gradient(tensor) for tensor in sums])
    return outputs[len(own) :]


def _add(*values):
    """Merge function of the sums: one sum for each list of N tensors."""
    with tf.name_scope("replicate/cross_tower_sum/"):
        return [tf.add_n(list(tensors)) for tensors in values]


@tf.RegisterGradient(_GRADIENT)
def _gradient(op, *upstream):
    """Gradient of the identity in `_differentiable_sum`, built when a tower asks for gradients."""
    if rendezvous.current() is None:
        raise RuntimeError(
            "The gradient of a cross-tower sum needs the losses of all towers, so it can only be "
            f"built inside `model_fn`, but that of {op.name} was asked for outside of it."
        )
    count = len(upstream) // 2
    # The sum itself is one tensor for all towers, so its name is the same in each.
    label = f"gradient of {op.inputs[count].op.inputs[0].name}"
    upstream = upstream[count:]  # None for integers
    known = [dy for dy in upstream if dy is not None]
    own = iter(rendezvous.meet(_whole_loss_gradient, [_Upstream(known)], label))
    return [None if dy is None else next(own) for dy in upstream] + [None] * count


class _Upstream(NamedTuple):
    """The gradients that one tower's loss has for the sums, as far as there are any."""

    tensors: List[tf.Tensor]


def _whole_loss_gradient(upstream):
    """Merge function of the gradient: Σⱼ (wⱼ/wᵢ)·dyⱼ for each tower i and each sum y."""
    group = rendezvous.merging()
    with tf.name_scope("replicate/cross_tower_sum_grad/"):
        totals = []
        for dys in zip(*(one.tensors for one in upstream)):
            totals.append(gradients.weighted_sum([tf.convert_to_tensor(dy) for dy in dys], group))
        return rendezvous.PerTower(
            [total / group.loss_weights.of(index, total.dtype) for total in totals]
            for index in range(group.size)
        )
