"""Reads how large images are from the first bytes of their files, without decoding them."""

import struct

HEAD = 16 * 1024  # bytes, in which the size of a small image is found
VARIES = (None, None, 3)  # the common shape of images that have none

_PNG = b"\x89PNG\r\n\x1a\n"
_GREY = (0, 4)  # of a PNG file: grey, without and with transparency
_NO_FRAME = (0xC4, 0xC8, 0xCC)  # markers of JPEG between those of frames that tell no size


def shape_of(head):
    """Returns the shape of an image.

    Args:
        head: Bytes, the first ones of a JPEG or PNG file.

    Returns:
        Ints `(height, width, channels)`, of 1 or 3 channels; None if the bytes do not tell.
    """
    if head.startswith(_PNG) and len(head) > 25:
        width, height = struct.unpack(">II", head[16:24])
        return height, width, 1 if head[25] in _GREY else 3
    if head.startswith(b"\xff\xd8"):
        return _of_jpeg(head)
    return None


def common(shapes):
    """Returns the shape that all images have, `VARIES` if they differ or one is not known."""
    different = set(shapes)
    return different.pop() if len(different) == 1 and None not in different else VARIES


def _of_jpeg(head):
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # Fills up.
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return height, width, 1 if head[at + 9] == 1 else 3
        else:
            at += 2 + struct.unpack(">H", head[at + 2 : at + 4])[0]
    return None
