"""`TowerOptimizer`: gathers the towers' gradients and applies them once."""

import inspect
import numbers
import weakref

import tensorflow.compat.v1 as tf

from replicate import context, updates
from replicate.compat import keras, tpu


class TowerOptimizer(tf.train.Optimizer):
    """Wraps an optimizer so that all towers train one set of variables.

        optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(1e-3))
        train_op = optimizer.minimize(loss, tf.train.get_global_step())

    `apply_gradients` is where the towers meet: their gradients are summed on the consolidation
    device, each weighted as its loss is, and the wrapped optimizer of tower 0 applies the sum. In
    this order, once per step: gather, `transform_gradients`, clip to `clip_norm`, apply. After
    that, slots and variables answer in every tower. Without towers, calls are forwarded.

    The same in replicas: those of a TPU apply the mean of their gradients, a cross-replica sum. In
    those of tf.distribute, the wrapped optimizer adds gradients up and applies them as it does
    without `TowerOptimizer`. There, an Estimator takes losses for means unless the last one of
    `tf.losses` or Keras is a sum; outside an Estimator they are added up, for users to scale. An
    optimizer with an `apply_gradients` of its own gets the gradients of the whole batch there; if
    that assigns variables, as BERT's does, it runs once, in the cross-replica context.

    Args:
        optimizer_or_optimizer_fn: An optimizer, that is, an object with `compute_gradients` and
            `apply_gradients` as `tf.train.Optimizer` has them or one of
            `tf.keras.optimizers.legacy`, or a function without arguments that makes one. Of a
            `tf.tpu.CrossShardOptimizer`, what that wraps.
        clip_norm: Largest global norm of the gradient that is applied, a positive number or scalar
            tensor, in units of the gradient of the whole batch's loss. Slices of a sparse gradient
            that are of the same row are added up first. None: no clipping.
        transform_gradients: Function from the list of `(gradient, variable)` pairs, gathered from
            all towers, to the list to apply. A gradient is a tensor, a `tf.IndexedSlices` or None.
            None: no transformation.

    Raises:
        TypeError: If `optimizer_or_optimizer_fn` is or makes something else, or a
            `TowerOptimizer`, or `transform_gradients` cannot be called.
        ValueError: If `clip_norm` is a number that is not positive, or no number; if a
            `CrossShardOptimizer` does not take the mean over all replicas.
    """

    def __init__(self, optimizer_or_optimizer_fn, *, clip_norm=None, transform_gradients=None):
        super().__init__(use_locking=False, name="TowerOptimizer")
        optimizer_or_optimizer_fn = _unwrapped(optimizer_or_optimizer_fn)
        if not (_is_optimizer(optimizer_or_optimizer_fn) or callable(optimizer_or_optimizer_fn)):
            raise TypeError(_not_an_optimizer(optimizer_or_optimizer_fn))
        if not (
            clip_norm > 0
            if isinstance(clip_norm, numbers.Real)
            else clip_norm is None or tf.is_tensor(clip_norm)
        ):
            raise ValueError(
                "`clip_norm` must be a positive number or scalar tensor, or None for no clipping, "
                f"but is {clip_norm!r}."
            )
        if transform_gradients is not None and not callable(transform_gradients):
            raise TypeError(
                "`transform_gradients` must be a function of a list of (gradient, variable) pairs, "
                f"or None, but is {transform_gradients!r}."
            )
        self._given = optimizer_or_optimizer_fn
        self._clip_norm = clip_norm
        self._transform_gradients = transform_gradients
        self.averages_losses = None
        """Whether losses were means when gradients were computed, None if unknown; for engines."""
        # By graph, because a factory's optimizer may hold tensors, and because after
        # `apply_gradients` all towers of a graph answer with the optimizer of tower 0.
        self._by_graph = weakref.WeakKeyDictionary()

    @property
    def optimizer(self):
        """The wrapped optimizer; after `apply_gradients`, the one that applied the gradients."""
        if _is_optimizer(self._given):
            return self._by_graph.get(tf.get_default_graph(), self._given)
        graph = tf.get_default_graph()
        if graph not in self._by_graph:
            made = _unwrapped(self._given())
            if not _is_optimizer(made):
                raise TypeError(_not_an_optimizer(made))
            self._by_graph[graph] = made
        return self._by_graph[graph]

    def minimize(self, loss, *args, **kwargs):
        """Computes and applies gradients; takes what `tf.train.Optimizer.minimize` takes.

        Returns:
            The operation that applies the gradients gathered from all towers.
        """
        signature = inspect.signature(super().minimize)
        given = signature.bind(loss, *args, **kwargs).arguments
        applied = {key: given.pop(key) for key in ("global_step", "name") if key in given}
        grads_and_vars = self.compute_gradients(**given)
        if not any(gradient is not None for gradient, _ in grads_and_vars):
            raise ValueError(
                "At least one variable must have a gradient, but none of "
                f"{[variable.name for _, variable in grads_and_vars]} has one for loss {loss}. "
                "Check that the loss depends on them through differentiable operations."
            )
        return self.apply_gradients(grads_and_vars, **applied)

    def compute_gradients(self, loss, *args, **kwargs):
        """Returns the wrapped optimizer's gradients of this tower's loss, as they are.

        Args:
            loss: Scalar tensor, this tower's loss.
            *args: As the wrapped optimizer has them, e.g. `var_list`.
            **kwargs: Likewise.

        Returns:
            List of `(gradient, variable)` pairs, neither weighted nor clipped.
        """
        return list(context.engine().compute_gradients(self, loss, args, kwargs))

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        """Gathers the gradients of all towers and applies them once.

        Args:
            grads_and_vars: Iterable of this tower's `(gradient, variable)` pairs. It is read once,
                so that a `zip` will do.
            *args: As the wrapped optimizer has them, e.g. `global_step`; those of tower 0 count.
            **kwargs: Likewise.

        Returns:
            The operation that applies the gathered gradients, the same in every tower.

        Raises:
            RuntimeError: If the towers do not apply the same optimizers in the same order, or
                apply gradients in the body of a `tf.cond` or `tf.while_loop`, or in the
                cross-replica context of tf.distribute.
            TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None.
        """
        return context.engine().apply_gradients(self, list(grads_and_vars), args, kwargs)

    def get_updates(self, loss, params):
        """Computes and applies gradients, in the way of the optimizers of Keras 2.

        Args:
            loss: Scalar tensor, this tower's loss.
            params: List of variables.

        Returns:
            List of the operation that applies the gradients gathered from all towers.
        """
        return [self.apply_gradients(self.compute_gradients(loss, var_list=params))]

    @property
    def iterations(self):
        """What an optimizer of Keras 2 counts its steps with; it can be set to the global step."""
        return self.optimizer.iterations

    @iterations.setter
    def iterations(self, variable):
        self.optimizer.iterations = variable

    def get_name(self):
        """Returns the wrapped optimizer's name."""
        optimizer = self.optimizer
        return optimizer.get_name() if hasattr(optimizer, "get_name") else type(optimizer).__name__

    def get_slot(self, var, name):
        """Returns slot `name` of variable `var`, None if there is none."""
        return self.optimizer.get_slot(var, name)

    def get_slot_names(self):
        """Returns the names of the slots."""
        return self.optimizer.get_slot_names()

    def variables(self):
        """Returns the variables that hold the wrapped optimizer's state."""
        return self.optimizer.variables()

    def __getattr__(self, name):
        # Only for what this class lacks, such as the hook of a `SyncReplicasOptimizer`.
        if name.startswith("__") or "_given" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def apply_gathered(self, grads_and_vars, args, kwargs):
        """Transforms and applies gradients of the whole batch; engines call it.

        Args:
            grads_and_vars: List of `(gradient, variable)` pairs, gathered from all towers.
            args: What the wrapped optimizer's `apply_gradients` takes besides.
            kwargs: Likewise.

        Returns:
            What the wrapped optimizer does.
        """
        return self.optimizer.apply_gradients(self.transform(grads_and_vars), *args, **kwargs)

    def transform(self, grads_and_vars):
        """Returns gradients as they are to be applied; engines call it.

        Args:
            grads_and_vars: List of `(gradient, variable)` pairs, gathered from all towers.

        Returns:
            List of `(gradient, variable)` pairs.
        """
        if self._transform_gradients is not None:
            grads_and_vars = list(self._transform_gradients(grads_and_vars))
        if self._clip_norm is not None:
            grads = [_with_unique_rows(gradient) for gradient, _ in grads_and_vars]
            clipped, _ = tf.clip_by_global_norm(grads, self._clip_norm)
            grads_and_vars = [(g, variable) for g, (_, variable) in zip(clipped, grads_and_vars)]
        return grads_and_vars

    @property
    def transforms(self):
        """Whether `transform` changes gradients."""
        return self._transform_gradients is not None or self._clip_norm is not None

    def answer_as(self, first):
        """Makes this tower's optimizer answer with that of another; engines call it.

        Args:
            first: The `TowerOptimizer` of the tower that applied the gradients.
        """
        self._by_graph[tf.get_default_graph()] = first.optimizer


