"""A folder of images: its layouts, its parts, what is made of its images, and what is wrong."""

import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from batches import assert_same, take
from examples import data
from examples.data.preprocessing.image_files import Preprocessing
from examples.runs import settings_file
from nas_search import nas_searches

RNG = np.random.RandomState(0)
ENCODERS = {"jpg": tf.io.encode_jpeg, "jpeg": tf.io.encode_jpeg, "png": tf.io.encode_png}


def encode(image, suffix):
    """Returns an image, uint8 [height, width, channels], as bytes of a file."""
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(ENCODERS[suffix](image))


def noise(*shape):
    return RNG.randint(256, size=shape).astype(np.uint8)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with two classes of 12 images each, of three kinds."""
    root = tmp_path_factory.mktemp("images")
    for name in ("cat", "dog"):
        (root / name).mkdir()
        for i in range(12):
            suffix = ("jpg", "png", "JPEG")[i % 3]
            contents = encode(noise(9 + i, 12, 3), suffix.lower())
            (root / name / f"{i}.{suffix}").write_bytes(contents)
    return root


@pytest.fixture
def folder(images, tmp_path):
    """A copy of `images` to change."""
    return shutil.copytree(images, tmp_path / "copy")


@pytest.fixture
def open_folder(tmp_path):
    """Opens a folder for a run, which is new each time unless it is named."""
    runs = []

    def open_for_run(root, run=None, **params):
        runs.append(run)
        directory = tmp_path / "runs" / (run or str(len(runs)))
        return data.open_data(
            {
                "dataset": "image_folder",
                "dataset_dir": str(root),
                "image_size": 8,
                "checkpoint_dir": str(directory),
                "validation_fraction": 0.3,
                "test_fraction": 0.3,
                "seed": 1,
                "use_tpu": False,
                **params,
            }
        )

    return open_for_run


def contents_of(opened, part):
    """Returns the pixels of a part's images with their labels, as a set."""
    batches = take(opened.input_fn(part, 5, training=False))
    return {
        (image.tobytes(), label.argmax())
        for images, labels in batches
        for image, label in zip(images, labels)
    }


def test_images_of_all_kinds_are_divided_into_parts(images, open_folder):
    opened = open_folder(images)
    assert opened.num_classes == 2
    assert opened.image_shape == (8, 8, 3)
    assert sum(opened.sizes.values()) == 24
    assert min(opened.sizes.values()) > 0
    parts = [contents_of(opened, part) for part in opened.sizes]
    assert [len(part) for part in parts] == list(opened.sizes.values())
    assert len(set.union(*parts)) == 24
    labels = [label for _, label in set.union(*parts)]
    assert sorted(labels) == [0] * 12 + [1] * 12  # of cat and dog, by their names' order


def test_images_do_not_move_when_others_come_or_names_change(folder, open_folder):
    before = open_folder(folder)
    parts = {part: contents_of(before, part) for part in before.sizes}
    for path in list((folder / "cat").iterdir()):
        path.rename(path.with_name(f"renamed_{path.name}"))
    (folder / "dog" / "new.png").write_bytes(encode(noise(8, 8, 3), "png"))
    after = open_folder(folder)
    assert sum(after.sizes.values()) == 25
    for part, contents in parts.items():
        assert contents_of(after, part) >= contents


def test_copies_of_an_image_are_in_one_part(folder, open_folder):
    for path in list((folder / "cat").iterdir()):
        shutil.copy(path, folder / "dog" / f"copy_{path.name}")
    opened = open_folder(folder)
    pixels = [{image for image, _ in contents_of(opened, part)} for part in opened.sizes]
    assert sum(map(len, pixels)) == 24 == len(set.union(*pixels))


def test_test_images_may_be_set_apart(images, folder, open_folder):
    root = folder / "apart"
    for part, source in (("train", images), ("test", folder)):
        for name in ("cat", "dog"):
            shutil.copytree(source / name, root / part / name)
    (root / "test" / "dog" / "more.png").write_bytes(encode(noise(8, 8, 3), "png"))
    opened = open_folder(root)
    assert opened.sizes["test"] == 25
    assert opened.sizes["train"] + opened.sizes["validation"] == 24
    assert opened.sizes["validation"] > 0


def test_other_files_are_left_out(folder, open_folder):
    (folder / "README.txt").write_text("cats and dogs")
    (folder / ".cache").mkdir()
    (folder / "cat" / ".hidden.png").write_bytes(b"")
    (folder / "cat" / "notes.txt").write_text("about cats")
    assert sum(open_folder(folder).sizes.values()) == 24


