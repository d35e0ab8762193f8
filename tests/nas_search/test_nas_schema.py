"""Structures are walked children first, rebuilt faithfully, and paths name their nodes."""

import collections
import doctest

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import schema
from examples.nas_search.basic_specs import ZeroSpec
from examples.nas_search.mobile_search_space_v3 import GlobalAveragePoolSpec
from examples.nas_search.schema import OneOf

# Fields whose declared order is not the alphabetical one.
Pair = collections.namedtuple("Pair", ["second", "first"])


def visits(structure):
    """The paths and tags of all choices, in visiting order."""
    seen = []
    schema.map_oneofs_with_paths(lambda path, oneof: seen.append((path, oneof.tag)), structure)
    return seen


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        ([OneOf([1], "a"), OneOf([2], "b")], [("0", "a"), ("1", "b")]),
        ((OneOf([1], "a"), 0, OneOf([2], "b")), [("0", "a"), ("2", "b")]),
        ({"y": OneOf([1], "a"), "x": OneOf([2], "b")}, [("x", "b"), ("y", "a")]),
        ({10: OneOf([1], "a"), 9: OneOf([2], "b")}, [("9", "b"), ("10", "a")]),
        (Pair(OneOf([1], "a"), OneOf([2], "b")), [("second", "a"), ("first", "b")]),
        (OneOf([1], "root"), [("", "root")]),
        (
            OneOf([OneOf([1], "a"), [OneOf([OneOf([2], "c")], "b")]], "root"),
            [
                ("choices/0", "a"),
                ("choices/1/0/choices/0", "c"),
                ("choices/1/0", "b"),
                ("", "root"),
            ],
        ),
    ],
    ids=["list", "tuple", "dict", "int keys", "namedtuple", "root", "nested"],
)
def test_children_come_before_parents_in_a_fixed_order(structure, expected):
    assert visits(structure) == expected


def test_tuple_paths_keep_keys_and_indices():
    paths = []
    structure = {(1, "k"): [Pair(0, OneOf([OneOf([1], "b")], "a"))]}
    schema.map_oneofs_with_tuple_paths(lambda path, _: paths.append(path), structure)
    above = ((1, "k"), 0, "first")
    assert paths == [(*above, "choices", 0), above]


def test_a_parent_receives_its_replaced_children_and_its_own_tag_and_mask():
    mask = tf.constant([1.0, 0.0])
    inner, received = OneOf((5, 6), "inner"), []

    def replace(oneof):
        received.append(oneof)
        return "replaced"

    assert schema.map_oneofs(replace, [OneOf(((inner,), 7), "outer", mask)]) == ["replaced"]
    # Choices that were tuples are lists, as for every rebuilt node.
    assert received == [OneOf([5, 6], "inner"), OneOf([("replaced",), 7], "outer", mask)]
    assert received[1].mask is mask


def test_copies_equal_the_original_in_every_type():
    structure = [
        (1, 2.5, "text", b"bytes", True),
        Pair([], ()),
        {"b": 1, "a": {}},
        collections.OrderedDict([("b", 1), ("a", OneOf([1, 2], "t"))]),
    ]
    copy = schema.map_oneofs(lambda oneof: oneof, structure)
    assert copy is not structure
    assert copy[:3] == structure[:3]
    assert [type(node) for node in copy] == [tuple, Pair, dict, collections.OrderedDict]
    assert copy[3] == collections.OrderedDict([("a", OneOf([1, 2], "t")), ("b", 1)])
    assert list(copy[2]) == ["a", "b"]
    assert list(structure[2]) == ["b", "a"]


@pytest.mark.parametrize("foreign", [None, {1, 2}, 1j, object])
@pytest.mark.parametrize(
    "walk",
    [
        schema.map_oneofs,
        schema.map_oneofs_with_paths,
        schema.map_oneofs_with_tuple_paths,
    ],
)
def test_foreign_types_are_refused(walk, foreign):
    with pytest.raises(ValueError, match=r"A structure consists of OneOf, list.*but holds"):
        walk(lambda *_: None, [{"a": OneOf([foreign], "t")}])


def test_walks_for_side_effects_may_return_none():
    assert schema.map_oneofs(lambda _: None, [OneOf([OneOf([1], "a")], "b"), 2]) == [None, 2]


@pytest.mark.parametrize("mask", [[1.0, 0.0], 1.0, "mask"])
def test_masks_must_be_tensors(mask):
    with pytest.raises(ValueError, match=r"`mask` must be a tensor or None, but is .*tf.constant"):
        OneOf([1, 2], "tag", mask)


@pytest.mark.parametrize("choices", [[], ()])
def test_there_must_be_choices(choices):
    with pytest.raises(ValueError, match=r"`choices` of a OneOf with tag 'tag' must not be empty"):
        OneOf(choices, "tag")


@pytest.mark.parametrize("attribute", ["choices", "tag", "mask"])
def test_choices_are_read_only(attribute):
    with pytest.raises(AttributeError):
        setattr(OneOf([1], "tag"), attribute, None)


def test_equality_compares_everything_and_masks_by_identity():
    mask, twin = tf.constant([1.0]), tf.constant([1.0])
    assert OneOf([1], "a", mask) == OneOf([1], "a", mask)
    different = [
        OneOf([1], "a"),
        OneOf([2], "a", mask),
        OneOf([1], "b", mask),
        OneOf([1], "a", twin),
        [1],
    ]
    assert all(OneOf([1], "a", mask) != other for other in different)
    with pytest.raises(TypeError, match="unhashable"):
        hash(OneOf([1], "a"))


def test_specs_without_fields_are_not_confused():
    # As plain namedtuples all of these would be the empty tuple.
    assert ZeroSpec() == ZeroSpec()
    assert ZeroSpec() != GlobalAveragePoolSpec()
    assert ZeroSpec() != ()
    assert ZeroSpec() not in [GlobalAveragePoolSpec(), ()]
    assert len({ZeroSpec(), GlobalAveragePoolSpec(), ZeroSpec()}) == 2
    assert OneOf([ZeroSpec()], "t") != OneOf([GlobalAveragePoolSpec()], "t")


def test_repr_shows_the_mask_only_if_there_is_one():
    assert repr(OneOf([1, "x"], "a")) == "OneOf(choices=[1, 'x'], tag='a')"
    assert "mask=<tf.Tensor" in repr(OneOf([1], "a", tf.constant([1.0])))


def test_examples_of_the_docstrings():
    result = doctest.testmod(schema)
    assert result.attempted > 0
    assert result.failed == 0
