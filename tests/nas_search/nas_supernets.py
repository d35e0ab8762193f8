"""Small super-networks, and how to take a network with its weights out of one."""

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_classifier_factory as factory
from examples.nas_search import schema
from examples.nas_search.basic_specs import ConvTowerSpec, block
from examples.nas_search.mobile_search_space_v3 import choose_filters
from examples.nas_search.rematlib import layers as lib
from examples.nas_search.spaces import search_spaces
from nas_search import nas_layers

NUM_CLASSES = 5


def excerpt(ssd, blocks, widths):
    """A space with some blocks of another, by number, with few layers and channels."""
    space = search_spaces.get_search_space_spec(ssd)
    chosen = []
    for number, filters in zip(blocks, widths):
        layers = space.blocks[number].layers
        if len(layers) > 4:  # One bottleneck, three that can be skipped, and maybe an endpoint.
            layers = layers[:2] + layers[4:]
        chosen.append(block(layers, choose_filters(filters)))
    return ConvTowerSpec(chosen, filters_base=4)


def digits():
    return search_spaces.get_search_space_spec("digits_search")


def tiny():
    """One block with choices."""
    return excerpt("digits_search", [0, 1, 3], [[4], [4, 8], [8]])


def proxyless():
    """Fixed and drawn widths, the separable convolution in three copies, and skips."""
    return excerpt(
        "proxylessnas_enlarged_search", [0, 1, 2, 7, 8], [[4, 8], [8], [4, 8, 12], [8], [16]]
    )


def v3_like():
    """Kernel sizes in the stem, squeeze-and-excite, multiples of drawn widths, a head with bias."""
    widths = [[4, 8], [4, 8, 12], [8], [16, 20], [12, 24]]
    return excerpt("mobilenet_v3_like_search", [0, 1, 5, 6, 7], widths)


def sequences():
    """Kernels that are pairs, and pools beside a convolution."""
    return excerpt("pulses_search", [0, 1, 2], [[4, 8], [4, 8], [8]])


SPACES = {"digits": digits, "proxyless": proxyless, "v3_like": v3_like, "sequences": sequences}
SHAPES = {
    "digits": [3, 8, 8, 1],
    "proxyless": [3, 16, 16, 3],
    "v3_like": [3, 16, 16, 3],
    "sequences": [3, 1, 16, 1],
}


def sizes(space):
    """The number of choices of each `OneOf`, in visiting order."""
    found = []
    schema.map_oneofs(lambda oneof: found.append(len(oneof.choices)), space)
    return found


def draw(space, seed):
    """Indices of a network."""
    random = np.random.RandomState(seed)
    return [random.randint(size) for size in sizes(space)]


def with_masks(space, masks):
    """A space with a mask for each choice, in visiting order."""
    queue = iter(masks)
    return schema.map_oneofs(
        lambda oneof: schema.OneOf(oneof.choices, oneof.tag, next(queue)), space
    )


def placeholders(space):
    """Masks to be fed: of constant ones the session would spend long on what is never drawn."""
    return [tf.placeholder(tf.float32, [size]) for size in sizes(space)]


def one_hot(masks, indices):
    """Returns the feeds with which a network is drawn."""
    return {mask: np.eye(*mask.shape.as_list())[index] for mask, index in zip(masks, indices)}


def supernet(space, masks, shape, **kwargs):
    """The built network that shares weights."""
    model = factory.get_model_for_search(
        with_masks(space, masks), num_classes=NUM_CLASSES, **kwargs
    )
    model.build(shape)
    return model


def save_weights(directory, space, shape, step=1, num_classes=10):
    """Saves a checkpoint with random weights of a super-network, as a search that is at a step."""
    with tf.Graph().as_default():
        model = factory.get_model_for_search(
            with_masks(space, placeholders(space)), num_classes=num_classes
        )
        with tf.variable_scope("model"):
            model.build(shape)
        weights = {variable.op.name: variable for variable in model.trainable_variables()}
        with nas_layers.session() as session:
            nas_layers.randomize(session, weights.values(), low=-1.0, high=1.0)
            global_step = tf.Variable(np.int64(step))
            session.run(global_step.initializer)
            saver = tf.train.Saver({**weights, "global_step": global_step})
            saver.save(session, str(directory / "model.ckpt"), step)


def layers_of_drawn(layer, shares):
    """Yields the layers that one-hot masks leave of a network, in order of their use."""
    if isinstance(layer, lib.Switch):
        (index,) = np.flatnonzero(shares[layer])
        yield from layers_of_drawn(layer._options[index], shares)
        return
    yield layer
    for child in layer._children:
        yield from layers_of_drawn(child, shares)


def copy_drawn(model, alone, session, feed):
    """Gives a network that is alone the part of a super-network's weights that it has drawn.

    Returns:
        List of triples: variables of the super-network and of the network, and slices of the first.
    """
    shares = {layer: layer._shares for layer in model._layers() if isinstance(layer, lib.Switch)}
    drawn = layers_of_drawn(model, session.run(shares, feed))
    full = [weight.variable for layer in drawn for weight in layer._weights.values()]
    own = alone.trainable_variables()
    assert [name(a) for a in full] == [name(b) for b in own]
    parts = [tuple(map(slice, variable.shape.as_list())) for variable in own]
    values = session.run(full)
    nas_layers.load(session, {v.ref(): value[part] for v, value, part in zip(own, values, parts)})
    return list(zip(full, own, parts))


def name(variable):
    return variable.op.name.rsplit("/", 1)[1]
