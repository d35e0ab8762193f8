"""The sequences with two pulses: their values, classes and parts."""

import numpy as np
import pytest

from batches import take
from examples import data
from examples.data.sources.pulses import Pulses

PARAMS = {
    "dataset": "pulses",
    "validation_fraction": 0.25,
    "test_fraction": 0.1,
    "seed": 0,
    "use_tpu": False,
}


def of_part(dataset, part):
    """Returns images and labels of a part."""
    images, labels = zip(*take(dataset.input_fn(part, 250, training=False)))
    return np.concatenate(images), np.concatenate(labels).argmax(axis=1)


def test_sequences_have_two_pulses_at_the_distance_of_their_class():
    sequences, labels = Pulses.load()
    assert (sequences.shape, sequences.dtype) == ((20000, 1, 128), np.float32)
    assert np.bincount(labels).min() > 900
    # The mean over sequences, each shifted to where it correlates most with two pulses.
    t = np.arange(128)
    for label in (1, 9, 19):
        of_class = sequences[labels == label, 0]
        distance = 3 * (label + 1)
        starts = np.arange(2, 126 - distance)[:, np.newaxis]
        two = np.exp(-0.5 * (t - starts) ** 2) + np.exp(-0.5 * (t - starts - distance) ** 2)
        found = np.argmax(of_class @ two.T, axis=1)
        aligned = np.mean([np.roll(row, -start) for row, start in zip(of_class, found)], axis=0)
        assert sorted(np.argsort(aligned)[-2:]) == [2, 2 + distance]


def test_the_sequences_are_the_same_everywhere():
    # With others, no measurement of this project could be repeated.
    sequences, labels = Pulses.load()
    assert labels[:12].tolist() == [5, 11, 12, 8, 9, 11, 5, 15, 0, 16, 1, 12]
    assert (sequences.mean(), sequences.std()) == pytest.approx((0, 1), abs=1e-4)
    low, high = data.serving(PARAMS).pixel_range
    assert low < sequences.min() and sequences.max() < high


def test_the_last_fifth_is_set_apart_and_the_rest_is_divided_by_content():
    sequences, want = Pulses.load()
    number_of = {row.tobytes(): number for number, row in enumerate(sequences)}
    seen = {}
    for fraction in (0.25, 0.5):
        dataset = data.open_data({**PARAMS, "validation_fraction": fraction, "test_fraction": 0.9})
        numbers = {}
        for part in ("train", "validation", "test"):
            inputs, labels = of_part(dataset, part)
            numbers[part] = [number_of[image[..., 0].tobytes()] for image in inputs]
            assert labels.tolist() == want[numbers[part]].tolist()
        assert sorted(numbers["train"] + numbers["validation"]) == list(range(16000))
        assert sorted(numbers["test"]) == list(range(16000, 20000))
        seen[fraction] = set(numbers["validation"])
    # The standard deviation of a part's size is √(16000 · 0.25 · 0.75) = 55.
    assert len(seen[0.25]) == pytest.approx(4000, abs=4 * 55)
    assert seen[0.25] < seen[0.5]  # A sequence does not move to another part.


def test_a_network_sees_values_as_they_are():
    dataset = data.open_data(PARAMS)
    assert (dataset.num_classes, dataset.image_shape) == (20, (1, 128, 1))
    inputs, _ = of_part(dataset, "test")
    np.testing.assert_array_equal(inputs[:, 0, :, 0], Pulses.load()[0][16000:, 0])
    serving = data.serving(PARAMS)
    assert serving.normalised(np.float32([-5.5, 0, 4])).tolist() == [-5.5, 0, 4]
    assert serving.decoded is None
    assert serving.class_names == [str(number) for number in range(20)]


def test_distorted_sequences_are_an_error():
    with pytest.raises(data.DataError, match=r"'pulses' is trained on as it is, but .*'shift'"):
        data.open_data({**PARAMS, "augmentation": "shift"})
