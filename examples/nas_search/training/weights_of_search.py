"""Weights with which a network starts that a search found: slices of the search's shared weights.

A super-network has the weights of the widest layers and of all branches. For each weight of the
network alone, `slices` takes the part that the drawn network uses: the first channels of a masked
kernel, scale and offset of batch normalisation likewise, in the branch that was chosen. With
statistics of the batch, logits are then those of the super-network that draws this network.

A super-network has no moving statistics. They start from a pass over training images: means over
`_BATCHES` batches, or as many as an epoch has, of what the network with its new weights sees there.

Both networks are made of the same spec, so that the weights in use are in the same order.
"""

import os

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_classifier_factory, schema, search_space_utils
from examples.nas_search.rematlib.switch import Switch
from examples.nas_search.schema import OneOf
from examples.nas_search.training.train_model_fn import first_weights, model_spec
from examples.runs.errors import UserError

_SCOPE = "model"  # of the super-network, see `search/model_fn.py`
_BATCHES = 50
_MOMENTUM = 0.99  # of moving statistics, as `BatchNorm` has it


def check(params):
    """Checks that the search has a checkpoint; returns its path.

    Raises:
        UserError: If it has none.
    """
    checkpoint = tf.train.latest_checkpoint(params["search_dir"])
    if not checkpoint:
        raise UserError(
            "--from_search starts with the weights of a search, but there is no checkpoint in "
            f"--search_dir {params['search_dir']}. Name a search that has run, or leave out "
            "--from_search."
        )
    return checkpoint


def write(params, data):
    """Writes the checkpoint of the first weights, moving statistics included.

    Args:
        params: Settings, as `train_settings.resolve` returns them, with `from_search`.
        data: The open `Data` to train on.

    Raises:
        UserError: If the search has no checkpoint, or its weights have other shapes.
    """
    first = slices(params)
    with tf.Graph().as_default(), tf.Session() as session:
        rows = params["train_batch_size"]
        batches = data.input_fn(params["train_split"], rows, training=True)
        images, _ = tf.data.make_one_shot_iterator(batches).get_next()
        model = alone(params, images)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        session.run(tf.global_variables_initializer())
        for name, value in first.items():
            variables[name].load(value, session)
        count = max(1, min(_BATCHES, data.size(params["train_split"]) // rows))
        for _ in range(count):
            session.run(model.updates())
        _remove_start(set(variables) - set(first), variables, count, session)
        path = first_weights(params)
        tf.io.gfile.makedirs(os.path.dirname(path))
        saver = tf.train.Saver(variables, write_version=tf.train.SaverDef.V2)
        saver.save(session, path, write_meta_graph=False, write_state=False)


def _remove_start(names, variables, count, session):
    """Takes the values that moving statistics began with out of their means over some updates."""
    share = _MOMENTUM**count
    for name in names:
        start = 1.0 if name.endswith("variance") else 0.0
        value = session.run(variables[name])
        variables[name].load((value - share * start) / (1 - share), session)


def alone(params, images):
    """Builds the network in the current graph and applies it to images, by their statistics.

    Args:
        params: Settings.
        images: Float tensor [rows, height, width, channels].

    Returns:
        The network, a `rematlib` layer. Its `updates()` are those of moving statistics.
    """
    model = mobile_classifier_factory.get_standalone_model(
        model_spec(params), num_classes=params["num_classes"]
    )
    model.build(images.shape)
    model.apply(images, training=True)
    return model


def slices(params):
    """Returns the weights of the network alone, arrays by name; moving statistics are not there.

    Args:
        params: Settings, as `train_settings.resolve` returns them. Those used are `search_dir`,
            `ssd`, `indices`, `filters_multiplier`, `image_shape` and `num_classes`.

    Raises:
        UserError: If the search has no checkpoint, or its weights have other shapes.
    """
    reader = tf.train.load_checkpoint(check(params))
    shapes = reader.get_variable_to_shape_map()
    with tf.Graph().as_default():
        images = tf.zeros([1, *params["image_shape"]])
        with tf.variable_scope(_SCOPE):
            shared = shared_network(params)
            shared.build(images.shape)
        own = mobile_classifier_factory.get_standalone_model(
            model_spec(params), num_classes=params["num_classes"]
        )
        own.build(images.shape)
        found = {}
        for whole, part in zip(_used(shared), _used(own)):
            name, shape = whole.op.name, whole.shape.as_list()
            if shapes.get(name) != shape:
                raise UserError(
                    f"--from_search needs the weights of the space, such as {name} of shape "
                    f"{shape}, but in the checkpoint of {params['search_dir']} it is "
                    f"{shapes.get(name, 'not there')}. Leave out --from_search."
                )
            channels = tuple(slice(size) for size in part.shape.as_list())
            found[part.op.name] = reader.get_tensor(name)[channels].astype(np.float32)
    return found


def shared_network(params):
    """Returns the super-network in which the network is drawn, not yet built."""
    space = mobile_classifier_factory.get_model_spec(params["ssd"])
    indices = iter(search_space_utils.parse_list(params["indices"], int))

    def draw(oneof):
        mask = np.eye(len(oneof.choices), dtype=np.float32)[next(indices)]
        return OneOf(oneof.choices, oneof.tag, tf.constant(mask))

    return mobile_classifier_factory.get_model_for_search(
        schema.map_oneofs(draw, space), num_classes=params["num_classes"]
    )


def _used(layer):
    """Returns the trainable variables that a network uses: of a switch, those of one branch."""
    if isinstance(layer, Switch):
        return _used(layer.chosen())
    own = [weight.variable for weight in layer._weights.values() if weight.variable.trainable]
    return own + [variable for child in layer._children for variable in _used(child)]
