"""Search spaces as data: plain structures in which some nodes are open choices.

A *structure* is built of lists, tuples, namedtuples and dictionaries; its leaves are numbers and
strings. A *space* is a structure in which some nodes are `OneOf`, a choice still to be made. A
*path* leads from the root to a node: dictionary keys, indices of lists and tuples, field names of
namedtuples, and for a choice the two elements `'choices', i`.

All walks are **post-order**, children before parents: fields of namedtuples in declared order,
dictionaries in the order of their sorted keys. Index lists, cost features and the names of logits
all follow this order. The concept is that of TuNAS (Bender, Liu et al., CVPR 2020).
"""

import collections

import tensorflow.compat.v1 as tf

_LEAVES = (int, float, str, bytes)


class OneOf:
    """A choice between structures.

    Two of them are equal if their choices and tags are and their masks are the same tensor.

    Attributes:
        choices: Sequence of N >= 1 structures, of which a network has one.
        tag: String that names the kind of the choice, such as `basic_specs.OP_TAG`.
        mask: Tensor [N], how much of each choice a network takes, one-hot once a single choice was
            drawn. None if nothing was drawn yet.

    Raises:
        ValueError: If there are no choices, or `mask` is neither a tensor nor None.
    """

    def __init__(self, choices, tag, mask=None):
        if not choices:
            raise ValueError(f"`choices` of a OneOf with tag {tag!r} must not be empty.")
        if mask is not None and not tf.is_tensor(mask):
            raise ValueError(
                f"`mask` must be a tensor or None, but is {mask!r}. Wrap it in `tf.constant`."
            )
        self._choices = choices
        self._tag = tag
        self._mask = mask

    @property
    def choices(self):
        """Sequence of the structures to choose from."""
        return self._choices

    @property
    def tag(self):
        """Kind of the choice, a string."""
        return self._tag

    @property
    def mask(self):
        """Tensor with one weight for each choice, or None."""
        return self._mask

    # Choices may hold lists, so that there is no hash that would agree with this.
    __hash__ = None

    def __eq__(self, other):
        # `==` of tensors means identity in some modes of TensorFlow and values in others.
        return (
            type(self) is type(other)
            and self.choices == other.choices
            and self.tag == other.tag
            and self.mask is other.mask
        )

    def __repr__(self):
        mask = "" if self.mask is None else f", mask={self.mask!r}"
        return f"OneOf(choices={self.choices!r}, tag={self.tag!r}{mask})"


def children(node):
    """Lists the nodes directly below a node, in the order in which walks visit them.

    Args:
        node: A structure.

    Returns:
        List of pairs (path from `node` to the child as a tuple, child); empty for a leaf.

    Raises:
        ValueError: If `node` can be no part of a structure, as for instance None.
    """
    if isinstance(node, OneOf):
        return [(("choices", i), choice) for i, choice in enumerate(node.choices)]
    if is_namedtuple(node):
        return [((field,), value) for field, value in zip(node._fields, node)]
    if isinstance(node, (list, tuple)):
        return [((i,), value) for i, value in enumerate(node)]
    if isinstance(node, dict):
        return [((key,), node[key]) for key in sorted(node)]
    if isinstance(node, _LEAVES):
        return []
    raise ValueError(
        f"A structure consists of OneOf, list, tuple, namedtuple, dict, int, float, str and bytes, "
        f"but holds {node!r}, a {type(node).__name__}. Express it by these types."
    )


def is_namedtuple(node):
    """Whether `node` is an instance of a namedtuple class."""
    return isinstance(node, tuple) and hasattr(node, "_fields")


def map_oneofs(func, structure):
    """Replaces every choice of a structure, children before parents.

    >>> space = [OneOf([1, 2], "a"), {"k": OneOf([OneOf([3], "c"), 4], "b")}]
    >>> tags = []
    >>> map_oneofs(lambda oneof: tags.append(oneof.tag) or oneof.choices[-1], space)
    [2, {'k': 4}]
    >>> tags
    ['a', 'c', 'b']

    Args:
        func: Function from a `OneOf` to what replaces it. The choices that it is given have been
            replaced already and are a list; tag and mask are the original ones. It may return None,
            as it does when it is called for its side effects only.
        structure: The structure to walk, which is left as it is.

    Returns:
        A copy of `structure` with the replacements. Dictionaries come back with sorted keys.

    Raises:
        ValueError: If `structure` holds anything that is no part of a structure.
    """
    return _map(lambda _, oneof: func(oneof), structure, ())


def map_oneofs_with_paths(func, structure):
    """Does as `map_oneofs`, and gives `func` the path as a string, such as `blocks/0/filters`."""
    return _map(lambda path, oneof: func("/".join(map(str, path)), oneof), structure, ())


def map_oneofs_with_tuple_paths(func, structure):
    """Does as `map_oneofs`, and gives `func` the path as a tuple: `('blocks', 0, 'filters')`."""
    return _map(func, structure, ())


def _map(func, node, path):
    replaced = [_map(func, child, path + step) for step, child in children(node)]
    if isinstance(node, OneOf):
        return func(path, OneOf(replaced, node.tag, node.mask))
    if is_namedtuple(node):
        return type(node)._make(replaced)
    if isinstance(node, (list, tuple)):
        return list(replaced) if isinstance(node, list) else tuple(replaced)
    if isinstance(node, dict):
        kind = collections.OrderedDict if isinstance(node, collections.OrderedDict) else dict
        return kind(zip(sorted(node), replaced))
    return node
