"""The order of records in files: every epoch each once, enterable anywhere, shared by workers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import selection
from batches import take
from examples.data import shuffling
from examples.data.sources import record_shuffling, record_splits
from examples.data.sources.record_shuffling import Shard

COUNTS = (70, 1, 50, 33)  # of these, 154 in all, most lanes have 3 and ten have 4
NUM_RECORDS = sum(COUNTS)
WINDOW = 2  # so that a lane has two


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files whose records are their own numbers, counted over all files."""
    root, number, shards = tmp_path_factory.mktemp("records"), 0, []
    for i, count in enumerate(COUNTS):
        path = str(root / str(i))
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(count):
                writer.write(str(number).encode())
                number += 1
        shards.append(Shard(path, 0, count))
    return shards


def stream(shards, count, seed=1, window=WINDOW, **kwargs):
    """Returns (record, position) of the first elements of a stream."""
    key = shuffling.stream_key(seed, "train")
    with tf.Graph().as_default():
        elements = take(record_shuffling.shuffled(shards, window, key, **kwargs), count)
    return [(int(record), int(position)) for record, position in elements]


@pytest.fixture(scope="module")
def three_epochs(files):
    return stream(files, 3 * NUM_RECORDS)


def test_every_epoch_has_each_record_once_in_an_order_of_its_own(three_epochs):
    records, positions = np.transpose(three_epochs)
    assert positions.tolist() == list(range(3 * NUM_RECORDS))
    epochs = records.reshape(3, NUM_RECORDS).tolist()
    assert [sorted(epoch) for epoch in epochs] == [list(range(NUM_RECORDS))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_order_depends_on_the_seed_alone(files, three_epochs):
    assert stream(files, 60) == three_epochs[:60]
    assert stream(files, 60, seed=2) != three_epochs[:60]


# The first position, the first round through the lanes and its end, one that is in the second
# window of a lane, the end of an epoch, and far in the third.
@pytest.mark.parametrize(
    "start",
    [
        selection.cell(start, is_quick=start not in (1, 47, NUM_RECORDS - 1))
        for start in (1, 47, 48, 100, NUM_RECORDS - 1, NUM_RECORDS, 2 * NUM_RECORDS + 99)
    ],
)
def test_a_stream_can_be_entered_anywhere(files, three_epochs, start):
    assert stream(files, 50, start=start) == three_epochs[start : start + 50]


@pytest.mark.parametrize(
    ("worker", "start"),
    [
        selection.cell((0, 2), 0, is_quick=False),
        selection.cell((1, 2), 0, is_quick=False),
        ((2, 3), 150),
        ((4, 5), 7),  # 5 is prime to the number of lanes, 48, so that it reads them all
        ((35, 36), 20),  # 36 and 48 are multiples of 12, so that it reads every twelfth
    ],
)
def test_workers_share_the_stream(files, three_epochs, worker, start):
    index, workers = worker
    share = [(record, p) for record, p in three_epochs[start:] if p % workers == index]
    assert stream(files, len(share), start=start, worker=worker) == share


def test_a_worker_reads_its_lanes_only(files, tmp_path):
    # Of 96 records in as many files, a lane has two. Worker 0 of 48 takes what is in lane 0 in
    # the first epoch: two files in the order of the epoch, and the first file again, whose
    # beginning the line ends with.
    shards = []
    for i in range(96):
        with tf.io.TFRecordWriter(str(tmp_path / str(i))) as writer:
            writer.write(str(i).encode())
        shards.append(Shard(str(tmp_path / str(i)), 0, 1))
    taken = [record for record, _ in stream(shards, 2, worker=(0, 48))]
    for i in set(range(96)) - set(taken):
        (tmp_path / str(i)).unlink()
    assert [record for record, _ in stream(shards, 2, worker=(0, 48))] == taken
    with pytest.raises(tf.errors.NotFoundError):
        stream(shards, 2, worker=(1, 48))


def test_a_stream_begins_anywhere_in_a_single_file(files):
    [shard] = files[:1]
    firsts = [stream([shard], 1, seed=seed)[0][0] for seed in (1, 2)]
    assert firsts[0] != firsts[1]
    # Seventy records have lanes of two at most, so that neighbours share a lane: without a random
    # beginning, the first record would be 0 or 1.
    assert max(firsts) > 1


def test_evaluation_takes_each_record_once_in_order(files):
    part = [files[0]._replace(first=68, count=2), files[2]]
    with tf.Graph().as_default():
        records = take(record_shuffling.once(part))
    assert [int(record) for record in records] == [68, 69, *range(71, 121)]


@pytest.mark.parametrize(
    ("num_bytes", "num_records", "window"),
    [
        (140e9, 1281167, 51),  # ImageNet: 48 windows of 51 images of 109 KB are 268 MB
        (10 * 8e6, 10, 16),
        (130e6, 50000, 2150),  # CIFAR-10: more than the 1,042 of a lane
    ],
)
def test_windows_hold_so_many_bytes(num_bytes, num_records, window):
    assert record_shuffling.window_size(int(num_bytes), num_records) == window


# Parts, by position.


def parts(train, **others):
    """Returns the numbers of records by part, for fractions of 0.3 and 0.1 of [5, 3, 2] files."""
    official = {"train": [(f"t{i}", count) for i, count in enumerate(train)], **others}
    return record_splits.divide(official, 0.3, 0.1)


def test_validation_is_the_beginning_of_training_and_test_its_end():
    assert parts([5, 0, 3, 2]) == {
        "validation": [Shard("t0", 0, 3)],
        "train": [Shard("t0", 3, 2), Shard("t2", 0, 3), Shard("t3", 0, 1)],
        "test": [Shard("t3", 1, 1)],
    }


def test_official_test_images_are_the_test():
    divided = parts([5, 5], test=[("x", 4)])
    assert divided["test"] == [Shard("x", 0, 4)]
    assert divided["validation"] == [Shard("t0", 0, 3)]
    assert divided["train"] == [Shard("t0", 3, 2), Shard("t1", 0, 5)]


def test_official_validation_images_are_the_test_where_there_is_no_other():
    divided = parts([5, 5], validation=[("v", 4)], test=[])
    assert divided["test"] == [Shard("v", 0, 4)]
    assert divided["validation"] == [Shard("t0", 0, 3)]


def test_all_official_splits_are_kept():
    divided = parts([5], validation=[("v", 4)], test=[("x", 6)])
    assert divided == {
        "train": [Shard("t0", 0, 5)],
        "validation": [Shard("v", 0, 4)],
        "test": [Shard("x", 0, 6)],
    }


def test_no_images_are_left_to_train_on_where_all_are_held_out():
    divided = record_splits.divide({"train": [("t", 10)]}, 0.8, 0.4)
    assert divided == {
        "train": [],
        "validation": [Shard("t", 0, 6)],
        "test": [Shard("t", 6, 4)],
    }
