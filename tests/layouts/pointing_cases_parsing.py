"""Cases of parsers: records with and without features, lists of varying length."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.pointers import fill, raw
from layouts.pointing_batch import LETTERS, Batch
from layouts.pointing_cases import case

WIDTH = 2


def _floats(draw: np.random.RandomState, count: int) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=draw.rand(count)))


def _words(draw: np.random.RandomState, count: int) -> tf.train.Feature:
    words = [word.encode() for word in draw.choice(list(LETTERS), count)]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=words))


def _context(draw: np.random.RandomState) -> tf.train.Features:
    features = {"dense": _floats(draw, WIDTH), "padded": _floats(draw, draw.randint(4))}
    if draw.rand() < 0.7:
        features["words"] = _words(draw, draw.randint(4))
    if draw.rand() < 0.7:
        features["list"] = _floats(draw, draw.randint(3))
    return tf.train.Features(feature=features)


def _example(draw: np.random.RandomState) -> bytes:
    made: bytes = tf.train.Example(features=_context(draw)).SerializeToString()
    return made


def _sequence(draw: np.random.RandomState) -> bytes:
    def steps(make: Any, draw_values: Any) -> tf.train.FeatureList:
        return tf.train.FeatureList(
            feature=[make(draw, draw_values()) for _ in range(draw.randint(4))]
        )

    lists = {
        "points": steps(_floats, lambda: WIDTH),
        "tags": steps(_words, lambda: draw.randint(3)),
    }
    made: bytes = tf.train.SequenceExample(
        context=_context(draw), feature_lists=tf.train.FeatureLists(feature_list=lists)
    ).SerializeToString()
    return made


def _use(batch: Batch, sparse: Sequence[Any], dense: Sequence[Any]) -> None:
    """Goes on with what has been parsed, row by row."""
    for indices, values, shape in sparse:
        numbers = tf.strings.length(values) if values.dtype == tf.string else values
        given = tf.SparseTensor(indices, tf.cast(numbers, tf.float64), shape)
        if shape.shape.num_elements() == 2:
            fill(given)
        tf.sparse.to_dense(given)
    for values in dense:
        tf.tanh(values) * tf.cast(batch.rows(WIDTH), values.dtype)


def _names(batch: Batch) -> Any:
    return batch.one_of(tf.constant([], tf.string), batch.text())


@case("ParseExample", "ParseExampleV2")
def parse(batch: Batch, name: str) -> None:
    more: dict[str, Any] = {}
    if name == "ParseExampleV2":
        has_ragged = batch.draw.rand() < 0.2
        more = {
            "num_sparse": 2,
            "ragged_keys": ["words"] * has_ragged,
            "ragged_value_types": [tf.string] * has_ragged,
            "ragged_split_types": [tf.int64] * has_ragged,
        }
    made = raw(
        name,
        serialized=batch.records(_example),
        names=_names(batch),
        sparse_keys=["words", "list"],
        dense_keys=["dense"],
        dense_defaults=[tf.zeros([0])],
        sparse_types=[tf.string, tf.float32],
        dense_shapes=[[WIDTH]],
        **more,
    )
    _use(batch, list(zip(*made[:3])), made.dense_values)


@case("ParseExample", "ParseExampleV2")
def parse_padded(batch: Batch, name: str) -> None:
    """As wide as the longest of the batch."""
    features = {
        "padded": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
        "dense": tf.io.FixedLenFeature([WIDTH], tf.float32),
    }
    made = tf.io.parse_example(batch.records(_example), features)
    tf.reduce_sum(made["padded"], 1, keepdims=True) * tf.tanh(made["dense"])


@case("ParseExample", "ParseExampleV2")
def parse_pairs(batch: Batch, name: str) -> None:
    """Two records for each row."""
    features = {"words": tf.io.VarLenFeature(tf.string)}
    made = tf.io.parse_example(batch.records(_example, each=2), features)["words"]
    tf.gather(batch.rows(2, each=2), made.indices[:, 0])


@case("ParseSequenceExample", "ParseSequenceExampleV2")
def parse_sequences(batch: Batch, name: str) -> None:
    nothing = tf.constant([], tf.string)
    keys: dict[str, Any] = {
        "context_sparse_keys": ["words"],
        "context_dense_keys": ["dense"],
        "feature_list_sparse_keys": ["tags"],
    }
    if name == "ParseSequenceExample":
        missing: Any = []
        keys.update(feature_list_dense_keys=[], Ncontext_dense=1)
    else:
        missing = tf.constant([], tf.bool)
        keys["feature_list_dense_keys"] = nothing
        keys.update(context_ragged_keys=nothing, feature_list_ragged_keys=nothing)
    made = raw(
        name,
        serialized=batch.records(_sequence),
        debug_name=_names(batch),
        feature_list_dense_missing_assumed_empty=missing,
        context_dense_defaults=[tf.zeros([0])],
        context_sparse_types=[tf.string],
        feature_list_sparse_types=[tf.string],
        context_dense_shapes=[[WIDTH]],
        Ncontext_sparse=1,
        Nfeature_list_sparse=1,
        **keys,
    )
    sparse = list(zip(*made[:3])) + list(zip(*(made[index] for index in (4, 5, 6))))
    _use(batch, sparse, made.context_dense_values)


@case("ParseSequenceExample", "ParseSequenceExampleV2")
def parse_padded_sequences(batch: Batch, name: str) -> None:
    """As long as the longest of the batch."""
    _, made, lengths = tf.io.parse_sequence_example(
        batch.records(_sequence),
        sequence_features={"points": tf.io.FixedLenSequenceFeature([WIDTH], tf.float32)},
    )
    tf.reduce_sum(made["points"], 1) * tf.cast(lengths["points"], tf.float32)[:, tf.newaxis]
