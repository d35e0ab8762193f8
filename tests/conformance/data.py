"""Rows of data, all of which differ, for several rows of the table."""

import numpy as np

SEED = 11
TILE, REPEATS = 4, 6


def tiled(array):
    """Makes every `REPEATS` · `TILE` rows the first `TILE` of them, over and over.

    Shards of a batch of so many rows then have the same statistics, over 2 and over 3 towers.
    """
    first = array.reshape([-1, REPEATS * TILE, *array.shape[1:]])[:, :TILE]
    return np.tile(first, [1, REPEATS] + [1] * (array.ndim - 1)).reshape(array.shape)


def images(total, size=8):
    """Returns grey images with a bright square in one of four quarters, and which it is."""
    random = np.random.RandomState(SEED)
    quarter = random.randint(0, 4, size=total)
    pixels = random.uniform(0, 0.5, size=(total, size, size, 1)).astype(np.float32)
    half = size // 2
    for image, where in zip(pixels, quarter):
        row, column = half * (where // 2), half * (where % 2)
        image[row : row + half, column : column + half] += 0.5
    return pixels, quarter.astype(np.int64)


def vectors(total, width=5, classes=3):
    """Returns vectors and the number of a class that is a noisy function of them."""
    random = np.random.RandomState(SEED)
    x = random.normal(size=(total, width)).astype(np.float32)
    scores = np.sin(x @ random.normal(size=(width, classes)))
    return x, np.argmax(scores, axis=1).astype(np.int64)


JOBS = ["clerk", "farmer", "nurse", "pilot", "smith"]


def census(total):
    """Returns columns of a table of persons, and whether each earns much."""
    random = np.random.RandomState(SEED)
    age = random.randint(18, 80, size=(total, 1)).astype(np.float32)
    hours = random.uniform(5, 60, size=(total, 1)).astype(np.float32)
    job = np.array(JOBS)[random.randint(0, len(JOBS), size=(total, 1))].astype("S")
    town = np.array([b"town%d" % n for n in random.randint(0, 40, size=total)])[:, None]
    noise = random.normal(size=(total, 1))
    label = (age / 20 + hours / 20 + 2 * (job == b"pilot") + noise > 4.5).astype(np.int64)
    return {"age": age, "hours": hours, "job": job, "town": town}, label


def sentences(total, length=6, vocabulary=20):
    """Returns word ids padded with 0, their lengths, and whether small words prevail."""
    random = np.random.RandomState(SEED)
    lengths = random.randint(2, length + 1, size=total).astype(np.int32)
    words = random.randint(1, vocabulary, size=(total, length)).astype(np.int32)
    words *= np.arange(length) < lengths[:, None]
    label = (words.sum(axis=1) / lengths < vocabulary / 2).astype(np.int64)
    return words, lengths, label
