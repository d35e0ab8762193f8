"""Tables of `tf.contrib.lookup` that TensorFlow has under other names."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import kept


class HashTable(tf.lookup.StaticHashTable):
    """A table that does not change once it is initialized.

    Args:
        initializer: An initializer of the table, such as a `tf.lookup.KeyValueTensorInitializer`.
        default_value: Value for keys that are not in the table.
        shared_name: A name under which sessions share the table.
        name: Name of the operation.
    """

    def __init__(
        self,
        initializer: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        self._given_name = shared_name
        super().__init__(initializer, default_value, name=name)

    def _create_resource(self) -> tf.Tensor:
        if self._given_name is not None:
            self._shared_name = self._given_name
        return super()._create_resource()

    @property
    def init(self) -> Any:
        """The operation that fills the table."""
        return self.initializer


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = kept.FastHashSpec,
    dtype: tf.DType = tf.string,
    name: str | None = None,
) -> Any:
    """Returns a table of the indices of keys in a list.

    Args:
        mapping: The keys, a tensor of rank 1.
        num_oov_buckets: Number of indices for keys that are not in the list.
        default_value: Index for these, if there are no such indices.
        hasher_spec: Hash function that gives such keys an index.
        dtype: The type of keys.
        name: Name of the operation.

    Raises:
        ValueError: If `mapping` is None, or does not have type `dtype`.
    """
    if mapping is None:
        raise ValueError("A table needs its strings: `mapping` is None.")
    return kept.index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, dtype, name
    )


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
    """Returns a table of the strings at indices of a list.

    Args:
        mapping: The strings, a tensor of rank 1.
        default_value: String for indices outside the list.
        name: Name of the operation.

    Raises:
        ValueError: If `mapping` is None.
    """
    if mapping is None:
        raise ValueError("A table needs its strings: `mapping` is None.")
    return kept.index_to_string_table_from_tensor(mapping, default_value, name)


def string_to_index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = kept.FastHashSpec,
    name: str | None = None,
) -> Any:
    """Returns a table of the line numbers of strings in a file.

    Args:
        vocabulary_file: Name of the file.
        num_oov_buckets: Number of indices for strings that are not in the list.
        vocab_size: Number of lines to read; None for all.
        default_value: Index for these, if there are no such indices.
        hasher_spec: Hash function that gives such strings an index.
        name: Name of the operation.
    """
    return kept.index_table_from_file(
        vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, name=name
    )


def string_to_index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = kept.FastHashSpec,
    name: str | None = None,
) -> Any:
    """Does the same as `index_table_from_tensor`, for strings.

    Args:
        mapping: The strings, a tensor of rank 1.
        num_oov_buckets: Number of indices for strings that are not in the list.
        default_value: Index for these, if there are no such indices.
        hasher_spec: Hash function that gives such strings an index.
        name: Name of the operation.

    Raises:
        ValueError: If `mapping` is None, or not of strings.
    """
    return index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, name=name)


def string_to_index(
    tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None
) -> tf.Tensor:
    """Returns the indices of strings in a list.

    Args:
        tensor: The strings to look up.
        mapping: The list, a tensor of rank 1.
        default_value: Index for strings that are not in the list.
        name: Name of the operation.

    Raises:
        ValueError: If `mapping` is None, or not of strings.
    """
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(
    tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None
) -> tf.Tensor:
    """Returns the strings at indices of a list.

    Args:
        tensor: The indices, an int64 tensor.
        mapping: The list, a tensor of rank 1.
        default_value: String for indices outside the list.
        name: Name of the operation.

    Raises:
        ValueError: If `mapping` is None.
    """
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)
