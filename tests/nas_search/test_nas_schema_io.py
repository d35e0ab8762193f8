"""Structures survive being written as JSON, and files of earlier versions can be read."""

import collections
import json

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import basic_specs, schema_io
from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search.schema import OneOf
from examples.nas_search.spaces import search_spaces
from examples.runs.json_file import JsonError

PUBLISHED_NAMES = {
    basic_specs.ZeroSpec: "basic_specs.ZeroSpec",
    basic_specs.Block: "basic_specs.Block",
    basic_specs.ConvTowerSpec: "basic_specs.ConvTowerSpec",
    basic_specs.FilterMultiplier: "basic_specs.FilterMultiplier",
    v3.ActivationSpec: "mobile_search_space_v3.ActivationSpec",
    v3.ConvSpec: "mobile_search_space_v3.ConvSpec",
    v3.SeparableConvSpec: "mobile_search_space_v3.SeparableConvSpec",
    v3.DepthwiseBottleneckSpec: "mobile_search_space_v3.DepthwiseBottleneckSpec",
    v3.PoolSpec: "mobile_specs.PoolSpec",
    v3.GlobalAveragePoolSpec: "mobile_search_space_v3.GlobalAveragePoolSpec",
    v3.ResidualSpec: "mobile_search_space_v3.ResidualSpec",
    v3.DetectionEndpointSpec: "mobile_search_space_v3.DetectionEndpointSpec",
}


@schema_io.register_namedtuple("test.Point", deprecated_names=["test.Dot"], defaults={"y": [0]})
class Point(collections.namedtuple("Point", ["x", "y"])):
    pass


@pytest.mark.parametrize(
    ("structure", "encoded"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.1, 0.1),
        ("a:b", "a:b"),
        ([], ["list"]),
        ([1, [2]], ["list", 1, ["list", 2]]),
        ((1, "list"), ["tuple", 1, "list"]),
        ({"b": 1, "a": (2,)}, ["dict", ["a", ["tuple", 2]], ["b", 1]]),
        ({10: 1, 9: 2}, ["dict", [9, 2], [10, 1]]),
        ({(1, "k"): 2}, ["dict", [["tuple", 1, "k"], 2]]),
        (OneOf((1, 2), "t"), ["oneof", ["choices", ["tuple", 1, 2]], ["tag", "t"]]),
        (Point(1, 2), ["namedtuple:test.Point", ["x", 1], ["y", 2]]),
        (basic_specs.ZeroSpec(), ["namedtuple:basic_specs.ZeroSpec"]),
    ],
)
def test_the_format_is_the_published_one_and_reads_back(structure, encoded):
    text = schema_io.serialize(structure)
    assert json.loads(text) == encoded
    assert text == json.dumps(encoded, indent=2, sort_keys=True)
    restored = schema_io.deserialize(text)
    assert restored == structure
    assert type(restored) is type(structure)


def test_masks_are_not_written():
    text = schema_io.serialize([OneOf([1], "t", tf.constant([1.0]))])
    assert schema_io.deserialize(text) == [OneOf([1], "t")]


@pytest.mark.parametrize("ssd", search_spaces.ALL_SSDS)
def test_every_space_reads_back_from_a_file(ssd, tmp_path):
    spec = search_spaces.get_search_space_spec(ssd)
    directory = str(tmp_path / "new" / "directory")
    for _ in range(2):  # The second time it replaces the file.
        schema_io.save(spec, directory, "model_spec.json")
    assert schema_io.load(directory, "model_spec.json") == spec
    assert [path.name for path in (tmp_path / "new" / "directory").iterdir()] == ["model_spec.json"]


