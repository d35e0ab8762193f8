"""The choice between layers: runs only those in use, and runs them again for gradients.

*Options* are layers with the same input; *shares* are the entries of the mask. The output is
Σ shareᵢ · optionᵢ(x) over the options with a share other than 0, which are *active*.

How it is built, and why so:

- Forward, each option stands in a `tf.cond` of its own, which adds to the sum of those before it or
  passes that on. An inactive option costs nothing, and the first one at most a tensor of zeros.
- `tf.custom_gradient` hides these branches from `tf.gradients`, which would keep their activations
  for the backward pass. Its inputs are x and the snapshots of the options' weights (see `base`), so
  that it finds no variables on its way back, and they get their gradients as any tensor does.
  All else that options capture, such as masks of widths, is constant to it.
- Backward, each active option runs again in a `tf.cond`, on copies of x and weights, and
  `tf.gradients` is called within that same branch, where it sees no conditional but nested
  switches, which have gradients of their own. So the scheme nests, with either version of control
  flow. The copies wait for the upstream gradient: otherwise they could run early, and be kept until
  needed, or be recognized as the forward pass and its activations kept instead.
- Conditionals are those of TensorFlow 1's control flow: those of version 2 are functions, of which
  TensorFlow prepares hundreds before the first step, and takes twice as long.
- What options draw at random is drawn before, by `Layer._prepare`, and is part of the run.
"""

import functools

import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import tensors
from examples.nas_search.rematlib.base import Layer
from examples.nas_search.rematlib.simple import Zeros


class Switch(Layer):
    """The sum of the outputs of several layers, weighted by a mask; computes the active ones.

    The penalty of an option is multiplied with its share. The mask gets no gradient. There are
    no gradients of gradients.

    Args:
        mask: Float tensor [number of options].
        options: List of layers with outputs of one shape. They must not update anything in
            training, as stateful batch normalization does.
        channels: How many channels the output has if they are fewer than those of the largest
            width, int32 scalar tensor; see `convolutions`. None if it has them all.

    Raises:
        ValueError: If there are no options or the mask does not fit them; when it is built, if
            shapes differ; when it is applied, if an option updates something.
    """

    def __init__(self, mask, options, channels=None):
        super().__init__()
        self._channels = channels
        if not options or not mask.shape.is_compatible_with([len(options)]):
            raise ValueError(
                "`mask` must have an entry for each option, at least one, but has shape "
                f"{mask.shape} for {len(options)} options."
            )
        self._mask = mask
        self._options = [self.track(option) for option in options]
        # `tf.custom_gradient` follows gradients back to variables, here those of the controller.
        self._shares = tf.unstack(tf.stop_gradient(mask), len(options))
        self._active = [tf.not_equal(share, 0) for share in self._shares]

    def chosen(self):
        """Returns the only option in use.

        Raises:
            ValueError: If the mask is no constant, or not one-hot.
        """
        shares = tf.get_static_value(self._mask)
        if shares is None or sorted(shares) != [0] * (len(shares) - 1) + [1]:
            raise ValueError(
                "One option is in use if `mask` is a constant that is one-hot, but it is "
                f"{self._mask if shares is None else shares.tolist()}."
            )
        return self._options[int(shares.argmax())]

    def _setup(self, input_shape):
        shapes = [option.build(input_shape)[1:] for option in self._options]
        if not shapes[0].is_fully_defined() or any(shape != shapes[0] for shape in shapes):
            raise ValueError(
                "All options of a Switch must have outputs of the same, known height, width and "
                f"number of channels, but they have {', '.join(map(str, shapes))}. Give them the "
                "same strides and filters."
            )
        return input_shape[:1].concatenate(shapes[0])

    def _penalties(self, run):
        scaled = [
            {
                key: penalty * tf.cast(share, penalty.dtype)
                for key, penalty in option._penalties(run).items()
            }
            for share, option in zip(self._shares, self._options)
        ]
        return tensors.largest(scaled)

    def _call(self, inputs, run):
        keys = _trainable_keys(self)

        @tf.custom_gradient
        def switch(x, *values):
            own_run = run.replace(dict(zip(keys, values)))

            def gradients(upstream):
                return self._gradients(dict(zip([None, *keys], [x, *values])), upstream, own_run)

            return self._sum(x, own_run), gradients

        return switch(inputs, *(run.values[key] for key in keys))

    def _sum(self, x, run):
        """Adds up the options' outputs."""
        total = None
        for share, active, option in self._computed():
            total = conditional(
                active,
                functools.partial(_add_output, total, share, option, x, run),
                functools.partial(self._skip_output, total, x),
            )
        if run.updates:
            raise ValueError(
                "Options of a Switch must not update anything, as they run more than once, but "
                f"these would: {[update.name for update in run.updates]}. Use batch normalization "
                "with `stateful=False`."
            )
        return self._skip_output(total, x)

    def _skip_output(self, total, x):
        if total is not None:
            return tf.identity(total)
        return tensors.zeros_of_batch(x, self._built_shape(x), self._channels)

    def _gradients(self, inputs, upstream, run):
        """Adds up the options' gradients.

        Args:
            inputs: Dict of the tensors to differentiate by: x, which has the key None, and weights.
            upstream: The gradient of the output.
            run: The `Run` of the forward pass.

        Returns:
            List of the gradients of `inputs`, in order.
        """
        sums = dict.fromkeys(inputs)
        for share, active, option in self._computed():
            keys = [None, *_trainable_keys(option)]
            totals = [sums[key] for key in keys]
            own_inputs = {key: inputs[key] for key in keys}
            totals = conditional(
                active,
                functools.partial(_add_gradients, totals, share, option, own_inputs, upstream, run),
                functools.partial(_skip_gradients, totals, own_inputs),
                strict=True,
            )
            sums.update(zip(keys, totals))
        return _skip_gradients(list(sums.values()), inputs)

    def _computed(self):
        """Yields share, activity and layer of the options that are not 0 anyway."""
        for option in zip(self._shares, self._active, self._options):
            if not isinstance(option[2], Zeros):
                yield option


