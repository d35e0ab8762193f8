"""Moves codebases of TensorFlow 1: `scan` lists the changes, `installation` spares most of them.

`contrib` replaces names of `tf.contrib`, and `tensorflow_1` lets `tensorflow` mean version 1.
Nothing here knows of towers: of the library, this package imports `compat` alone, and only
`python -m replicate scan` and `replicate.compat.install` start it.
"""

__all__ = ["contrib", "installation", "scan"]
