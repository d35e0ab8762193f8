"""Many networks of a space at once, as a matrix of indices.

A space has C choices, in visiting order (see `schema`). *Index lists* of n networks are an integer
array [n, C]: entry [k, c] is the option that network k has at choice c. Costs and cost features of
n networks are computed together, in NumPy, without a graph.
"""

from typing import Any, List, NamedTuple

import numpy as np

from examples.nas_search import schema


class Chosen(NamedTuple):
    """A choice for which n networks have each taken an option; takes the place of its `OneOf`."""

    options: List[Any]  # structures, in which `Chosen` takes the place of `OneOf` as well
    index: np.ndarray  # int [n], the option of each network


def random_index_lists(spec, count, random):
    """Draws networks of which every choice is uniform and independent.

    Args:
        spec: A space.
        count: Number n of networks.
        random: A `numpy.random.RandomState`.

    Returns:
        Int64 array [n, C].
    """
    sizes = np.array(sizes_of(spec), np.int64)
    return random.randint(0, np.maximum(sizes, 1), size=(count, len(sizes)), dtype=np.int64)


def choose(spec, index_lists=None):
    """Replaces every `OneOf` of a space by a `Chosen`.

    Args:
        spec: A space.
        index_lists: Int array [n, C], or sequences of that shape. None: the one network of a space
            whose choices all have a single option.

    Returns:
        The structure of the space with `Chosen` nodes.

    Raises:
        ValueError: If `index_lists` does not fit the space, or is None and a choice is open.
    """
    sizes = sizes_of(spec)
    if index_lists is None:
        index_lists = np.zeros([1, len(sizes)], np.int64)
        schema.map_oneofs_with_paths(_check_single, spec)
    index_lists = np.asarray(index_lists)
    if index_lists.ndim != 2 or index_lists.shape[1] != len(sizes):
        found = index_lists.shape[-1] if index_lists.ndim else index_lists
        raise ValueError(
            f"`indices` must have an index for each of {len(sizes)} choices of the space, but has "
            f"{found}. Is it of another space?"
        )
    if not np.issubdtype(index_lists.dtype, np.integer) and index_lists.size:
        raise ValueError(
            f"`indices` must hold integers, but holds {index_lists.dtype.name}. Convert them."
        )
    columns = iter(index_lists.T)

    def replace(path, oneof):
        index = next(columns)
        for bad in index[(index < 0) | (index >= len(oneof.choices))]:
            raise ValueError(
                f"`indices` must lie in [0, {len(oneof.choices)}) at {path or 'the root'}, the "
                f"number of its options, but is {bad}. Is it of another space?"
            )
        return Chosen(list(oneof.choices), index)

    return schema.map_oneofs_with_paths(replace, spec)


def sizes_of(spec):
    """Returns the numbers of options of the C choices of a space, a list of ints."""
    sizes = []
    schema.map_oneofs(lambda oneof: sizes.append(len(oneof.choices)), spec)
    return sizes


def _check_single(path, oneof):
    if len(oneof.choices) > 1:
        raise ValueError(
            f"A network must have one option at each choice, but {path or 'the root'} is still "
            f"open with {len(oneof.choices)}. Pass `indices`, or prune the space first."
        )
