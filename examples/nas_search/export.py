"""Exports a network that was trained alone: a SavedModel that needs TensorFlow and nothing else.

    params = train_settings.resolve_evaluation(checkpoint_dir="runs/alone", num_towers=1)
    record = export.export_network(params, "runs/exported")

It takes pixels as they are in files and cameras, in batches of any size; what evaluation does to
images is part of it. Its signatures are

    serving_default            images, float32 [n, height, width, channels], of the network's size
    encoded:serving_default    encoded_images, string [n]: contents of JPEG or PNG files of any
                               size, of which evaluation's crop is taken; for photographs alone

Both give `classes`, int64 [n], and `probabilities`, float32 [n, classes]. Beside the model are
network.json, which tells what it is, and model.tflite if it is asked for. Batch normalisation is by
moving statistics.
"""

import json
import os

import tensorflow.compat.v1 as tf

from examples.nas_search import data as data_lib
from examples.nas_search import engines, mobile_train_eval, tflite
from examples.nas_search.config import settings_file
from examples.nas_search.costs import network_cost
from examples.nas_search.errors import UserError
from examples.nas_search.train_model_fn import model_fn, model_spec
from replicate import estimator

RECORD = "network.json"
TFLITE = "model.tflite"


def export_network(params, export_dir, checkpoint=None, quantize=None):
    """Exports a network; the directory is written as a whole or not at all.

    Args:
        params: Settings with which it was trained, with one tower.
        export_dir: Directory that is not there yet, or empty.
        checkpoint: Path of the checkpoint. None: the latest in `params['checkpoint_dir']`.
        quantize: Key of `tflite.TOLERANCES`, to write model.tflite as well. None: none is written.

    Returns:
        What network.json holds, a dict: `ssd`, `indices`, `global_step`, `madds`, `params`,
        `num_classes`, `class_names` or None, `image_shape`, `pixel_range`, `signatures`; the
        `metrics` of training if they are of this checkpoint, else None; and `tflite`, the record
        of `tflite.convert`, or None.

    Raises:
        UserError: If `export_dir` is in use, there is no checkpoint, or TensorFlow Lite is not
            there or gives other results.
    """
    export_dir = export_dir.rstrip("/")
    _check_is_new(export_dir)
    checkpoint = mobile_train_eval.find_checkpoint(params, checkpoint)
    if quantize is not None:
        tflite.check_is_there()
    serving = data_lib.serving(params)
    partial = f"{export_dir}.partial-{os.getpid()}"
    _make(partial)
    try:
        saved = _save_model(params, serving, checkpoint, os.path.join(partial, "model"))
        record = _record(params, serving, checkpoint)
        if quantize is not None:
            record["tflite"] = _write_tflite(params, serving, checkpoint, saved, quantize, partial)
        settings_file.write_json(record, saved, RECORD)
        if tf.io.gfile.exists(export_dir):
            tf.io.gfile.rmtree(export_dir)  # It is empty.
        tf.io.gfile.rename(saved, export_dir)
    finally:
        tf.io.gfile.rmtree(partial)
    return record


def _check_is_new(export_dir):
    if tf.io.gfile.exists(export_dir) and (
        not tf.io.gfile.isdir(export_dir) or tf.io.gfile.listdir(export_dir)
    ):
        raise UserError(
            f"--export_dir must be a new directory, so that nothing is overwritten, but "
            f"{export_dir} is there already. Name another one, or remove it."
        )


def _make(directory):
    try:
        tf.io.gfile.makedirs(directory)
    except tf.errors.OpError as error:
        raise UserError(
            f"--export_dir must be where a directory can be made, but {directory} cannot be: "
            f"{error.message}. Name another one."
        ) from error


def _save_model(params, serving, checkpoint, directory, rows=None):
    """Writes a SavedModel into a new directory below `directory`; returns its path.

    With a number of `rows`, the batch has that size, and files are not taken.
    """

    def receive():
        shape = [rows, *params["image_shape"]]
        alternatives = {}
        if serving.decoded is None or rows is not None:
            pixels = tf.placeholder(tf.float32, shape, "images")
        else:
            contents = tf.placeholder(tf.string, [rows], "encoded_images")
            decoded = tf.map_fn(serving.decoded, contents, dtype=tf.float32)
            # Where images are fed, files are not asked for.
            pixels = tf.placeholder_with_default(decoded, shape, "images")
            alternatives["encoded"] = {"encoded_images": contents}
        return estimator.export.TensorServingInputReceiver(
            serving.normalised(pixels), {"images": pixels}, alternatives
        )

    trained = engines.make_estimator(model_fn, params)
    path = trained.export_saved_model(directory, receive, checkpoint_path=checkpoint)
    return path.decode()


def _record(params, serving, checkpoint):
    step = int(tf.train.load_variable(checkpoint, "global_step"))
    shape = params["image_shape"]
    cost = network_cost.network_cost(model_spec(params), shape, params["num_classes"])
    encoded = [] if serving.decoded is None else ["encoded:serving_default"]
    return {
        "ssd": params["ssd"],
        "indices": params["indices"],
        "global_step": step,
        "madds": cost.madds,
        "params": cost.params,
        "num_classes": params["num_classes"],
        "class_names": serving.class_names,
        "image_shape": list(shape),
        "pixel_range": list(serving.pixel_range),
        "signatures": ["serving_default", *encoded],
        "metrics": _metrics(params["checkpoint_dir"], step),
        "tflite": None,
    }


def _metrics(directory, step):
    """Returns the metrics of training if they are of the checkpoint of this step, else None."""
    try:
        with tf.io.gfile.GFile(os.path.join(directory, mobile_train_eval.METRICS)) as file:
            metrics = json.load(file)
    except (tf.errors.OpError, ValueError):
        return None
    return metrics if metrics.get("global_step") == step else None


def _write_tflite(params, serving, checkpoint, saved, quantize, partial):
    # Of a batch of one; and in float32, as there is no bfloat16 in TensorFlow Lite.
    plain = {**params, "use_bfloat16": False}
    source = _save_model(plain, serving, checkpoint, os.path.join(partial, "lite"), rows=1)
    return tflite.convert(
        source,
        saved,
        os.path.join(saved, TFLITE),
        quantize,
        serving.pixel_range,
        is_rounded=params["use_bfloat16"],
    )
