"""Loss scales, which multiply a loss so that float16 can represent its gradients.

Small gradients are zero in float16, so the loss is multiplied by a scale and the gradients are
divided by it: Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740, section 3.2.
Names, arguments, steps and variables are those of TensorFlow's `tf.compat.v1.mixed_precision`. Its
loss scales are accepted in place of these, and these restore its checkpoints.
"""

from __future__ import annotations

import abc
import functools
import numbers
from typing import Any, TypeVar, Union, cast

import tensorflow.compat.v1 as tf

from replicate.compat import saving
from replicate.engines import context, finite
from replicate.faults import loss_scale_hook
from replicate.graphs import Eager, GraphLocal, graph_of_variables

AnyLossScale = Union["LossScale", tf.train.experimental.LossScale]
_Self = TypeVar("_Self", bound="LossScale")


class LossScale(tf.Module, abc.ABC):
    """Factor of a loss. Subclasses define how gradients change it.

    Subclasses of `tf.compat.v1.mixed_precision.LossScale` can use this base class instead.

    Raises:
        RuntimeError: If a subclass adds two variables with the same name.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names = GraphLocal()  # Names of variables that `_add_weight` made, by graph.

    @abc.abstractmethod
    def __call__(self) -> tf.Tensor:
        """Returns the current scale, a float32 scalar tensor."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[tf.Operation | None, tf.Tensor | bool]:
        """Updates the scale by the gradients of a step; in eager mode, at once.

        Every tower calls it with its gradients, and all get the same result. In a merge function or
        the cross-replica context of tf.distribute it is called once.

        Args:
            grads: Nested structure of gradients that were divided by the scale: floating or complex
                tensors, `tf.IndexedSlices` or None, which is ignored.

        Returns:
            The operation that updates the scale, None in eager mode; and whether to apply the
            gradients, a boolean scalar tensor or a bool.
        """

    def _add_weight(self, name: str, initial_value: Any, dtype: Any = None) -> tf.Variable:
        """Returns a new variable, for subclasses, like the method of TensorFlow's base class.

        The variable is not trained, is the same in every replica, and is stored under its name in
        object-based checkpoints.

        Args:
            name: Name of the variable.
            initial_value: Initial value of the variable.
            dtype: Type of the variable; None: that of the initial value.

        Raises:
            RuntimeError: If the current graph has one with that name.
        """
        names = self._names.setdefault(graph_of_variables(), set())
        if name in names:
            raise RuntimeError(
                f"A loss scale has one variable of a name in each graph, but '{name}' was added to "
                f"{type(self).__name__} before. Choose another name, or keep the first."
            )
        names.add(name)
        variable = _variable(initial_value, name, dtype)
        saving.track(self, variable, name)
        return variable

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Returns the dictionary of the constructor's arguments."""

    @classmethod
    def from_config(cls: type[_Self], config: dict[str, Any]) -> _Self:
        """Returns a loss scale, given the result of `get_config`."""
        return cls(**config)


