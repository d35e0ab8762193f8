"""How large inputs are that are made of small images, and of CIFAR as it is kept raw."""

import itertools
import json

import numpy as np
import pytest

import record_sets
from batches import take
from examples import data
from examples.data.sources import image_sizes
from nas_search import nas_searches


def settings(root, directory, **changes):
    return {
        "dataset_dir": str(root),
        "image_size": None,
        "augmentation": "auto",
        "label_offset": None,
        "checkpoint_dir": str(directory),
        "validation_fraction": 0.2,
        "test_fraction": 0.2,
        "seed": 1,
        "use_tpu": False,
        **changes,
    }


def write_folder(root, files):
    for number, contents in enumerate(files):
        directory = root / f"class_{number % 2}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number}.png").write_bytes(contents)


def write_records(root, files):
    records = [record_sets.example(contents, i % 2) for i, contents in enumerate(files)]
    half = len(records) // 2
    record_sets.write_shards(root, "train", records, (half, 0, len(records) - half))


WRITERS = {"image_folder": write_folder, "tfrecords": write_records}


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (7, 300), (32, 32)])
def test_a_file_begins_with_its_size(suffix, channels, shape):
    pixels = np.full([*shape, channels], 7, np.uint8)
    (contents,) = record_sets.encode([pixels], suffix)
    assert image_sizes.shape_of(contents) == (*shape, channels)
    # A file that ends too early, or has another format, has no known size, and is no error.
    assert image_sizes.shape_of(contents[:12]) is None
    assert image_sizes.shape_of(b"GIF89a" + contents) is None
    for end in range(len(contents)):
        assert image_sizes.shape_of(contents[:end]) in (None, (*shape, channels))


@pytest.mark.parametrize("kind", sorted(WRITERS))
@pytest.mark.parametrize(
    ("sides", "channels", "shape", "augmentation"),
    [
        ((32,), 3, (32, 32, 3), "small"),
        ((64,), 3, (64, 64, 3), "small"),
        ((28,), 1, (28, 28, 1), "shift"),
        ((65,), 3, (224, 224, 3), "imagenet"),
        ((32, 31), 3, (224, 224, 3), "imagenet"),
    ],
)
def test_small_images_of_one_size_keep_it(kind, sides, channels, shape, augmentation, tmp_path):
    repeated = itertools.islice(itertools.cycle(sides), 20)
    images = [record_sets.pictures(1, side, channels, i)[0] for i, side in enumerate(repeated)]
    WRITERS[kind](tmp_path / "data", record_sets.encode(images))
    params = settings(tmp_path / "data", tmp_path / "run", dataset=kind)
    opened = data.open_data(params)
    assert opened.image_shape == shape
    assert opened.settings["augmentation"] == augmentation
    # A run that has begun goes by what it found then.
    nas_searches.save_checkpoint(tmp_path / "run")
    assert data.open_data(params).image_shape == shape
    larger = data.open_data({**params, "image_size": 96})
    assert (larger.image_shape, larger.settings["augmentation"]) == ((96, 96, shape[2]), "imagenet")


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_runs_that_began_earlier_have_the_inputs_that_they_had(kind, tmp_path):
    images = record_sets.encode(record_sets.pictures(20, 32))
    WRITERS[kind](tmp_path / "data", images)
    params = settings(tmp_path / "data", tmp_path / "run", dataset=kind)
    data.open_data(params)
    nas_searches.save_checkpoint(tmp_path / "run")
    name = {"image_folder": "classes.json", "tfrecords": "records.json"}[kind]
    path = tmp_path / "run" / "dataset" / name
    kept = json.loads(path.read_text())
    if kind == "image_folder":
        del kept["image_shape"]
    else:
        kept = {file: known[:4] for file, known in kept.items()}
    path.write_text(json.dumps(kept))
    assert data.open_data(params).image_shape == (224, 224, 3)


@pytest.mark.parametrize("shape", ["32", [32, 32], [32, 32, 0], [True, 1, 1]])
def test_kept_shapes_are_checked(shape, tmp_path):
    write_folder(tmp_path / "data", record_sets.encode(record_sets.pictures(20, 32)))
    params = settings(tmp_path / "data", tmp_path / "run", dataset="image_folder")
    data.open_data(params)
    nas_searches.save_checkpoint(tmp_path / "run")
    path = tmp_path / "run" / "dataset" / "classes.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "image_shape": shape}))
    with pytest.raises(data.DataError, match=r"it was changed\. Name a new --checkpoint_dir"):
        data.open_data(params)


# CIFAR as the published program of reversible networks writes it.

PICTURES = record_sets.pictures(24, 32)
RAW_NAMES = ("image", "label")


def write_raw(root, **splits):
    root.mkdir(exist_ok=True)
    for split, pictures in splits.items():
        records = [
            record_sets.example(picture.transpose(2, 0, 1).tobytes(), i % 10, RAW_NAMES)
            for i, picture in enumerate(pictures)
        ]
        record_sets.write_file(root / f"{split}.tfrecords", records)


def test_raw_images_of_cifar_are_read(tmp_path):
    write_raw(tmp_path, train=PICTURES[:12], validation=PICTURES[12:16], test=PICTURES[16:])
    params = settings(tmp_path, tmp_path / "run", dataset="tfrecords")
    opened = data.open_data(params)
    assert opened.image_shape == (32, 32, 3)
    assert opened.settings["augmentation"] == "small"
    assert opened.sizes == {"train": 12, "validation": 4, "test": 8}
    assert opened.num_classes == 10
    ((images, labels),) = take(opened.input_fn("test", 8, training=False))
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]) * 255
    np.testing.assert_allclose(images * deviation + mean, PICTURES[16:], atol=1e-3)
    assert labels.argmax(1).tolist() == list(range(8))


def test_raw_images_of_another_size_are_an_error(tmp_path):
    write_raw(tmp_path, train=[*PICTURES[:3], *record_sets.pictures(1, 31)])
    params = settings(tmp_path, tmp_path / "run", dataset="tfrecords", test_fraction=0.0)
    opened = data.open_data({**params, "validation_fraction": 0.0})
    message = r"1 of 4 images cannot be decoded: train.tfrecords, record 3: .*must have 3072 bytes"
    with pytest.raises(data.DataError, match=message), data.naming_broken_images(opened):
        take(opened.input_fn("train", 1, training=False))
