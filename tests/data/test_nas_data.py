"""Parts, order and batches of the data: which image goes where, and what a resumed run sees."""

import collections
import json
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

from batches import assert_same, take
from examples import data
from examples.data import shuffling, splits
from examples.data.datasets import worker_of
from examples.nas_search.search import search_input
from replicate import estimator

PARAMS = {
    "dataset": "digits",
    "validation_fraction": 0.2,
    "test_fraction": 0.2,
    "seed": 3,
    "use_tpu": False,
    "train_batch_size": 100,
    "rl_batch_size_multiplier": 2.0,
}
IMAGES = [str(i).encode() for i in range(5000)]


# Parts.


def part_sizes(validation_fraction, test_fraction):
    parts = [splits.part_of(image, validation_fraction, test_fraction) for image in IMAGES]
    return collections.Counter(parts)


def test_parts_have_the_sizes_that_the_fractions_say():
    sizes = part_sizes(0.2, 0.1)
    # The standard deviation of a part's size is at most sqrt(5000 / 4) = 35.
    assert abs(sizes["validation"] - 1000) < 4 * 35
    assert abs(sizes["test"] - 500) < 4 * 35
    assert sum(sizes.values()) == 5000


@pytest.mark.parametrize(
    ("fractions", "part"), [((0, 0), "train"), ((1, 0), "validation"), ((0, 1), "test")]
)
def test_a_part_may_have_all_images(fractions, part):
    assert part_sizes(*fractions) == {part: 5000}


def test_the_test_part_does_not_depend_on_the_validation_fraction():
    few, many = (
        {image for image in IMAGES if splits.part_of(image, fraction, 0.1) == "test"}
        for fraction in (0.05, 0.8)
    )
    assert few == many


def test_images_never_move():
    # The first 8 bytes of BLAKE2b of b"\0" to b"\5" are 0.582, 0.004, 0.457, 0.762, 0.270 and 0.160
    # of 2**64: below 0.3 is the test part, below 0.6 the validation part.
    parts = [splits.part_of(bytes([i]), 0.3, 0.3) for i in range(6)]
    assert parts == ["validation", "test", "validation", "train", "test", "test"]


@pytest.mark.parametrize(
    ("split", "parts"),
    [("train", ("train",)), ("train+validation", ("train", "validation")), ("test", ("test",))],
)
def test_a_split_joins_parts(split, parts):
    assert splits.parts_of(split) == parts


@pytest.mark.parametrize("split", ["", "all", "train+train", "train+"])
def test_a_split_of_something_else_is_an_error(split):
    with pytest.raises(ValueError, match=r"must be one of train, validation, test.*but is .*Pass"):
        splits.parts_of(split)


# Order.


def stream(count, num_rows=10, seed=1, **kwargs):
    return take(shuffling.shuffled(num_rows, shuffling.stream_key(seed, "train"), **kwargs), count)


def test_every_epoch_has_each_row_once_in_an_order_of_its_own():
    rows, positions = np.transpose(stream(30))
    assert positions.tolist() == list(range(30))
    epochs = rows.reshape(3, 10).tolist()
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_order_depends_on_the_seed_and_on_the_name():
    assert stream(10) == stream(10)
    assert stream(10) != stream(10, seed=2)
    assert shuffling.stream_key(1, "train") != shuffling.stream_key(1, "validation")


@pytest.mark.parametrize("start", [1, 9, 10, 11, 25])
def test_a_stream_can_be_entered_anywhere(start):
    assert stream(15, start=start) == stream(start + 15)[start:]


@pytest.mark.parametrize("start", [0, 8])
@pytest.mark.parametrize(
    ("num_rows", "workers"),
    [(10, 2), (10, 3), (4, 5)],  # of the last, one has no row of an epoch
)
def test_workers_share_the_stream(num_rows, workers, start):
    shares = [stream(5, num_rows, start=start, worker=(index, workers)) for index in range(workers)]
    for worker, share in enumerate(shares):
        assert all(position % workers == worker for _, position in share)
    together = sorted((element for share in shares for element in share), key=lambda e: e[1])
    # The first 5 · W positions, of which each worker has 5.
    assert together == stream(5 * workers, num_rows, start=start)


def test_evaluation_takes_each_row_once_in_order():
    assert take(shuffling.once(4)) == [(0, 0), (1, 1), (2, 2), (3, 3)]


# Digits.


def by_image(images):
    """Returns images as hashable bytes of their original values, 0 to 16."""
    return [np.round(image * 16).astype(np.uint8).tobytes() for image in images]


@pytest.fixture(scope="module")
def digits():
    return data.open_data(PARAMS)


