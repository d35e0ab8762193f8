"""Helpers of the tests of layers and networks."""

import collections
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import switch


@pytest.fixture(params=["control_flow_v1", "control_flow_v2"])
def control_flow(request, monkeypatch):
    """Runs a test with either version of conditionals; only in new graphs does it count."""
    was_v2 = tf.control_flow_v2_enabled()
    monkeypatch.setattr(switch, "conditional", tf.cond)  # Follows the enabled version.
    choose = {"control_flow_v1": tf.disable_control_flow_v2}
    choose.get(request.param, tf.enable_control_flow_v2)()
    yield
    (tf.enable_control_flow_v2 if was_v2 else tf.disable_control_flow_v2)()


def images(*shape, seed=0, dtype="float32"):
    return np.random.RandomState(seed).randn(*shape).astype(dtype)


def session():
    """A session in which all variables have their initial values."""
    made = tf.Session()
    made.run(tf.global_variables_initializer())
    return made


def load(session, values):
    """Gives variables values: a dict by `variable.ref()`.

    All at once, as each new set of fetches costs a session some time.
    """
    initializers = [key.deref().initializer for key in values]
    inputs = [initializer.inputs[1] for initializer in initializers]
    session.run(initializers, dict(zip(inputs, values.values())))


def randomize(session, variables, seed=0, low=0.5, high=1.5):
    """Gives variables values that tell every element apart, scale and offset too."""
    random = np.random.RandomState(seed)
    load(session, {v.ref(): random.uniform(low, high, v.shape.as_list()) for v in variables})


def evaluate(tensors, feed=None):
    """Evaluates tensors with initial weights."""
    with session() as made:
        return made.run(tensors, feed)


def apply(layer, inputs, training=False):
    """Builds a layer and evaluates its output with initial weights."""
    inputs = tf.convert_to_tensor(inputs)
    layer.build(inputs.shape)
    return evaluate(layer.apply(inputs, training))


def executed(session, fetches, feed=None):
    """Returns how many operations of each type a step executes."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(fetches, feed, options=options, run_metadata=metadata)
    devices = metadata.step_stats.dev_stats
    labels = [node.timeline_label for device in devices for node in device.node_stats]
    # "name = Type(inputs)", where the type may have become that of another, faster kernel.
    found = [re.search(r" = (?:_(?:Mkl)?(?:Native)?(?:Fused)?)?(\w+)\(", each) for each in labels]
    return collections.Counter(match.group(1) for match in found if match)