def check_wrapped(group):
    """Raises if a later tower trains variables past the rendezvous of `TowerOptimizer`.

    Args:
        group: The `Towers`, built for training.

    Raises:
        ValueError: If it does; names the variable and the operation.
    """
    trained = [v for v in group.variables.shared if v.trainable] + tf.trainable_variables()
    for variable, op in updates.own_updates(group.towers[1], trained):
        raise ValueError(
            "Every optimizer in a replicated `model_fn` must be wrapped, so that the towers' "
            f"gradients are gathered, but '{variable.name}' is updated in each tower by itself, in "
            f"tower 1 by {op.name}. Write `optimizer = replicate.TowerOptimizer(optimizer)`."
        )


def _with_unique_rows(gradient):
    """Returns `gradient` with rows that occur several times added up, as a norm needs them."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, positions = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def _is_optimizer(value):
    return (
        hasattr(value, "compute_gradients")
        and hasattr(value, "apply_gradients")
        and not isinstance(value, type)
    )


def _unwrapped(value):
    """Returns the optimizer to wrap for `value`, an optimizer or a function that makes one."""
    if isinstance(value, TowerOptimizer):
        raise TypeError(
            "`TowerOptimizer` gathers the gradients of all towers once, but got an optimizer that "
            "it wraps already. Wrap once."
        )
    return keras.as_optimizer(tpu.without_cross_shard(value))


def _not_an_optimizer(value):
    return (
        "`TowerOptimizer` wraps an optimizer with `compute_gradients` and `apply_gradients`, or a "
        f"function without arguments that makes one, but got {value!r}. Pass e.g. "
        "`tf.train.AdamOptimizer(1e-3)`."
    )
