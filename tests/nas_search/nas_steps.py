"""Runs a piece of the search as towers, step by step, to compare it with arithmetic by hand."""

import numpy as np
import tensorflow.compat.v1 as tf

import contract
import replicate


def run(body, batches, num_towers, dtype="float64"):
    """Trains towers of `body`, one step for each batch.

    Args:
        body: Function from a tower's rows to an operation that updates something, and a dictionary
            of tensors to look at.
        batches: List of arrays of the same shape, [rows, ...], split over the towers by rows.
        num_towers: With 1, `body` is not replicated.
        dtype: Of the rows.

    Returns:
        For each step a pair: list of the dictionary of each tower, in the step; and dictionary of
        all global variables by name, after it.
    """
    watched = []

    def model_fn(features, labels, mode):
        update, tensors = body(features)
        replicate.merge_call(watched.extend, tensors)
        loss = tf.reduce_mean(features)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)

    with tf.Graph().as_default():
        tf.set_random_seed(contract.SEED)
        tf.train.get_or_create_global_step()
        rows = tf.placeholder(dtype, np.shape(batches[0]))
        replicated = contract.replicated(model_fn, num_towers, per_tower=True)
        spec = replicated(rows, None, contract.ModeKeys.TRAIN)
        assert len(watched) == num_towers
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        config = replicate.session_config(contract.device_names(num_towers))
        steps = []
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for batch in batches:
                seen, _ = session.run([watched, spec.train_op], {rows: batch})
                steps.append((seen, session.run(variables)))
    return steps
