"""Damages files of bytes at random, from one wrong bit to another file altogether."""

import struct

# Lengths that a reader might believe: none, negative, and more than any memory.
LENGTHS = [0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 2**40, 2**63 - 1, 2**64 - 1]


def damaged(good, random):
    """Returns bytes with one to three damages, for a `random.Random`."""
    for _ in range(random.randint(1, 3)):
        good = random.choice([_flip, _cut, _insert, _overwrite, _repeat, _length, _noise])(
            good, random
        )
    return good


def _place(contents, random):
    return random.randrange(len(contents) + 1)


def _flip(contents, random):
    if not contents:
        return contents
    changed = bytearray(contents)
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(contents, random):
    return contents[: _place(contents, random)]


def _insert(contents, random):
    at = _place(contents, random)
    return contents[:at] + random.randbytes(random.randint(1, 40)) + contents[at:]


def _overwrite(contents, random):
    at, some = _place(contents, random), random.randbytes(random.randint(1, 40))
    return contents[:at] + some + contents[at + len(some) :]


def _repeat(contents, random):
    start, end = sorted((_place(contents, random), _place(contents, random)))
    return contents[:end] + contents[start:end] * random.randint(1, 3) + contents[end:]


def _length(contents, random):
    """Puts a length where the file may have one."""
    at, kind = _place(contents, random), random.choice("IQ")
    value = random.choice(LENGTHS) & (2**32 - 1 if kind == "I" else 2**64 - 1)
    packed = struct.pack(random.choice("<>") + kind, value)
    return contents[:at] + packed + contents[at + len(packed) :]


def _noise(contents, random):
    # Rarely: a file altogether different is refused at once.
    return random.randbytes(random.randint(0, 300)) if random.random() < 0.3 else contents
