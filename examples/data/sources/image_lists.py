"""Finds the images of a folder, checks them, and divides them into parts.

    dataset_dir/<class>/<image>          all parts are chosen among these images; or
    dataset_dir/train/<class>/<image>    training and validation images, and
    dataset_dir/test/<class>/<image>     test images

Images are files called *.jpg, *.jpeg or *.png. Classes are numbered by their names' order. Hidden
files are left out.
"""

import concurrent.futures
import os
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from examples.data import splits
from examples.data.errors import DataError
from examples.data.sources import image_sizes

LAYOUT = (
    "The images of a class belong into a folder of their own: dataset_dir/<class>/<image>.jpg, "
    ".jpeg or .png; where test images are set apart, dataset_dir/train/<class>/... and "
    "dataset_dir/test/<class>/..."
)
_SUFFIXES = (".jpg", ".jpeg", ".png")
_PEEK = image_sizes.HEAD  # bytes at each end of a file that tell it from others
_THREADS = 16


class FileLists(NamedTuple):
    """The images of a folder."""

    classes: List[str]  # names, by label
    files: Dict[str, List[Tuple[int, str]]]  # (label, path below the folder), by part
    shapes: FrozenSet[Optional[Tuple[int, int, int]]]  # all that images have, None: not known


def scan(directory, validation_fraction, test_fraction):
    """Returns the `FileLists` of a folder.

    Args:
        directory: Path, local or of any file system that `tf.io.gfile` knows.
        validation_fraction: Share of the images to validate with; see `splits.part_of`.
        test_fraction: Share of the images to test with, unless they are set apart.

    Raises:
        DataError: If the folder is missing, is laid out in another way, or an image is damaged.
    """
    check_exists(directory)
    if set(_folders(directory)) >= {"train", "test"}:
        train_root, test_root = "train", "test"
    else:
        train_root, test_root = "", None
    classes = _folders(os.path.join(directory, train_root))
    if len(classes) < 2:
        raise DataError(
            f"A dataset must have two classes or more, but {os.path.join(directory, train_root)} "
            f"has {len(classes)}: {', '.join(classes) or 'no folders'}. {LAYOUT}"
        )
    if test_root is None:
        files, shapes = _by_contents(directory, "", classes, validation_fraction, test_fraction)
    else:
        _check_same_classes(classes, _folders(os.path.join(directory, test_root)), directory)
        files, shapes = _by_contents(directory, train_root, classes, validation_fraction, 0.0)
        tested, others = _by_contents(directory, test_root, classes, 0.0, 1.0)
        files, shapes = {**files, "test": tested["test"]}, shapes | others
    return FileLists(classes, files, shapes)


def check_exists(directory):
    """Raises `DataError` unless `directory`, a path or None, is a folder."""
    if not directory:
        raise DataError(f"Pass --dataset_dir, the folder of the images. {LAYOUT}")
    if not tf.io.gfile.isdir(directory):
        raise DataError(f"`dataset_dir` must be a folder, but {directory!r} is none. {LAYOUT}")


def _folders(directory):
    """Returns the names of the folders in a folder, in order."""
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(directory))
    return sorted(
        name
        for name in names
        if not name.startswith(".") and tf.io.gfile.isdir(os.path.join(directory, name))
    )


def _check_same_classes(train, test, directory):
    if train != test:
        missing = [f"test/{name}" for name in train if name not in test]
        missing += [f"train/{name}" for name in test if name not in train]
        raise DataError(
            f"Training and test images must have the same classes, but {directory} lacks "
            f"{_several(missing)}. Name the folders alike."
        )


def _by_contents(directory, root, classes, validation_fraction, test_fraction):
    """Returns the files and shapes of images below `directory/root`, as `FileLists` has them."""
    by_part = {part: [] for part in splits.PARTS}
    shapes = set()
    broken = []

    def look(path):
        try:
            contents, shape, fault = _look(os.path.join(directory, path))
        except tf.errors.OpError as error:
            contents, shape, fault = b"", None, f"cannot be read ({error.message})"
        return splits.part_of(contents, validation_fraction, test_fraction), shape, fault

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        for label, name in enumerate(classes):
            paths = _images(directory, os.path.join(root, name))
            for path, (part, shape, fault) in zip(paths, pool.map(look, paths)):
                by_part[part].append((label, path))
                shapes.add(shape)
                if fault:
                    broken.append(f"{path} {fault}")
    if broken:
        count = sum(map(len, by_part.values()))
        raise DataError(
            f"{len(broken)} of {count} images in {directory} are damaged: {_several(broken)}. "
            "Copy them again, or remove them."
        )
    return by_part, frozenset(shapes)


def _images(directory, folder):
    """Returns the paths of the images in `directory/folder` below `directory`, in order."""
    images = [
        os.path.join(folder, name)
        for name in sorted(tf.io.gfile.listdir(os.path.join(directory, folder)))
        if name.lower().endswith(_SUFFIXES) and not name.startswith(".")
    ]
    if not images:
        raise DataError(
            f"Each class must have images, but {os.path.join(directory, folder)} has none that is "
            f"called {', '.join(f'*{suffix}' for suffix in _SUFFIXES)}. {LAYOUT}"
        )
    if any("\n" in path for path in images):
        raise DataError(
            f"Images must not have a line break in their names, but one in "
            f"{os.path.join(directory, folder)} has. Rename it."
        )
    return images


def _look(path):
    """Returns bytes that tell an image from others, its shape, and what is wrong with it.

    The second and the third may be None.
    """
    with tf.io.gfile.GFile(path, "rb") as file:
        size = file.size()
        head = file.read(_PEEK)
        if size > 2 * _PEEK:
            file.seek(size - _PEEK)
        tail = file.read(_PEEK)
        fault = _fault(head, tail or head)
        if fault and size > 2 * _PEEK:  # Rarely, something follows the end of the image.
            file.seek(0)
            fault = _fault(head, file.read(size))
    return size.to_bytes(8, "big") + head + tail, image_sizes.shape_of(head), fault


def _fault(head, tail):
    """Returns what is wrong with a file that begins and ends with these bytes, or None."""
    if not head:
        return "is empty"
    if head.startswith(b"\xff\xd8\xff"):
        end = b"\xff\xd9"
    elif head.startswith(b"\x89PNG\r\n\x1a\n"):
        end = b"IEND"
    else:
        return "is neither JPEG nor PNG"
    return None if end in tail else "ends too early"


def _several(items):
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")
