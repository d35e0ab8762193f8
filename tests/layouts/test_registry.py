"""Every type of operation that TensorFlow has is in the table: by a rule, or by a reason.

`operation_types.txt` has the types of all versions that are supported.
"""

from __future__ import annotations

import fnmatch
import pathlib

import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from replicate.compat import op_types
from replicate.layouts import rule, rules

_FILE = pathlib.Path(__file__).with_name("operation_types.txt")
VERSIONS = ("1.15", "2.15", "2.21")
RUNNING = ".".join(tf.__version__.split(".")[:2])
# Registered once `tf.lite` is imported, which other tests do; of models that were converted.
OF_LITE = {
    "TFLite_Detection_PostProcess",
    "UnidirectionalSequenceLstm",
    "UnidirectionalSequenceRnn",
}
# TensorFlow's own tests register these, and no model has them.
OF_TESTS = """
    A Attr* B Binary ComplexStruct ConstructionFails CopyOp Def*Attr* DevicePlacementOp DtypeWith*
    FiveFloat* Float*put Float*StringOutput Foo? FuncAttr FuncListAttr GraphDefVersion Int*put
    IntAttr KernelLabel* List*put MixedStruct NIn* NPoly* *TestStringOutput None OpWith* Old OutT*
    *Polymorphic* Ref*put RefIn RefOut RequiresOlder* Reserved* ResourceCreateOp
    ResourceInitializedOp ResourceUsingOp Restrict Simple* Sleep*Op StringListAttr StubResource*
    TestAttr Two* TypeList* Unary
"""
WITH_RULE = {*rule.rules(), *rule.pointing_rules()}
IS_THERE = "The table has a rule of …'{}' already"
POINTS = "The table of pointing rules has one of …'{}' already"

assert rules  # It fills the table.


def types_of_versions() -> dict[str, list[str]]:
    """Returns the types of the file, and which versions have each."""
    lines = [line.split() for line in _FILE.read_text(encoding="utf-8").splitlines()]
    return {name: versions or list(VERSIONS) for name, *versions in lines if name != "#"}


def without_rule_and_reason(types):
    """Returns which types have neither, of those that models can have."""
    rest = {name for name in types if name not in WITH_RULE and not rule.reason_of(name)}
    return sorted(name for name in rest - OF_LITE if not _matches(name, OF_TESTS.split()))


def _matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def test_every_type_that_is_there_has_a_rule_or_a_reason() -> None:
    assert without_rule_and_reason(op_types.operation_types()) == []


def test_every_type_of_all_versions_has_a_rule_or_a_reason() -> None:
    assert without_rule_and_reason(types_of_versions()) == []


def test_no_type_has_both() -> None:
    assert [name for name in WITH_RULE if rule.reason_of(name)] == []
    with pytest.raises(ValueError, match=matching(IS_THERE.format("Abs"))):
        rule.whole_on_purpose("it is to be had twice", "Abs")
    with pytest.raises(ValueError, match=matching(IS_THERE.format("Unique"))):
        rule.rule("Unique")(lambda op, layouts: None)
    with pytest.raises(ValueError, match=matching(POINTS.format("Where"))):
        rule.pointing("Where")(lambda op, layouts: None)


def test_the_table_has_no_type_that_no_version_has() -> None:
    there = set(types_of_versions())
    assert sorted(WITH_RULE - there) == []
    assert [one for one in rule.reasons() if not fnmatch.filter(there, one)] == []


@pytest.mark.skipif(RUNNING not in VERSIONS, reason="operation_types.txt lacks this version")
def test_the_file_has_the_types_of_this_version() -> None:
    there = set(op_types.operation_types())
    listed = {name for name, versions in types_of_versions().items() if RUNNING in versions}
    assert sorted(there - listed - OF_LITE) == []
    # `tf.contrib` brings operations of its own once it is imported.
    assert RUNNING == "1.15" or sorted(listed - there) == []
