"""Finds the replacement of each name of `tf.contrib`, which TensorFlow 2 does not have any more.

`names/` has one line for each name; `find` reads it. `modules` makes a `tensorflow.contrib` from
it, which `replicate.compat.install` sets. The other files implement names that are small enough to
be reproduced exactly here, each file named after the package of `tf.contrib` that had them.
"""

from replicate.migration.contrib.table import Place, find

__all__ = ["Place", "find"]
