"""Batch norm over all rows of all towers, also in the program of one tower and on TPU cores.

The fused kernel of `tf.layers.batch_normalization` normalizes the rows of each tower by the moments
of these rows alone. Here the moments are those of the whole batch, as on one device. The method is
that of Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing
Internal Covariate Shift", 2015, arXiv 1502.03167.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import keras
from replicate.cross_tower import cross_tower_mean, cross_tower_sum

# Arguments of `tf.layers.BatchNormalization` that contradict moments over all towers: the reason,
# and the alternative.
_REFUSED = {
    "renorm": (
        "it corrects moments of few rows by moving averages, but these include all rows",
        "Leave it out, or call `tf.layers.batch_normalization`",
    ),
    "virtual_batch_size": (
        "it normalizes parts of a batch separately",
        "Leave it out, or call `tf.layers.batch_normalization`",
    ),
    "adjustment": (
        "each tower would draw different values, for the shape of its rows",
        "Leave it out, and scale and shift the layer's output",
    ),
}


class BatchNormalization(keras.BatchNormalization):
    """Layer that normalizes by the moments of all rows of all towers.

    Outside towers it equals a `tf.layers.BatchNormalization` with `fused=False`. Variables have the
    same names, so that each restores the other's checkpoints. See `batch_normalization`.

    Args:
        *args: Arguments of `tf.layers.BatchNormalization`, in its order. `fused` is accepted
            without effect: the fused kernel computes the moments of one tower's rows.
        **kwargs: Keyword arguments of `tf.layers.BatchNormalization`.

    Raises:
        ValueError: If `renorm` is true, or `virtual_batch_size` or `adjustment` given;
            when built, if `axis` is or holds 0, the axis of the rows.
        ImportError: If there is no Keras 2 in this process. The message says what to run.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(keras.BatchNormalization).bind(*args, **kwargs).arguments
        given.update(given.pop("kwargs", {}))
        for name, (reason, way_out) in _REFUSED.items():
            value = given.get(name)
            if value is not None and value is not False:
                raise ValueError(
                    f"Batch norm over all towers cannot have `{name}`, but it is {value!r}: "
                    f"{reason}. {way_out}."
                )
        super().__init__(**dict(given, fused=False))

    def build(self, input_shape: tf.TensorShape | Sequence[int | None]) -> None:
        """Makes the variables, as `tf.layers.BatchNormalization` does.

        Args:
            input_shape: The shape of the inputs, a `tf.TensorShape` or a value that converts to it.
        """
        super().build(input_shape)
        if 0 in self.axis:
            raise ValueError(
                "Batch norm over all towers takes the moments over rows, so `axis` must not hold "
                f"0, but it is {self.axis} for inputs of shape {input_shape}. Name the axes of "
                "features, such as -1."
            )

    def moments(
        self, inputs: tf.Tensor, axes: list[int], mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns mean and variance of `inputs` over the rows of all towers.

        The variance is the mean of squared differences from the mean of *all* rows, for which the
        towers communicate a second time. E[x²] − E[x]² would need only one sum over towers, but
        cancels: if the mean is 10⁴ times the standard deviation, float32 has no digit left.

        Args:
            inputs: This tower's float32 or float64 tensor; 16-bit inputs have been cast.
            axes: List of the dimensions to reduce, including 0.
            mask: The weight of each entry, a tensor that broadcasts to `inputs` after a last
                dimension of size 1 is added; or None, for equal weights.

        Returns:
            Mean and variance, of the dtype and rank of `inputs`, with `axes` of size 1; the same in
            every tower. They are zero if all weights are.
        """

        def mean_of(x: tf.Tensor) -> tf.Tensor:
            if mask is None:
                return cross_tower_mean(tf.reduce_mean(x, axes, keepdims=True))
            counts = tf.cast(mask, x.dtype)[..., tf.newaxis] + tf.zeros_like(x)
            sums = [tf.reduce_sum(value, axes, keepdims=True) for value in (counts * x, counts)]
            return tf.math.divide_no_nan(*cross_tower_sum(sums))

        with tf.name_scope("moments"):
            mean = mean_of(inputs)
            # The derivative of the variance with respect to the mean is zero over all rows: those
            # of single towers are not, but add up to zero. So no gradient need pass the mean.
            return mean, mean_of(tf.math.squared_difference(inputs, tf.stop_gradient(mean)))


def batch_normalization(
    inputs: tf.Tensor,
    axis: int | Sequence[int] = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: str | Callable[..., tf.Tensor] = "zeros",
    gamma_initializer: str | Callable[..., tf.Tensor] = "ones",
    moving_mean_initializer: str | Callable[..., tf.Tensor] = "zeros",
    moving_variance_initializer: str | Callable[..., tf.Tensor] = "ones",
    beta_regularizer: Callable[[tf.Tensor], tf.Tensor | None] | None = None,
    gamma_regularizer: Callable[[tf.Tensor], tf.Tensor | None] | None = None,
    beta_constraint: Callable[[tf.Tensor], tf.Tensor] | None = None,
    gamma_constraint: Callable[[tf.Tensor], tf.Tensor] | None = None,
    training: bool | tf.Tensor = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: bool | Any | None = None,
    renorm: bool = False,
    renorm_clipping: dict[str, tf.Tensor] | None = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]] | None = None,
) -> tf.Tensor:
    """Normalizes by the moments of all rows of all towers: batch norm as on one device.

    Use it in place of `tf.layers.batch_normalization`, with which each tower would normalize by the
    moments of its rows and train a different model than one device. Outside towers, and if
    `training` is false, the result equals that of `tf.layers` with `fused=False`. Variables have
    the same names, so that each restores the other's checkpoints. As in `tf.layers`, operations in
    `tf.GraphKeys.UPDATE_OPS` update the moving averages, and the train operation must wait for
    them; all towers make the same update, once per step.

    Under `CentralStorageStrategy`, `training` must not be a tensor, here or in `tf.layers`.

    In training, towers communicate twice per layer to compute the moments, and twice more for the
    gradients. The moving variance is that of `fused=False`, the mean of squared differences over n
    values; the fused kernel, for images, multiplies it by n / (n − 1).

    Args:
        inputs: Floating tensor of shape [n, ...], this tower's rows; moments of 16-bit numbers are
            computed in float32.
        axis: Integer or list of them: the axes of features, which are not reduced, of static size.
        momentum: Weight of the old value when a moving average is updated.
        epsilon: Number that is added to the variance.
        center: Whether there is an offset, `beta`.
        scale: Whether there is a factor, `gamma`.
        beta_initializer: Initializer of the offset.
        gamma_initializer: Initializer of the factor.
        moving_mean_initializer: Initializer of the moving mean.
        moving_variance_initializer: Initializer of the moving variance.
        beta_regularizer: Function from the offset to its penalty, or None.
        gamma_regularizer: Function from the factor to its penalty, or None.
        beta_constraint: Function from the updated offset to the one to keep, or None.
        gamma_constraint: Function from the updated factor to the one to keep, or None.
        training: Boolean or scalar boolean tensor: whether to normalize by the moments of the batch
            and update the moving averages, or to normalize by the moving averages.
        trainable: Whether offset and factor are trainable variables.
        name: Name of the layer. None: made from 'batch_normalization'.
        reuse: Whether to take the variables of an earlier layer of that name.
        renorm: Must be False.
        renorm_clipping: Has no effect without `renorm`.
        renorm_momentum: Has no effect without `renorm`.
        fused: Has no effect, in towers and outside; it is accepted because much code passes it. The
            fused kernel computes the moments of one tower's rows, so it is never used.
        virtual_batch_size: Must be None.
        adjustment: Must be None.

    Returns:
        Tensor of the shape and dtype of `inputs`.

    Raises:
        RuntimeError: If the towers' calls differ, or are in the body of a `tf.cond` or
            `tf.while_loop`.
        ValueError: If `renorm` is true, `virtual_batch_size` or `adjustment` given, or
            `axis` is or holds 0, the axis of the rows.
        ImportError: If there is no Keras 2 in this process. The message says what to run.
    """
    given = dict(locals())
    inputs, training = given.pop("inputs"), given.pop("training")
    return BatchNormalization(_reuse=given.pop("reuse"), _scope=name, **given)(
        inputs, training=training
    )
