"""Loops and conditions are written as nodes, and imported at once."""

import pytest
import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.partition import flow
from replicate.partition.drafts import Draft

INT = tf.int32
SCALAR = tf.TensorShape(()).as_proto()


def _counting(draft, limit, each, name="", outer=None):
    """Returns a loop from 0 to `limit`, and its end; `each` makes the step from its `Context`."""
    begin = draft.constant(0, tf.int32, f"{name}begin/", (), outer)
    loop = flow.Loop(draft, [begin], [SCALAR], 10, name, outer)
    inner = (), loop.context
    (goes_on,) = draft.add("Less", f"{name}Less", [loop.variables[0], limit], *inner, T=INT)
    (variable,) = loop.begin_round(goes_on)
    step = each(loop.context)
    (total,) = draft.add("AddV2", f"{name}Add", [variable, step], *inner, T=INT)
    (end,) = loop.end_round([total])
    return loop, end


def test_a_loop_ends_and_knows_its_operations():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        draft = Draft(graph, "net/drafted", "/device:CPU:0")
        limit = draft.given(tf.placeholder_with_default(7, []))
        loop, end = _counting(
            draft, limit, lambda inner: draft.constant(2, tf.int32, "", (), inner)
        )
        made = draft.make()
        assert session.run(made.tensor(end)) == 8
        assert made.tensor(loop.variables[0]).shape == ()
        for operation in made.operations():
            if operation.type not in ("Const", "Identity"):
                frame = "net/drafted/while_context"
                assert graph_lib.loops_of(operation) == [(frame, 10)], operation.name
            assert operation.device == "/device:CPU:0"


def test_a_node_that_waits_for_something_outside_of_its_loop_runs_in_its_rounds_alone():
    waits = []
    with tf.Graph().as_default() as graph, tf.Session() as session:
        draft = Draft(graph, "drafted", "")
        outside = draft.given(tf.constant(5))

        def step(inner):
            waits.append(draft.wait([outside.node], "wait", inner))
            return draft.constant(1, tf.int32, "", waits, inner)

        loop, end = _counting(draft, outside, step)
        made = draft.make()
        assert session.run(made.tensor(end)) == 5
        before = made.operation(waits[0]).control_inputs
        assert made.operation(loop.context.pivot) in before  # Else it ran after the last round.
        (entered,) = [one for one in before if one.name == "drafted/given_0/wait"]
        assert entered.inputs[0].op.type == "Enter"


@pytest.mark.parametrize("taken", [True, False])
def test_a_loop_in_a_branch_runs_if_the_branch_is_taken(taken):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        draft = Draft(graph, "drafted", "")
        limit = draft.given(tf.constant(4))
        holds = draft.given(tf.placeholder_with_default(taken, []))
        otherwise, then = flow.branches(draft, holds, "cond/", None)

        def step(inner):
            return draft.constant(3, tf.int32, "", (), inner)

        loop, end = _counting(draft, limit, step, "cond/while/", then)
        result = flow.merge(draft, [limit, end], [otherwise, then], "cond/", SCALAR)
        made = draft.make()
        assert session.run(made.tensor(result)) == (6 if taken else 4)
        add = made.tensor(loop.variables[0]).op
        ((predicate, _, _),) = graph_lib.branches_around(add)
        assert predicate is made.tensor(then.predicate)
        assert made.tensor(result).shape == ()


def test_a_graph_stays_as_it_was_if_tensorflow_refuses_a_draft():
    with tf.Graph().as_default() as graph:
        draft = Draft(graph, "drafted", "")
        value = draft.given(tf.constant(1.0))
        draft.add("AddV2", "wrong", [value, value], T=INT)
        before = len(graph.get_operations())
        with pytest.raises(ValueError, match=r"wrong.*int32|int32.*wrong"):
            draft.make()
        assert len(graph.get_operations()) == before


def test_names_differ():
    with tf.Graph().as_default() as graph:
        with tf.name_scope("drafted"):
            tf.constant(0, name="x")
        draft = Draft(graph, "drafted", "")
        given = draft.given(tf.constant(1))
        for _ in range(3):
            draft.add("Identity", "x", [given], T=INT)
        names = [operation.name for operation in draft.make().operations()]
    assert names == ["drafted_1/x", "drafted_1/x_1", "drafted_1/x_2"]
