"""Compares replicate's names of `tf.contrib` with those of TensorFlow 1.15.5.

Newer TensorFlows do not collect this file: see `versions.ONLY_IN_1`.
"""

import __future__

import importlib
import inspect
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contrib_proofs
import contrib_values
from replicate.migration.contrib import find, modules, table

pytestmark = pytest.mark.filterwarnings("ignore")

_TEXTS = "only texts of errors differ"
_STATIC = "it asks for static shapes in the way of TensorFlow 2"
# Of packages: whose source differs, and why that makes no difference.
DIFFERENT_SOURCES = {
    "VariableDeviceChooser": "it makes the same string by `DeviceSpecV1`",
    "assign_from_checkpoint": "it reads checkpoints by the public name",
    "assign_from_checkpoint_fn": "it reads checkpoints by the public name",
    "cohen_kappa": _TEXTS,
    "count": _TEXTS,
    "evaluate_repeatedly": "it adds to the step by the public name",
    "f1_score": "it asks for the replica by the public name",
    "get_variables": "a scope of None is no scope, as before",
    "group_norm": _STATIC,
    "instance_norm": _STATIC,
    "optimize_loss": "it checks that the loss is a scalar by another path, and texts of errors",
    "precision_at_recall": "a local name differs",
    "precision_recall_at_equal_thresholds": "a local name differs",
    "softmax": "it asks by the public name whether it runs eagerly",
    "streaming_concat": _STATIC,
}
# Which are functions with arguments given, or tables of such.
PARTIAL = {
    *("elu", "legacy_linear", "legacy_relu", "linear", "relu", "relu6"),
    *("OPTIMIZER_CLS_NAMES", "OPTIMIZER_SUMMARIES"),
}
# Names that replicate implements itself and compares below, and those that the library is about.
COMPARED_BELOW = {
    "estimator.export_all_saved_models",
    "estimator.export_saved_model_for_mode",
    "learn.ModeKeys",
    "learn.RunConfig",
    "learn.TaskType",
    "training.HParams",
    "training.parse_values",
}
THE_LIBRARY = {"estimator.TowerOptimizer", "estimator.replicate_model_fn"}
# Names that left `tf.contrib` before 1.15, so that only codebases of then have them.
OLDER = {
    "estimator.InMemoryEvaluatorHook",
    "estimator.make_early_stopping_hook",
    "estimator.make_stop_at_checkpoint_step_hook",
    "estimator.stop_if_higher_hook",
    "estimator.stop_if_lower_hook",
    "estimator.stop_if_no_decrease_hook",
    "estimator.stop_if_no_increase_hook",
}
NOT_INSTALLED = ("tensorflow-gan", "tensorflow-probability")
FUTURE = type(__future__.division)  # The first import of files for Python 2 and 3.
VALUES = {name for name, _ in contrib_values.ROWS}
# Further options that the target has, at the end.
MORE_ARGUMENTS = {"data.bucket_by_sequence_length", "data.make_csv_dataset"}


def given():
    """Yields the places of all names that are given, except modules."""
    for package in sorted(table.packages()):
        for name in table.names_in(package):
            place = find(f"{package}.{name}")
            is_module = f"{name}." in table._rows(package)
            if place.kind != "none" and place.package not in NOT_INSTALLED and not is_module:
                yield place


PLACES = sorted(set(given()))


def real(name):
    package, *rest = name.split(".")
    found = importlib.import_module(f"tensorflow.contrib.{package}")
    if package in ("eager", "summary"):  # Which `tf.contrib` shows another module of.
        found = getattr(importlib.import_module("tensorflow.contrib"), package)
    for part in rest:
        found = getattr(found, part)
    return found


def ours(place):
    return modules.lookup(place.name)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_what_is_given_is_the_real_one(place):
    if place.name in OLDER:
        with pytest.raises(AttributeError):
            real(place.name)
        return
    one, other = ours(place), real(place.name)
    if place.name in THE_LIBRARY:
        assert one.__module__.startswith("replicate.")
        return
    name = place.name.rpartition(".")[2]
    if inspect.isfunction(contrib_proofs.unwrapped(other)) or inspect.isclass(other):
        mine, theirs = contrib_proofs.signature(one), contrib_proofs.signature(other)
        if place.name in MORE_ARGUMENTS:
            theirs = tuple(theirs)
            assert mine[0][: len(theirs[0])] == theirs[0]
            assert mine[3][: len(theirs[3])] == theirs[3]
        else:
            assert mine == theirs
    if name in PARTIAL:
        assert normalized(one) == normalized(other)
        return
    found = contrib_proofs.proof(one, other)
    exempt = name in DIFFERENT_SOURCES if place.package else place.name in VALUES | COMPARED_BELOW
    if place.name.startswith("slim.") and not place.package:
        exempt = f"layers.{name}" in VALUES
    assert (found is None) == exempt, found


