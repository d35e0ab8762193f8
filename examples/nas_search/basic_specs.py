"""The parts that all search spaces are made of: towers of blocks, their widths, and nothing.

A *width* or number of *filters* is the number of channels of a layer's output. A `ConvTowerSpec` is
the root of a space, a `Block` a few layers whose outputs all have the same width.
"""

import collections

from examples.nas_search import schema, schema_io

OP_TAG = "op_indices"  # choices of operations
FILTERS_TAG = "filters_indices"  # choices of widths


class Spec:
    """Makes namedtuples of different classes differ.

    Without it they compare as tuples, so that all classes without fields would be the same spec.
    Stands first among the bases of a spec.
    """

    __slots__ = ()

    def __eq__(self, other):
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self).__name__, tuple(self)))


@schema_io.register_namedtuple("basic_specs.ZeroSpec", deprecated_names=["basic_specs.ZeroSPec"])
class ZeroSpec(Spec, collections.namedtuple("ZeroSpec", [])):
    """Outputs zeros; inside a residual layer, skips it."""

    __slots__ = ()


@schema_io.register_namedtuple("basic_specs.Block")
class Block(Spec, collections.namedtuple("Block", ["layers", "filters"])):
    """Layers of the same output width.

    Attributes:
        layers: List of specs, or `OneOf` of specs.
        filters: `OneOf` of ints, the width of the layers' outputs; `block` makes it of an int.
    """

    __slots__ = ()


@schema_io.register_namedtuple("basic_specs.ConvTowerSpec")
class ConvTowerSpec(Spec, collections.namedtuple("ConvTowerSpec", ["blocks", "filters_base"])):
    """A whole network without its classifier.

    Attributes:
        blocks: List of `Block`.
        filters_base: Int >= 1; all widths are multiples of it.
    """

    __slots__ = ()


@schema_io.register_namedtuple("basic_specs.FilterMultiplier")
class FilterMultiplier(Spec, collections.namedtuple("FilterMultiplier", ["scale"])):
    """A width relative to that of a layer's input; orders by `scale`, a number > 0."""

    __slots__ = ()


def block(layers, filters):
    """Makes a `Block`.

    Args:
        layers: List of specs.
        filters: `OneOf` of widths, or an int for a fixed width.

    Returns:
        A `Block`, whose width is a `OneOf` in either case.
    """
    if isinstance(filters, int):
        filters = schema.OneOf([filters], FILTERS_TAG)
    return Block(layers=layers, filters=filters)
