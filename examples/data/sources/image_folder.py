"""A folder of images of one's own, of which ImageNet is one.

Which file is in which part is found out once, when a run starts, and kept in its checkpoint
directory: so a resumed run sees the same images even if files were added meanwhile, and lists of
millions of files stay out of the graph.
"""

import concurrent.futures
import json
import os

import tensorflow.compat.v1 as tf

from examples.data import dataset_metadata, shuffling, splits
from examples.data.preprocessing.image_files import Preprocessing
from examples.data.sources import image_lists, image_sizes

_SUMMARY = dataset_metadata.CLASSES  # written last: where it is, the lists are complete


class ImageFolder:
    """A folder of images as a source, see `datasets.py`; its layout is that of `image_lists.py`."""

    def __init__(self, params):
        """Finds the images, unless the run in `checkpoint_dir` did so when it started.

        Args:
            params: Dict with `dataset_dir`, `image_size` (pixels of an input's side; None: see
                `image_files.py`), `augmentation`, `validation_fraction`, `test_fraction` and
                `checkpoint_dir`.

        Raises:
            DataError: See `image_lists.scan`.
        """
        self._root = params["dataset_dir"]
        image_lists.check_exists(self._root)
        self._lists = os.path.join(params["checkpoint_dir"], dataset_metadata.DIRECTORY)
        summary = os.path.join(self._lists, _SUMMARY)
        started = tf.train.latest_checkpoint(params["checkpoint_dir"])
        if not (started and tf.io.gfile.exists(summary)):
            self._write_lists(
                image_lists.scan(self._root, params["validation_fraction"], params["test_fraction"])
            )
        recorded = dataset_metadata.read(summary, _is_summary)
        own_shape = recorded.get("image_shape")  # Those that began earlier lack it.
        self._as_input = Preprocessing.of(params, own_shape or image_sizes.VARIES)
        self.num_classes = len(recorded["classes"])
        self.sizes = recorded["sizes"]
        self.image_shape = self._as_input.shape
        self.augmentation = self._as_input.augmentation

    def training(self, parts, key, start, worker):
        """Returns the images of a stream and their labels, see `datasets.py`."""
        size = sum(self.sizes[part] for part in parts)
        return self._load(parts, shuffling.shuffled(size, key, start, worker), key)

    def evaluation(self, parts):
        """Returns the images of parts and their labels, each once."""
        return self._load(parts, shuffling.once(sum(self.sizes[part] for part in parts)))

    def _load(self, parts, rows, key=None):
        lines = tf.concat([self._lines(part) for part in parts], axis=0)

        def load(row, position):
            label_and_path = tf.strings.split([lines[row]], " ", maxsplit=1).values
            path = tf.strings.join([self._root, label_and_path[1]], "/")
            image = self._as_input(tf.io.read_file(path), key, position)
            return image, tf.strings.to_number(label_and_path[0], tf.int32)

        return rows.map(load, os.cpu_count())

    def broken_images(self):
        """Returns the images that cannot be decoded: paths below the folder."""
        with tf.Graph().as_default():
            contents = tf.placeholder(tf.string, [])
            shape = tf.shape(tf.io.decode_image(contents, channels=3, expand_animations=False))
            lines = tf.concat([self._lines(part) for part in splits.PARTS], axis=0)
            with tf.Session() as session:

                def is_broken(path):
                    with tf.io.gfile.GFile(os.path.join(self._root, path), "rb") as file:
                        try:
                            session.run(shape, {contents: file.read()})
                        except tf.errors.InvalidArgumentError:
                            return True
                    return False

                paths = [line.decode().split(" ", 1)[1] for line in session.run(lines)]
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    broken = list(pool.map(is_broken, paths))
        return [path for path, is_bad in zip(paths, broken) if is_bad]

    def _write_lists(self, lists):
        tf.io.gfile.makedirs(self._lists)
        for part, files in lists.files.items():
            self._write(f"{part}.txt", "".join(f"{label} {path}\n" for label, path in files))
        sizes = {part: len(files) for part, files in lists.files.items()}
        shape = image_sizes.common(lists.shapes)
        summary = {"classes": lists.classes, "sizes": sizes}
        if shape != image_sizes.VARIES:
            summary["image_shape"] = shape
        self._write(_SUMMARY, json.dumps(summary, indent=2, sort_keys=True) + "\n")

    def _write(self, name, text):
        with tf.io.gfile.GFile(os.path.join(self._lists, name), "w") as file:
            file.write(text)

    def _lines(self, part):
        """Returns the list of a part, string [images], read when the session runs."""
        text = tf.io.read_file(os.path.join(self._lists, f"{part}.txt"))
        lines = tf.strings.split([text], "\n").values
        return tf.boolean_mask(lines, tf.not_equal(lines, ""))


def _is_summary(value):
    sizes = value.get("sizes") if dataset_metadata.has_classes(value) else None
    return (
        isinstance(sizes, dict)
        and all(type(sizes.get(part)) is int and sizes[part] >= 0 for part in splits.PARTS)
        and ("image_shape" not in value or dataset_metadata.is_shape(value["image_shape"]))
    )
