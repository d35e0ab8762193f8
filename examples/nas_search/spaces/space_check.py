"""Checks a space that was read from a file, before anything is computed from it."""

import math
import reprlib

from examples.nas_search.basic_specs import Block, ConvTowerSpec
from examples.nas_search.schema import OneOf, is_namedtuple
from examples.runs.json_file import JsonError

_PAIRS = ("kernel_size", "pool_size", "strides")  # fields that may be (vertical, horizontal)
_LARGEST = 2**20  # number in a space: widths, kernels and strides are far less


def check_space(space):
    """Checks that a structure is a space whose cost can be computed, of the size of its file.

    Args:
        space: A structure, as `schema_io.deserialize` returns it.

    Raises:
        JsonError: If it is none: where a number is due there must be no list, say, which NumPy
            would compute with too.
    """
    if not isinstance(space, ConvTowerSpec) or not _is_list_of(space.blocks, Block):
        raise JsonError(f"A space is a ConvTowerSpec of blocks, but is {reprlib.repr(space)}")
    _check_width(space.filters_base)
    for block in space.blocks:
        if not isinstance(block.filters, OneOf) or not isinstance(block.layers, list):
            raise JsonError(
                "A block has a list of layers, and its width is a choice, but it is "
                f"{reprlib.repr(block)}"
            )
        for width in block.filters.choices:
            _check_width(width)
        for layer in block.layers:
            _check_node(layer)


def _check_width(width):
    if type(width) is not int or not 0 < width <= _LARGEST:
        raise JsonError(f"A width is an integer from 1 to {_LARGEST}, but is {reprlib.repr(width)}")


def _check_node(node, may_be_pair=False):
    """Checks a layer, or what is in it."""
    if isinstance(node, OneOf):
        for choice in node.choices:
            _check_node(choice, may_be_pair)
    elif is_namedtuple(node):
        for field, value in zip(node._fields, node):
            _check_node(value, field in _PAIRS)
    elif may_be_pair and isinstance(node, (list, tuple)) and len(node) == 2:
        for part in node:
            _check_node(part)
    elif isinstance(node, (int, float)):
        if not (math.isfinite(node) and 0 <= node <= _LARGEST):
            raise JsonError(f"A number in a space is from 0 to {_LARGEST}, but is {node}")
    elif not isinstance(node, str):
        raise JsonError(f"A layer has numbers, texts and choices, but holds {reprlib.repr(node)}")


def _is_list_of(values, kind):
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)
