"""The checkpoints of a run: which there are, and how far training came."""

import tensorflow.compat.v1 as tf

from examples.runs.errors import UserError

# Of an Estimator; and in a `tf.train.Checkpoint(global_step=...)`, which names what it holds by
# the way to it.
_STEPS = ("global_step", "global_step/.ATTRIBUTES/VARIABLE_VALUE")


def latest_step(checkpoint_dir):
    """Returns the global step of the latest checkpoint in a directory, 0 if there is none."""
    checkpoint = tf.train.latest_checkpoint(checkpoint_dir)
    return step_of(checkpoint) if checkpoint else 0


def step_of(checkpoint):
    """Returns the global step of a checkpoint, of an Estimator or not, named by its path.

    Raises:
        UserError: If it holds none.
    """
    reader = tf.train.load_checkpoint(checkpoint)
    for name in _STEPS:
        if reader.has_tensor(name):
            return int(reader.get_tensor(name))
    raise UserError(
        f"A checkpoint must hold the global step of its training, but {checkpoint} does not. Name "
        "one that the command `train` wrote."
    )


def find(checkpoint_dir, checkpoint=None):
    """Returns the path of a checkpoint: the one named, or the latest in a directory.

    Args:
        checkpoint_dir: Where the network was trained.
        checkpoint: Path of a checkpoint, or None.

    Raises:
        UserError: If it is not there.
    """
    checkpoint = checkpoint or tf.train.latest_checkpoint(checkpoint_dir)
    if not checkpoint or not tf.io.gfile.exists(f"{checkpoint}.index"):
        raise UserError(
            "A network has the weights of a checkpoint, but there is none "
            f"{f'at {checkpoint}' if checkpoint else f'in {checkpoint_dir}'}. Train it first, with "
            "the command `train`."
        )
    return checkpoint
