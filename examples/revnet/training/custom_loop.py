"""Training without an Estimator: a loop in Python, whose steps are compiled or not.

Its checkpoints are those of `tf.train.Checkpoint`: of model, optimizer, schedule and step. It needs
TensorFlow's eager mode, which is on by default.
"""

import contextlib
import math
import os
import sys
import time

import tensorflow.compat.v1 as tf

from examples.classifiers import evaluation
from examples.revnet.training import model_fn
from examples.revnet.training import optimizer as optimizer_lib
from examples.runs import summaries
from examples.runs.progress_display import Display
from examples.runs.stop_on_signal import StopOnSignal

ENGINES = ("eager", "function")
_SAVE_SECONDS = 600  # as Estimators do
_KEPT = 5  # checkpoints


class Training:
    """A network in training, and its checkpoints.

    Args:
        params: Dict of resolved settings, see `train_settings.py`.

    Attributes:
        model: The `RevNet`.
        global_step: Variable, an int64 scalar: how many steps were made.
    """

    def __init__(self, params):
        self._params = params
        self._schedule = optimizer_lib.schedule(params)
        self.model = model_fn.make_model(params)
        self.global_step = tf.Variable(0, trainable=False, dtype=tf.int64, name="global_step")
        self._optimizer = optimizer_lib.momentum(lambda: self._schedule(self.global_step), params)
        # Makes the momentum, of zeros, and moves nothing: what is compiled makes no variables.
        weights = self.model.trainable_variables
        self._optimizer.apply_gradients((tf.zeros_like(weight), weight) for weight in weights)
        self._checkpoint = tf.compat.v2.train.Checkpoint(
            model=self.model,
            optimizer=self._optimizer,
            schedule=self._schedule,
            global_step=self.global_step,
        )
        self._manager = tf.train.CheckpointManager(
            self._checkpoint,
            params["checkpoint_dir"],
            max_to_keep=_KEPT,
            checkpoint_name="model.ckpt",
        )

    def restore(self):
        """Goes back to the latest checkpoint, if there is one; returns the global step."""
        latest = self._manager.latest_checkpoint
        if latest:
            self._checkpoint.restore(latest).assert_consumed()
        return int(self.global_step)

    def save(self):
        """Writes a checkpoint."""
        self._manager.save(checkpoint_number=int(self.global_step))

    def step(self, images, labels):
        """Makes a step.

        Args:
            images: float32 [rows, height, width, channels].
            labels: One-hot, float32 [rows, classes].

        Returns:
            Dict of scalars by tag, see `model_fn.scalars`.
        """
        images = model_fn.network_input(images, self._params)
        logits, saved_hidden = self.model(images, training=True)
        grads, loss = self.model.compute_gradients(saved_hidden, labels)
        shown = model_fn.scalars(loss, labels, logits, self._schedule(self.global_step))
        self._optimizer.apply_gradients(
            zip(grads, self.model.trainable_variables), self.global_step
        )
        return shown


def train(params, data, on_step=None):
    """Trains to the last step, or until the process is told to stop.

    Args:
        params: Dict of resolved settings, see `train_settings.py`.
        data: An open `Data`.
        on_step: Function of the global step after a step, an int, and of its loss, a float.

    Returns:
        Whether training is at its end.

    Raises:
        NanLossDuringTrainingError: If the loss is no longer a number.
    """
    tf.compat.v2.random.set_seed(params["seed"])  # of dropout
    training = Training(params)
    start, end = training.restore(), params["max_global_step"]
    batches = data.input_fn(
        params["train_split"], params["train_batch_size"], training=True, start_step=start
    )
    make_step = _compiled(training.step, params)
    stop = StopOnSignal()
    display = Display("training", "step", start, end, sys.stderr)
    saved_at = time.monotonic()
    with stop, contextlib.closing(display), _writing(params["checkpoint_dir"]):
        stop.catch()
        for step, (images, labels) in enumerate(batches, start + 1):
            shown = make_step(images, labels)
            loss = float(shown["model/loss"])
            if not math.isfinite(loss):
                raise tf.train.NanLossDuringTrainingError
            if on_step is not None:
                on_step(step, loss)
            if step % params["tpu_iterations_per_loop"] == 0:
                summaries.write_scalars(shown, step)
            display.show(step, lambda wide, loss=loss: f"loss {loss:.4g}")
            if step >= end or stop.is_stopped:
                break
            if time.monotonic() - saved_at >= _SAVE_SECONDS:
                training.save()
                saved_at = time.monotonic()
        training.save()
    return not stop.is_stopped


def evaluate(model, params, data, split, step):
    """Evaluates a model on every image of a part of the data, each once.

    Args:
        model: A `RevNet`.
        params: Dict of resolved settings.
        data: An open `Data`.
        split: See `examples.data`.
        step: Global step of the model, with which TensorBoard shows the metrics.

    Returns:
        Dict of `accuracy`, `cross_entropy` and `num_images`.
    """

    def measure(images, labels):
        logits, _ = model(model_fn.network_input(images, params), training=False)
        labels = tf.cast(labels, logits.dtype)
        losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
        classes = evaluation.predictions(logits)["classes"]
        hits = tf.cast(tf.equal(classes, tf.argmax(labels, axis=1)), tf.int32)
        return tf.reduce_sum(hits), tf.reduce_sum(losses), tf.size(hits)

    measure = _compiled(measure, params)
    batches = data.input_fn(split, params["eval_batch_size"], training=False)
    measured = [[float(each) for each in measure(*batch)] for batch in batches]
    hits, losses, rows = (math.fsum(column) for column in zip(*measured))
    metrics = {"accuracy": hits / rows, "cross_entropy": losses / rows}
    # In a directory of their own, as Estimators write them.
    with _writing(os.path.join(params["checkpoint_dir"], f"eval_{split}")):
        summaries.write_scalars(metrics, step)
    return {**metrics, "num_images": round(rows)}


def _compiled(function, params):
    return tf.function(function) if params["engine"] == "function" else function


@contextlib.contextmanager
def _writing(directory):
    """Context in which scalars are written to event files in a directory."""
    writer = tf.compat.v2.summary.create_file_writer(directory, filename_suffix=".v2")
    with contextlib.closing(writer), writer.as_default():
        yield
