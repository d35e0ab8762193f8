"""The units of a RevNet, each of which computes y1 = x1 + F(x2), y2 = x2 + G(y1).

From y1 and y2, a unit that keeps stride and width gives back its inputs: x2 = y2 − G(y1), then
x1 = y1 − F(x2). So the backward pass needs no activations but those that it recomputes, one
function at a time. The first unit of a stage adds up what is not of one size with its input, so
its inputs are kept.

A *half* is a float tensor [n, height, width, channels], or [n, channels, height, width]; a *pair*
is two of them, the input or the output of a unit.
"""

import tensorflow.compat.v1 as tf

from examples.revnet.network import pooling
from examples.revnet.network.residual_functions import Residual, after


class Unit(tf.keras.layers.Layer):
    """A unit that can be inverted: what goes in can be told from what comes out.

    Args:
        config: A `RevNetConfig`.
        in_width: Channels of its input, both halves together.
        out_width: Channels of its output.
        filters: Channels between the convolutions of F and G, both together.
        stride: Of the unit.
        place: Path of the unit in the network, which its variables are named by.
        norm_first: Whether F and G begin with batch norm and ReLU.
    """

    is_reversible = True

    def __init__(self, config, in_width, out_width, filters, stride, place, norm_first=False):
        super().__init__(dtype=config.variable_dtype)
        self._dropout_rate = config.dropout_rate
        self._channels_axis = 1 if config.data_format == "channels_first" else 3
        before, after, between = in_width // 2, out_width // 2, filters // 2
        self.f = Residual(config, before, after, between, stride, f"{place}/f", norm_first)
        self.g = Residual(config, after, after, between, 1, f"{place}/g", norm_first)

    @property
    def learned(self):
        """The weights that have gradients, frozen or not: those of F, then those of G."""
        return [*self.f.learned, *self.g.learned]

    def values(self):
        """Returns the values of the learned weights, a list."""
        return [tf.convert_to_tensor(weight) for weight in self.learned]

    def split(self, values):
        """Returns the values of the weights of F and those of G."""
        of_f = len(self.f.learned)
        return values[:of_f], values[of_f:]

    def forward(self, x, values):
        """Computes the unit in training.

        Args:
            x: Pair.
            values: What `values` returns.

        Returns:
            Pair `y`; what the unit must keep of the pass, a few numbers per channel; and its
            activations, to be kept or not.
        """
        of_f, of_g = self.split(values)
        x1, x2 = x
        change, kept_f, activations_f = self.f.forward(x2, of_f)
        y1 = self.shortcut(x1) + change
        change, kept_g, activations_g = self.g.forward(y1, of_g)
        y2 = self.shortcut(x2) + change
        return (y1, y2), [kept_f, kept_g], [activations_f, activations_g]

    def infer(self, x):
        """Computes the unit with the moving statistics; returns the pair `y`."""
        of_f, of_g = self.split(self.values())
        x1, x2 = x
        y1 = self.shortcut(x1) + self.f.infer(x2, of_f)
        return y1, self.shortcut(x2) + self.g.infer(y1, of_g)

    def call(self, x, training=False):
        """Computes the unit; returns the pair `y`. Moving statistics stay as they are."""
        return self.forward(x, self.values())[0] if training else self.infer(x)

    def shortcut(self, half):
        """Returns what F or G is added to."""
        return half

    def backward(self, x, y, dy, kept=None, activations=None, values=None):
        """Goes back through the unit: computes F and G once more, and their gradients.

        Args:
            x: Pair; None if it is to be reconstructed.
            y: Pair, what the unit returned in training.
            dy: Pair, the gradients for it.
            kept: The result of `forward`; None computes the moments of the batch again.
            activations: Likewise, if they were kept; then nothing is recomputed.
            values: What `values` returns; None asks for them.

        Returns:
            Pair `x`, as given or reconstructed, of None if neither it nor anything else was
            recomputed; the pair of gradients for it; and a list of the gradients for the learned
            weights, in their order.

        Raises:
            ValueError: If `kept` is None, and the unit has dropout.
        """
        values = self.values() if values is None else values
        of_f, of_g = self.split(values)
        if kept is None:
            x, kept, activations = self._forward_again(x, y, of_f, of_g)
        kept_f, kept_g = kept
        # Lists of its own, since `gradients` empties them.
        activations_f, activations_g = map(list, activations) if activations else (None, None)
        (y1, y2), (dy1, dy2) = y, dy
        x1, x2 = (None, None) if x is None else x

        # Recomputation waits for the gradients so far. Otherwise it would run before them, and all
        # activations would be in memory at the same time.
        if activations_g is None:
            (y1,) = after([dy1, dy2], y1)
            x2, activations_g = _recompute(self.g, y1, of_g, kept_g, x2, y2)
        change, d_g = self.g.gradients(dy2, of_g, kept_g, activations_g)
        dy1 += change
        if activations_f is None:
            (waited,) = after([dy1, *d_g], x2)
            x1, activations_f = _recompute(self.f, waited, of_f, kept_f, x1, y1)
        change, d_f = self.f.gradients(dy1, of_f, kept_f, activations_f)
        dx = self._through_shortcut(x1, dy1), self._through_shortcut(x2, dy2) + change
        return (x1, x2), tuple(after([*dx, *d_f, *d_g], *dx)), d_f + d_g

    def backward_grads(self, y, dy, training=True, x=None):
        """Goes back through the unit, by the published block's arguments and results.

        That block takes and gives one tensor, which it splits into halves, and joins again.

        Args:
            y: What the unit returned in training: a pair, or one tensor of both halves' channels.
            dy: The gradients for it, likewise.
            training: True.
            x: What the unit took, likewise; None if it is to be reconstructed.

        Returns:
            `x`, as given or reconstructed; the gradients for it, both in the form of `y`; and a
            list of the gradients for the learned weights, in their order.

        Raises:
            ValueError: If `training` is False, or as of `backward`.
        """
        if not training:
            raise ValueError(
                "Gradients go back through a unit in training, whose batch norm has the moments of "
                f"the batch, but `training` is {training!r}. Pass True."
            )
        if not tf.is_tensor(y):
            return self.backward(x, y, dy)
        given = None if x is None else tf.split(x, 2, self._channels_axis)
        halves = (tf.split(each, 2, self._channels_axis) for each in (y, dy))
        *pairs, gradients = self.backward(given, *halves)
        return (*(tf.concat(each, self._channels_axis) for each in pairs), gradients)

    def _forward_again(self, x, y, of_f, of_g):
        """Returns `x`, and of `forward` what is kept and the activations, told from `y`."""
        if self._dropout_rate:
            raise ValueError(
                "A unit with dropout must be told what it dropped, but `kept` is None and "
                f"`dropout_rate` is {self._dropout_rate}. Pass what `forward` returned."
            )
        (y1, y2), (x1, x2) = y, x or (None, None)
        change, kept_g, activations_g = self.g.forward(y1, of_g)
        x2 = y2 - change if x2 is None else x2
        change, kept_f, activations_f = self.f.forward(x2, of_f)
        x1 = y1 - change if x1 is None else x1
        return (x1, x2), [kept_f, kept_g], [activations_f, activations_g]

    def _through_shortcut(self, half, upstream):
        """Returns the gradient for the input of a shortcut."""
        del half
        return upstream


