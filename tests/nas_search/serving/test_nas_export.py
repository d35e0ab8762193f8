"""Networks that are exported: used without this library, they answer as the Estimator does."""

import json
import pathlib
import re
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import saved_model_pb2

import programs
from examples import data
from examples.data import datasets
from examples.nas_search.commands import PROGRAM
from examples.nas_search.serving import export, tflite
from examples.nas_search.training import mobile_train_eval, train_model_fn, train_settings
from examples.runs import engines, settings_file
from examples.runs.errors import UserError
from nas_search import nas_searches

DIGITS = "0:0:0:0:0:0:0:0:0:0:0:0:0:0"  # with residual layers
# The smallest of mobilenet_v3_like_search, with squeeze-and-excite and one residual layer.
_WITH_RESIDUAL = "0:0:1:" + "0:0:1:0:" + "0:0:0:1:" * 2 + "0:"
_WITHOUT = "0:0:1:" + "0:0:0:1:" * 3 + "0:"
PHOTOS = "0:0:1:0:" + _WITH_RESIDUAL + _WITHOUT * 4 + "0:0"

# A server, as far as it matters here.
SERVE = """
import json, sys
import numpy as np
import tensorflow as tf

for directory, signature, name, given, answers in json.loads(sys.argv[1]):
    serve = tf.saved_model.load(directory).signatures[signature]
    images = np.load(given, allow_pickle=True)
    images = tf.constant(list(images) if images.dtype == object else images)
    whole = serve(**{name: images})
    ones = [serve(**{name: images[i : i + 1]}) for i in range(2)]
    alone = {key: np.concatenate([one[key] for one in ones]) for key in whole}
    np.savez(answers, **whole, **{f"alone_{key}": value for key, value in alone.items()})
assert not {"replicate", "examples", "tensorflow_estimator.python.estimator.tpu"} & set(sys.modules)
"""


def train(directory, **given):
    """Trains a network for two steps; returns its settings and metrics."""
    given = {"train_batch_size": 8, "max_global_step": 2, "num_towers": 1, **given}
    params = train_settings.resolve(checkpoint_dir=str(directory), **given)
    return params, mobile_train_eval.train_network(params)


def write_photos(directory):
    """Writes 16 images of two classes, of different sizes, as files."""
    random = np.random.RandomState(0)
    for label, name in enumerate(("cat", "dog")):
        (directory / name).mkdir(parents=True)
        for i in range(8):
            image = random.randint(128, size=[40 + i, 50, 3]) + 128 * label
            encode = tf.io.encode_jpeg if i % 2 else tf.io.encode_png
            with tf.Session() as session:
                contents = session.run(encode(image.astype(np.uint8)))
            (directory / name / f"{i}.{'jpg' if i % 2 else 'png'}").write_bytes(contents)