class FixedLossScale(LossScale):
    """A scale that never changes. Gradients are always applied, even if they are not finite.

    Args:
        loss_scale_value: The scale, an int or float of at least 1.

    Raises:
        ValueError: If it is not such a number, or not finite in float32.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        self._value = _number("loss_scale_value", loss_scale_value, 1, "of at least 1", 1024)

    def __call__(self) -> tf.Tensor:
        """Returns the scale, a float32 scalar tensor."""
        # A stored tensor would belong to one graph, function or device.
        return tf.constant(self._value, tf.float32)

    def update(self, grads: Any) -> tuple[tf.Operation | None, tf.Tensor | bool]:
        """Returns an operation that does nothing, None in eager mode, and True."""
        del grads
        return tf.no_op(), True

    def get_config(self) -> dict[str, Any]:
        """Returns the dictionary of `loss_scale_value`."""
        return {"loss_scale_value": self._value}

    def __repr__(self) -> str:
        return f"FixedLossScale({self._value})"


class DynamicLossScale(LossScale):
    """A scale that grows until gradients overflow: "backoff" in NVIDIA's OpenSeq2Seq.

    After `increment_period` consecutive steps with finite gradients, the scale is multiplied by
    `multiplier`, unless the product is not finite, and the count restarts. After a step with a
    gradient that is not finite, the scale is divided by `multiplier`, but never below 1, the count
    restarts, and the gradients must not be applied. A tower without rows does not count.

    It holds variables, so make it inside `model_fn` if it is used there. Towers share them.

    Args:
        initial_loss_scale: The first scale, a finite number of at least 1.
        increment_period: Number of steps, an integer of at least 1, also as a float: 2000.0.
        multiplier: Finite number greater than 1.

    Attributes:
        current_loss_scale: The scale, a float32 scalar variable.
        good_steps: The count, an int64 scalar variable.

    Raises:
        ValueError: If an argument is not such a number.
    """

    def __init__(
        self,
        initial_loss_scale: float = 2**15,
        increment_period: float = 2000,
        multiplier: float = 2.0,
    ) -> None:
        super().__init__()
        number = _number("initial_loss_scale", initial_loss_scale, 1, "of at least 1", "2**15")
        self._initial_loss_scale = number
        # 1 + 2⁻²³ is the smallest float32 number above 1.
        self._multiplier = _number("multiplier", multiplier, 1 + 2.0**-23, "greater than 1", 2.0)
        is_number = _is_between(increment_period, 1, tf.int64.max, numbers.Real)
        if not (is_number and float(increment_period).is_integer()):
            raise ValueError(
                "`increment_period` must be an integer of at least 1 that int64 holds, but is "
                f"{increment_period!r}. Pass a number of steps, e.g. 2000."
            )
        self._increment_period = int(increment_period)
        self._graph = graph_of_variables()
        self.current_loss_scale = _variable(number, "current_loss_scale", tf.float32)
        self.good_steps = _variable(0, "good_steps", tf.int64)
        loss_scale_hook.watch([self.current_loss_scale, self.good_steps])

    @property
    def initial_loss_scale(self) -> float:
        """The first scale, a float."""
        return self._initial_loss_scale

    @property
    def increment_period(self) -> int:
        """Number of consecutive steps with finite gradients after which the scale grows, an int."""
        return self._increment_period

    @property
    def multiplier(self) -> float:
        """Factor by which the scale is multiplied or divided, a float."""
        return self._multiplier

    def __call__(self) -> tf.Tensor:
        """Returns the current scale, a float32 scalar tensor."""
        self._check_graph()
        return tf.convert_to_tensor(self.current_loss_scale)

    def update(self, grads: Any) -> tuple[tf.Operation | None, tf.Tensor | bool]:
        """Returns the update of the scale, and whether the gradients of all towers are finite.

        Returns:
            The operation, and whether to apply the gradients, as `LossScale.update` does.

        Raises:
            RuntimeError: If calls of towers differ, or are in a `tf.cond` or `tf.while_loop`.
            ValueError: In another graph than the one in which the scale was made.
        """
        self._check_graph()
        is_finite = finite.in_all_towers(grads)
        label = f"update of '{self.current_loss_scale.name}'"
        return context.call_once(functools.partial(self._advance, is_finite), label)

    def get_config(self) -> dict[str, Any]:
        """Returns the dictionary of the constructor's arguments."""
        names = "initial_loss_scale", "increment_period", "multiplier"
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        config = self.get_config()
        if self._graph is Eager and tf.executing_eagerly():
            scale, count = self.current_loss_scale.numpy(), self.good_steps.numpy()
            config = {"current_loss_scale": scale, "num_good_steps": count, **config}
        return f"DynamicLossScale({', '.join(f'{key}={config[key]}' for key in config)})"

    def _check_graph(self) -> None:
        here = graph_of_variables()
        if self._graph is not here:
            raise ValueError(
                "A dynamic loss scale has variables, so it must be used where it was made, but "
                f"{self!r} was made {'eagerly' if self._graph is Eager else 'in a graph'} and is "
                f"used {'eagerly' if here is Eager else 'in another graph'}. Make it inside "
                "`model_fn`, or pass 'dynamic'."
            )

    def _advance(self, is_finite: tf.Tensor) -> tuple[tf.Operation, tf.Tensor]:
        """Updates the variables; returns the results of `update`."""
        with tf.name_scope("replicate/loss_scale/"):
            scale = tf.convert_to_tensor(self.current_loss_scale)
            count = tf.convert_to_tensor(self.good_steps) + 1
            is_due = count >= self.increment_period
            raised = scale * self.multiplier
            raised = tf.where_v2(is_due & tf.math.is_finite(raised), raised, scale)
            lowered = tf.maximum(scale / self.multiplier, 1.0)
            # Selecting scalars costs less than a `tf.cond`, and compiles everywhere.
            scale = tf.where_v2(is_finite, raised, lowered)
            count = tf.where_v2(is_finite & ~is_due, count, tf.zeros_like(count))
            set_scale = self.current_loss_scale.assign(scale, read_value=False)
            set_count = self.good_steps.assign(count, read_value=False)
            return tf.group(set_scale, set_count), is_finite


def get(identifier: float | str | AnyLossScale | None) -> AnyLossScale | None:
    """Returns the loss scale that an identifier stands for.

    Args:
        identifier: None, a number for a `FixedLossScale`, 'dynamic' for a `DynamicLossScale`, or a
            loss scale of this module or of `tf.compat.v1.mixed_precision`.

    Returns:
        A loss scale, the given one if it is one; None for None.

    Raises:
        ValueError: If `identifier` is anything else, or a number below 1.
    """
    if identifier is None or isinstance(identifier, (LossScale, tf.train.experimental.LossScale)):
        return identifier
    if isinstance(identifier, numbers.Real) and not isinstance(identifier, bool):
        return FixedLossScale(cast(float, identifier))
    if isinstance(identifier, str) and identifier == "dynamic":
        return DynamicLossScale()
    raise ValueError(
        "A loss scale must be None, an int or float, 'dynamic', a `replicate.loss_scale.LossScale` "
        f"or a `tf.compat.v1.mixed_precision.LossScale`, but is {identifier!r}. Pass one of these."
    )


def _number(name: str, value: Any, minimum: float, rule: str, example: Any) -> float:
    """Returns an argument as a float, or raises."""
    if not _is_between(value, minimum, float(tf.float32.max), numbers.Real):
        raise ValueError(
            f"`{name}` must be an int or float {rule} that is finite in float32, but is {value!r}. "
            f"Pass e.g. {example}."
        )
    return float(value)


def _is_between(value: Any, low: float, high: float, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and low <= value <= high


def _variable(initial_value: Any, name: str, dtype: Any) -> tf.Variable:
    same = tf.VariableAggregation.NONE  # Every replica assigns the same value.
    return tf.Variable(
        initial_value, trainable=False, name=name, dtype=dtype, use_resource=True, aggregation=same
    )


# TensorFlow's optimizers that scale losses test for TensorFlow's classes.
for _theirs, _ours in (
    (tf.train.experimental.LossScale, LossScale),
    (tf.train.experimental.FixedLossScale, FixedLossScale),
    (tf.train.experimental.DynamicLossScale, DynamicLossScale),
):
    abc.ABCMeta.register(_theirs, _ours)