def test_grey_and_large_images_can_be_read(folder, open_folder):
    (folder / "cat" / "grey.png").write_bytes(encode(noise(10, 10, 1), "png"))
    (folder / "cat" / "large.png").write_bytes(encode(noise(120, 200, 3), "png"))  # 72 KB
    opened = open_folder(folder, validation_fraction=0.5, test_fraction=0.0)
    [(pixels, _)] = take(opened.input_fn("train+validation", 30, training=False))
    assert pixels.shape == (26, 8, 8, 3)


def test_bytes_after_the_end_of_an_image_do_no_harm(folder, open_folder):
    path = folder / "cat" / "0.jpg"
    path.write_bytes(path.read_bytes() + bytes(100_000))
    assert sum(open_folder(folder).sizes.values()) == 24


# Batches.


def test_a_resumed_run_sees_what_the_uninterrupted_one_would(images, open_folder):
    opened = open_folder(images)
    uninterrupted = take(opened.input_fn("train", 4, training=True), 9)
    assert uninterrupted[0][0].shape == (4, 8, 8, 3)
    assert uninterrupted[0][0].dtype == np.float32
    for steps in (1, 6):
        resumed = opened.input_fn("train", 4, training=True, start_step=steps)
        assert_same(take(resumed, 3), uninterrupted[steps : steps + 3])


def test_images_are_distorted_differently_in_each_epoch(images, open_folder):
    opened = open_folder(images, validation_fraction=0.0, test_fraction=0.0)
    epochs = take(opened.input_fn("train", 24, training=True), 2)
    distorted = [{image.tobytes() for image in images} for images, _ in epochs]
    assert not distorted[0] & distorted[1]
    assert not distorted[0] & {image for image, _ in contents_of(opened, "train")}


def test_files_that_come_after_the_start_do_not_change_a_run(folder, open_folder, tmp_path):
    started = open_folder(folder, run="run")
    batches = take(started.input_fn("train", 4, training=True), 3)
    nas_searches.save_checkpoint(tmp_path / "runs" / "run")
    for i in range(5):
        (folder / "cat" / f"a{i}.png").write_bytes(encode(noise(8, 8, 3), "png"))
    resumed = open_folder(folder, run="run")
    assert resumed.sizes == started.sizes
    assert_same(take(resumed.input_fn("train", 4, training=True), 3), batches)


def test_files_that_come_before_the_start_are_seen(folder, open_folder):
    open_folder(folder, run="run")  # e.g. its settings were refused
    (folder / "cat" / "new.png").write_bytes(encode(noise(8, 8, 3), "png"))
    assert sum(open_folder(folder, run="run").sizes.values()) == 25


# Preprocessing.

PHOTOGRAPH = Preprocessing("imagenet", size=8, channels=3)


def run(tensor):
    with tf.Session() as session:
        return session.run(tensor)


def pixel_values(network_input):
    """Undoes the normalisation by ImageNet's mean and standard deviation."""
    return (network_input * [0.229, 0.224, 0.225] + [0.485, 0.456, 0.406]) * 255


def coordinates(height, width):
    """Returns an image whose red is the row, green the column of each pixel, and blue is 100."""
    row, column = np.mgrid[:height, :width]
    return np.stack([row, column, np.full_like(row, 100)], axis=2).astype(np.uint8)


def test_evaluation_takes_the_centre():
    # 112 / (112 + 32) of the short side, 144, are 112: the size of the input, so that pixels stay
    # what they are. Above are (144 - 112) / 2 = 16 rows, on the left (200 - 112) / 2 = 44 columns.
    image = coordinates(144, 200)
    network_input = run(PHOTOGRAPH._replace(size=112)(encode(image, "png")))
    np.testing.assert_allclose(pixel_values(network_input), image[16:128, 44:156], atol=1e-3)


def test_training_crops_are_within_bounds_and_mirrored_half_of_the_time():
    image = encode(coordinates(200, 250), "png")
    as_input = PHOTOGRAPH._replace(size=50)
    positions = tf.data.Dataset.range(60)
    crops = take(positions.map(lambda p: as_input(image, 7, p)).batch(60))
    crops = pixel_values(crops[0])
    mirrored, areas = 0, []
    for crop in crops:
        np.testing.assert_allclose(crop[..., 2], 100, atol=1e-2)  # nothing from outside
        rows, columns = crop[:, 25, 0], crop[25, :, 1]
        assert rows[0] < rows[-1]
        mirrored += columns[0] > columns[-1]
        # From the centre of the first pixel to that of the last are 49 / 50 of the side.
        height, width = (abs(side[-1] - side[0]) * 50 / 49 for side in (rows, columns))
        assert 0.73 <= width / height <= 1.37  # 3/4 to 4/3 up to whole pixels
        areas.append(height * width / (200 * 250))
    assert 0.07 < min(areas) < 0.25
    assert 0.5 < max(areas) < 1.01
    assert 15 < mirrored < 45  # of 60: four standard deviations