def normalized(thing):
    """Returns what tells functions with arguments given, and tables of such, apart."""
    if isinstance(thing, dict):
        return {key: value.__name__ for key, value in thing.items()}
    if isinstance(thing, list):
        return thing
    arguments = {key: getattr(value, "__name__", value) for key, value in thing.keywords.items()}
    return contrib_proofs.unwrapped(thing.func).__name__, thing.args, arguments


def test_the_exceptions_are_needed():
    names = {place.name.rpartition(".")[2] for place in PLACES if place.package}
    assert set(DIFFERENT_SOURCES) <= names
    assert {place.name for place in PLACES} >= VALUES | COMPARED_BELOW | THE_LIBRARY | OLDER


@pytest.mark.parametrize(
    "name,row",
    contrib_values.ROWS,
    ids=[f"{number}-{name}" for number, (name, _) in enumerate(contrib_values.ROWS)],
)
def test_own_names_compute_what_the_real_ones_do(name, row):
    got, got_names = contrib_values.observed(row, modules.lookup(name))
    want, want_names = contrib_values.observed(row, real(name))
    np.testing.assert_equal(got, want)
    assert got_names == want_names


@pytest.mark.parametrize("package", sorted({*table.packages()} - {"gan"}))
def test_every_name_has_an_answer(package):
    """Checks all public names of 1.15.5, not only those that have a line."""
    try:
        module = importlib.import_module(f"tensorflow.contrib.{package}")
    except ImportError:
        assert find(package).kind == "none"
        return
    for name in dir(module):
        if not name.startswith("_") and not isinstance(getattr(module, name), FUTURE):
            place = find(f"{package}.{name}")
            assert place.target or place.advice, place
            assert "either" not in place.advice or inspect.ismodule(getattr(module, name))


def outcome(function):
    """Returns what a function returns, or the type of its error."""
    try:
        return function()
    except (KeyError, TypeError, ValueError) as error:
        return type(error)


PARSED = [
    "n=3,rate=2,sizes=[5 6],name=x,flag=true",
    "flag=0",
    "flag=False,",
    "flag=yes",
    "n=1.5",
    "n=",
    "sizes=3",
    "sizes[1]=3",
    "n=[1]",
    "n=1,n=2",
    "unknown=1",
    "n:1",
    "sizes=[1,x]",
    "flags=[true,False,0]",
    "name=a b",
    "dotted.name=3",
    "n=1, rate=.5",
]
SET = [
    *[("n", value) for value in (4, 4.0, True, "4", [4], None)],
    *[("rate", value) for value in (4, True, "4", [1.0])],
    *[("name", value) for value in ("a", b"a", 3)],
    *[("flag", value) for value in (False, 0)],
    *[("sizes", value) for value in ([1], [1.5], (1, 2), 3, [])],
    *[("nothing", value) for value in (1, [1], None)],
    ("unknown", 1),
]
CALLS = [
    lambda h: h.values(),
    lambda h: (str(h), repr(h), h.to_json(), h.to_json(1, (",", ":"), True)),
    lambda h: ("n" in h, "m" in h, h.get("n"), h.get("m"), h.get("m", 3), h.get("n", 4)),
    lambda h: h.get("n", 4.5),
    lambda h: h.get("sizes", 4),
    lambda h: h.get("sizes", ["x"]),
    lambda h: h.parse_json('{"n": 7, "sizes": [9]}').values(),
    lambda h: h.parse_json('{"n": "7"}'),
    lambda h: h.override_from_dict({"rate": 1, "n": 2}).values(),
    lambda h: h.set_from_map({"rate": 1}).values(),
    lambda h: h.add_hparam("n", 3),
    lambda h: h.add_hparam("parse", 3),
    lambda h: h.add_hparam("more", []),
    lambda h: (h.add_hparam("more", (1, 2)), h.values(), h.set_hparam("more", [3]), h.more),
    lambda h: (h.del_hparam("n"), h.del_hparam("m"), h.values()),
    lambda h: (h.set_model_structure(3), h.get_model_structure()),
    lambda h: (setattr(h, "n", 9), h.values(), h.n),
]


def hparams(cls):
    made = cls(n=1, rate=0.5, sizes=[3, 4], name="z", flag=False, nothing=None, flags=[True])
    made.add_hparam("dotted.name", 2)
    return made


