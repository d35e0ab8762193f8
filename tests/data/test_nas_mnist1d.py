"""The sequences of MNIST-1D: parts, labels and values, generators, and the package missing."""

import random
import sys
import types

import numpy as np
import pytest

from batches import take
from examples import data
from examples.data.sources.mnist1d import Mnist1d

PARAMS = {
    "dataset": "mnist1d",
    "validation_fraction": 0.25,
    "test_fraction": 0.1,
    "seed": 0,
    "use_tpu": False,
}


@pytest.fixture(autouse=True)
def _nothing_kept():
    Mnist1d.load.cache_clear()
    yield
    Mnist1d.load.cache_clear()


@pytest.fixture
def sequences(monkeypatch):
    """40 sequences and 1,000 for tests, drawn from the global generators, as mnist1d does."""

    def make_dataset():
        random.seed(42)
        np.random.seed(42)
        x = np.random.normal(size=(1040, 40)) + random.random()
        y = np.arange(1040) % 10
        return {"x": x[:40], "y": y[:40], "x_test": x[40:], "y_test": y[40:]}

    module = types.SimpleNamespace(make_dataset=make_dataset)
    monkeypatch.setitem(sys.modules, "mnist1d", types.SimpleNamespace(data=module))
    monkeypatch.setitem(sys.modules, "mnist1d.data", module)


def of_part(dataset, part):
    """Returns images and labels of a part."""
    images, labels = zip(*take(dataset.input_fn(part, 7, training=False)))
    return np.concatenate(images), np.concatenate(labels).argmax(axis=1)


def test_a_sequence_is_an_image_of_one_row_with_its_values(sequences):
    dataset = data.open_data(PARAMS)
    assert (dataset.num_classes, dataset.image_shape) == (10, (1, 40, 1))
    made = sys.modules["mnist1d.data"].make_dataset()
    inputs, labels = of_part(dataset, "test")
    assert inputs.dtype == np.float32
    np.testing.assert_array_equal(inputs[:, 0, :, 0], made["x_test"].astype(np.float32))
    np.testing.assert_array_equal(labels, made["y_test"])


def test_the_published_test_part_is_set_apart_and_the_rest_is_divided_by_content(sequences):
    made = sys.modules["mnist1d.data"].make_dataset()
    number_of = {row.astype(np.float32).tobytes(): n for n, row in enumerate(made["x"])}
    seen = {}
    for fraction in (0.25, 0.5):
        dataset = data.open_data({**PARAMS, "validation_fraction": fraction, "test_fraction": 0.9})
        assert dataset.sizes["test"] == 1000
        numbers = {}
        for part in ("train", "validation"):
            inputs, labels = of_part(dataset, part)
            numbers[part] = [number_of[image.tobytes()] for image in inputs]
            assert labels.tolist() == [number % 10 for number in numbers[part]]
        assert sorted(numbers["train"] + numbers["validation"]) == list(range(40))
        seen[fraction] = set(numbers["validation"])
    assert 0 < len(seen[0.25]) < len(seen[0.5]) < 40
    assert seen[0.25] < seen[0.5]  # A sequence does not move to another part.


def test_the_global_generators_are_left_as_they_are(sequences):
    random.seed(7)
    np.random.seed(7)
    want = random.random(), np.random.random()
    random.seed(7)
    np.random.seed(7)
    data.open_data(PARAMS)
    assert (random.random(), np.random.random()) == want


def test_sequences_are_made_once(sequences, monkeypatch):
    data.open_data(PARAMS)
    monkeypatch.setattr(sys.modules["mnist1d.data"], "make_dataset", lambda: pytest.fail("Again."))
    data.open_data(PARAMS)


def test_a_network_is_served_values_as_they_are():
    serving = data.serving(PARAMS)
    assert serving.pixel_range == (-6, 6)
    assert serving.normalised(np.float32([-5.5, 0, 4])).tolist() == [-5.5, 0, 4]
    assert serving.decoded is None
    assert serving.class_names == [str(digit) for digit in range(10)]


def test_without_mnist1d_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mnist1d.data", None)
    message = r"'mnist1d' comes with mnist1d, .*pip install 'replicate-estimator\[mnist1d\]'`\.$"
    for _ in range(2):  # A failed import is tried again.
        with pytest.raises(data.DataError, match=message):
            data.open_data(PARAMS)


def test_distorted_sequences_are_an_error(sequences):
    with pytest.raises(data.DataError, match=r"'mnist1d' is trained on as it is, but .*'shift'"):
        data.open_data({**PARAMS, "augmentation": "shift"})


def test_the_sequences_of_the_package():
    dataset = data.open_data(PARAMS)
    # The standard deviation of a part's size is √(4000 · 0.25 · 0.75) = 27.
    assert dataset.sizes["validation"] == pytest.approx(1000, abs=4 * 27)
    assert dataset.sizes["train"] + dataset.sizes["validation"] == 4000
    assert dataset.sizes["test"] == 1000
    sequences, labels = Mnist1d.load()
    assert sequences.shape == (5000, 1, 40)
    assert np.bincount(labels).tolist() == [500] * 10
    low, high = data.serving(PARAMS).pixel_range
    assert low < sequences.min() and sequences.max() < high
    assert (sequences.mean(), sequences.std()) == pytest.approx((0, 1), abs=1e-5)
    # The seed of the package makes these, on all versions of NumPy. With others, no measurement of
    # this project could be repeated.
    assert labels[:12].tolist() == [2, 6, 4, 5, 6, 6, 6, 0, 3, 1, 6, 9]
    assert sequences[0, 0, :3].tolist() == pytest.approx([-0.33200567, -0.47191037, -0.77869708])
