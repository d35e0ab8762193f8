"""The batches of published models: frames, sentences, clicks, text and sparse rows."""

import numpy as np
import tensorflow.compat.v1 as tf

import selection
from partition import model_inputs
from partition.model_inputs import SEED

WORDS = ["the", "cat", "dog", "sat", "ran", "far", "away"]
CITIES = ["rome", "oslo", "bern", "lima"]


def _padded(random, total, most, high, dtype, start=1):
    """Returns ids from `start`, padded by 0 to `most`, and how many each row has."""
    ids = random.randint(start, high, size=(total, most)).astype(dtype)
    lengths = random.randint(1, most + 1, size=total).astype(np.int32)
    return ids * (np.arange(most) < lengths[:, None]), lengths


def _serialized(random, total):
    examples = []
    for _ in range(total):
        example = tf.train.Example()
        feature = example.features.feature
        ids = random.randint(0, 9, size=random.randint(0, 4))
        feature["ids"].int64_list.value.extend(ids)
        feature["weights"].float_list.value.extend(random.uniform(0.1, 2, size=len(ids)))
        feature["city"].bytes_list.value.append(CITIES[random.randint(4)].encode())
        feature["age"].float_list.value.append(random.uniform())
        examples.append(example.SerializeToString())
    return np.array(examples, object)  # An array of bytes would drop zeros at their ends.


def rows_of(total):
    """Returns features and labels of `total` rows."""
    random = np.random.RandomState(SEED)
    frames = random.normal(size=(total, 7, 3))
    words, num_words = _padded(random, total, 6, 9, np.int32)
    history, num_history = _padded(random, total, 5, 12, np.int64)
    replies, num_replies = _padded(random, total, 4, 6, np.int32, start=2)
    said, num_said = _padded(random, total, 3, 4, np.int32)
    texts = [" ".join(random.choice(WORDS, random.randint(0, 6))) for _ in range(total)]
    features = {
        "x": random.normal(size=(total, 4)),
        "frames": frames,
        "num_frames": random.randint(6, 8, size=total).astype(np.int32),
        "words": words,
        "num_words": num_words,
        "history": history,
        "num_history": num_history,
        "item": random.randint(1, 12, size=total).astype(np.int64),
        "feat_ids": random.randint(0, 10, size=(total, 3)).astype(np.int64),
        "feat_vals": random.uniform(size=(total, 3)) * (random.uniform(size=(total, 3)) > 0.2),
        "text": np.array(texts, object),
        "city": random.choice(CITIES + ["nowhere"], size=(total, 1)).astype(object),
        "age": random.uniform(10, 70, size=(total, 1)).astype(np.float32),
        "example": _serialized(random, total),
    }
    labels = {
        "y": np.sin(features["x"].sum(axis=1, keepdims=True)),
        "k": random.randint(0, 3, size=total).astype(np.int32),
        "click": random.randint(0, 2, size=(total, 1)).astype(np.float64),
        "bought": random.randint(0, 2, size=(total, 1)).astype(np.float64),
        "tags": random.randint(0, 4, size=(total, 6)).astype(np.int32),
        "replies": replies,
        "num_replies": num_replies,
        "said": said,
        "num_said": num_said,
    }
    return features, labels


def data(total):
    """Returns the `tf.data.Dataset` of these rows."""
    return tf.data.Dataset.from_tensor_slices(rows_of(total))


def with_values(sparse, values):
    """Returns a sparse tensor with other values, which TensorFlow 1.15 has no method for."""
    return tf.SparseTensor(sparse.indices, values, sparse.dense_shape)


def shaped(features, labels):
    """Ends sentences where the longest one of the batch ends; rows of `bag` are sparse."""
    longest = tf.reduce_max(features["num_words"])
    features = dict(features, words=features["words"][:, :longest])
    labels = dict(labels, tags=labels["tags"][:, :longest])
    history = features["history"]
    places = tf.where(tf.not_equal(history, 0))
    values = tf.gather_nd(history, places)
    features["bag"] = tf.SparseTensor(places, values, tf.shape(history, out_type=tf.int64))
    weights = 0.5 + tf.cast(values, tf.float32) / 10.0
    features["bag_weights"] = with_values(features["bag"], weights)
    features["ragged"] = tf.RaggedTensor.from_sparse(features["bag"])
    features["names"] = with_values(features["bag"], tf.strings.as_string(values))
    return features, labels


def _of(batches):
    return batches._replace(data=data, shaped=shaped)


STATIC, UNKNOWN = _of(model_inputs.STATIC), _of(model_inputs.UNKNOWN)
CASES = [
    selection.cell(3, UNKNOWN, id="3-unknown", is_quick=True),
    selection.cell(2, STATIC, id="2-static", is_quick=False),
    selection.cell(3, STATIC, id="3-static", is_quick=False),
    selection.cell(2, UNKNOWN, id="2-unknown", is_quick=False),
]