def test_distortions_depend_on_key_and_position():
    image = encode(noise(40, 40, 3), "png")
    same, again, other_position, other_key = run(
        [PHOTOGRAPH(image, key, position) for key, position in ((1, 5), (1, 5), (1, 6), (2, 5))]
    )
    np.testing.assert_array_equal(same, again)
    assert not np.array_equal(same, other_position)
    assert not np.array_equal(same, other_key)


def test_where_no_crop_is_found_training_takes_the_centre():
    # 8 % of 3 × 400 pixels are 96; a crop with an aspect ratio up to 4/3 has 3 · 4 = 12 at most.
    image = encode(noise(3, 400, 3), "png")
    distorted, centre = run([PHOTOGRAPH(image, 1, 0), PHOTOGRAPH(image)])
    assert any(np.allclose(distorted[:, ::flip], centre, atol=1e-6) for flip in (1, -1))


# Errors.


def remove_all_images(root):
    for path in (root / "dog").iterdir():
        path.unlink()


def test_a_missing_folder_is_an_error(open_folder, tmp_path):
    message = r"must be a folder, but '.*/nothing' is none\. .*dataset_dir/<class>/<image>\.jpg"
    with pytest.raises(data.DataError, match=message):
        open_folder(tmp_path / "nothing")
    with pytest.raises(data.DataError, match=r"Pass --dataset_dir, .*dataset_dir/<class>"):
        open_folder("", dataset_dir=None)


def test_a_folder_that_went_away_is_an_error(folder, open_folder, tmp_path):
    open_folder(folder, run="run")
    settings_file.save({"checkpoint_dir": str(tmp_path / "runs" / "run")})
    shutil.rmtree(folder)
    with pytest.raises(data.DataError, match="must be a folder"):
        open_folder(folder, run="run")


def write(path, contents):
    return lambda root: (root / path).write_bytes(contents)


def cut(path, length):
    return lambda root: (root / path).write_bytes((root / path).read_bytes()[:length])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: shutil.rmtree(root / "dog"), r"two classes or more, but .* has 1: cat\. The"),
        (remove_all_images, r"must have images, but .*/dog has none that is called \*\.jpg, .*The"),
        (write("cat/0.jpg", b""), r"1 of 24 images .* damaged: cat/0\.jpg is empty\. Copy"),
        (write("dog/a.jpg", b"GIF89a"), r"1 of 25 .*dog/a\.jpg is neither JPEG nor PNG\. Copy"),
        (lambda root: (root / "cat" / "a.png").mkdir(), r"1 of 25 .*cat/a\.png cannot be read \("),
        (cut("cat/0.jpg", 200), r"cat/0\.jpg ends too early\. Copy"),
        (cut("dog/1.png", 200), r"dog/1\.png ends too early\. Copy"),
    ],
)
def test_a_damaged_folder_is_an_error(folder, open_folder, damage, message):
    damage(folder)
    with pytest.raises(data.DataError, match=message):
        open_folder(folder)


def test_only_some_of_many_damaged_images_are_named(folder, open_folder):
    for path in (folder / "cat").iterdir():
        path.write_bytes(b"")
    with pytest.raises(data.DataError, match=r"12 of 24 .*(cat/\S+ is empty, ){4}cat.* and 7 more"):
        open_folder(folder)


def test_test_images_of_other_classes_are_an_error(images, tmp_path, open_folder):
    shutil.copytree(images, tmp_path / "root" / "train")
    shutil.copytree(images, tmp_path / "root" / "test")
    os.rename(tmp_path / "root" / "test" / "cat", tmp_path / "root" / "test" / "lion")
    with pytest.raises(data.DataError, match=r"lacks test/cat, train/lion\. Name"):
        open_folder(tmp_path / "root")


def test_a_file_name_with_a_line_break_is_an_error(folder, open_folder):
    (folder / "cat" / "0.jpg").rename(folder / "cat" / "0\n.jpg")
    with pytest.raises(data.DataError, match=r"line break in .*, but one in .*/cat has\. Ren"):
        open_folder(folder)


def test_an_image_that_breaks_training_is_named(folder, open_folder):
    path = folder / "cat" / "1.png"
    contents = bytearray(path.read_bytes())
    contents[60:200] = bytes(140)  # in the middle, where only decoding notices
    path.write_bytes(contents)
    opened = open_folder(folder)
    message = r"1 of 24 images cannot be decoded: cat/1\.png\. Replace"
    with pytest.raises(data.DataError, match=message), data.naming_broken_images(opened):
        for part in opened.sizes:
            take(opened.input_fn(part, 5, training=False))