class Made(dict):
    """The value that a function makes for a name, of some at once, of others when asked for."""

    def __init__(self, make, *names):
        self._make = make
        self.update((name, make(name)) for name in names)

    def __missing__(self, name):
        self[name] = self._make(name)
        return self[name]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Settings and metrics of networks: of digits, the same in bfloat16, of photographs."""
    root = tmp_path_factory.mktemp("trained")
    with tf.Graph().as_default():
        write_photos(root / "images")
    networks = {
        "digits": {"indices": DIGITS},
        "bfloat16": {"indices": DIGITS, "use_bfloat16": True},
        "photos": {
            "ssd": "mobilenet_v3_like_search",
            "indices": PHOTOS,
            "dataset": "image_folder",
            "dataset_dir": str(root / "images"),
            "image_size": 32,
            "train_batch_size": 4,
            "validation_fraction": 0.3,
        },
    }

    def make(name):
        with tf.Graph().as_default():
            return train(root / name, **networks[name])

    return Made(make, "digits", "photos")


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """Returns directories and messages of the exports, by name."""
    root = tmp_path_factory.mktemp("exported")

    def make(name):
        params = train_settings.resolve_evaluation(
            checkpoint_dir=trained[name][0]["checkpoint_dir"], num_towers=1
        )
        return root / name, export.export_network(params, str(root / name), None, "none")

    return Made(make, "digits", "photos")


def evaluated(params):
    """Returns inputs and labels of the images that training set aside, and their predictions."""
    opened = data.open_data(params)
    with tf.Graph().as_default(), tf.Session() as session:
        batches = opened.input_fn(params["eval_split"], 10**4, training=False)
        inputs, labels = session.run(tf.data.make_one_shot_iterator(batches).get_next())
    alone = {**params, "devices": params["devices"][:1]}
    rows = engines.make_estimator(train_model_fn.model_fn, alone).predict(
        lambda: tf.data.Dataset.from_tensors(inputs)
    )
    rows = list(rows)
    return inputs, labels, {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def files_of(params):
    """Returns the contents of the files of the images that training set aside."""
    lists = pathlib.Path(params["checkpoint_dir"], "dataset", f"{params['eval_split']}.txt")
    paths = [line.split(" ", 1)[1] for line in lists.read_text().splitlines()]
    return [pathlib.Path(params["dataset_dir"], path).read_bytes() for path in paths]


@pytest.fixture(scope="module")
def served(trained, exported, tmp_path_factory):
    """Returns the answers of a separate process, by name, and the results of evaluation."""
    root = tmp_path_factory.mktemp("served")
    jobs, results = [], {}

    def serve(label, name, signature, key, images):
        np.save(root / f"{label}.npy", images)
        files = [str(root / f"{label}.{end}") for end in ("npy", "npz")]
        jobs.append([str(exported[name][0]), signature, key, *files])
        results[label] = name, files[1]

    wanted = {name: evaluated(trained[name][0]) for name in ("digits", "bfloat16", "photos")}
    for name in ("digits", "bfloat16"):
        serve(name, name, "serving_default", "images", wanted[name][0] * 16)
    contents = np.array(files_of(trained["photos"][0]), dtype=object)
    serve("photos", "photos", "encoded:serving_default", "encoded_images", contents)
    decoded = data.serving(trained["photos"][0]).decoded
    with tf.Graph().as_default(), tf.Session() as session:
        pixels = session.run([decoded(tf.constant(each)) for each in contents])
    serve("pixels", "photos", "serving_default", "images", np.stack(pixels))
    result = programs.run("-c", SERVE, json.dumps(jobs))
    assert result.returncode == 0, result.stderr
    return {
        label: (*trained[name], wanted[name], dict(np.load(path)))
        for label, (name, path) in results.items()
    }


@pytest.mark.thorough
@pytest.mark.parametrize("label", ["digits", "bfloat16", "photos", "pixels"])
def test_elsewhere_an_export_answers_as_the_estimator_does(label, served):
    _, _, (_, _, wanted), got = served[label]
    np.testing.assert_allclose(got["probabilities"], wanted["probabilities"], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(got["classes"], wanted["classes"])
    assert (got["probabilities"].dtype, got["classes"].dtype) == (np.float32, np.int64)
    assert len(got["classes"]) > 2


@pytest.mark.thorough
@pytest.mark.parametrize("label", ["digits", "bfloat16", "photos", "pixels"])
def test_an_image_alone_is_answered_as_in_a_batch(label, served):
    *_, got = served[label]
    tolerance = 1e-2 if label == "bfloat16" else 1e-5
    np.testing.assert_allclose(
        got["alone_probabilities"], got["probabilities"][:2], rtol=tolerance, atol=1e-7
    )


@pytest.mark.thorough
@pytest.mark.parametrize("label", ["digits", "bfloat16", "photos", "pixels"])
def test_an_export_is_exactly_as_accurate_as_evaluation_says(label, served):
    _, metrics, (_, labels, _), got = served[label]
    hits = np.sum(got["classes"] == labels.argmax(axis=1))
    assert metrics["num_images"] == len(labels)
    assert metrics["accuracy"] == np.float32(hits) / np.float32(len(labels))


@pytest.mark.parametrize("name", ["digits", "photos"])
def test_no_tower_and_no_device_is_left(name, exported):
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((exported[name][0] / "saved_model.pb").read_bytes())
    (meta,) = saved.meta_graphs
    nodes = [node for node in meta.graph_def.node if not node.name.startswith("save/")]
    assert {node.device for node in nodes} == {""}  # TensorFlow's saver has devices
    assert not re.search("tower|replicate|/shard/", str(meta), re.IGNORECASE)
    names = {"serving_default"} | ({"encoded:serving_default"} if name == "photos" else set())
    assert set(meta.signature_def) == names


def test_the_record_tells_what_was_exported(trained, exported):
    directory, record = exported["photos"]
    assert json.loads((directory / "network.json").read_text()) == record
    params, metrics = trained["photos"]
    assert record["metrics"] == metrics
    assert record["class_names"] == ["cat", "dog"]
    assert (record["image_shape"], record["pixel_range"]) == ([32, 32, 3], [0, 255])
    assert record["indices"] == params["indices"]
    assert (record["madds"], record["params"]) == (metrics["madds"], metrics["params"])
    assert record["global_step"] == 2
    assert record["signatures"] == ["serving_default", "encoded:serving_default"]
    assert exported["digits"][1]["class_names"] == list("0123456789")
    assert {path.name for path in directory.parent.iterdir()} == {*exported}  # nothing partial


@pytest.mark.parametrize(
    "name", ["digits", pytest.param("bfloat16", marks=pytest.mark.thorough), "photos"]
)
def test_tensorflow_lite_answers_as_the_saved_model_does(name, trained, exported):
    directory, record = exported[name]
    path = directory / "model.tflite"
    assert record["tflite"]["bytes"] == path.stat().st_size
    tolerance = 0.05 if name == "bfloat16" else 1e-4
    assert record["tflite"]["max_difference"] <= tolerance
    interpreter = tflite.new_interpreter(path.read_bytes())
    low, high = record["pixel_range"]
    images = np.random.RandomState(1).uniform(low, high, [5, *record["image_shape"]])
    images = images.astype(np.float32)
    got = tflite.lite_probabilities(interpreter, images)
    wanted = tflite.saved_model_probabilities(str(directory), images)
    np.testing.assert_allclose(got, wanted, atol=tolerance)
    assert np.ptp(wanted, axis=0).max() > 0  # they depend on the image


@pytest.mark.parametrize(
    ("quantize", "name"),
    [pytest.param("float16", "photos", marks=pytest.mark.thorough), ("dynamic", "digits")],
)
def test_weights_of_fewer_bits_answer_about_the_same(
    quantize, name, trained, exported, tmp_path, capfd
):
    params, _ = trained[name]
    flags = [f"--checkpoint_dir={params['checkpoint_dir']}", f"--export_dir={tmp_path / 'new'}"]
    flags += ["--tflite", f"--tflite_quantize={quantize}"]
    assert PROGRAM.main(["export", *flags]) == 0
    record = json.loads((tmp_path / "new" / "network.json").read_text())
    if name == "photos":  # Smaller networks do not win.
        assert record["tflite"]["bytes"] < exported[name][1]["tflite"]["bytes"]
    assert record["tflite"]["quantize"] == quantize
    out, err = capfd.readouterr()
    assert err == ""  # No output of the converter or the interpreter.
    assert f"model.tflite: {record['tflite']['bytes']:,} bytes; its probabilities differ" in out
    files = "encoded:serving_default: encoded_images, contents of n JPEG or PNG files"
    assert (files in out) == (name == "photos")
    assert f"tf.saved_model.load('{tmp_path / 'new'}')" in out


# Networks that cannot be exported.


def refused(capsys, *flags):
    """Returns what `export` says when it refuses."""
    assert PROGRAM.main(["export", *map(str, flags)]) == 2
    return capsys.readouterr().err


def test_what_is_there_is_not_overwritten(trained, tmp_path, capsys):
    params, _ = trained["digits"]
    flags = (f"--checkpoint_dir={params['checkpoint_dir']}", f"--export_dir={tmp_path}")
    (tmp_path / "mine").write_text("mine")
    assert f"{tmp_path} is there already. Name another one, or remove it." in refused(
        capsys, *flags
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "mine").unlink()
    assert PROGRAM.main(["export", *flags]) == 0  # an empty directory is as good as none
    assert (tmp_path / "saved_model.pb").exists()


def test_a_directory_that_cannot_be_made(trained, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    flags = [f"--checkpoint_dir={trained['digits'][0]['checkpoint_dir']}"]
    err = refused(capsys, *flags, f"--export_dir={tmp_path}/file/new")
    assert "--export_dir must be where a directory can be made, but" in err


def test_a_search_is_no_trained_network(tmp_path, capsys):
    search = nas_searches.write_search(tmp_path / "search")
    err = refused(capsys, f"--checkpoint_dir={search}", f"--export_dir={tmp_path}/new")
    assert f"`python -m examples.nas_search train --search_dir {search} " in err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("checkpoint", [[], ["--checkpoint=nowhere/model.ckpt-1"]])
def test_without_a_checkpoint_there_is_nothing_to_export(trained, tmp_path, capsys, checkpoint):
    (tmp_path / "run").mkdir()
    settings = pathlib.Path(trained["digits"][0]["checkpoint_dir"], "params.json").read_text()
    (tmp_path / "run" / "params.json").write_text(settings)
    flags = (f"--checkpoint_dir={tmp_path}/run", f"--export_dir={tmp_path}/new")
    err = refused(capsys, *flags, *checkpoint)
    assert "A network has the weights of a checkpoint, but there is none" in err
    assert not (tmp_path / "new").exists()


def test_how_to_write_what_is_not_written(tmp_path, capsys):
    flags = ("--checkpoint_dir=x", "--export_dir=y", "--tflite_quantize=float16")
    assert "none is to be written. Pass --tflite as well." in refused(capsys, *flags)


def test_a_dataset_must_tell_what_a_product_hands_over(trained, monkeypatch):
    params, _ = trained["digits"]
    monkeypatch.setitem(datasets.DATASETS, "mine", datasets.Source(dict))
    with pytest.raises(data.DataError, match=r"but mine has no `serving`\. Add it in `DATASETS`"):
        data.serving({**params, "dataset": "mine"})


def test_metrics_of_another_checkpoint_are_left_out(trained, tmp_path, monkeypatch):
    params, metrics = trained["digits"]
    (tmp_path / "metrics.json").write_text(json.dumps({**metrics, "global_step": 1}))
    assert settings_file.read_metrics(str(tmp_path), "metrics.json", 2) is None
    assert settings_file.read_metrics(str(tmp_path / "nowhere"), "metrics.json", 2) is None
    assert settings_file.read_metrics(params["checkpoint_dir"], "metrics.json", 2) == metrics


class Lite:
    """A TensorFlow Lite whose converter fails."""

    class TFLiteConverter:
        @classmethod
        def from_saved_model(cls, directory, signature_key):
            return cls()

        def convert(self):
            raise RuntimeError("no such operation")

    Interpreter = None


@pytest.mark.parametrize(
    ("lite", "message"),
    [
        (types.SimpleNamespace(), r"does not have both here.*pip install ai-edge-litert"),
        (Lite, r"cannot convert this network for TensorFlow Lite: no such operation\. Export it"),
    ],
)
def test_a_failing_conversion_leaves_nothing(trained, tmp_path, monkeypatch, lite, message):
    params = {**trained["digits"][0], "devices": ["/device:CPU:0"]}
    monkeypatch.setattr(tf, "lite", lite)
    with pytest.raises(UserError, match=message):
        export.export_network(params, str(tmp_path / "new"), None, "none")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_answers_otherwise_is_refused(trained, tmp_path, monkeypatch):
    params = {**trained["digits"][0], "devices": ["/device:CPU:0"]}
    monkeypatch.setattr(tflite, "lite_probabilities", lambda interpreter, images: np.zeros(10))
    with pytest.raises(UserError, match=r"probabilities differ by up to 0\.\d+, more than 0\.0001"):
        export.export_network(params, str(tmp_path / "new"), None, "none")
    assert list(tmp_path.iterdir()) == []
