"""The program of a model card: it loads a SavedModel and classifies, with TensorFlow alone."""

_START = """\
import json
import sys

import numpy as np
import tensorflow as tf

folder, *files = sys.argv[1:]
with open(f"{folder}/network.json") as file:
    names = json.load(file)["class_names"]
"""
_FILES = """\
serve = tf.saved_model.load(folder).signatures["encoded:serving_default"]
answers = serve(encoded_images=tf.stack([tf.io.read_file(file) for file in files]))
"""
_PIXELS = """\
serve = tf.saved_model.load(folder).signatures["serving_default"]
images = np.concatenate([np.load(file) for file in files])
answers = serve(images=tf.constant(images, tf.float32))
"""
_END = """\
classes, probabilities = answers["classes"].numpy(), answers["probabilities"].numpy()
for number, row in zip(classes, probabilities):
    print(names[number] if names else number, f"{row[number]:.1%}")
"""


def program(record):
    """Returns the program, a str.

    Args:
        record: Dict of what network.json holds.
    """
    if takes_files(record):
        return _START.replace("import numpy as np\n", "") + _FILES + _END
    return _START + _PIXELS + _END


def introduction(record):
    """Returns how the program is called, a line of Markdown."""
    if takes_files(record):
        return "Save this as `classify.py`, and run `python classify.py FOLDER cat.jpg dog.png`:"
    shape = ", ".join(map(str, record["image_shape"]))
    return (
        "Save this as `classify.py`, and run `python classify.py FOLDER images.npy`, where the "
        f"file by `np.save` has an array [n, {shape}]:"
    )


def takes_files(record):
    """Whether the network takes the contents of image files."""
    return "encoded:serving_default" in record["signatures"]
