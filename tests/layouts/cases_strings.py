"""Operations on strings, entry by entry."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Fixed, cases
from layouts.cases_elementwise import numbers, shape, words


def scalar(text: str) -> np.ndarray:
    return np.asarray(text, object)


@cases("StringLength", "StringLower", "StringUpper", "StringStrip", "EncodeBase64")
def text(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": words(draw, shape(draw))}


@cases("StringToHashBucketFast")
def hash_fast(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": words(draw, shape(draw)), "num_buckets": 7}


@cases("StringToHashBucket")
def hash_plain(draw: np.random.RandomState) -> dict[str, Any]:
    return {"string_tensor": words(draw, shape(draw)), "num_buckets": 7}


@cases("StringToHashBucketStrong")
def hash_strong(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": words(draw, shape(draw)), "num_buckets": 7, "key": [3, 5]}


@cases("StringToNumber")
def to_number(draw: np.random.RandomState) -> dict[str, Any]:
    given = numbers(draw, shape(draw), "i").astype(str).astype(object)
    return {"string_tensor": given, "out_type": tf.float32}


@cases("AsString")
def as_string(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": numbers(draw, shape(draw)), "precision": 3}


@cases("StaticRegexReplace")
def replace(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": words(draw, shape(draw)), "pattern": "[a-c]", "rewrite": "z"}


@cases("StaticRegexFullMatch")
def match(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": words(draw, shape(draw)), "pattern": "a.*"}


@cases("RegexReplace")
def replace_by(draw: np.random.RandomState) -> dict[str, Any]:
    return {
        "input": words(draw, shape(draw)),
        "pattern": scalar("[a-c]"),
        "rewrite": scalar("z"),
    }


@cases("RegexFullMatch")
def match_by(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": words(draw, shape(draw)), "pattern": scalar("a.*")}


@cases("StringJoin")
def join(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    many = draw.randint(1, 4)
    inputs = [words(draw, size if draw.rand() < 0.7 else []) for _ in range(many)]
    return {"inputs": inputs, "separator": "-"}


@cases("Substr")
def substr(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)[:2]  # Kernels broadcast no more axes.
    places = (size, [], [1 if draw.rand() < 0.5 else side for side in size])[draw.randint(3)]
    return {
        "input": numbers(draw, size, "i").astype(str).astype(object),
        "pos": Fixed(np.zeros(places, np.int32)),
        "len": Fixed(np.ones(places, np.int32)),
    }


@cases("DecodeBase64")
def decode_base64(draw: np.random.RandomState) -> dict[str, Any]:
    encode = np.vectorize(lambda word: base64.urlsafe_b64encode(word.encode()), otypes=[object])
    return {"input": encode(words(draw, shape(draw)))}


@cases("DecodeCompressed")
def decompress(draw: np.random.RandomState) -> dict[str, Any]:
    compress = np.vectorize(lambda word: zlib.compress(word.encode()), otypes=[object])
    return {"bytes": compress(words(draw, shape(draw))), "compression_type": "ZLIB"}


@cases("DecodeJSONExample")
def decode_json(draw: np.random.RandomState) -> dict[str, Any]:
    text = '{"features": {"feature": {"a": {"int64List": {"value": [%d]}}}}}'
    encode = np.vectorize(lambda number: text % number, otypes=[object])
    return {"json_examples": encode(numbers(draw, shape(draw), "i"))}


@cases("DecodeCSV")
def decode_csv(draw: np.random.RandomState) -> dict[str, Any]:
    line = np.vectorize(lambda number: f"{number},{number}.5", otypes=[object])
    defaults = [np.zeros([1], np.int32), np.zeros([], np.float32)]
    return {"records": line(numbers(draw, shape(draw), "i")), "record_defaults": defaults}


@cases("DecodePaddedRaw")
def decode_padded(draw: np.random.RandomState) -> dict[str, Any]:
    return {
        "input_bytes": words(draw, shape(draw)),
        "fixed_length": np.asarray(4, np.int32),
        "out_type": tf.uint8,
    }


@cases("UnicodeScript")
def script(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": numbers(draw, shape(draw), "i", least=0) * 200}


@cases("UnicodeTranscode")
def transcode(draw: np.random.RandomState) -> dict[str, Any]:
    return {
        "input": words(draw, shape(draw)),
        "input_encoding": "UTF-8",
        "output_encoding": "UTF-16-BE",
    }