class DownsamplingUnit(Unit):
    """The first unit of a stage: pools its inputs, and gives them more channels.

    Its input cannot be computed from its output, so `backward` needs `x`.
    """

    is_reversible = False

    def __init__(self, config, in_width, out_width, filters, stride, place, norm_first=False):
        super().__init__(config, in_width, out_width, filters, stride, place, norm_first)
        self._stride = stride
        missing = (out_width - in_width) // 2
        self._padding = [missing // 2, missing - missing // 2]

    def shortcut(self, half):
        """Returns a half, averaged over the pixels of a stride, with channels of zeros around."""
        if self._stride > 1:
            half = pooling.average(half, self._stride, self._channels_axis == 1)
        if any(self._padding):
            padding = [[0, 0]] * 4
            padding[self._channels_axis] = self._padding
            half = tf.pad(half, padding)
        return half

    def backward(self, x, y, dy, kept=None, activations=None, values=None):
        """Goes back through the unit, see `Unit.backward`; `x` must be given.

        Raises:
            ValueError: If it is not, or as of `Unit.backward`.
        """
        if x is None:
            raise ValueError(
                "The first unit of a stage cannot be inverted, so its inputs must be kept, but "
                "`x` is None. Pass what it was called with."
            )
        return super().backward(x, y, dy, kept, activations, values)

    def _through_shortcut(self, half, upstream):
        with tf.GradientTape() as tape:
            tape.watch(half)
            result = self.shortcut(half)
        return tape.gradient(result, half, upstream)


def _recompute(function, taken, values, kept, other, total):
    """Replays a function whose result was added to something.

    Args:
        function: A `Residual`.
        taken: What it was called with.
        values: The values of its weights.
        kept: What its `forward` returned.
        other: What its result was added to; None if that is to be reconstructed.
        total: The sum.

    Returns:
        `other`, and the `Activations` of the function's layers.
    """
    result, activations = function.replay(taken, values, kept, with_result=other is None)
    return (total - result if other is None else other), activations