@pytest.mark.parametrize("text", PARSED)
def test_hparams_parse_as_the_real_ones(text):
    mine, theirs = (
        outcome(lambda cls=cls: hparams(cls).parse(text).values()) for cls in both("HParams")
    )
    if isinstance(theirs, tuple) and "list index" in theirs[1]:
        mine = theirs = mine[0]
    assert mine == theirs


@pytest.mark.parametrize("name,value", SET, ids=repr)
def test_hparams_take_the_types_that_the_real_ones_take(name, value):
    def change(cls):
        made = hparams(cls)
        made.set_hparam(name, value)
        return json.dumps(made.values(), default=repr)

    mine, theirs = (outcome(lambda cls=cls: change(cls)) for cls in both("HParams"))
    assert mine == theirs


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_hparams_answer_as_the_real_ones(number):
    mine, theirs = (outcome(lambda cls=cls: CALLS[number](hparams(cls))) for cls in both("HParams"))
    assert mine == theirs


def both(name, package="training"):
    return modules.lookup(f"{package}.{name}"), real(f"{package}.{name}")


@pytest.mark.parametrize(
    "text", ["a=1,b=2", "a=1", "b=1", "a[2]=1,a[3]=2", "a[1]=1,a=2", "a[1]=[1]"]
)
@pytest.mark.parametrize("ignore_unknown", [False, True])
def test_values_are_parsed_as_by_the_real_function(text, ignore_unknown):
    mine, theirs = (
        outcome(lambda parse=parse: parse(text, {"a": int}, ignore_unknown))
        for parse in both("parse_values")
    )
    if isinstance(theirs, tuple) and "list index" in theirs[1]:
        mine = theirs = mine[0]
    assert mine == theirs


def test_hparams_have_the_public_names_of_the_real_ones():
    mine, theirs = both("HParams")
    public = {name for name in dir(theirs) if not name.startswith("_")}
    assert public == {name for name in dir(mine) if not name.startswith("_")}
    for name in public:
        signatures = [contrib_proofs.signature(getattr(cls, name)) for cls in (mine, theirs)]
        assert signatures[0] == signatures[1], name


def test_modes_are_the_real_ones():
    for name in ("ModeKeys", "TaskType"):
        mine, theirs = both(name, "learn")
        public = {name for name in dir(theirs) if name.isupper()}
        assert {key: getattr(mine, key) for key in public} == {
            key: getattr(theirs, key) for key in public
        }
    mine, theirs = both("ModeKeys", "learn")
    assert outcome(lambda: mine.validate("x")) == outcome(lambda: theirs.validate("x"))
    assert mine.validate("infer") is None


RUN_CONFIGS = [
    {},
    {"save_checkpoints_steps": 7},
    {"save_checkpoints_secs": None, "save_checkpoints_steps": 7},
    {"save_checkpoints_secs": 3},
    {"save_checkpoints_secs": None},
    {"master": "local", "evaluation_master": "e", "num_cores": 3, "gpu_memory_fraction": 0.5},
    {"model_dir": "d", "tf_random_seed": 3, "keep_checkpoint_max": 2, "protocol": "grpc"},
    {"session_config": tf.ConfigProto(log_device_placement=True), "log_step_count_steps": 3},
]


@pytest.mark.parametrize("options", RUN_CONFIGS, ids=repr)
def test_run_configs_say_what_the_real_ones_say(options):
    mine, theirs = (cls(**options) for cls in both("RunConfig", "learn"))
    # Attributes about clusters, which are refused.
    skipped = {"environment", "get_task_id", "replace", "task_type", "uid"}
    names = [name for name in dir(theirs) if name[0] != "_" and hasattr(theirs, name)]
    for name in sorted({*names} - skipped):
        got, want = getattr(mine, name), getattr(theirs, name)
        if name == "cluster_spec":
            got, want = got.as_dict(), want.as_dict()
        assert got == want, name
    assert mine.is_chief and theirs.is_chief
    assert isinstance(mine, tf.estimator.RunConfig)


def test_saved_models_are_exported_by_the_estimator():
    class Estimator:
        def export_saved_model(self, *args, **kwargs):
            return (
                inspect.signature(tf.estimator.Estimator.export_saved_model)
                .bind(self, *args, **kwargs)
                .arguments
            )

        def experimental_export_all_saved_models(self, *args, **kwargs):
            return (
                inspect.signature(tf.estimator.Estimator.experimental_export_all_saved_models)
                .bind(self, *args, **kwargs)
                .arguments
            )

    one = Estimator()
    for name, last in (("export_saved_model_for_mode", ["eval"]), ("export_all_saved_models", [])):
        mine, theirs = both(name, "estimator")
        given = [one, "dir", len, {"a": 1}, True, "path", *last]
        assert mine(*given) == theirs(*given)
        assert mine(*given[:3]) == theirs(*given[:3])
