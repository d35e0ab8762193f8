"""Trains and evaluates for long in one process, and prints what the process holds, as JSON.

    python tests/soak/long_training.py ENGINE KIND COUNT DIRECTORY

ENGINE is `towers`: a model over two towers, with all that `replicate` has for training and every
hook; or `plain`: the same model in a plain Estimator on one device. KIND is `steps`, of which COUNT
are made in one call of `train`, or `rounds`: so often it is trained for ten steps and evaluated.
Each line shows one moment; the first is before the Estimator is made.
"""

import contextlib
import gc
import io
import json
import os
import re
import sys
import threading
import weakref

import tensorflow.compat.v1 as tf

import replicate

DEVICES = ["/cpu:0", "/cpu:1"]
STEPS, ROWS = 10, 14  # of a round
LOOKS = 20  # in a run of steps


class Terminal(io.TextIOBase):
    """A terminal that nobody looks at."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def write(self, text):
        return len(text)


def input_fn():
    data = tf.data.Dataset.range(10_000).repeat().batch(ROWS)
    return data.map(lambda n: ({"x": tf.cast(n[:, None] % [2, 3, 5, 7], tf.float32)}, n % 2))


def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    x = tf.layers.dense(
        features["x"], 32, tf.tanh, kernel_regularizer=tf.keras.regularizers.l2(0.1)
    )
    x = tf.layers.batch_normalization(x, training=training)
    x = tf.layers.dropout(x, 0.1, training=training)
    logits = tf.keras.layers.Dense(2)(x - replicate.cross_tower_mean(tf.reduce_mean(x, axis=0)))
    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    tf.summary.scalar("mean", tf.reduce_mean(logits))
    classes = tf.argmax(logits, axis=1)
    metrics = {
        "accuracy": tf.metrics.accuracy(labels, classes),
        "auc": tf.metrics.auc(labels, tf.nn.softmax(logits)[:, 1]),
    }
    train_op = None
    if training:
        optimizer = tf.train.AdamOptimizer(1e-3)
        if params["over_towers"]:
            optimizer = replicate.TowerOptimizer(
                optimizer, clip_norm=1.0, loss_scale="dynamic", accumulate_steps=2
            )
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(
        mode, {"classes": classes}, loss, train_op, eval_metric_ops=metrics
    )


class Graphs(tf.train.SessionRunHook):
    """Keeps weak references to the graphs of sessions."""

    def __init__(self):
        self._seen = []

    def begin(self):
        self._seen.append(weakref.ref(tf.get_default_graph()))

    def alive(self):
        self._seen = [graph for graph in self._seen if graph() is not None]
        return len(self._seen)


def look(number, graphs):
    """Prints what the process holds after `number` steps or rounds."""
    gc.collect()
    with open("/proc/self/status") as file:
        kilobytes = int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1])
    held = {
        "number": number,
        "megabytes": kilobytes / 1024,
        "graphs": graphs.alive(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "tasks": len(os.listdir("/proc/self/task")),
        "files": open_files(),
    }
    print(json.dumps(held), flush=True)


def open_files():
    """Returns what the open file handles of this process lead to."""
    found = []
    for handle in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # That of the directory itself.
            found.append(os.readlink(f"/proc/self/fd/{handle}"))
    return sorted(found)


class Looks(tf.train.SessionRunHook):
    """Looks from time to time, within a call of `train`."""

    def __init__(self, graphs, every):
        self._graphs, self._every, self._looked = graphs, every, 0

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.train.get_global_step())

    def after_run(self, run_context, run_values):
        step = int(run_values.results)
        if step % self._every == 0 and step > self._looked:
            self._looked = step
            look(step, self._graphs)


def main(engine, kind, count, directory):
    graphs, over_towers = Graphs(), engine == "towers"
    look(0, graphs)
    config = tf.estimator.RunConfig(
        directory,
        tf_random_seed=1,
        session_config=replicate.session_config(DEVICES) if over_towers else None,
    )
    estimator = tf.estimator.Estimator(
        replicate.replicate_model_fn(model_fn, devices=DEVICES) if over_towers else model_fn,
        config=config,
        params={"over_towers": over_towers},
    )

    def hooks():
        if not over_towers:
            return [graphs]
        progress = replicate.hooks.ProgressHook(every_secs=0, stream=Terminal())
        stall = replicate.hooks.StallHook(config, limit_secs=300)
        return [graphs, progress, stall, replicate.hooks.PreemptionHook()]

    if kind == "steps":
        estimator.train(input_fn, hooks=[*hooks(), Looks(graphs, count // LOOKS)], steps=count)
        look(count, graphs)
    else:
        for number in range(1, count + 1):
            estimator.train(input_fn, hooks=hooks(), steps=STEPS)
            estimator.evaluate(input_fn, steps=STEPS, hooks=[graphs])
            look(number, graphs)


if __name__ == "__main__":
    replicate.compat.install()
    tf.logging.set_verbosity(tf.logging.ERROR)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
