"""Differentiable sums and means over towers, for use inside a model.

Outside towers these are identities: the only tower has the whole batch. Replicas of a TPU or of
tf.distribute have shards of equal size.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import seeds
from replicate.engines import context

_GRADIENT = "ReplicateCrossTower"

# Gradient functions of the identities that `_link` made, by graph and name.
_links: weakref.WeakKeyDictionary[tf.Graph, dict[str, Callable[..., list[tf.Tensor | None]]]] = (
    weakref.WeakKeyDictionary()
)


def cross_tower_sum(x: Any) -> Any:
    """Sums `x` over all towers.

    The gradient is that of the whole loss: on tower i it is Σⱼ (wⱼ/wᵢ)·dyⱼ, where dyⱼ is the
    gradient of tower j's loss with respect to the result and wⱼ the weight of that loss in the
    whole loss. If all losses have equal weight, it is Σⱼ dyⱼ.

    Args:
        x: Nested structure of numeric tensors, or of values that convert to them. Each must have
            the same shape in every tower. None stays None.

    Returns:
        The structure, with each tensor summed over the towers, element by element; the same values
        in every tower.

    Raises:
        RuntimeError: If this is in the body of a `tf.cond`, `tf.while_loop` or function, or in a
            merge function, or if the calls of replicas of tf.distribute differ.
        TypeError: If a tensor is not numeric.
    """
    return tf.nest.pack_sequence_as(x, _sum_over_towers(_tensors(x)))


def cross_tower_mean(x: Any) -> Any:
    """Averages `x` over all towers, each weighted by its share of the batch's rows.

    With tensors that are means over the tower's rows, this gives the mean over the whole batch, no
    matter how evenly it was split.

    Args:
        x: As for `cross_tower_sum`; the tensors must be floating or complex.

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
    engine = context.engine()
    with seeds.uncounted():
        shares = [None if leaf is None else engine.mean_share(leaf) for leaf in leaves]
        return tf.nest.pack_sequence_as(x, _sum_over_towers(shares, "cross-tower mean"))


def _tensors(x: Any) -> list[tf.Tensor | None]:
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


def _sum_over_towers(
    leaves: list[tf.Tensor | None], label: str = "cross-tower sum"
) -> list[tf.Tensor | None]:
    """Returns the tensors `leaves`, each summed over the towers; None stays None."""
    given = [leaf for leaf in leaves if leaf is not None]
    engine = context.engine()
    if engine.size == 1 or not given:
        return leaves
    sums = iter(_differentiable_sum(engine, given, label))
    return [None if leaf is None else next(sums) for leaf in leaves]


def _differentiable_sum(
    engine: context.Engine, given: list[tf.Tensor], label: str
) -> Sequence[tf.Tensor]:
    """Returns the sums of tensors over towers, with a gradient for this tower's tensors."""
    with seeds.uncounted():
        sums, name = engine.add(given, label)
        return _link(given, sums, functools.partial(_gradient_of_sum, name))


def _gradient_of_sum(name: str, *upstream: tf.Tensor | None) -> list[tf.Tensor | None]:
    """Returns the gradients for the summands of `name`, from those for the sums."""
    engine = context.engine()
    if engine.size == 1:
        raise RuntimeError(
            "The gradient of a cross-tower sum needs the losses of all towers, so it can only be "
            f"built inside `model_fn`, but that of {name} was asked for outside of it."
        )

    def add_gradients(known: list[tf.Tensor]) -> list[tf.Tensor]:
        # Tower i's gradient is Σⱼ (wⱼ/wᵢ)·dyⱼ, since it will be weighted by wᵢ, as tower i's loss
        # is. This sum is differentiable, too, so second derivatives work.
        weights = [engine.loss_weight(dy.dtype) for dy in known]
        weighted = [dy if w is None else dy * w for dy, w in zip(known, weights)]
        sums = _differentiable_sum(engine, weighted, f"gradient of {name}")
        # A tower without rows has weight 0, and its summand did not count: its gradient is 0.
        local = [t if w is None else tf.math.divide_no_nan(t, w) for t, w in zip(sums, weights)]
        return [engine.counted(gradient) for gradient in local]

    return _of_numbers(add_gradients, upstream)


def _of_numbers(
    function: Callable[[list[tf.Tensor]], list[tf.Tensor]], upstream: Sequence[tf.Tensor | None]
) -> list[tf.Tensor | None]:
    """Applies `function` to the list of gradients, leaving out None and integers.

    Returns:
        The results at the positions of their gradients, and None at the others.
    """
    are_known = [
        dy is not None and (dy.dtype.is_floating or dy.dtype.is_complex) for dy in upstream
    ]
    known = [tf.convert_to_tensor(dy) for dy, is_known in zip(upstream, are_known) if is_known]
    results = iter(function(known) if known else ())
    return [next(results) if is_known else None for is_known in are_known]


def _link(
    given: list[tf.Tensor],
    results: Iterable[tf.Tensor],
    gradient: Callable[..., list[tf.Tensor | None]],
) -> Sequence[tf.Tensor]:
    """Returns the tensors `results`, with `gradient` as the gradient for the tensors `given`.

    An identity takes `given` and the results; only its copies of the results are used. Its
    overridden gradient leads to `given` alone. A gradient through the results would pass the
    operations that made the sum, which do not include the other towers' losses. Tapes ignore the
    override, so the gradient is recorded on them separately.
    """
    overridden = tf.get_default_graph().gradient_override_map({"IdentityN": _GRADIENT})
    with graph_lib.tapes_stopped(), overridden:
        outputs = tf.identity_n([*given, *(tf.stop_gradient(tensor) for tensor in results)])
    if not tf.executing_eagerly():
        _links.setdefault(outputs[0].graph, {})[outputs[0].op.name] = gradient
    outputs = outputs[len(given) :]
    graph_lib.record_on_tapes(outputs, given, gradient)
    return outputs


@tf.RegisterGradient(_GRADIENT)
def _gradient_of_link(op: tf.Operation, *upstream: tf.Tensor | None) -> list[tf.Tensor | None]:
    """Gradient of the identity in `_link`, built when a tower asks for gradients."""
    count = len(upstream) // 2
    return _links[op.graph][op.name](*upstream[count:]) + [None] * count
