"""Gathers gradients of all towers, of a model that is built once, and remembers of what."""

import tensorflow.compat.v1 as tf

from replicate.batch import Weights
from replicate.compat import graph as graph_lib
from replicate.gathering import collectives
from replicate.graphs import Rows, call_site, line_of, state

_GRADIENT = "ReplicateGathered"


class Target:
    """What a gradient is of, as `gradients.gather` asks for it."""

    def __init__(self, x, group):
        variable = x if not isinstance(x, tf.Tensor) else group.variables.of_handle(x)
        given = x if variable is None else variable
        self.name = given.name
        self.device = given.device
        self.dtype = given.dtype.base_dtype
        self.shape = given.shape
        self.given = given


class Gathered:
    """The gathered gradients of one model.

    Args:
        graph: The graph.
        rows: The `Rows` of the model.
    """

    def __init__(self, graph, rows):
        self._rows = rows
        self._gathered = {}  # By the `id` of a gathered gradient: it, and those of all towers.
        self._reach = Rows(graph, state.writes)  # What depends on gathered gradients.

    def remember(self, gradient, by_tower):
        """Keeps what a gathered gradient was made of, a list of those of all towers."""
        self._gathered[id(gradient)] = gradient, by_tower
        parts = gradient if isinstance(gradient, tf.IndexedSlices) else None
        self._reach.add(gradient if parts is None else parts.values)

    def follow(self, gradient, other):
        """Lets `other` have the origin of `gradient`, which it is a multiple of."""
        if id(gradient) in self._gathered:
            self._gathered[id(other)] = other, self._gathered[id(gradient)][1]

    def origin(self, gradient):
        """Returns what a gradient was gathered from, those of all towers, None if it was not."""
        found = self._gathered.get(id(gradient))
        return None if found is None else found[1]

    def check_not_mixed(self, gradient, variable):
        """Raises if a gradient depends on gathered ones and on this tower's rows besides.

        Raises:
            ValueError: If it does.
        """
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        if not self._reach.reach(values):
            return
        op = values.op
        while True:  # Until what first brings the two together.
            mixed = [
                tensor.op
                for tensor in op.inputs
                if self._rows.reach(tensor) and self._reach.reach(tensor)
            ]
            if not mixed:
                break
            op = mixed[0]
        raise ValueError(
            "Gradients of variables are those of the whole batch from where they are made, so "
            f"what is done to them must be of all rows, too, but that of '{variable.name}' is "
            f"combined with what one tower's rows give, by {op.type} {op.name} ({line_of(op)}). "
            "Use `replicate.cross_tower_sum` or `cross_tower_mean` of that; how many rows there "
            "are in all is `cross_tower_sum(tf.shape(x)[0])`."
        )


def gather(group, pairs, step=None, weights=None):
    """Returns gradients of the whole batch.

    Args:
        group: The `Towers`.
        pairs: List of tower 0's `(gradient, variable)` pairs, none of them None.
        step: The `TrainingStep` of the optimizer that they are for; None if it is not known.
        weights: The `Weights` of the gradients; None: 1, since their backward passes began so.

    Returns:
        List of gradients.
    """
    by_tower = of_each(group, pairs)
    by_hand = weights is not None
    weights = weights if by_hand else Weights([1] * group.size)
    how = group.how if step is None else step.how
    overridden = group.graph.gradient_override_map(dict.fromkeys(_GATHERING, _GRADIENT))
    with group.once(), graph_lib.tapes_stopped(), overridden:
        if by_hand and step is not None:  # They are not multiplied by a loss scale.
            gathered = step.gather(by_tower, group, weights)
        else:
            gathered = collectives.gather(by_tower, group, weights, how)
    made = [gradient for gradient, _ in gathered]
    for gradient, *own in zip(made, *by_tower):
        group.gathered.remember(gradient, [gradient for gradient, _ in own])
    return made


def of_each(group, pairs):
    """Returns, for each of N towers, the list of its `(gradient, variable)` pairs."""
    flat = [tensor for gradient, _ in pairs for tensor in _parts(gradient)]
    by_tower = []
    for tensors in group.each(flat):
        tensors = iter(tensors)
        by_tower.append([(_like(g, tensors), variable) for g, variable in pairs])
    return by_tower


def _parts(gradient):
    if gradient is None:
        return []
    if not isinstance(gradient, tf.IndexedSlices):
        return [gradient]
    shape = [] if gradient.dense_shape is None else [gradient.dense_shape]
    return [gradient.values, gradient.indices, *shape]


def _like(gradient, tensors):
    if gradient is None:
        return None
    if not isinstance(gradient, tf.IndexedSlices):
        return next(tensors)
    values, indices = next(tensors), next(tensors)
    shape = None if gradient.dense_shape is None else next(tensors)
    return tf.IndexedSlices(values, indices, shape)


_GATHERING = (
    "AddN",
    "Add",
    "AddV2",
    "Mul",
    "MulNoNan",
    "RealDiv",
    "Identity",
    "ConcatV2",
    "Split",
    "SplitV",
    "Reshape",
    "Cast",
    "NcclAllReduce",
)


@tf.RegisterGradient(_GRADIENT)
def _gradient_of_gathered(op, *upstream):
    del upstream
    raise RuntimeError(
        "Gradients of variables are gathered from all towers where they are made, and have no "
        f"gradients themselves, but one of {op.name} was asked for at {call_site()}. Compute what "
        "is to be differentiated twice from gradients of activations, or train on one device."
    )


def gather_by_hand(group, grads_and_vars, step):
    """Returns `(gradient, variable)` pairs of which those that depend on rows are gathered.

    Raises:
        ValueError: If a gradient mixes what was gathered from all towers with rows of one.
    """
    pairs, own = list(grads_and_vars), []
    for position, (gradient, variable) in enumerate(pairs):
        if gradient is None:
            continue
        gradient = collectives.as_gradient(gradient, variable, 0)
        pairs[position] = gradient, variable
        if group.reach(gradient):
            group.gathered.check_not_mixed(gradient, variable)
            own.append(position)
    if own:
        gathered = gather(group, [pairs[i] for i in own], step, group.loss_weights)
        for position, gradient in zip(own, gathered):
            pairs[position] = gradient, pairs[position][1]
    return _one_each(group, pairs)


def _one_each(group, pairs):
    """Returns one pair for each variable, with its gradients added up."""
    by_variable = {}
    for gradient, variable in pairs:
        by_variable.setdefault(id(variable), (variable, []))[1].append(gradient)
    if len(by_variable) == len(pairs):
        return pairs
    with group.once(), tf.name_scope(collectives.SCOPE):
        return [
            (collectives.total([g for g in grads if g is not None] or [None], variable), variable)
            for variable, grads in by_variable.values()
        ]
