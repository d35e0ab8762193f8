"""TFRecord files as data: parts, labels, distortions, resuming, and what may be wrong."""

import json
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import record_sets
from batches import assert_same, take
from examples import data
from examples.data.preprocessing.image_files import Preprocessing
from examples.data.sources import tfrecords
from examples.nas_search.search import search_input
from nas_search import nas_searches

IMAGES = record_sets.pictures(38)
TRAIN = 30  # of them; the others are the official validation images
LABELS = [1 + i % 5 for i in range(len(IMAGES))]


def examples(**kwargs):
    files = record_sets.encode(IMAGES)
    return [record_sets.example(*pair, **kwargs) for pair in zip(files, LABELS)]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Thirty training images in files of 14, 0, 10 and 6, and eight validation images in two."""
    root = tmp_path_factory.mktemp("tfrecords")
    written = examples()
    record_sets.write_shards(root, "train", written[:TRAIN], (14, 0, 10, 6))
    record_sets.write_shards(root, "validation", written[TRAIN:], (5, 3))
    (root / "README.txt").write_text("not data")
    return root


@pytest.fixture
def folder(records, tmp_path):
    """A copy of `records` to change."""
    return shutil.copytree(records, tmp_path / "copy")


@pytest.fixture
def open_records(tmp_path):
    """Opens files for a run."""

    def open_for_run(root, run="run", **params):
        return data.open_data(
            {
                "dataset": "tfrecords",
                "dataset_dir": root and str(root),
                "image_size": 8,
                "augmentation": "none",
                "label_offset": None,
                "checkpoint_dir": str(tmp_path / run),
                "validation_fraction": 0.2,
                "test_fraction": 0.1,
                "seed": 1,
                "use_tpu": False,
                **params,
            }
        )

    return open_for_run


def numbers(batches):
    """Returns which of IMAGES are in batches of undistorted images; checks their labels."""
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]) * 255
    by_pixels = {image.tobytes(): i for i, image in enumerate(IMAGES)}
    found = []
    for images, labels in batches:
        for image, label in zip(images, labels):
            pixels = np.round(image * deviation + mean).astype(np.uint8)
            found.append(by_pixels[pixels.tobytes()])
            assert label.sum() == 1
            assert label.argmax() == LABELS[found[-1]] - 1
    return found


def test_parts_are_divided_by_position(records, open_records):
    opened = open_records(records)
    assert opened.num_classes == 5
    assert opened.image_shape == (8, 8, 3)
    assert opened.sizes == {"train": 24, "validation": 6, "test": 8}
    parts = {part: numbers(take(opened.input_fn(part, 5, training=False))) for part in opened.sizes}
    assert parts == {
        "validation": list(range(6)),
        "train": list(range(6, TRAIN)),
        "test": list(range(TRAIN, len(IMAGES))),
    }


def test_every_epoch_has_each_training_image_once_in_an_order_of_its_own(records, open_records):
    batches = open_records(records).input_fn("train", 12, training=True)
    assert batches.element_spec[0].shape.as_list() == [12, 8, 8, 3]
    seen = np.reshape(numbers(take(batches, 6)), [3, 24])
    assert np.sort(seen).tolist() == [list(range(6, 30))] * 3
    assert len({tuple(epoch) for epoch in seen}) == 3


def test_a_search_sees_no_test_images_and_rewards_with_others_than_it_trains_on(
    records, open_records
):
    params = {"train_batch_size": 12, "rl_batch_size_multiplier": 0.5}
    batches = take(search_input.input_fn(open_records(records), params, 0), 2)
    for part, expected in (("train", range(6, 30)), ("validation", range(6))):
        seen = numbers([(features[part], labels[part]) for features, labels in batches])
        assert set(seen) == set(expected)


@pytest.mark.parametrize("steps", [1, 5])
def test_a_resumed_run_sees_what_the_uninterrupted_one_would(records, open_records, steps):
    opened = open_records(records, augmentation="small")
    uninterrupted = take(opened.input_fn("train", 7, training=True), steps + 2)
    resumed = opened.input_fn("train", 7, training=True, start_step=steps)
    assert_same(take(resumed, 2), uninterrupted[steps:])


def test_tpus_get_images_with_the_rows_last(records, open_records):
    [(images, _)] = take(open_records(records).input_fn("train", 4, training=True), 1)
    opened = open_records(records, use_tpu=True)
    [(on_tpu, _)] = take(opened.input_fn("train", 4, training=True), 1)
    np.testing.assert_array_equal(on_tpu, images.transpose(1, 2, 3, 0))


def test_images_without_official_test_have_it_taken_from_the_end(folder, open_records):
    for path in folder.glob("validation*"):
        path.unlink()
    opened = open_records(folder)
    assert opened.sizes == {"train": 21, "validation": 6, "test": 3}
    assert numbers(take(opened.input_fn("test", 3, training=False))) == [27, 28, 29]


@pytest.mark.parametrize(("given", "num_classes"), [(None, 5), (1, 5), (0, 6)])
def test_the_first_class_is_found_or_told(records, open_records, given, num_classes):
    assert open_records(records, label_offset=given).num_classes == num_classes


# Counts of files, which a run keeps.


def test_files_are_counted_once(records, open_records, monkeypatch, tmp_path):
    sizes = open_records(records).sizes
    kept = json.loads((tmp_path / "run" / "dataset" / "records.json").read_text())
    assert kept["train-00002-of-00004"][1:] == [10, 1, 5, [8, 8, 3]]  # records, labels
    monkeypatch.setattr(tfrecords, "_count", None)
    assert open_records(records).sizes == sizes


def test_files_that_changed_before_the_start_are_counted_again(folder, open_records):
    assert open_records(folder).sizes["train"] == 24
    record_sets.write_shards(folder, "train", examples()[:20], (5, 5, 5, 5))
    assert open_records(folder).sizes["train"] == 16


def test_files_that_changed_after_the_start_are_refused(folder, open_records, tmp_path):
    open_records(folder)
    nas_searches.save_checkpoint(tmp_path / "run")
    open_records(folder)
    size = (folder / "train-00000-of-00004").stat().st_size
    record_sets.write_shards(folder, "train", examples()[:20], (5, 5, 5, 5))
    message = rf"changed: train-00000-of-00004 was {size:,} bytes long and is [\d,]+ bytes.*Put the"
    with pytest.raises(data.DataError, match=message):
        open_records(folder)


def test_files_that_came_after_the_start_are_refused(folder, open_records, tmp_path):
    open_records(folder)
    nas_searches.save_checkpoint(tmp_path / "run")
    record_sets.write_shards(folder, "test", examples()[:2], (2,))
    with pytest.raises(data.DataError, match=r"1 changed: test-0.* was missing and is .*Put the"):
        open_records(folder)


# Errors.


@pytest.mark.parametrize("is_sorted", [True, False])
def test_records_in_the_order_of_their_classes_are_warned_of(
    folder, open_records, caplog, is_sorted
):
    written = examples()[:TRAIN]
    if is_sorted:
        written = [written[i] for i in np.argsort(LABELS[:TRAIN], kind="stable")]
    record_sets.write_shards(folder, "train", written, (14, 0, 10, 6))
    caplog.set_level("WARNING", logger="tensorflow")
    open_records(folder)
    message = "labels of train-00000-of-00004 are from 1 to 3, and of train-00003-of-00004 from 5"
    assert (message in caplog.text) == is_sorted


def test_a_missing_folder_is_an_error(open_records, tmp_path):
    for folder in (None, tmp_path / "nothing"):
        with pytest.raises(data.DataError, match=r"Pass --dataset_dir, the folder .*train-00000-o"):
            open_records(folder)


def remove(name):
    return lambda root: (root / name).unlink()


def only(*written):
    """Leaves nothing but a file of these records."""

    def change(root):
        for path in root.glob("*-of-*"):
            path.unlink()
        record_sets.write_shards(root, "train", written, (len(written),))

    return change


def flip_byte(name, at):
    def change(root):
        contents = bytearray((root / name).read_bytes())
        contents[at] ^= 1
        (root / name).write_bytes(contents)

    return change


def append(name, contents):
    return lambda root: (root / name).write_bytes((root / name).read_bytes() + contents)


ONE = record_sets.example(b"", 1)
OTHER_NAMES = record_sets.example(b"", 1, names=("image", "image/class/label"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root: [p.unlink() for p in root.glob("train*")], r"train.tfrecords; it has README"),
        (remove("train-00002-of-00004"), r"lacks or has too many: train-00002-of-00004\. Copy"),
        (only(), r"must have images, but the files in .*copy have no records\. Write"),
        (only(OTHER_NAMES), r"the features image/encoded and .*has image, image/class/label\. Wri"),
        (only(ONE, OTHER_NAMES), r"1 records of .*00001 are damaged: train-.*, record 1: .*Copy"),
        (only(b"\x0fno"), r"1 records of .*: train-00000-of-00001, record 0: .*Copy it again"),
        (flip_byte("train-00002-of-00004", 500), r"00002-of-00004, record \d: its checksum .*Copy"),
        (append("train-00001-of-00004", record_sets.HUGE), r"00001-of-00004, record 0: it is long"),
        (append("train-00003-of-00004", record_sets.HUGE), r"00003-of-00004, record 6: it is long"),
        (append("validation-00000-of-00002", b"end"), r"-00000-of-00002, record 5: it is longer "),
        (flip_byte("train-00000-of-00004", 0), r"00000-of-00004, record 0: its checksum .*Copy"),
        (
            only(ONE, record_sets.example(b"", -1)),
            r"from -1 to 1, and --label_offset is -1\. Pass",
        ),
        (only(record_sets.example(b"", 7)), r"from 7 to 7, and --label_offset is 7\. Pass"),
        (only(ONE, ONE), r"two classes or more, but all labels in .*copy are 1\. Pass"),
    ],
)
def test_files_that_cannot_be_used_are_an_error(folder, open_records, change, message):
    change(folder)
    with pytest.raises(data.DataError, match=message):
        open_records(folder)


def test_a_first_class_above_a_label_is_an_error(folder, open_records):
    only(record_sets.example(b"", 0), ONE)(folder)
    with pytest.raises(data.DataError, match=r"from 0 to 1, and --label_offset is 1\. Pass the"):
        open_records(folder, label_offset=1)


def test_a_file_that_cannot_be_read_is_an_error(folder, open_records):
    (folder / "train-00001-of-00004").unlink()
    (folder / "train-00001-of-00004").symlink_to(folder / "nothing")
    message = r"must be there, but train-00001-of-00004 in .* cannot be read: .*Prepare"
    with pytest.raises(data.DataError, match=message):
        open_records(folder)


def test_an_image_that_breaks_training_is_named(folder, open_records):
    broken = record_sets.example(b"\x89PNG\r\n\x1a\n" + bytes(50), 1)
    record_sets.write_shards(folder, "train", [*examples()[:20], broken], (5, 5, 5, 6))
    opened = open_records(folder)
    message = r"1 of 29 images .*: train-00003-of-00004, record 5: .*Replace them"
    with pytest.raises(data.DataError, match=message), data.naming_broken_images(opened):
        take(opened.input_fn("train", 17, training=True), 1)


def test_a_record_that_breaks_training_is_named(folder, open_records):
    opened = open_records(folder)
    flip_byte("train-00003-of-00004", 500)(folder)
    message = r"cannot be decoded: train-00003-of-00004, record \d: its checksum"
    with pytest.raises(data.DataError, match=message), data.naming_broken_images(opened):
        take(opened.input_fn("train", 24, training=True), 1)


def test_a_record_that_claims_more_than_its_file_has_is_named_after_another_error(
    folder, open_records
):
    opened = open_records(folder)
    append("train-00003-of-00004", record_sets.HUGE)(folder)
    assert opened.broken_images() == [
        "train-00003-of-00004, record 6: it is longer than the rest of the file"
    ]


# Preprocessing of small images. That of photographs is in `test_nas_image_folder.py`.

SMALL = Preprocessing("small", size=8, channels=3)


def run(tensor):
    with tf.Session() as session:
        return session.run(tensor)


@pytest.mark.parametrize(
    ("augmentation", "mirrors"), [("small", [1, -1]), ("shift", [1]), ("none", [1])]
)
def test_small_images_are_shifted_and_mirrored(augmentation, mirrors):
    contents, pixels = record_sets.encode(IMAGES[:1])[0], IMAGES[0]
    as_input = SMALL._replace(augmentation=augmentation)
    [distorted] = take(tf.data.Dataset.range(40).map(lambda p: as_input(contents, 3, p)).batch(40))
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]) * 255
    padded = np.pad(pixels, [(4, 4), (4, 4), (0, 0)])
    offsets = [(4, 4)] if augmentation == "none" else [(y, x) for y in range(9) for x in range(9)]
    possible = {
        padded[y : y + 8, x : x + 8][:, ::mirror].tobytes(): (y, x, mirror)
        for y, x in offsets
        for mirror in mirrors
    }
    shown = np.round(distorted * deviation + mean).astype(np.uint8)
    seen = {possible[image.tobytes()] for image in shown}
    assert {mirror for _, _, mirror in seen} == set(mirrors)
    assert len({(y, x) for y, x, _ in seen}) == 1 if augmentation == "none" else len(seen) > 20


def test_grey_images_have_one_channel():
    [contents] = record_sets.encode(record_sets.pictures(1, channels=1))
    image = run(SMALL._replace(channels=1)(contents))
    assert image.shape == (8, 8, 1)
    pixels = record_sets.pictures(1, channels=1)[0]
    np.testing.assert_allclose(image, (pixels / 255 - 0.449) / 0.226, atol=1e-5)


def test_a_crop_of_a_jpeg_file_is_that_of_its_pixels():
    photograph = record_sets.pictures(1, side=61)
    photograph[0, 10:40] = 90  # an edge in blocks and colours that are subsampled
    [jpeg] = record_sets.encode(photograph, "jpg")
    decoded = run(tf.io.decode_jpeg(jpeg, channels=3))
    [png] = record_sets.encode([decoded])
    as_input = Preprocessing("imagenet", size=24, channels=3)
    for key, position in ((None, None), *((5, p) for p in range(6))):
        of_jpeg, of_png = run([as_input(file, key, position) for file in (jpeg, png)])
        np.testing.assert_array_equal(of_jpeg, of_png)


@pytest.mark.parametrize(
    ("shape", "size", "are_characters", "expected"),
    [
        ((32, 32, 3), None, False, ("small", 32, 3)),
        ((32, 32, 3), None, True, ("shift", 32, 3)),
        ((28, 28, 1), None, False, ("shift", 28, 1)),
        ((32, 32, 3), 24, False, ("small", 24, 3)),
        ((32, 32, 3), 64, False, ("imagenet", 64, 3)),  # larger than they are
        ((96, 96, 3), None, False, ("imagenet", 224, 3)),
        ((None, None, 3), None, False, ("imagenet", 224, 3)),
        ((None, None, None), 160, False, ("imagenet", 160, 3)),
    ],
)
def test_what_auto_means(shape, size, are_characters, expected):
    params = {"augmentation": "auto", "image_size": size}
    assert Preprocessing.of(params, shape, are_characters) == expected
