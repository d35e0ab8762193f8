"""Functions that inspect a graph with a TPU computation."""

import importlib
import re

import tensorflow.compat.v1 as tf
from tensorflow.python.tpu import tpu_function

# Operations that a TPU cannot run: Python, queues, tables, files, printing, summaries.
_HOST = re.compile(
    "PyFunc|Queue|Barrier|Stage|Iterator|Dataset|Summary|Print|Assert$|String|Regex|File|Reader|"
    "Table|Save|Restore|Parse|Decode|Placeholder"
)


def by_type(graph):
    """Returns the graph's operations by type."""
    found = {}
    for op in graph.get_operations():
        found.setdefault(op.type, []).append(op)
    return found


def everywhere(kind, graph):
    """Returns the operations of type `kind`, all for None, also of functions the graph holds."""
    found = list(graph.get_operations())
    for function in graph.as_graph_def().library.function:
        body = graph._get_function(function.signature.name).graph
        found += body.get_operations()
    return [op for op in found if kind in (None, op.type)]


def is_for_hosts(op):
    """Whether a TPU cannot do what an operation does."""
    return _HOST.search(op.type) or any(
        tensor.dtype == tf.string for tensor in [*op.inputs, *op.outputs]
    )


def is_inside(op):
    """Whether an operation is in a TPU computation."""
    return "_tpu_replicate" in op.node_def.attr


def check_inside(graph):
    """Asserts that there is one computation, with no operation of the host's in it."""
    inside = [op for op in graph.get_operations() if is_inside(op)]
    assert len(inside) > 10
    assert len({op.get_attr("_tpu_replicate") for op in inside}) == 1
    for op in inside:
        assert not is_for_hosts(op), op
    for op in graph.get_operations():
        if not is_inside(op) and op.type not in ("TPUReplicatedOutput", "NoOp"):
            assert not any(is_inside(tensor.op) for tensor in op.inputs), op


def replicas(number):
    """A scope in which replicas of a TPU computation are built, without one."""
    return tpu_function.tpu_shard_context(number)


def pretend_cores(monkeypatch, number):
    """Makes TPUEstimator believe that this host has TPU cores."""
    context = importlib.import_module("tensorflow_estimator.python.estimator.tpu.tpu_context")
    system = context.tpu_system_metadata_lib
    devices = [f"/job:worker/replica:0/task:0/device:TPU:{index}" for index in range(number)]
    metadata = system.TPUSystemMetadata(number, 1, number, None, devices)
    monkeypatch.setattr(system, "_query_tpu_system_metadata", lambda *_, **__: metadata)


class BuiltError(Exception):
    """Raised once there is a graph, before there is a session."""


class Keep(tf.train.SessionRunHook):
    """Keeps the graph, and stops."""

    def begin(self):
        self.graph = tf.get_default_graph()
        raise BuiltError
