"""What the losses of TPU replicas are to the loss of the whole batch: to be averaged or added up.

`replicate.tpu_training` knows it, and whoever gathers gradients asks here. Where nobody said, as in
TPUEstimator, they are means over the rows of shards of equal size, and averaged.
"""

import contextlib
import contextvars

_added_up = contextvars.ContextVar("replicate_tpu_losses_added_up", default=False)


def are_added_up():
    """Whether the losses of the replicas that are built here are to be added up."""
    return _added_up.get()


@contextlib.contextmanager
def added_up(summed):
    """A scope in which the replicas' losses are to be added up if `summed`, else averaged."""
    token = _added_up.set(summed)
    try:
        yield
    finally:
        _added_up.reset(token)
