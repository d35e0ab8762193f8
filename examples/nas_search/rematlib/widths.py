"""Numbers of channels that may be drawn again in each run.

A width is *fixed* where a spec leaves one choice; else the network is built for the largest, and a
mask says how many of the first channels are in use.
"""

from typing import NamedTuple, Optional, Union

import tensorflow.compat.v1 as tf

from examples.nas_search import search_space_utils
from examples.nas_search.basic_specs import FilterMultiplier
from examples.nas_search.rematlib.tensors import first_ones


class Width(NamedTuple):
    """A number of channels.

    Attributes:
        largest: The largest possible, int.
        count: The number in use, int if fixed and else an int32 scalar tensor.
        mask: Float32 [largest], 1 for channels in use and else 0; None if fixed.
    """

    largest: int
    count: Union[int, tf.Tensor]
    mask: Optional[tf.Tensor] = None

    def full_mask(self):
        """Returns the mask; ones if fixed."""
        return tf.ones([self.largest]) if self.mask is None else self.mask


def fixed(count):
    """Returns a `Width` of an int."""
    return Width(count, count)


def drawn(largest, count):
    """Returns a `Width` of an int and an int32 scalar tensor."""
    return Width(largest, count, first_ones(count, largest))


def choose(oneof, input_width, base):
    """Returns the width that was drawn.

    Args:
        oneof: An int or `FilterMultiplier`, or a `OneOf` of them, with a mask if there are several.
        input_width: The `Width` that multipliers refer to, None if unknown.
        base: Int that relative widths are multiples of.

    Returns:
        A `Width`.

    Raises:
        ValueError: If several choices have no mask, or an unknown width is multiplied.
    """
    choices = getattr(oneof, "choices", [oneof])
    sizes = [_largest(choice, input_width, base) for choice in choices]
    scales = [getattr(choice, "scale", None) for choice in choices]
    is_open = any(scale is not None for scale in scales) and input_width.mask is not None
    if len(choices) == 1:
        if not is_open:
            return fixed(sizes[0])
        count = search_space_utils.tf_scale_filters(input_width.count, scales[0], base)
        return drawn(sizes[0], count)
    counts = sizes
    if is_open:
        # All at once, in place of operations for each of them.
        relative = [scale is not None for scale in scales]
        scales = [scale or 0.0 for scale in scales]
        counts = search_space_utils.tf_scale_filters(input_width.count, scales, base)
        if not all(relative):
            counts = tf.where(relative, counts, sizes)
    return drawn(max(sizes), tf.gather(counts, search_space_utils.tf_argmax_or_zero(oneof)))


def fraction(width, share, base):
    """Returns a share of a width.

    Args:
        width: A `Width`.
        share: Number, such as 0.25.
        base: Int that the result is a multiple of; see `search_space_utils.make_divisible`.

    Returns:
        A `Width`, fixed if `width` is.
    """
    largest = search_space_utils.make_divisible(share * width.largest, base)
    if width.mask is None:
        return fixed(largest)
    exact = tf.cast(width.count, tf.float32) * share
    return drawn(largest, tf.cast(search_space_utils.tf_make_divisible(exact, base), tf.int32))


def _largest(choice, input_width, base):
    """Returns a width that can be chosen, an int; of a relative one the largest."""
    if not isinstance(choice, FilterMultiplier):
        return choice
    if input_width is None:
        raise ValueError(
            "Only in a layer that follows another one a width can be relative to the input, but "
            f"{choice} stands in the first layer. Give it a number of filters."
        )
    return search_space_utils.scale_filters(input_width.largest, choice.scale, base)
