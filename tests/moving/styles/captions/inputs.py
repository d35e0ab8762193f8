"""Images of regions, and captions of different lengths that name the strongest of them."""

import numpy as np
import tensorflow as tf

START, END = 1, 2


def _examples(num_examples, seed, config):
    random = np.random.RandomState(seed)
    for _ in range(num_examples):
        image = random.normal(size=(config.num_regions, config.region_size))
        length = random.randint(1, 6)
        order = np.argsort(-image.sum(axis=1))
        words = [3 + int(order[i % len(order)]) * 2 + i % 2 for i in range(length)]
        yield image, np.array([START] + words + [END])


def _split(image, caption):
    """Splits a caption into what the model reads and what it is to say next."""
    length = tf.size(caption) - 1
    features = {"image": image, "input_seq": caption[:-1], "length": length}
    return features, caption[1:]


def batches(num_examples, seed, batch_size, config):
    shapes = ([config.num_regions, config.region_size], [None])
    dataset = tf.data.Dataset.from_generator(
        lambda: _examples(num_examples, seed, config), (tf.float64, tf.int64), shapes
    )
    padded = {"image": list(shapes[0]), "input_seq": [None], "length": []}
    return dataset.map(_split).padded_batch(batch_size, padded_shapes=(padded, [None]))
