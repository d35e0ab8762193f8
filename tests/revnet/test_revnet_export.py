"""RevNets that are exported: used without this library, they answer as the engine does."""

import json
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import saved_model_pb2

import programs
from examples import data
from examples.revnet.commands import PROGRAM
from examples.revnet.training import train_eval
from revnet.revnet_runs import (
    fresh_graph,  # noqa: F401
    settings,
)

# A server, as far as it matters here.
SERVE = """
import json, sys
import numpy as np
import tensorflow as tf

for directory, given, answers in json.loads(sys.argv[1]):
    serve = tf.saved_model.load(directory).signatures["serving_default"]
    images = np.load(given)
    whole = serve(images=tf.constant(images))
    alone = serve(images=tf.constant(images[:1]))
    np.savez(answers, alone=alone["probabilities"], **whole)
assert not {"replicate", "examples"} & set(sys.modules)
"""


# Both engines train the same network, which an export takes from a checkpoint.
@pytest.fixture(
    scope="module", params=[pytest.param("function", marks=pytest.mark.thorough), "towers"]
)
def exported(request, tmp_path_factory):
    """An engine's settings and metrics, directory of the export, labels and answers."""
    root, engine = tmp_path_factory.mktemp("exported"), request.param
    params = settings(root / engine, engine=engine, max_global_step=2)
    metrics = train_eval.train_network(params)
    directory = root / f"{engine}-exported"
    flags = [f"--checkpoint_dir={root / engine}", f"--export_dir={directory}"]
    assert PROGRAM.main(["export", *flags]) == 0
    with tf.Graph().as_default(), tf.Session() as session:
        batches = data.open_data(params).input_fn("validation", 10**4, training=False)
        inputs, labels = session.run(tf.data.make_one_shot_iterator(batches).get_next())
    files = [str(root / f"{engine}.{end}") for end in ("npy", "npz")]
    np.save(files[0], inputs * 16)
    result = programs.run("-c", SERVE, json.dumps([[str(directory), *files]]))
    assert result.returncode == 0, result.stderr
    return params, metrics, directory, labels, dict(np.load(files[1]))


def test_elsewhere_an_export_is_exactly_as_accurate_as_evaluation_says(exported):
    _, metrics, _, labels, got = exported
    assert metrics["num_images"] == len(labels) == len(got["classes"])
    hits = got["classes"] == labels.argmax(axis=1)
    assert np.mean(hits) == pytest.approx(metrics["accuracy"], abs=1e-6)
    cross_entropy = -np.mean(np.log(np.sum(got["probabilities"] * labels, axis=1)))
    assert cross_entropy == pytest.approx(metrics["cross_entropy"], rel=1e-5)
    np.testing.assert_allclose(got["alone"], got["probabilities"][:1], rtol=1e-5)
    assert (got["classes"].dtype, got["probabilities"].dtype) == (np.int64, np.float32)


def test_no_tower_and_no_device_is_left(exported):
    _, _, directory, _, _ = exported
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((directory / "saved_model.pb").read_bytes())
    (meta,) = saved.meta_graphs
    # TensorFlow's saver has devices.
    library = [f for f in meta.graph_def.library.function if "traced_" not in f.signature.name]
    nodes = [node for function in library for node in function.node_def]
    assert len(nodes) > 50
    assert {node.device for node in nodes} == {""}
    assert not re.search("tower|replicate|/shard/", str(meta), re.IGNORECASE)


def test_the_record_tells_what_was_exported(exported):
    _, metrics, directory, _, _ = exported
    record = json.loads((directory / "network.json").read_text())
    assert record["metrics"] == metrics
    assert (record["global_step"], record["params"]) == (2, metrics["params"])
    assert (record["image_shape"], record["pixel_range"]) == ([8, 8, 1], [0, 16])
    assert record["class_names"] == list("0123456789")
    assert record["signatures"] == ["serving_default"]
    assert [path.name for path in directory.parent.glob("*partial*")] == []


def test_nothing_is_overwritten(exported, capsys):
    params, _, directory, _, _ = exported
    flags = [f"--checkpoint_dir={params['checkpoint_dir']}", f"--export_dir={directory}"]
    assert PROGRAM.main(["export", *flags]) == 2
    assert "--export_dir must be a new directory" in capsys.readouterr().err