@pytest.fixture(scope="module")
def parts(digits):
    """Image bytes of each part, found with `input_fn`."""
    with tf.Graph().as_default():
        return {
            part: by_image(
                np.concatenate([i for i, _ in take(digits.input_fn(part, 128, training=False))])
            )
            for part in splits.PARTS
        }


def test_digits_are_divided_into_parts_without_overlap(digits, parts):
    assert digits.num_classes == 10
    assert digits.image_shape == (8, 8, 1)
    assert {part: len(images) for part, images in parts.items()} == digits.sizes
    assert sum(digits.sizes.values()) == 1797
    assert digits.sizes["validation"] == pytest.approx(0.2 * 1797, abs=4 * 17)
    sets = [set(images) for images in parts.values()]
    assert len(set.union(*sets)) == sum(map(len, sets))


def test_images_keep_their_labels(digits):
    original = load_digits()
    labels_of = dict(zip(by_image(original.images / 16), original.target))
    [(images, labels)] = take(digits.input_fn("train", 200, training=True), 1)
    assert images.dtype == np.float32
    assert images.shape == (200, 8, 8, 1)
    assert (images.min(), images.max()) == (0, 1)
    assert labels.dtype == np.float32
    assert labels.sum(axis=1).tolist() == [1] * 200
    assert labels.argmax(axis=1).tolist() == [labels_of[image] for image in by_image(images)]


