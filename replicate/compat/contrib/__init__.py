"""Where each name of `tf.contrib` lives now, for TensorFlow 2, which has it no more.

`names/` has one line a name; `find` reads it. `modules` makes a `tensorflow.contrib` of it, which
`replicate.compat.install` puts in place. The other files hold what is small and exact enough to be
replicate's own, each in the room that it had in `tf.contrib`.
"""

from replicate.compat.contrib.table import Place, find

__all__ = ["Place", "find"]
