"""Lets code outside of the `model_fn` use variables that have replicas, or refuses it.

Hooks may update variables, or a wrapper may train what the `model_fn` leaves to it.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.partition import effects
from replicate.partition.meetings import Pack
from replicate.partition.placement import Placement
from replicate.partition.plan import Plan
from replicate.partition.replicas import Replicas, can_be_copied, follow, updates_of

_GRADIENT = "ReplicateReadOfVariableWithReplicas"


def are_trained(operations: Sequence[Any]) -> bool:
    """Whether some of the operations of a model update a trainable variable.

    If none does, code outside of the `model_fn` may take gradients, and update variables by them.
    """
    there = set(operations)
    return any(
        update is not variable.initializer
        for variable in tf.trainable_variables()
        for update in (updates_of(variable, there) if hasattr(variable, "handle") else ())
    )


def refuse_gradients(plan: Plan, replicas: Replicas) -> None:
    """Lets gradients with respect to variables with replicas fail, from now on.

    Only the first tower's operations lead from a variable to the loss.
    """
    takers = [
        operation
        for operation in plan.copied
        if any(graph_lib.reference(tensor) in replicas.handles for tensor in operation.inputs)
    ]
    values = (by_tower[0].op for by_tower in replicas.instead.values())
    reads = [one for one in values if one.type == "ReadVariableOp"]
    for operation in (*reads, *takers):
        partitioning.override_gradient(operation, _GRADIENT)


def _no_gradient(op: tf.Operation, *upstream: Any) -> Any:
    raise ValueError(
        f"replicate: a gradient of '{op.inputs[0].op.name}' is taken outside of the `model_fn`. "
        "But with variable_placement='replicated' (or 'auto', between GPUs), towers read replicas "
        "of it, and their gradients would be missing. Take it inside of the `model_fn`, or place "
        "variables by 'consolidation'."
    )


tf.RegisterGradient(_GRADIENT)(_no_gradient)


class FollowLater(tf.train.SessionRunHook):
    """Copies the updates that earlier hooks have added to the graph, for the variables' replicas.

    Args:
        replicas: The `Replicas`.
        placement: The `Placement`.
        packs: As for `follow`.
    """

    def __init__(self, replicas: Replicas, placement: Placement, packs: Sequence[Pack]) -> None:
        self._replicas = replicas
        self._placement = placement
        self._packs = packs

    def begin(self) -> None:
        """Copies updates that are not copied yet."""
        known = set(self._replicas.updates)
        made = [
            taker
            for handles in self._replicas.handles.values()
            for taker in handles[0].consumers()
            if taker.type not in effects.READS and taker not in known
        ]
        updates = partitioning.add_nodes_in_order(set(made))
        for update in updates:
            if not can_be_copied(update):
                tf.logging.warning(
                    "replicate: '%s' has a replica in each tower, but %s only changes that of the "
                    "first. Move it out of loops, conditions and functions, or place variables by "
                    "'consolidation'.",
                    update.inputs[0].op.name,
                    update.name,
                )
        copied = tuple(update for update in updates if can_be_copied(update))
        follow(self._replicas._replace(updates=copied), self._placement, self._packs)
        self._replicas = self._replicas._replace(updates=(*known, *updates))
