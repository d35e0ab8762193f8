"""Small data sets in files of records, as others would have prepared them."""

import itertools

import numpy as np
import tensorflow.compat.v1 as tf

# A record with a length of 2⁶⁰, whose checksum is right: TensorFlow takes memory for it, and dies.
HUGE = bytes.fromhex("0000000000000010c4234e8e") + b"its contents"


def pictures(count, side=8, channels=3, seed=0):
    """Returns images of noise, uint8 [count, side, side, channels]."""
    shape = (count, side, side, channels)
    return np.random.RandomState(seed).randint(256, size=shape).astype(np.uint8)


def encode(images, suffix="png"):
    """Returns images as the bytes of files."""
    encoder = {"png": tf.io.encode_png, "jpg": tf.io.encode_jpeg}[suffix]
    with tf.Graph().as_default(), tf.Session() as session:
        image = tf.placeholder(tf.uint8, [None, None, None])
        encoded = encoder(image)
        return [session.run(encoded, {image: pixels}) for pixels in images]


def example(contents, label, names=("image/encoded", "image/class/label")):
    """Returns the bytes of a `tf.train.Example` with an image file and its class."""
    values = (
        tf.train.Feature(bytes_list=tf.train.BytesList(value=[contents])),
        tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    )
    features = tf.train.Features(feature=dict(zip(names, values)))
    return tf.train.Example(features=features).SerializeToString()


def write_shards(directory, split, records, counts):
    """Writes records to files like train-00000-of-00002, so many to each."""
    directory.mkdir(parents=True, exist_ok=True)
    records = iter(records)
    for i, count in enumerate(counts):
        path = directory / f"{split}-{i:05}-of-{len(counts):05}"
        write_file(path, itertools.islice(records, count))


def write_file(path, records):
    """Writes records to a file."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def write_tfds(
    data_dir, name, splits, config="", version="1.0.0", shard=7, image=None, num_classes=10
):
    """Writes a data set as TFDS prepares it; returns its directory.

    Args:
        data_dir: A `pathlib.Path`.
        name: Of the data set.
        splits: Dict of images, uint8 [count, height, width, channels], by split. Their labels are
            0, 1, ..., num_classes - 1, 0, ...
        config: Name of a configuration.
        version: Of the data set.
        shard: Images in a file.
        image: Feature of an image; None: one for images of the same size.
        num_classes: Int.
    """
    import tensorflow_datasets as tfds

    directory = data_dir / name / config / version
    directory.mkdir(parents=True)
    shape = next(iter(splits.values())).shape[1:]
    identity = tfds.core.dataset_info.DatasetIdentity(
        name=name,
        version=tfds.core.Version(version),
        data_dir=str(directory),
        module_name="",
        config_name=config or None,
    )
    info = tfds.core.DatasetInfo(
        builder=identity,
        features=tfds.features.FeaturesDict(
            {
                "id": tfds.features.Text(),
                "image": image or tfds.features.Image(shape=shape),
                "label": tfds.features.ClassLabel(num_classes=num_classes),
            }
        ),
        supervised_keys=("image", "label"),
    )
    writer = tfds.core.SequentialWriter(info, max_examples_per_shard=shard)
    writer.initialize_splits(list(splits))
    for split, images in splits.items():
        writer.add_examples(
            {
                split: [
                    {"id": str(i), "image": pixels, "label": i % num_classes}
                    for i, pixels in enumerate(images)
                ]
            }
        )
    writer.close_all()
    return directory
