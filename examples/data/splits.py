"""Divides images into parts by their contents, so that an image never moves to another part.

Where an image goes depends on its own bytes and the fractions alone: neither on its name, nor on
other images, nor on a seed. Copies of an image are in one part. The test part does not change with
`validation_fraction`.
"""

import hashlib

PARTS = ("train", "validation", "test")


def part_of(contents, validation_fraction, test_fraction):
    """Returns the part that an image belongs to.

    Args:
        contents: Bytes that tell the image from others.
        validation_fraction: Share of all images that go to `validation`, in [0, 1].
        test_fraction: Share that go to `test`; both together at most 1.
    """
    digest = hashlib.blake2b(contents, digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64  # uniform in [0, 1)
    if place < test_fraction:
        return "test"
    return "validation" if place < test_fraction + validation_fraction else "train"


def parts_of(split):
    """Returns the parts that a split joins, as a tuple.

    Raises:
        ValueError: If it names something else, or a part twice.
    """
    parts = tuple(split.split("+"))
    if len(set(parts)) < len(parts) or not set(parts) <= set(PARTS):
        raise ValueError(
            f"A split must be one of {', '.join(PARTS)}, or several of them joined by a plus, but "
            f"is {split!r}. Pass e.g. 'train+validation'."
        )
    return parts