def test_evaluation_sees_every_image_once_and_ends_with_a_smaller_batch(digits):
    batches = take(digits.input_fn("test+validation", 100, training=False))
    size = digits.size("test+validation")
    assert size == digits.sizes["test"] + digits.sizes["validation"]
    assert [len(labels) for _, labels in batches] == [100] * (size // 100) + [size % 100]
    images = by_image(np.concatenate([images for images, _ in batches]))
    assert len(set(images)) == size


def test_training_batches_are_full_across_epochs(digits):
    dataset = digits.input_fn("validation", 100, training=True)
    assert dataset.element_spec[0].shape.as_list() == [100, 8, 8, 1]
    batches = take(dataset, 8)
    rows = by_image(np.concatenate([images for images, _ in batches]))
    size = digits.sizes["validation"]
    assert len(rows) == 800 > 2 * size
    assert sorted(rows[:size]) == sorted(rows[size : 2 * size])
    assert rows[:size] != rows[size : 2 * size]


def test_a_search_gets_training_and_validation_images_and_no_others(digits, parts):
    dataset = search_input.input_fn(digits, PARAMS, 0)
    features, labels = dataset.element_spec
    assert features["train"].shape.as_list() == [100, 8, 8, 1]
    assert features["validation"].shape.as_list() == [200, 8, 8, 1]
    assert labels["train"].shape.as_list() == [100, 10]
    assert labels["validation"].shape.as_list() == [200, 10]
    seen = {"train": set(), "validation": set()}
    for features, _ in take(dataset, 15):
        for part, images in features.items():
            seen[part].update(by_image(images))
    # 15 batches are more than an epoch: 1500 of about 1,100 rows, 3000 of about 360.
    assert seen == {part: set(parts[part]) for part in seen}


def test_the_same_seed_gives_the_same_batches(digits):
    first = take(search_input.input_fn(digits, PARAMS, 0), 3)
    assert_same(first, take(search_input.input_fn(data.open_data(PARAMS), PARAMS, 0), 3))
    other = take(search_input.input_fn(data.open_data({**PARAMS, "seed": 4}), PARAMS, 0), 1)
    assert not np.array_equal(first[0][0]["train"], other[0][0]["train"])
    assert not np.array_equal(first[0][0]["train"][:100], first[0][0]["validation"][:100])


@pytest.mark.parametrize("steps", [1, 10, 11, 40])  # an epoch has 11 batches, or 1.8
def test_a_resumed_search_sees_what_the_uninterrupted_one_would(digits, steps):
    uninterrupted = take(search_input.input_fn(digits, PARAMS, 0), steps + 3)
    assert_same(take(search_input.input_fn(digits, PARAMS, steps), 3), uninterrupted[steps:])


def test_resumed_training_sees_what_the_uninterrupted_one_would(digits):
    uninterrupted = take(digits.input_fn("train", 64, training=True), 25)
    resumed = digits.input_fn("train", 64, training=True, start_step=22)
    assert_same(take(resumed, 3), uninterrupted[22:])


def test_workers_search_with_different_images(digits, monkeypatch):
    [(features, _)] = take(search_input.input_fn(digits, PARAMS, 0), 1)
    shares = []
    for index in range(2):
        kind = "worker" if index else "chief"
        config = run_config(monkeypatch, kind, 0, chief=1, worker=1, ps=1)
        shares += take(search_input.input_fn(digits, PARAMS, 0, config), 1)
    # Worker w takes the positions w, w + 2, ...: the first half of its batch is every other image
    # of the batch that a single worker takes.
    for part, images in features.items():
        half = len(images) // 2
        np.testing.assert_array_equal(shares[0][0][part][:half], images[::2])
        np.testing.assert_array_equal(shares[1][0][part][:half], images[1::2])


def test_tpus_get_images_with_the_rows_last(digits):
    on_tpu = data.open_data({**PARAMS, "use_tpu": True})
    [(features, labels)] = take(search_input.input_fn(digits, PARAMS, 2), 1)
    [(tpu_features, tpu_labels)] = take(search_input.input_fn(on_tpu, PARAMS, 2), 1)
    assert_same(labels, tpu_labels)
    for part, images in features.items():
        np.testing.assert_array_equal(tpu_features[part], images.transpose(1, 2, 3, 0))


def test_tpu_cores_share_the_batch(digits):
    # A TPUEstimator adds `batch_size`; its four cores take one element of the dataset each.
    [(features, _)] = take(search_input.input_fn(digits, PARAMS, 3), 1)
    cores = take(search_input.input_fn(digits, {**PARAMS, "batch_size": 25}, 3), 4)
    for part, images in features.items():
        together = np.concatenate([core[part] for core, _ in cores])
        np.testing.assert_array_equal(together, images)


def test_tpu_hosts_are_workers(digits):
    class Host:  # what a TPUEstimator adds as `context`, in the call for host 1 of 2, with 4 cores
        def current_input_fn_deployment(self):
            return "/job:worker/task:1/device:CPU:0", 1, 2, 4

    [(features, _)] = take(search_input.input_fn(digits, PARAMS, 3), 1)
    [(of_host, _)] = take(search_input.input_fn(digits, {**PARAMS, "context": Host()}, 3), 1)
    np.testing.assert_array_equal(of_host["train"][:50], features["train"][1::2])


def test_errors_that_no_image_caused_are_left_alone(digits):
    error = tf.errors.InvalidArgumentError(None, None, "something else is the cause")
    with pytest.raises(tf.errors.InvalidArgumentError, match="the cause"):  # noqa: SIM117
        with data.naming_broken_images(digits):
            raise error


# Workers.


def run_config(monkeypatch, kind, index, **counts):
    cluster = {job: [f"{job}{i}:1" for i in range(count)] for job, count in counts.items()}
    tf_config = {"cluster": cluster, "task": {"type": kind, "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    return estimator.RunConfig()


@pytest.mark.parametrize(
    ("task", "counts", "worker"),
    [
        (("worker", 0), {"worker": 2, "ps": 1, "chief": 1}, (1, 3)),
        (("worker", 1), {"worker": 2, "ps": 1, "chief": 1}, (2, 3)),
        (("chief", 0), {"worker": 2, "ps": 1, "chief": 1}, (0, 3)),
    ],
)
def test_workers_are_numbered(monkeypatch, task, counts, worker):
    assert worker_of(run_config(monkeypatch, *task, **counts)) == worker


def test_without_a_cluster_there_is_one_worker():
    assert worker_of(None) == (0, 1)
    assert worker_of(estimator.RunConfig()) == (0, 1)


# Errors.


@pytest.mark.parametrize("dataset", ["cifar", "tfds", "digits:1"])
def test_an_unknown_dataset_is_an_error(dataset):
    with pytest.raises(data.DataError, match=r"digits, mnist5k, pulses, .*, tfds:NAME, but is"):
        data.open_data({**PARAMS, "dataset": dataset})


def test_distorted_digits_are_an_error():
    with pytest.raises(data.DataError, match=r"as it is, but --augmentation is 'small'\. Leave"):
        data.open_data({**PARAMS, "augmentation": "small"})


def test_without_scikit_learn_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(data.DataError, match=r"scikit-learn.*pip install 'replicate-estimator\["):
        data.open_data(PARAMS)


@pytest.mark.parametrize("training", [True, False])
def test_a_part_without_images_is_an_error(training):
    empty = data.open_data({**PARAMS, "validation_fraction": 0.0})
    message = r"'validation' must have images.*train \d+, validation 0, .*--validation_fraction 0.0"
    with pytest.raises(data.DataError, match=message):
        empty.input_fn("validation", 10, training=training)
    with pytest.raises(data.DataError, match=message):
        search_input.input_fn(empty, PARAMS, 0)
