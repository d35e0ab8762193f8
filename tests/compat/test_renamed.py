"""Old names of 0.1.0 still work, with one warning each; new names give none."""

import copy
import datetime
import inspect
import pickle
import re
import warnings

import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import DEVICES, TRAIN, matching
from replicate.bench import choices
from replicate.compat import renamed

SGD = tf.train.GradientDescentOptimizer
BOTH = "takes an argument by one name, but got both `{}` and `{}`, its old name. Leave"
RENAMED = "`{}` has been called `{}` since replicate 0.2.0. The old name will be removed on "
RENAMED += "2027-12-01."


def model_fn(features, labels, mode):
    raise AssertionError("It is not called here.")


def optimizer(**kwargs):
    return replicate.TowerOptimizer(SGD(1.0), **kwargs)


def towers(**kwargs):
    return replicate.replicate_model_fn(model_fn, **kwargs)


# A call with an old name, the same with the new one, and the names.
CALLS = {
    "gather": (
        lambda: optimizer(gather="auto").step.how,
        lambda: optimizer(reduction="auto").step.how,
        ("TowerOptimizer(gather=)", "TowerOptimizer(reduction=)"),
    ),
    "wire_dtype": (
        lambda: replicate.Reduction("auto", wire_dtype=tf.float16),
        lambda: replicate.Reduction("auto", communication_dtype=tf.float16),
        ("Reduction(wire_dtype=)", "Reduction(communication_dtype=)"),
    ),
    "field": (
        lambda: replicate.Reduction(communication_dtype=tf.float16).wire_dtype,
        lambda: replicate.Reduction(communication_dtype=tf.float16).communication_dtype,
        ("Reduction.wire_dtype", "Reduction.communication_dtype"),
    ),
    "replace": (
        lambda: replicate.Reduction()._replace(wire_dtype=tf.float16),
        lambda: replicate.Reduction()._replace(communication_dtype=tf.float16),
        ("Reduction(wire_dtype=)", "Reduction(communication_dtype=)"),
    ),
    "whole_features": (
        lambda: inspect.signature(towers(whole_features=["table"])),
        lambda: inspect.signature(towers(unsplit_features=["table"])),
        ("replicate_model_fn(whole_features=)", "replicate_model_fn(unsplit_features=)"),
    ),
    "class": (
        lambda: replicate.Gather,
        lambda: replicate.Reduction,
        ("replicate.Gather", "replicate.Reduction"),
    ),
}


@pytest.fixture(autouse=True)
def unread(monkeypatch):
    """The old name of a class was not read in this process yet."""
    monkeypatch.delitem(vars(replicate), "Gather", raising=False)


@pytest.mark.parametrize("name", CALLS)
def test_an_old_name_works_and_warns_once(name):
    with_old, with_new, names = CALLS[name]
    with pytest.warns(FutureWarning) as told:
        got = with_old()
    assert [str(one.message) for one in told] == [RENAMED.format(*names)]
    assert told[0].filename == __file__, "the warning points to the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert got == with_new()


@pytest.mark.parametrize("name", CALLS)
def test_where_the_warning_is_an_error_nothing_is_done(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(FutureWarning, match=matching(RENAMED.format(*CALLS[name][2]))):
                CALLS[name][0]()


def test_the_old_class_warns_at_its_first_use_alone():
    with pytest.warns(FutureWarning) as told:
        from replicate import Gather

        assert replicate.Gather is Gather is replicate.Reduction
    assert len(told) == 1
    assert "Gather" not in replicate.__all__


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: optimizer(gather="auto", reduction="auto"), ("reduction", "gather")),
        (
            lambda: replicate.Reduction(communication_dtype=None, wire_dtype=None),
            ("communication_dtype", "wire_dtype"),
        ),
        (
            lambda: replicate.Reduction("auto", 1, 2, None, wire_dtype=None),
            ("communication_dtype", "wire_dtype"),
        ),
        (
            lambda: replicate.Reduction()._replace(communication_dtype=None, wire_dtype=None),
            ("communication_dtype", "wire_dtype"),
        ),
        (
            lambda: towers(unsplit_features=(), whole_features=()),
            ("unsplit_features", "whole_features"),
        ),
    ],
)
def test_both_names_are_an_error(call, names):
    with pytest.raises(TypeError, match=matching(BOTH.format(*names))):
        call()


@pytest.mark.parametrize("function", [optimizer, towers, replicate.Reduction])
def test_other_arguments_are_errors_as_before(function):
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        function(nonsense=1)


def test_signatures_show_the_new_names_alone():
    for function in (replicate.TowerOptimizer, replicate.replicate_model_fn, replicate.Reduction):
        text = str(inspect.signature(function))
        assert not re.search("gather|wire|whole_features", text)
    fields = ("where", "small_bytes", "pack_bytes", "communication_dtype")
    assert tuple(inspect.signature(replicate.Reduction).parameters) == fields
    assert replicate.Reduction._fields == fields


def test_a_reduction_is_copied_and_pickled():
    given = replicate.Reduction("round_robin", 1, 2)
    assert copy.deepcopy(given) == given == pickle.loads(pickle.dumps(given))
    assert given._asdict()["communication_dtype"] is None


def test_names_on_the_command_line_may_be_old():
    old = {"TowerOptimizer": {"gather": {"where": "round_robin", "pack_bytes": 0}}}
    made = choices.optimizer_arguments(old)
    assert made == {"gather": replicate.Reduction("round_robin", pack_bytes=0)}


def test_the_date_gives_a_year():
    assert datetime.date.fromisoformat(renamed.UNTIL) >= datetime.date(2027, 11, 26)


def trained(make_reduction, **arguments):
    """Returns the graph of a training step on three towers, with all that 0.1.0 had names for."""

    def dense(features, labels, mode):
        x = features["x"] @ tf.get_variable("w", [3, 2]) + tf.get_variable("b", [2])
        x += tf.reduce_sum(features["table"])
        loss = tf.reduce_mean(tf.squared_difference(x, labels))
        wrapped = replicate.TowerOptimizer(tf.train.AdamOptimizer(), **make_reduction())
        train_op = wrapped.minimize(loss, tf.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        features = {"x": tf.ones([7, 3]), "table": tf.ones([4])}
        replicated = replicate.replicate_model_fn(
            dense, devices=DEVICES, variable_placement="round_robin", **arguments
        )
        replicated(features, tf.ones([7, 2]), TRAIN)
        return graph.as_graph_def()


@pytest.mark.filterwarnings("ignore:.* has been called:FutureWarning")
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_a_program_for_0_1_0_makes_the_same_graph(dtype):
    got = trained(
        lambda: {"gather": replicate.Gather("round_robin", wire_dtype=dtype)},
        whole_features=["table"],
    )
    want = trained(
        lambda: {"reduction": replicate.Reduction("round_robin", communication_dtype=dtype)},
        unsplit_features=["table"],
    )
    assert len(want.node) > 100
    assert got == want
