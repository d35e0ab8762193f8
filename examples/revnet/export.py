"""Exports a trained RevNet: a SavedModel that needs TensorFlow and nothing else.

    params = train_settings.resolve_evaluation(checkpoint_dir="runs/digits")
    record = export.export_network(params, "runs/exported")

It takes pixels as they are in files and cameras, in batches of any size; what evaluation does to
images is part of it. Its signatures are

    serving_default            images, float32 [n, height, width, channels], of the network's size
    encoded:serving_default    encoded_images, string [n]: contents of JPEG or PNG files of any
                               size, of which evaluation's crop is taken; for photographs alone

Both give `classes`, int64 [n], and `probabilities`, float32 [n, classes]. Beside the model is
network.json, which tells what it is. Whatever engine trained the network, there are neither towers
nor devices in it, and rows are always first, channels last.
"""

import os

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.classifiers import evaluation
from examples.classifiers.training import METRICS
from examples.revnet.training import train_eval
from examples.revnet.training.train_settings import network
from examples.runs import checkpoints, settings_file
from examples.runs import export_dir as export_dir_lib

RECORD = "network.json"
_FILES = "encoded:serving_default"


def export_network(params, export_dir, checkpoint=None):
    """Exports a network; the directory is written as a whole or not at all.

    Args:
        params: Settings with which it was trained.
        export_dir: Directory that is not there yet, or empty.
        checkpoint: Path of the checkpoint. None: the latest in `params['checkpoint_dir']`.

    Returns:
        What network.json holds, a dict: `preset`, `depth`, `global_step`, `params`, `num_classes`,
        `class_names` or None, `image_shape`, `pixel_range`, `signatures`; and the `metrics` of
        training if they are of this checkpoint, else None.

    Raises:
        UserError: If `export_dir` is in use, or there is no checkpoint.
    """
    export_dir = export_dir.rstrip("/")
    with export_dir_lib.partial(export_dir) as partial:
        checkpoint = checkpoints.find(params["checkpoint_dir"], checkpoint)
        serving = data_lib.serving(params)
        # Weights are the same in both formats, and every device knows this one.
        model = train_eval.load_model({**params, "data_format": "channels_last"}, checkpoint)
        signatures = _signatures(model, serving, params["image_shape"])
        weights = train_eval.num_weights(model)
        record = _record(params, serving, checkpoint, weights, list(signatures))
        saved = os.path.join(partial, "model")
        # Not the model itself, whose layers Keras would save too.
        holder = tf.Module()
        holder.weights = list(model.variables)
        tf.saved_model.save(holder, saved, signatures)
        settings_file.write_json(record, saved, RECORD)
        export_dir_lib.publish(saved, export_dir)
    return record


def _signatures(model, serving, image_shape):
    """Returns functions for TensorFlow Serving by name."""

    def classify(pixels):
        logits, _ = model(serving.normalised(pixels), training=False)
        return evaluation.predictions(tf.cast(logits, tf.float32))

    def of_files(contents):
        return classify(tf.map_fn(serving.decoded, contents, dtype=tf.float32))

    pixels = tf.TensorSpec([None, *image_shape], tf.float32, "images")
    signatures = {"serving_default": tf.function(classify, [pixels])}
    if serving.decoded is not None:
        contents = tf.TensorSpec([None], tf.string, "encoded_images")
        signatures[_FILES] = tf.function(of_files, [contents])
    return signatures


def _record(params, serving, checkpoint, weights, signatures):
    step = checkpoints.step_of(checkpoint)
    directory = params["checkpoint_dir"]
    return {
        "preset": params["preset"],
        "depth": network(params).depth,
        "global_step": step,
        "params": weights,
        "num_classes": params["num_classes"],
        "class_names": serving.class_names,
        "image_shape": list(params["image_shape"]),
        "pixel_range": list(serving.pixel_range),
        "signatures": signatures,
        "metrics": settings_file.read_metrics(directory, METRICS, step),
    }
