"""Images of one to three bright or dark boxes, drawn by a seed, encoded for the default boxes."""

import anchors
import numpy as np
import tensorflow as tf

NUM_CLASSES = 3  # Background, bright and dark.


def _example(random, boxes):
    image = random.normal(0.0, 0.2, (anchors.IMAGE_SIZE, anchors.IMAGE_SIZE, 3))
    found, classes = [], []
    for _ in range(random.randint(1, 4)):
        size = random.uniform(0.2, 0.5, 2)
        centre = random.uniform(size / 2, 1 - size / 2)
        label = random.randint(1, NUM_CLASSES)
        low, high = (
            (centre - size / 2) * anchors.IMAGE_SIZE,
            (centre + size / 2) * anchors.IMAGE_SIZE,
        )
        rows, columns = (slice(int(a), int(b)) for a, b in zip(low, high))
        image[rows, columns] += 1.0 if label == 1 else -1.0
        found.append(np.concatenate([centre, size]))
        classes.append(label)
    labels, targets = anchors.encode(found, classes, boxes)
    return image.astype(np.float32), labels, targets


def get_split(name, num_samples):
    random = np.random.RandomState({"train": 1, "test": 2}[name])
    boxes = anchors.default_boxes()
    images, labels, targets = map(
        np.stack, zip(*(_example(random, boxes) for _ in range(num_samples)))
    )
    return tf.data.Dataset.from_tensor_slices(
        ({"image": images}, {"classes": labels, "locations": targets})
    )
