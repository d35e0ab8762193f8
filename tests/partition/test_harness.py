"""The harness compares what one device gives in every run, however its threads are scheduled."""

import pytest
import tensorflow.compat.v1 as tf

from partition import harness
from replicate.graphs.ancestors import ancestors


def reading_beside(features, labels, mode, params):
    """A prediction reads the weight by itself, which the update may overtake."""
    weight = tf.get_variable("weight", [], tf.float64, use_resource=True)
    loss = tf.reduce_mean((features["x"] * weight) ** 2)
    beside = 2.0 * weight
    train_op = params["optimizer"]().minimize(loss)
    return tf.estimator.EstimatorSpec(mode, {"beside": beside}, loss, train_op)


@pytest.mark.parametrize("num_towers", [1, 3])
def test_updates_wait_for_reads_that_were_made_before(num_towers):
    with harness.building(reading_beside, harness.UNKNOWN, num_towers, "train") as spec:
        assert spec.predictions["beside"].op.inputs[1].op in ancestors([spec.train_op])
