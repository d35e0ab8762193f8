"""Exports a complete program for serving, from towers and from one device, and serves both.

Both export what towers have trained. The receiver is a string for each row, a `tf.train.Example`,
as it must be for classifiers and regressors to be served by all of their signatures. A SavedModel
is loaded where there is but one CPU, and asked for one row and for several.
"""

import functools
import pathlib
import re
import tempfile
from typing import Dict, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2, saved_model_pb2

from conformance import harness, program
from replicate import estimator

SERVED = (1, 5)
TOWERS = 2
# The type and field of an Example for a type of NumPy.
FIELDS = {"i": (tf.int64, "int64_list"), "f": (tf.float32, "float_list")}
FIELDS.update(dict.fromkeys("SO", (tf.string, "bytes_list")))


class Export(NamedTuple):
    """A SavedModel's results and description.

    Attributes:
        served: Outputs, by how many rows were asked for, signature and name.
        devices: Names of operations that are placed, and where.
        words: Words in it that are about towers.
    """

    served: Dict[Tuple[int, str, str], np.ndarray]
    devices: Dict[str, str]
    words: Tuple[str, ...]


def by_both(name):
    """Trains a step of a row over towers; returns the `Export`s of towers and of one device."""
    row = program.load(name)
    with tempfile.TemporaryDirectory(prefix=f"exported_{name}_") as directory:
        directory = pathlib.Path(directory)
        with harness.making(name, TOWERS, directory / "model") as model:
            model.train(functools.partial(_first_batch, row), steps=1)
            checkpoint = model.latest_checkpoint()
        return tuple(
            _export(name, row, directory / f"towers_{number}", checkpoint, number)
            for number in (TOWERS, 1)
        )


def _first_batch(row):
    """An `input_fn`; what some canned Estimators of version 2 start from needs the first batch."""
    return tf.data.make_one_shot_iterator(harness.make_input_fn(row)()).get_next()


def _export(name, row, directory, checkpoint, num_towers):
    features, _ = row.rows(row.batches.total)
    named = features if isinstance(features, dict) else {"input": features}

    def receiver_fn():
        examples = tf.placeholder(tf.string, [None], name="examples")
        parsed = _parse(examples, named)
        fed = parsed if isinstance(features, dict) else parsed["input"]
        if row.parse is not None:
            fed, _ = row.parse(fed, None)
        export = estimator.export
        is_dict = isinstance(fed, dict)
        receiver = export.ServingInputReceiver if is_dict else export.TensorServingInputReceiver
        return receiver(fed, {"examples": examples})

    with harness.making(name, num_towers, directory) as model:
        exported = model.export_saved_model(
            str(directory / "exported"), receiver_fn, checkpoint_path=checkpoint
        ).decode()
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((pathlib.Path(exported) / "saved_model.pb").read_bytes())
    nodes = [node for meta in saved.meta_graphs for node in meta.graph_def.node]
    return Export(
        _serve(exported, _examples(named)),
        {node.name: node.device for node in nodes if node.device},
        tuple(re.findall("tower|replicate|/shard/", str(saved), re.IGNORECASE)),
    )


def _parse(examples, like):
    specs = {
        key: tf.FixedLenFeature(array.shape[1:], FIELDS[array.dtype.kind][0])
        for key, array in like.items()
    }
    parsed = tf.parse_example(examples, specs)
    return {
        key: parsed[key] if parsed[key].dtype == tf.string else tf.cast(parsed[key], array.dtype)
        for key, array in like.items()
    }


def _examples(arrays):
    """Returns the first rows, as serialized Examples."""
    examples = [tf.train.Example() for _ in range(max(SERVED))]
    for key, array in arrays.items():
        for example, values in zip(examples, array):
            into = getattr(example.features.feature[key], FIELDS[array.dtype.kind][1])
            into.value.extend(np.ravel(values).tolist())
    return [example.SerializeToString() for example in examples]


def _serve(exported, examples):
    config = tf.ConfigProto()
    # With oneDNN, TensorFlow 2.15 dies in this pass over a layer norm, also of one device's export.
    config.graph_options.rewrite_options.remapping = rewriter_config_pb2.RewriterConfig.OFF
    found = {}
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        meta = tf.saved_model.load(session, [tf.saved_model.SERVING], exported)
        for key, signature in sorted(meta.signature_def.items()):
            (given,) = (info.name for info in signature.inputs.values())
            fetches = {output: info.name for output, info in signature.outputs.items()}
            for number in SERVED:
                served = session.run(fetches, {given: examples[:number]})
                found.update({(number, key, output): array for output, array in served.items()})
    return found
