"""`RevNet`: the network, and its gradients by hand."""

import dataclasses
import functools
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from examples.revnet.network.config import RevNetConfig
from examples.revnet.network.residual_functions import after
from examples.revnet.network.stages import Body
from examples.revnet.network.stem_and_head import Head, Stem

# There is nothing to convert in what follows, and AutoGraph takes longer to see that than the graph
# takes to be built.
_as_it_is = tf.autograph.experimental.do_not_convert


class SavedHidden(NamedTuple):
    """Tensors that the forward pass saves for `RevNet.compute_gradients`."""

    images: Any
    stem_statistics: Any  # of the first batch norm
    values: Any  # of the weights of the body, see `Body.values`; None: as they are
    saved: Any  # see `Body.train`
    hidden: Any  # the last pair
    statistics: Any  # of the last batch norm


class RevNet(tf.keras.Model):
    """A reversible residual network, which recomputes its activations in the backward pass.

        model = RevNet(preset("cifar38"))
        with tf.GradientTape() as tape:
            logits, _ = model(images, training=True)
            loss = model.training_loss(labels, logits)
        grads = tape.gradient(loss, model.trainable_variables)

    The same without a tape, from what the forward pass saved:

        _, saved_hidden = model(images, training=True)
        grads, loss = model.compute_gradients(saved_hidden, labels)

    Both take the memory of one unit, however many there are. They do the same eagerly, in a
    `tf.function`, in graphs, on towers and on TPUs; `tf.gradients` and optimizers go the first way.

    After "The Reversible Residual Network: Backpropagation Without Storing Activations", Gomez,
    Ren, Urtasun and Grosse, NIPS 2017.

    Args:
        config: A `RevNetConfig`; see `preset`.
        name: Name of the model, in which its variables are.

    Raises:
        ValueError: If TensorFlow cannot convolve that way on this host.
    """

    def __init__(self, config, name="rev_net"):
        super().__init__(name=name, dtype=config.variable_dtype)
        self.config = config
        if config.data_format == "channels_first" and config.dtype in ("float64", "float16"):
            _check_gpu(config.dtype)
        with tf.name_scope(self.name):
            self.stem = Stem(config)
            self.body = Body(config)
            self.head = Head(config)
        self.built = True

    @_as_it_is
    def call(self, images, training=False):
        """Computes the network.

        Args:
            images: Float [n, height, width, channels], or [n, channels, height, width], as the
                configuration says.
            training: Whether batch norm goes by the moments of the batch, which then move the
                moving statistics once, and dropout drops; a Python bool. That does not depend on
                what is `trainable`: layers that are frozen only keep their weights.

        Returns:
            Logits, float [n, num_classes], and what `compute_gradients` needs: a nested structure
            of tensors, None if not `training`.

        Raises:
            ValueError: If images are of another shape than the configuration has.
        """
        images = tf.cast(images, self.dtype)
        self._check(images)
        if not training:
            return self.head.infer(self.body.infer(self.stem.infer(images))), None
        hidden, stem_statistics = self.stem.forward(images)
        values = self.body.values()
        hidden, saved = self.body.train(hidden, values)
        logits, statistics = self.head.forward(hidden)
        of_stem = self.stem.updates(stem_statistics)
        self._move([*of_stem, *self.body.updates(saved), *self.head.updates(statistics)])
        # A graph must not read weights once more: by then they might be updated. Eagerly that is
        # later, and what is held would be copied then.
        values = None if tf.executing_eagerly() else values
        return logits, SavedHidden(images, stem_statistics, values, saved, hidden, statistics)

    @_as_it_is
    def compute_gradients(self, saved_hidden, labels, training=True, scale_loss=None):
        """Computes the gradients of the loss by going back through the units.

        Args:
            saved_hidden: The second result of calling the model with `training=True`.
            labels: Classes, integers [n], or their probabilities, float [n, num_classes].
            training: True; there are no gradients of inference.
            scale_loss: Function from the loss to the one to differentiate, such as that of a
                `TowerOptimizer` with a loss scale. None: as it is.

        Returns:
            List of the gradients of the scaled loss, in the order of `trainable_variables`; and
            `training_loss`, not scaled.

        Raises:
            ValueError: If there is nothing saved, or `training` is false.
        """
        if saved_hidden is None or not training:
            raise ValueError(
                "Gradients are computed from what training saved, but "
                f"{'`training` is false' if not training else '`saved_hidden` is None'}. "
                "Pass what `model(images, training=True)` returned in addition to the logits."
            )
        images, stem_statistics, values, saved, hidden, statistics = saved_hidden
        values = self.body.values() if values is None else values
        pooled, *replayed = self.head.replay(hidden, statistics)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(pooled)
            loss = self.training_loss(labels, self.head.classify(pooled))
            scaled = loss if scale_loss is None else scale_loss(loss)
        d_pooled = tape.gradient(scaled, pooled)
        d_hidden, d_head = self.head.gradients(d_pooled, statistics, *replayed)
        d_hidden, d_body = self.body.backward(hidden, d_hidden, saved, values)
        # Of penalties, and of the last layer. They are as large as all weights, so that a graph has
        # them when activations are gone.
        with tf.control_dependencies(d_hidden):
            direct = tape.gradient(scaled, self.trainable_variables)
        del tape
        through = dict(zip(map(id, self.body.learned), tf.nest.flatten(d_body)))
        through.update(self.stem.gradients(d_hidden, *after(d_hidden, images), stem_statistics))
        through.update(d_head)
        grads = [
            _sum(through.get(id(variable)), gradient)
            for variable, gradient in zip(self.trainable_variables, direct)
        ]
        return grads, loss

    def training_loss(self, labels, logits):
        """Returns the loss: the mean cross-entropy over rows, in nats, and the weight penalties.

        Args:
            labels: Classes, integers [n], or their probabilities, float [n, num_classes].
            logits: Float [n, num_classes].
        """
        labels = tf.convert_to_tensor(labels)
        if labels.dtype.is_floating:
            losses = tf.nn.softmax_cross_entropy_with_logits_v2(
                labels=tf.cast(labels, logits.dtype), logits=logits
            )
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.cast(labels, tf.int32), logits=logits
            )
        return tf.add_n([tf.reduce_mean(losses), *self.losses])

    def get_config(self):
        """Returns what `from_config` makes the model of: a dict that can be written as JSON."""
        return {"config": dataclasses.asdict(self.config), "name": self.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a model of what `get_config` returned."""
        del custom_objects
        return cls(RevNetConfig(**config["config"]), config["name"])

    def _move(self, updates):
        """Moves the moving statistics, once per call."""
        momentum = self.config.batch_norm_momentum
        for variable, value in updates:
            step = tf.cast(variable - tf.stop_gradient(value), variable.dtype) * (1 - momentum)
            self.add_update(functools.partial(variable.assign_sub, step))

    def _check(self, images):
        height, width, channels = self.config.image_shape
        expected = [height, width, channels]
        if self.config.data_format == "channels_first":
            expected = [channels, height, width]
        if images.shape.rank != 4 or not images.shape[1:].is_compatible_with(expected):
            raise ValueError(
                f"Images must be of shape [n, {', '.join(map(str, expected))}], as `image_shape` "
                f"and `data_format` of the configuration say, but they are {images.shape}. Resize "
                "or transpose them, or configure the network for them."
            )


def _sum(gradient, other):
    """Returns the sum of two gradients, either of which may be None."""
    known = [each for each in (gradient, other) if each is not None]
    return tf.add_n(known) if known else None


def _check_gpu(dtype):
    if not tf.config.list_physical_devices("GPU"):
        raise ValueError(
            f"TensorFlow convolves {dtype} in `data_format` 'channels_first' on GPUs only, and "
            "this host has none. Take 'channels_last', or another `dtype`."
        )