@pytest.mark.parametrize("cls", PUBLISHED_NAMES)
def test_specs_are_registered_under_their_published_names(cls):
    assert schema_io.namedtuple_class_to_name(cls) == PUBLISHED_NAMES[cls]
    assert schema_io.namedtuple_name_to_class(PUBLISHED_NAMES[cls]) is cls


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (["namedtuple:basic_specs.ZeroSPec"], basic_specs.ZeroSpec()),
        (["namedtuple:test.Dot", ["x", 1], ["y", 2]], Point(1, 2)),
        (["namedtuple:test.Point", ["y", 2], ["x", 1]], Point(1, 2)),
        (["namedtuple:test.Point", ["x", 1]], Point(1, [0])),
    ],
    ids=["published alias", "alias", "other order", "default"],
)
def test_earlier_files_can_be_read(encoded, expected):
    assert schema_io.deserialize(json.dumps(encoded)) == expected


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (["namedtuple:test.Point", ["x", 1], ["z", 1]], r"Invalid field: 'z'\. test.Point has"),
        (["namedtuple:test.Point", ["y", 1]], r"Missing field: 'x' of test.Point"),
        (["namedtuple:test.Point", 1], r"namedtuple:test.Point consists of pairs, but holds 1"),
        (["dict", ["key"]], r"dict consists of pairs, but holds \['key'\]"),
        (["set", 1], r"Unknown type 'set'. Known are list"),
        (["oneof", ["tag", "t"], ["choices", ["list", 1]]], r"oneof must have the fields choices"),
        (["oneof", ["choices", ["list", 1]]], r"oneof must have the fields choices and tag"),
        (["oneof", ["choices", ["list"]], ["tag", "t"]], r"oneof must have a list of at least one"),
        ([], r"Expected a list that starts with the name of a type, but read \[\]"),
        ([1, 2], r"Expected a list that starts with the name of a type, but read \[1, 2\]"),
        ({"a": 1}, r"Expected a list that starts with the name of a type, but read \{'a': 1\}"),
    ],
)
def test_what_cannot_be_read_is_refused(encoded, message):
    with pytest.raises(JsonError, match=rf"{message}.*\. Let what wrote it write it again\.$"):
        schema_io.deserialize(json.dumps(encoded))


@pytest.mark.parametrize("foreign", [{1}, b"bytes", 1j])
def test_what_cannot_be_written_is_refused(foreign):
    with pytest.raises(ValueError, match="Unrecognized type"):
        schema_io.serialize([{"a": foreign}])


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_could_not_be_read_are_not_written(number):
    with pytest.raises(ValueError, match=f"JSON has finite numbers alone, but one is {number}. Wr"):
        schema_io.serialize([number])
    with pytest.raises(JsonError, match="Numbers must be finite, but one is"):
        schema_io.deserialize(json.dumps(["list", number]))


def test_unregistered_classes_and_names_are_refused():
    unregistered = collections.namedtuple("Unregistered", [])
    with pytest.raises(KeyError, match=r"Unregistered.* is not registered. Decorate it"):
        schema_io.namedtuple_class_to_name(unregistered)
    with pytest.raises(KeyError, match="is not registered"):
        schema_io.serialize(unregistered())
    with pytest.raises(KeyError, match=r"No namedtuple is registered as 'test.Other'"):
        schema_io.namedtuple_name_to_class("test.Other")
    message = "must have a registered class, but reads 'test.Other'. Import the module that"
    with pytest.raises(JsonError, match=message):
        schema_io.deserialize('["namedtuple:test.Other"]')


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (None, {"name": "test.Point"}, r"name 'test.Point' is used already"),
        (None, {"name": "test.Dot"}, r"name 'test.Dot' is used already"),
        (None, {"deprecated_names": ["test.Point"]}, r"name 'test.Point' is used already"),
        (None, {"deprecated_names": ["test.New"]}, r"name 'test.New' is used already"),
        (None, {"defaults": {"z": 1, "x": 1}}, r"must be for fields of New, \['x'\], but has"),
        (Point, {}, r"Point is registered already, as 'test.Point'"),
        (tuple, {}, r"Only namedtuple classes can be registered, but 'test.New' is"),
        (dict, {}, r"Only namedtuple classes can be registered"),
        (Point(1, 2), {}, r"Only namedtuple classes can be registered"),
    ],
)
def test_bad_registrations_are_refused_and_change_nothing(cls, settings, message):
    cls = cls or collections.namedtuple("New", ["x"])
    with pytest.raises(ValueError, match=message):
        schema_io.register_namedtuple(**{"name": "test.New", **settings})(cls)
    with pytest.raises(KeyError):
        schema_io.namedtuple_name_to_class("test.New")


def test_a_plain_namedtuple_can_be_registered():
    plain = collections.namedtuple("Plain", ["x"])
    assert schema_io.register_namedtuple("test.Plain")(plain) is plain
    assert schema_io.deserialize(schema_io.serialize(plain(3))) == plain(3)
