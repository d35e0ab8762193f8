r"""Trains a network for digits as one task of a TensorFlow cluster, with towers in each worker.

    TF_CONFIG='{"cluster": {…}, "task": {"type": "worker", "index": 0}}' \
        python -m examples.cluster.train --model_dir /shared/digits --sync

Every task of the cluster runs this command with a TF_CONFIG of its own: a chief, workers, parameter
servers and, if there is one, an evaluator. Without TF_CONFIG it trains alone, on the same rows.
`python -m examples.cluster.local` starts a cluster on this host. See `docs/clusters.md`.
"""

import sys

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

import replicate
from examples.cluster import flags
from examples.digits import quiet_tensorflow
from examples.runs import arguments
from replicate import estimator
from replicate.clusters.cluster import this_task
from replicate.hooks import PreemptionHook, StallHook

_TEST_ROWS = 297


def model_fn(features, labels, mode, params, config):
    """A network with one hidden layer, which knows of its cluster only to train in step with it."""
    glorot = tf.glorot_uniform_initializer()
    hidden = tf.layers.dense(features, 64, tf.nn.tanh, kernel_initializer=glorot)
    logits = tf.layers.dense(hidden, 10, kernel_initializer=glorot)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    if mode == estimator.ModeKeys.EVAL:
        digits = tf.argmax(logits, axis=1, output_type=tf.int32)
        metrics = {"accuracy": tf.metrics.accuracy(labels, digits)}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = tf.train.MomentumOptimizer(params["learning_rate"], 0.9)
    if params["sync"]:
        workers = config.num_worker_replicas  # the chief among them
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, workers, workers)
    optimizer = replicate.TowerOptimizer(optimizer)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    hooks = [optimizer.make_session_run_hook(config.is_chief)] if params["sync"] else []
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def train_input_fn(params, config):
    """Returns the batches of this worker: its part of the rows of every step.

    The order of rows is the same in all workers and depends on the seed alone. A session that
    begins at a later step begins with the rows of that step.
    """
    images, labels = _rows(params["dtype"])
    rows = (images[_TEST_ROWS:], labels[_TEST_ROWS:])
    rows = tf.data.Dataset.from_tensor_slices(rows)
    rows = rows.shuffle(len(labels), seed=1).repeat()
    rows = rows.skip(_first_step(config.model_dir) * params["batch_size"])
    workers = config.num_worker_replicas
    rows = rows.shard(workers, config.global_id_in_cluster)
    return rows.batch(params["batch_size"] // workers)


def eval_input_fn(params):
    """Returns the rows for testing."""
    images, labels = _rows(params["dtype"])
    rows = (images[:_TEST_ROWS], labels[:_TEST_ROWS])
    return tf.data.Dataset.from_tensor_slices(rows).batch(_TEST_ROWS)


class PrintHook(tf.train.SessionRunHook):
    """Prints a line for each step, and one when this worker is ready to make steps."""

    def begin(self):
        """Finds what to print."""
        self._step, self._loss = tf.train.get_global_step(), tf.losses.get_losses()[-1]

    def after_create_session(self, session, coord):
        """Says from which step training goes on."""
        print(f"ready at step {session.run(self._step)}", flush=True)

    def before_run(self, run_context):
        """Reads the step, which the step itself counts at any time, and asks for the loss."""
        self._before = run_context.session.run(self._step)
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        """Prints them."""
        print(f"step {self._before} loss {float(run_values.results)!r}", flush=True)


class PrintExporter(estimator.Exporter):
    """Prints a line for each evaluation; exports nothing."""

    name = "print"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        """Prints what was measured."""
        del estimator, export_path, checkpoint_path, is_the_final_export
        line = "evaluated at step {global_step}: accuracy {accuracy:.3f}, loss {loss:.3f}"
        print(line.format(**eval_result), flush=True)


def _rows(dtype):
    digits = load_digits()
    return (digits.data / 16).astype(dtype), digits.target.astype(np.int32)


def _first_step(model_dir):
    """Returns the step that a session begins at, read whenever one is made."""
    step = tf.train.get_global_step()
    if step is not None:
        return step
    # A strategy makes its step later. Its tasks end together, so each reads the checkpoint.
    path = tf.train.latest_checkpoint(model_dir)
    return int(tf.train.load_variable(path, tf.GraphKeys.GLOBAL_STEP)) if path else 0


def main(argv=None):
    """Runs the task that TF_CONFIG describes; returns the exit status."""
    parser = flags.make_parser(__doc__.splitlines()[0])
    args = parser.parse_args(argv)
    arguments.check_devices(parser, args.devices)
    arguments.make_directory(parser, "--model_dir", args.model_dir)

    strategy = None
    if args.mirrored and this_task()[1] != "evaluator":
        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    config = estimator.RunConfig(
        args.model_dir,
        tf_random_seed=1,
        session_config=replicate.session_config(args.devices),
        save_checkpoints_steps=args.save_steps,
        log_step_count_steps=None,
        train_distribute=strategy,
        experimental_max_worker_delay_secs=0,  # seconds by which later workers start later
    )
    params = {
        "batch_size": args.batch_size,
        "dtype": args.dtype,
        "learning_rate": 0.1,
        "sync": args.sync and config.num_worker_replicas > 1,
    }
    # A strategy has replicas of its own. The model is the same.
    towers_fn = replicate.replicate_model_fn(model_fn, devices=args.devices)
    digits = estimator.Estimator(
        model_fn if args.mirrored else towers_fn, config=config, params=params
    )
    hooks = [PrintHook(), StallHook(config, args.stall_secs), PreemptionHook(config)]
    train_spec = estimator.TrainSpec(train_input_fn, max_steps=args.steps, hooks=hooks)
    eval_spec = estimator.EvalSpec(
        eval_input_fn,
        steps=None,
        exporters=PrintExporter(),
        start_delay_secs=0,
        throttle_secs=1,
    )
    result = estimator.train_and_evaluate(digits, train_spec, eval_spec)
    if result and result[0]:
        print("accuracy {accuracy:.3f}, loss {loss:.3f}".format(**result[0]), flush=True)
    return 0


if __name__ == "__main__":
    quiet_tensorflow()
    sys.exit(main())
