"""Images in files of records as a source: what TFRecords and TFDS have alike."""

import concurrent.futures
import os

import tensorflow.compat.v1 as tf

from examples.data.sources import record_shuffling, record_splits
from examples.data.sources.record_layouts import BAD_SIZE
from examples.runs.record_lengths import count_whole_records


class Records:
    """A source of images in TFRecord files.

    Args:
        official: Dict of lists of `(path, FileFacts)` by official split, see `record_splits.py`.
        parse: Function of a record, string [], that returns the bytes of an image file, string [],
            and a label, int64 [].
        num_classes: Int. A label outside [0, num_classes) counts as damage.
        as_input: A `Preprocessing`.
        params: Dict with `validation_fraction` and `test_fraction`.
    """

    def __init__(self, official, parse, num_classes, as_input, params):
        self._parts = record_splits.divide(
            {
                split: [(path, known.records) for path, known in files]
                for split, files in official.items()
            },
            params["validation_fraction"],
            params["test_fraction"],
        )
        files = [known for files in official.values() for _, known in files]
        self._window = record_shuffling.window_size(
            sum(known.bytes for known in files), sum(known.records for known in files)
        )
        self._parse = parse
        self._as_input = as_input
        self.num_classes = num_classes
        self.image_shape = as_input.shape
        self.augmentation = as_input.augmentation
        self.sizes = {
            part: sum(shard.count for shard in shards) for part, shards in self._parts.items()
        }

    def training(self, parts, key, start, worker):
        """Returns the images of a stream and their labels, see `datasets.py`."""
        records = record_shuffling.shuffled(self._shards(parts), self._window, key, start, worker)
        return records.map(
            lambda record, position: self._load(record, key, position), os.cpu_count()
        )

    def evaluation(self, parts):
        """Returns the images of parts and their labels, each once."""
        return record_shuffling.once(self._shards(parts)).map(self._load, os.cpu_count())

    def broken_images(self):
        """Returns what is wrong with records that cannot be read or decoded: a list of texts."""
        paths = sorted({shard.path for shards in self._parts.values() for shard in shards})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return [fault for found in pool.map(self._faults, paths) for fault in found]

    def _shards(self, parts):
        return [shard for part in parts for shard in self._parts[part]]

    def _load(self, record, key=None, position=None):
        contents, label = self._parse(record)
        in_range = tf.debugging.Assert(
            tf.logical_and(label >= 0, label < self.num_classes), [_BAD_LABEL, label]
        )
        with tf.control_dependencies([in_range] if in_range is not None else []):
            return self._as_input(contents, key, position), tf.cast(label, tf.int32)

    def _faults(self, path):
        return faults(path, lambda record: self._load(record)[0])


_BAD_LABEL = "no class has the label"


def faults(path, load):
    """Returns what is wrong with the records of a file: a list of texts.

    Args:
        path: Path of the file.
        load: Function of a record, string [], that returns a tensor, or fails.
    """
    name, found, number = os.path.basename(path), [], 0
    count, is_all = count_whole_records(path)
    with tf.Graph().as_default():
        dataset = tf.data.TFRecordDataset(path).take(count)
        records = tf.data.make_one_shot_iterator(dataset).get_next()
        record = tf.placeholder(tf.string, [])
        loaded = load(record)
        with tf.Session() as session:
            while True:
                try:
                    session.run(loaded, {record: session.run(records)})
                except tf.errors.OutOfRangeError:
                    too_long = f"{name}, record {count}: it is longer than the rest of the file"
                    return found if is_all else [*found, too_long]
                except tf.errors.DataLossError:
                    # Where the next one begins is not known.
                    return [
                        *found,
                        f"{name}, record {number}: its checksum is not that of its bytes",
                    ]
                except tf.errors.InvalidArgumentError as error:
                    found.append(f"{name}, record {number}: {_reason(error)}")
                number += 1


def _reason(error):
    lines = error.message.splitlines()
    known = (line for line in lines if _BAD_LABEL in line or BAD_SIZE in line)
    return next(known, lines[0]).strip()
