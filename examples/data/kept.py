"""What a run keeps of its data below its checkpoint directory: file lists, counts, class names."""

import json
import os

import tensorflow.compat.v1 as tf

DIRECTORY = "dataset"
CLASSES = "classes.json"  # a dict whose entry `classes` is a list of names, by label


def class_names(checkpoint_dir):
    """Returns the names of the classes, a list by label; None if the run did not keep them."""
    path = os.path.join(checkpoint_dir, DIRECTORY, CLASSES)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        return json.load(file)["classes"]
