"""A variable is written once all that reads it has done so, in all towers."""

import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from partition import harness

ModeKeys = tf.estimator.ModeKeys
READS = ("ReadVariableOp", "ResourceGather")
WRITES = ("ApplyGradientDescent", "ResourceApplyGradientDescent", "Assign", "AssignVariableOp")


def ancestors(operation):
    """Returns all operations that run before an operation, and itself."""
    found, pending = set(), [operation]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += [tensor.op for tensor in one.inputs] + list(one.control_inputs)
    return found


def readers(variable, ran):
    """Returns which operations of a step read a variable when they run."""
    if variable.op.type == "VarHandleOp":
        return {one for one in ran if one.type in READS and variable.handle in one.inputs}
    shared = {variable.op}
    for one in sorted(ran, key=lambda one: one._id):
        if one.type == "Identity" and one.inputs[0].op in shared:
            shared.add(one)
    takes = {one for one in ran if any(tensor.op in shared for tensor in one.inputs)}
    return {one for one in takes - shared if one.type not in WRITES}


def by_an_optimizer(loss):
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())


def by_hand(loss):
    """After the loss, which is all that says so."""
    with tf.control_dependencies([loss]):
        return tf.group(*(tf.assign(v, 0.9 * tf.ones(v.shape)) for v in tf.trainable_variables()))


@pytest.mark.parametrize("num_towers", [1, 3])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("update", [by_an_optimizer, by_hand])
def test_writes_come_after_reads(update, resource, num_towers):
    def model_fn(features, labels, mode):
        tf.get_variable_scope().set_use_resource(resource)
        h = features
        for layer in range(3):
            h = tf.tanh(tf.matmul(h, tf.get_variable(f"w{layer}", [4, 4])))
        loss = tf.reduce_mean(tf.square(h))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update(loss))

    with harness.mechanism(), tf.Graph().as_default():
        tf.train.create_global_step()
        rows = tf.placeholder(tf.float32, [None, 4])
        if num_towers > 1:
            devices = contract.device_names(num_towers)
            model_fn = replicate.replicate_model_fn(model_fn, devices=devices)
        spec = model_fn(rows, None, mode=ModeKeys.TRAIN)
        ran = ancestors(spec.train_op)
        assert len({one.device for one in ran}) >= num_towers
        for variable in tf.trainable_variables():
            holder = variable.op.outputs[0]
            writes = [one for one in ran if one.type in WRITES and holder in one.inputs]
            assert len(writes) == 1
            late = readers(variable, ran) - ancestors(writes[0])
            assert not late, f"{variable.op.name} is written before {[one.name for one in late]}"
