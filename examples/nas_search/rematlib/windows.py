"""How a window moves over an image: size, strides, dilation, and how the border is padded."""

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search.search_space_utils import normalize_strides


class Window:
    """A window, be it a kernel or that of a pooling layer.

    Args:
        size: Sides, int or pair (vertical, horizontal).
        strides: How far it moves, int or pair (vertical, horizontal).
        dilation_rates: How far its neighbouring pixels are apart, int or pair.
        use_explicit_padding: Whether the border is padded alike for all sizes of images, with
            ⌊(k − 1) / 2⌋ pixels before and ⌈(k − 1) / 2⌉ after k dilated ones. The output has then
            sides ⌈side / stride⌉, as with padding "SAME".
        padding: As TensorFlow takes it. "SAME", by which what is before depends on the image's
            size; "VALID", for none; or pixels, [[0, 0], [top, bottom], [left, right], [0, 0]].

    Raises:
        ValueError: If `dilation_rates` and `strides` both differ from 1, `padding` is another, or
            the border is padded in two ways.
    """

    def __init__(
        self, size, strides=1, dilation_rates=1, use_explicit_padding=False, padding="SAME"
    ):
        self.size = normalize_strides(size)
        self.strides = normalize_strides(strides)
        self.dilations = normalize_strides(dilation_rates)
        if self.dilations != (1, 1) and self.strides != (1, 1):
            raise ValueError(
                "A convolution can be dilated or strided, not both, but `dilation_rates` is "
                f"{dilation_rates} and `strides` is {strides}."
            )
        self._sides = _sides(padding)  # None leaves it to TensorFlow
        if use_explicit_padding and self._sides is not None:
            raise ValueError(
                "The border is padded in one way, but `use_explicit_padding` is true and `padding` "
                f"is {padding}. Pass one of them."
            )
        # How many pixels the first and the last one of a window are apart.
        self._extents = [rate * (k - 1) for rate, k in zip(self.dilations, self.size)]
        if use_explicit_padding:
            self._sides = [[extent // 2, extent - extent // 2] for extent in self._extents]

    def check_covers_pixels(self):
        """Checks that the window has a pixel of the image wherever it is.

        Raises:
            ValueError: If the border is as wide as the window.
        """
        for name, sides, size in zip(("height", "width"), self._sides or (), self.size):
            if max(sides) >= size:
                raise ValueError(
                    f"`padding` must be less than the window's {name}, {size}, but is {sides}: "
                    "some windows would have no pixel of the image."
                )

    def output_shape(self, input_shape, filters):
        """Returns the shape of what is computed of all positions, a list.

        Args:
            input_shape: `tf.TensorShape` [batch, height, width, channels].
            filters: Number of channels of the output.

        Raises:
            ValueError: If the image is smaller than the window.
        """
        batch, *lengths, _ = input_shape.as_list()
        if self._sides is None:
            counts = [
                None if length is None else -(-length // stride)
                for length, stride in zip(lengths, self.strides)
            ]
            return [batch, *counts, filters]
        counts = [
            None if length is None else (length + sum(sides) - extent - 1) // stride + 1
            for length, sides, extent, stride in zip(
                lengths, self._sides, self._extents, self.strides
            )
        ]
        if any(count is not None and count < 1 for count in counts):
            raise ValueError(
                f"A padded image must be as large as the window, of size {self.size}, but the "
                f"inputs are of shape {input_shape} and are padded by {self._sides}. Use padding "
                '"SAME".'
            )
        return [batch, *counts, filters]

    def pad(self, inputs, value=0.0):
        """Pads images.

        Args:
            inputs: Float tensor [batch, height, width, channels].
            value: That of the pixels that are added, float.

        Returns:
            Padded images, and the padding that TensorFlow's operation still has to do, a str.
        """
        if self._sides is None:
            return inputs, "SAME"
        if self.is_padding:
            inputs = tf.pad(inputs, [[0, 0], *self._sides, [0, 0]], constant_values=value)
        return inputs, "VALID"

    @property
    def is_padding(self):
        """Whether `pad` adds pixels."""
        return any(map(any, self._sides or ()))


def _sides(padding):
    """Returns pixels [[top, bottom], [left, right]]; None for "SAME"."""
    if isinstance(padding, str) and padding in ("SAME", "VALID"):
        return None if padding == "SAME" else [[0, 0], [0, 0]]
    pixels = np.array(padding, object)
    is_right = (
        pixels.shape == (4, 2)
        and all(isinstance(count, (int, np.integer)) and count >= 0 for count in pixels.flat)
        and not pixels[[0, 3]].any()
    )
    if not is_right:
        raise ValueError(
            '`padding` must be "SAME", "VALID" or pixels, [[0, 0], [top, bottom], [left, right], '
            f"[0, 0]], but is {padding!r}. `use_explicit_padding` computes them."
        )
    return pixels[1:3].tolist()
