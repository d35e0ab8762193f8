"""Data sets as TFDS prepares them: published splits, what is read of them, and what is missing."""

import json
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds

import record_sets
from batches import take
from examples import data
from examples.data.sources import record_splits
from examples.nas_search.commands import PROGRAM
from examples.nas_search.search import search_settings
from examples.nas_search.training import train_settings

CIFAR = record_sets.pictures(40, side=8)  # CIFAR's have 32 pixels, which takes longer


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A directory with the data sets of the tests, one of them in several versions."""
    root = tmp_path_factory.mktemp("tfds")
    cifar = {"train": CIFAR[:30], "test": CIFAR[30:]}
    record_sets.write_tfds(root, "cifar10", cifar, version="3.0.2")
    record_sets.write_tfds(root, "cifar10", {"train": CIFAR[:2]}, version="3.0.1")
    record_sets.write_tfds(
        root,
        "imagenet2012",
        {
            name: record_sets.pictures(count, side=12)
            for name, count in (("train", 20), ("validation", 20), ("test", 4))
        },
        num_classes=1000,
        image=tfds.features.Image(encoding_format="jpeg"),
    )
    grey = {"train": record_sets.pictures(4, channels=1)}
    record_sets.write_tfds(root, "emnist", grey, config="letters")
    record_sets.write_tfds(root, "emnist", grey, config="digits")
    record_sets.write_tfds(root, "untrained", {"test": grey["train"]})
    floats = tfds.features.Image(shape=(8, 8, 1), dtype=np.float32)
    record_sets.write_tfds(
        root, "floats", {"train": np.zeros([2, 8, 8, 1], np.float32)}, image=floats
    )
    info = record_sets.write_tfds(root, "packed", grey) / "dataset_info.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "fileFormat": "array_record"}))
    return root


@pytest.fixture
def given(data_dir, tmp_path):
    """Flags of a search of two towers on a data set."""
    return lambda name, **others: {
        "dataset": f"tfds:{name}",
        "dataset_dir": str(data_dir),
        "checkpoint_dir": str(tmp_path / "run"),
        "num_towers": 2,
        **others,
    }


@pytest.fixture
def open_set(given):
    """Opens a data set as a search does."""
    preset = {"seed": 1, "use_tpu": False, "validation_fraction": 0.2, "test_fraction": 0.1}
    return lambda name, **others: data.open_data(
        given(name, **{**preset, "image_size": None, **others})
    )


def pixels_of(batches):
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]) * 255
    images = np.concatenate([images for images, _ in batches])
    return [np.round(image * deviation + mean).astype(np.uint8).tobytes() for image in images]


def test_parts_are_the_official_ones_and_the_beginning_of_training(open_set):
    opened = open_set("cifar10")
    assert opened.num_classes == 10
    assert opened.image_shape == (8, 8, 3)
    assert opened.settings["augmentation"] == "small"
    assert opened.sizes == {"train": 24, "validation": 6, "test": 10}
    original = [image.tobytes() for image in CIFAR]
    for part, expected in (
        ("validation", original[:6]),
        ("train", original[6:30]),
        ("test", original[30:]),
    ):
        assert pixels_of(take(opened.input_fn(part, 4, training=False))) == expected


def test_images_keep_their_labels_in_every_epoch(open_set):
    opened = open_set("cifar10", augmentation="none")
    label_of = {image.tobytes(): i % 10 for i, image in enumerate(CIFAR[:30])}
    batches = take(opened.input_fn("train", 24, training=True), 2)
    epochs = [pixels_of([batch]) for batch in batches]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(i.tobytes() for i in CIFAR[6:30])
    assert epochs[0] != epochs[1]
    for (_, labels), images in zip(batches, epochs):
        assert labels.argmax(axis=1).tolist() == [label_of[image] for image in images]


def test_imagenet_is_read_as_published(open_set):
    opened = open_set("imagenet2012")
    assert opened.num_classes == 1001
    assert opened.image_shape == (224, 224, 3)
    assert opened.settings["augmentation"] == "imagenet"
    assert opened.sizes["test"] == 20  # the validation images: its test images have no labels
    [(images, labels)] = take(opened.input_fn("test", 20, training=False))
    assert images.shape == (20, 224, 224, 3)
    assert labels.argmax(axis=1).tolist() == list(range(20))


def test_imagenet_is_divided_as_published():
    # Its files have 1,251 or 1,252 images.
    counts = [1251] * 1024
    for i in range(1281167 - sum(counts)):
        counts[i] += 1
    assert len(counts) == 1024
    official = {
        "train": [(str(i), count) for i, count in enumerate(counts)],
        "validation": [(str(i), 50000 // 64) for i in range(64)],
    }
    fraction = data.defaults("tfds:imagenet2012:5.1.0")["validation_fraction"]
    parts = record_splits.divide(official, fraction, 0.1)
    sizes = {part: sum(shard.count for shard in shards) for part, shards in parts.items()}
    assert sizes == {"train": 1231121, "validation": 50046, "test": 64 * 781}
    # train[:50046] and train[50046:]
    assert parts["validation"][0][:2] == ("0", 0)
    assert parts["train"][0].path == parts["validation"][-1].path
    assert parts["train"][0].first == parts["validation"][-1].count


def test_defaults_of_a_data_set_win_over_the_preset_and_flags_over_both(given):
    shown = {"train_batch_size": 8, "max_global_step": 1, "rl_batch_size_multiplier": 1.0}
    params = search_settings.resolve(**given("cifar10", preset="digits", **shown))
    assert (params["image_size"], params["image_shape"]) == (None, [8, 8, 3])
    assert params["augmentation"] == "small"
    assert data.defaults("digits") == data.defaults(None) == {}
    params = search_settings.resolve(
        **given("imagenet2012", validation_fraction=0.25, image_size=32, preset="digits", **shown)
    )
    assert params["image_shape"] == [32, 32, 3]
    assert params["validation_fraction"] == 0.25
    del shown["rl_batch_size_multiplier"]
    params = train_settings.resolve(**given("imagenet2012", preset="imagenet", **shown))
    assert params["validation_fraction"] == 50046 / 1281167
    assert params["num_classes"] == 1001


def test_the_newest_version_and_the_named_one(open_set):
    assert open_set("cifar10").sizes["test"] == 10
    assert sum(open_set("cifar10:3.0.1").sizes.values()) == 2
    assert open_set("emnist/letters:1.0.0").image_shape == (8, 8, 1)


def test_a_file_that_is_missing_is_an_error(tmp_path, open_set):
    directory = record_sets.write_tfds(tmp_path, "cifar10", {"train": CIFAR})
    next(directory.glob("*train*00002*")).unlink()
    message = r"must be there, but cifar10-train.tfrecord-00002\S* in .* cannot be read: .*Prepare"
    with pytest.raises(data.DataError, match=message):
        open_set("cifar10", dataset_dir=str(tmp_path))


def test_an_image_without_a_class_is_named(tmp_path, open_set):
    directory = record_sets.write_tfds(tmp_path, "cifar10", {"train": CIFAR[:10]}, shard=5)
    info = directory / "features.json"
    # As TFDS writes test images that have no labels: with one outside of the classes.
    info.write_text(info.read_text().replace('"numClasses": "10"', '"numClasses": "9"'))
    opened = open_set("cifar10", dataset_dir=str(tmp_path))
    message = r"1 of 10 images .*tfrecord-00001\S*, record 4: .*no class has the label.*Replace"
    with pytest.raises(data.DataError, match=message), data.naming_broken_images(opened):
        for part in opened.sizes:
            take(opened.input_fn(part, 5, training=False))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"named tfds:NAME, .*but `dataset` is 'tfds:'\. Pass"),
        ("mnist:latest", r"but `dataset` is 'tfds:mnist:latest'\. Pass"),
        ("emnist", r"Several configurations of emnist .*: digits, letters\. Name one: --dataset"),
        ("untrained", r"must have training images, but the splits in .* are test\. Pass"),
        (
            "floats",
            r"must have an image of bytes and a class, but .*: images are none, classes l",
        ),
        ("packed", r"files of TFRecords, but those in .* are array_record\. Prepare packed again:"),
        (
            "mnist",
            r"prepared on disk, but tfds:mnist is not in (\S+)\. Pass .*`python -c \"import tensorf"
            r"low_datasets as tfds; tfds\.builder\('mnist', data_dir='\1'\)\.download_and_pr",
        ),
        ("cifar10:2.0.0", r"is not in \S+, where there is 3\.0\.1, 3\.0\.2\. Pass"),
        (
            "emnist/byclass",
            r"where there is digits:1\.0\.0, letters:1\.0\.0\. .*builder\('emnist/b",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error(open_set, name, message):
    with pytest.raises(data.DataError, match=message):
        open_set(name)


@pytest.mark.parametrize(("name", "folder"), [("cifar10", "cifar10"), ("emnist/letters", "emnist")])
def test_the_folder_of_a_data_set_itself_is_not_where_data_sets_are(
    open_set, data_dir, name, folder
):
    message = rf"must be the folder in which .*Pass --dataset_dir {data_dir}\."
    with pytest.raises(data.DataError, match=message):
        open_set(name, dataset_dir=f"{data_dir}/{folder}/")


def test_imagenet_must_be_downloaded_by_hand(open_set, tmp_path):
    message = (
        r"Download ILSVRC2012_img_train\.tar and \S+val\.tar.* into .*downloads/manual by hand"
    )
    with pytest.raises(data.DataError, match=message):
        open_set("imagenet2012", dataset_dir=str(tmp_path))


def test_without_tfds_the_command_that_installs_it_is_told(open_set, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(data.DataError, match=r"Run `pip install 'replicate-estimator\[tfds\]'`"):
        open_set("cifar10")


def test_data_are_looked_for_where_tfds_puts_them(open_set, data_dir, monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
    assert open_set("cifar10", dataset_dir=None).sizes["test"] == 10
    monkeypatch.delenv("TFDS_DATA_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(data.DataError, match=rf"{tmp_path}/tensorflow_datasets\. Pass"):
        open_set("cifar10", dataset_dir=None)


@pytest.mark.slow
@pytest.mark.thorough
def test_a_search_its_network_and_an_evaluation_run_from_the_command_line(
    data_dir, tmp_path, capsys
):
    common = ["--num_towers=2", "--max_global_step=2", "--train_batch_size=8"]
    search, alone = f"--checkpoint_dir={tmp_path}/search", f"--checkpoint_dir={tmp_path}/alone"
    where = [f"--dataset_dir={data_dir}", "--dataset=tfds:cifar10"]
    assert PROGRAM.main(["search", search, *where, *common]) == 0
    train = ["train", alone, f"--search_dir={tmp_path}/search", "--mode=train"]
    assert PROGRAM.main([*train, *common]) == 0
    params = json.loads((tmp_path / "alone" / "params.json").read_text())
    assert (params["dataset"], params["augmentation"]) == ("tfds:cifar10", "small")
    capsys.readouterr()
    assert PROGRAM.main(["evaluate", alone, "--split=test"]) == 0
    assert json.loads(capsys.readouterr().out)["num_images"] == 10
    # The search resumes, or is at its end, with the same files only.
    kept = tmp_path / "search" / "dataset" / "records.json"
    facts = json.loads(kept.read_text())
    facts[min(facts)][0] += 1
    kept.write_text(json.dumps(facts))
    assert PROGRAM.main(["search", search, *where, *common]) == 2
    assert "1 changed: cifar10-test.tfrecord-00000" in capsys.readouterr().err
