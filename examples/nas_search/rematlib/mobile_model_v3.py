"""From a spec to a network.

Open choices of a spec become part of the network: *widths* become masks or slices of weights, and
*operations* become switches between layers, of which those drawn run. As little as possible is in a
switch, so that as many weights as possible are shared: kernel sizes have depthwise convolutions of
their own but share the 1×1 convolutions around them. After TuNAS (Bender, Liu et al., CVPR 2020).
"""

import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_specs as specs
from examples.nas_search import schema
from examples.nas_search.rematlib import layers as lib
from examples.nas_search.rematlib import widths
from examples.nas_search.rematlib.builder import Builder


def _default_regularizer(kernel):
    return 4e-5 * tf.nn.l2_loss(kernel)


def get_model(
    model_spec,
    kernel_initializer=None,
    depthwise_initializer=None,
    dense_initializer=None,
    kernel_regularizer=_default_regularizer,
    batch_norm_epsilon=0.001,
    force_stateless_batch_norm=False,
    dropout_rate=0,
    num_classes=1001,
    slice_widths=False,
):
    """Makes the network of a spec.

    Args:
        model_spec: A `ConvTowerSpec`. Choices of several have a mask: one-hot for widths, any for
            operations.
        kernel_initializer: Initialiser of convolutions; None for He et al.'s.
        depthwise_initializer: Initialiser of depthwise convolutions; None for
            `depthwise_he_normal`.
        dense_initializer: Initialiser of the classifier; None for N(0, 0.01²).
        kernel_regularizer: Function from a kernel to its penalty, or None. It is applied to the
            channels in use of all kernels but the classifier's, and to nothing else. By default
            4e-5 / 2 · Σ w².
        batch_norm_epsilon: Number that is added to variances.
        force_stateless_batch_norm: Whether to normalize by the batch in evaluation as well. A
            network with open choices needs that.
        dropout_rate: Probability of being dropped before the classifier, in [0, 1].
        num_classes: Number of outputs.
        slice_widths: Whether only the channels of drawn widths are computed, for which shapes must
            not be fixed. False: all of the largest width are, and those not in use are 0.

    Returns:
        A layer from images [rows, height, width, channels] to a pair: logits [rows, num_classes],
        and the list of endpoints, one tensor [rows, height, width, channels] for each
        `DetectionEndpointSpec`.

    Raises:
        ValueError: If an argument is not as above or the spec makes no network; where it is one
            layer's fault, the message names it.
    """
    if model_spec.filters_base < 1:
        raise ValueError(f"`filters_base` must be at least 1, but is {model_spec.filters_base}.")
    if not force_stateless_batch_norm:
        schema.map_oneofs_with_paths(_check_chosen, model_spec)
    builder = Builder(
        filters_base=model_spec.filters_base,
        convolution={
            "kernel_initializer": kernel_initializer,
            "kernel_regularizer": kernel_regularizer,
        },
        depthwise_convolution={
            "depthwise_initializer": depthwise_initializer,
            "depthwise_regularizer": kernel_regularizer,
        },
        batch_norm={"epsilon": batch_norm_epsilon, "stateful": not force_stateless_batch_norm},
        slice_widths=slice_widths,
    )
    layers, endpoints, width = [], [], None
    for block_number, block in enumerate(model_spec.blocks):
        filters = widths.choose(block.filters, None, model_spec.filters_base)
        for number, spec in enumerate(block.layers):
            try:
                if isinstance(spec, specs.DetectionEndpointSpec):
                    endpoints += _last(layers)
                else:
                    layer, width = builder.layer(spec, width, filters)
                    layers.append(layer)
            except ValueError as error:
                path = f"blocks/{block_number}/layers/{number}"
                raise ValueError(f"{error} [Layer {path}.]") from error
    if dropout_rate:
        layers.append(lib.Dropout(dropout_rate))
    layers.append(
        builder.conv(
            1,
            1,
            width,
            widths.fixed(num_classes),
            use_bias=True,
            kernel_initializer=dense_initializer or tf.random_normal_initializer(stddev=0.01),
            kernel_regularizer=None,
        )
    )
    layers.append(lib.GlobalAveragePool())
    return lib.Sequential(layers, aux_outputs=endpoints)


def _last(layers):
    if not layers:
        raise ValueError(
            "An endpoint marks the output of the layer before it, but there is none. Move the "
            "`DetectionEndpointSpec` behind a layer."
        )
    return layers[-1:]


def _check_chosen(path, oneof):
    if len(oneof.choices) > 1:
        raise ValueError(
            "A network with open choices has no meaningful moving averages, but "
            f"`force_stateless_batch_norm` is False and {path} is open. Use "
            "`mobile_classifier_factory.get_model_for_search`, or choose with `prune_model_spec`."
        )
    return oneof
