"""All that reads files from elsewhere: the contents of a good file, and documented errors."""

import json
import os

import tensorflow.compat.v1 as tf

from examples.data import dataset_metadata
from examples.data.errors import DataError
from examples.data.sources import record_manifest
from examples.nas_search import mobile_classifier_factory, schema_io
from examples.nas_search.commands import sample
from examples.nas_search.costs import cost_model_io
from examples.nas_search.latency import measurement_log
from examples.nas_search.reports import search_analysis
from examples.nas_search.spaces import space_check
from examples.nas_search.training import train_model_fn, train_settings
from examples.revnet.network import config as revnet_config
from examples.revnet.training import train_settings as revnet_settings
from examples.runs import json_file, settings_file
from examples.runs.errors import UserError
from examples.runs.flags import SettingsError
from examples.runs.json_file import JsonError
from nas_search import nas_searches

SPACE = schema_io.serialize(mobile_classifier_factory.get_model_spec(nas_searches.SSD))
DATA = {"dataset": "digits", "validation_fraction": 0.2, "test_fraction": 0.2, "image_size": 32}
TRAINED = {
    **DATA,
    **{"ssd": nas_searches.SSD, "indices": "0:1", "image_shape": [8, 8, 1], "num_classes": 10},
    **{"train_split": "train", "eval_split": "validation", "eval_batch_size": 8, "seed": 0},
}
REVNET = {**revnet_config.preset("digits").__dict__, **TRAINED, "preset": "digits"}
SEARCHED = {
    **nas_searches.PARAMS,
    **{"cost_model": ["madds"], "cost_model_files": [None], "cost_model_weights": [1.0]},
}
HEADER = {"ssd": nas_searches.SSD, "threads": 2}
MEASURED = json.dumps({"indices": "0:1", "ms": 0.5, "reference_ms": 1.0})


def read_space(path):
    space_check.check_space(schema_io.deserialize(json_file.read_text(path)))


def read_cost_model(path):
    with open(path, "rb") as file:
        cost_model_io.from_json(file.read().decode(errors="replace"))


def evaluate(resolve):
    def parse(path):
        resolve(checkpoint_dir=os.path.dirname(path), num_towers=1)

    return parse


def in_directory(function, **kwargs):
    return lambda path: function(os.path.dirname(path), **kwargs)


def find_indices(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        indices = file.read()
    settings = {"ssd": nas_searches.SSD, "indices": indices, "filters_multiplier": 1.0}
    train_model_fn.model_spec(settings)


def resume(path):
    directory = os.path.dirname(path)
    if not tf.train.latest_checkpoint(directory):
        tf.io.gfile.copy(path, path + ".kept", overwrite=True)
    settings_file.check_same({**SEARCHED, "devices": ["/cpu:0"], "checkpoint_dir": directory})


def read_log(path):
    measurement_log.read(path, HEADER)


def read_line_of_log(path):
    """Reads a log whose first line is good, and whose second one is the file."""
    with open(path, "rb") as file:
        line = file.read()
    with open(path, "wb") as file:
        file.write(json.dumps(HEADER).encode() + b"\n" + line + b"\n")
    read_log(path)


def analysed(path):
    """Analyses a search, whose other files are in the same directory."""
    directory = os.path.dirname(path)
    for name, text in {"params.json": json.dumps(SEARCHED), "model_spec.json": SPACE}.items():
        if name != os.path.basename(path):
            with open(os.path.join(directory, name), "w") as file:
                file.write(text)
    search_analysis.analyze(directory)


COST_MODEL = cost_model_io.to_json(nas_searches.latency_model())
# Name of the file, what is in a good one, how it is read, documented errors, how many bad ones.
PARSERS = {
    "space": ("model_spec.json", SPACE, read_space, JsonError, 2_000),
    "cost_model": ("cost.json", COST_MODEL, read_cost_model, JsonError, 1_500),
    "settings": (
        "params.json",
        json.dumps(TRAINED),
        in_directory(settings_file.read),
        SettingsError,
        1_500,
    ),
    "evaluation": (
        "params.json",
        json.dumps(TRAINED),
        evaluate(train_settings.resolve_evaluation),
        SettingsError,
        700,
    ),
    "revnet": (
        "params.json",
        json.dumps(REVNET),
        evaluate(revnet_settings.resolve_evaluation),
        SettingsError,
        700,
    ),
    "resumed": (
        "params.json",
        json.dumps({**SEARCHED, "devices": ["/cpu:0"]}),
        resume,
        SettingsError,
        500,
    ),
    "metrics": (
        "metrics.json",
        json.dumps({"global_step": 2, "accuracy": 0.5, "split": "test"}),
        in_directory(settings_file.read_metrics, name="metrics.json", step=2),
        (),
        700,
    ),
    "measured": (
        "measured",
        f"{json.dumps(HEADER)}\n{MEASURED}\n",
        read_log,
        UserError,
        800,
    ),
    "measured_line": ("measured", MEASURED, read_line_of_log, UserError, 500),
    "records": (
        "records.json",
        json.dumps({"train-00000-of-00001": [120, 4, 0, 9]}),
        record_manifest._read,
        DataError,
        800,
    ),
    "classes": (
        "dataset/classes.json",
        json.dumps({"classes": ["cat", "dog"], "sizes": {"train": 3}}),
        lambda path: dataset_metadata.class_names(os.path.dirname(os.path.dirname(path))),
        DataError,
        500,
    ),
    "indices": ("indices", "0:1:1:0:1:1:2:0:0:1:0:0:1:0", find_indices, UserError, 700),
    "analysed_settings": ("params.json", json.dumps(SEARCHED), analysed, UserError, 120),
    "analysed_space": ("model_spec.json", SPACE, analysed, UserError, 120),
    "sampled": (
        "params.json",
        json.dumps(SEARCHED),
        in_directory(sample._of_search, ssd=None),
        UserError,
        200,
    ),
}


def place(name, directory):
    """Makes the directory of a parser, with the files that it needs beside the one that it reads.

    Args:
        name: Of the parser.
        directory: A `pathlib.Path` that does not exist.

    Returns:
        The path of the file that it reads.
    """
    path = directory / PARSERS[name][0]
    path.parent.mkdir(parents=True)
    if name.startswith(("analysed", "resumed", "sampled")):
        nas_searches.write_search(directory)
    if name == "resumed":
        nas_searches.save_checkpoint(directory)
    return path