def maybe_switch_v2(mask, options, channels=None):
    """Makes the layer of a choice, which may have been made already.

    Args:
        mask: None if it has been made. A tensor [1] multiplies the output of the only option, which
            is always computed: path dropout. Else as of `Switch`.
        options: List of layers.
        channels: As in `Switch`.

    Returns:
        A layer.

    Raises:
        ValueError: If there is no mask for several options, or as of `Switch`.
    """
    if mask is None:
        if len(options) != 1:
            raise ValueError(
                f"Only where there is one option `mask` can be None, but there are {len(options)}. "
                "Draw with `controller.independent_sample` or choose with `prune_model_spec`."
            )
        return options[0]
    if len(options) == 1 and mask.shape.is_compatible_with([1]):
        return Scaled(options[0], mask[0])
    return Switch(mask, options, channels)


class Scaled(Layer):
    """A layer times a number.

    Its variables have the names of the layer alone, so that a checkpoint of a network with path
    dropout can be restored into one without.

    Args:
        layer: The layer.
        scale: Scalar tensor; it gets no gradient.
    """

    def __init__(self, layer, scale):
        super().__init__()
        self._layer = self.track(layer)
        self._scale = tf.stop_gradient(scale)

    def build(self, input_shape):
        """Builds the layer, in no scope but its own."""
        output_shape = self._layer.build(input_shape)
        self._output_shapes[tuple(tf.TensorShape(input_shape).as_list()[1:])] = output_shape[1:]
        return output_shape

    def _call(self, inputs, run):
        output = self._layer(inputs, run)
        return output * tf.cast(self._scale, output.dtype)


def conditional(condition, on_true, on_false, **kwargs):
    """Does as `tf.cond`; outside of functions, by TensorFlow 1's control flow."""
    in_function = hasattr(tf.get_default_graph(), "outer_graph")
    if in_function or not tf.control_flow_v2_enabled():
        return tf.cond(condition, on_true, on_false, **kwargs)
    tf.disable_control_flow_v2()
    try:
        return tf.cond(condition, on_true, on_false, **kwargs)
    finally:
        tf.enable_control_flow_v2()


def _add_output(total, share, option, x, run):
    output = option(x, run)
    output *= tf.cast(share, output.dtype)
    return output if total is None else total + output


def _add_gradients(totals, share, option, inputs, upstream, run):
    upstream = tf.identity(upstream) * tf.cast(share, upstream.dtype)
    with tf.control_dependencies([upstream]):
        copies = {key: tf.identity(tensor) for key, tensor in inputs.items()}
    output = option(copies[None], run.replace(copies))
    gradients = tf.gradients(output, list(copies.values()), upstream, unconnected_gradients="zero")
    return [own if total is None else total + own for total, own in zip(totals, gradients)]


def _skip_gradients(totals, inputs):
    return [
        tf.zeros_like(tensor) if total is None else tf.identity(total)
        for total, tensor in zip(totals, inputs.values())
    ]


def _trainable_keys(layer):
    return [variable.ref() for variable in layer.trainable_variables()]
