"""Default boxes of a grid, and how boxes of the ground truth are matched to them and encoded."""

import numpy as np

GRIDS = (6, 3)
SCALES = (0.25, 0.5)
IMAGE_SIZE = 24
PRIOR_SCALING = (0.1, 0.2)


def default_boxes():
    """Returns all default boxes, [N, 4]: centre and size, relative to the image."""
    boxes = []
    for grid, scale in zip(GRIDS, SCALES):
        for row in range(grid):
            for column in range(grid):
                for ratio in (1.0, 2.0):
                    height, width = scale / np.sqrt(ratio), scale * np.sqrt(ratio)
                    boxes.append([(row + 0.5) / grid, (column + 0.5) / grid, height, width])
    return np.array(boxes, np.float32)


def _corners(boxes):
    return np.concatenate(
        [boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], -1
    )


def jaccard(box, anchors):
    box, anchors = _corners(box), _corners(anchors)
    sides = np.minimum(box[2:], anchors[:, 2:]) - np.maximum(box[:2], anchors[:, :2])
    inter = np.prod(np.maximum(sides, 0.0), axis=1)
    areas = np.prod(anchors[:, 2:] - anchors[:, :2], axis=1)
    return inter / (areas + np.prod(box[2:] - box[:2]) - inter)


def encode(boxes, classes, anchors, threshold=0.4):
    """Returns for each anchor its class, 0 for background, and where its box lies from it."""
    labels = np.zeros(len(anchors), np.int64)
    targets = np.zeros([len(anchors), 4], np.float32)
    for box, label in zip(boxes, classes):
        overlap = jaccard(box, anchors)
        matched = overlap > min(threshold, overlap.max() - 1e-6)
        labels[matched] = label
        targets[matched, :2] = (box[:2] - anchors[matched, :2]) / anchors[matched, 2:]
        targets[matched, 2:] = np.log(box[2:] / anchors[matched, 2:])
    targets[:, :2] /= PRIOR_SCALING[0]
    targets[:, 2:] /= PRIOR_SCALING[1]
    return labels, targets.astype(np.float32)
