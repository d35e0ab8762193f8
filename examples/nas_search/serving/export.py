"""Exports a network that was trained alone: a SavedModel that needs TensorFlow and nothing else.

    params = train_settings.resolve_evaluation(checkpoint_dir="runs/alone", num_towers=1)
    record = export.export_network(params, "runs/exported")

It takes pixels as they are in files and cameras, in batches of any size; what evaluation does to
images is part of it. Its signatures are

    serving_default            images, float32 [n, height, width, channels], of the network's size
    encoded:serving_default    encoded_images, string [n]: contents of JPEG or PNG files of any
                               size, of which evaluation's crop is taken; for photographs alone

Both give `classes`, int64 [n], and `probabilities`, float32 [n, classes]. Beside the model are
network.json, which tells what it is, README.md, its model card, and model.tflite if it is asked
for. Batch normalisation is by moving statistics.
"""

import os

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.classifiers.training import METRICS
from examples.nas_search.costs import network_cost
from examples.nas_search.serving import card_facts, model_card, tflite
from examples.nas_search.training.train_model_fn import model_fn, model_spec
from examples.runs import checkpoints, engines, settings_file
from examples.runs import export_dir as export_dir_lib
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
    with export_dir_lib.partial(export_dir) as partial:
        checkpoint = checkpoints.find(params["checkpoint_dir"], checkpoint)
        if quantize is not None:
            tflite.check_is_there()
        serving = data_lib.serving(params)
        saved = _save_model(params, serving, checkpoint, os.path.join(partial, "model"))
        record = _record(params, serving, checkpoint)
        if quantize is not None:
            record["tflite"] = _write_tflite(params, serving, checkpoint, saved, quantize, partial)
        settings_file.write_json(record, saved, RECORD)
        card = model_card.card(card_facts.gather(params, record))
        with tf.io.gfile.GFile(os.path.join(saved, model_card.NAME), "w") as file:
            file.write(card)
        export_dir_lib.publish(saved, export_dir)
    return record


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
    step = checkpoints.step_of(checkpoint)
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
        "metrics": settings_file.read_metrics(params["checkpoint_dir"], METRICS, step),
        "tflite": None,
    }


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
