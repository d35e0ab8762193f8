"""A trained network, whatever engine trained it."""

import tensorflow.compat.v1 as tf

from examples.revnet import loops
from examples.revnet.model_fn import make_model
from examples.runs.errors import UserError


def load(params, checkpoint):
    """Returns the `RevNet` of resolved settings with the weights of a checkpoint.

    Args:
        params: Settings, of which `engine` says how the checkpoint was written.
        checkpoint: Its path.

    Raises:
        UserError: If it is that of another network.
    """
    model = make_model(params)
    try:
        if params["engine"] in loops.ENGINES:
            restored = tf.compat.v2.train.Checkpoint(model=model).restore(checkpoint)
            restored.assert_existing_objects_matched().expect_partial()
        else:
            reader = tf.train.load_checkpoint(checkpoint)
            for variable in model.variables:
                variable.assign(reader.get_tensor(variable.name.split(":")[0]))
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"A checkpoint must be of the network that params.json describes, but {checkpoint} is "
            f"not: {reason}. Name one that this network's training wrote."
        ) from error
    return model
