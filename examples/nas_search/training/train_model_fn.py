"""A network that is trained alone: from settings to its spec, and to an Estimator's `model_fn`.

A *network* is a search space with one index for each of its choices, or a reference network, which
has no open choices. It is trained as searches train the shared weights, with the same loss,
optimizer and schedule; but its batch normalisation keeps moving statistics, with which it is
evaluated. After `mobile_train_eval` of TuNAS (Bender, Liu et al., CVPR 2020).
"""

import os

import tensorflow.compat.v1 as tf

import replicate
from examples.classifiers import evaluation
from examples.data import tpu
from examples.nas_search import mobile_classifier_factory, search_space_utils
from examples.nas_search.custom_layers import cosine_decay_with_linear_warmup
from examples.runs import cluster, summaries
from examples.runs.errors import UserError
from replicate import estimator


def model_spec(params, training=None):
    """Returns the network that settings describe.

    Args:
        params: Settings. `ssd` names a space or reference network; `indices`, separated by colons,
            choose from the space; `filters_multiplier` is a factor of all widths.
        training: Whether residual layers are dropped at `path_dropout_rate`, for which the spec
            gets masks in the current graph. None: no masks.

    Returns:
        A `ConvTowerSpec` whose choices have one alternative each.

    Raises:
        UserError: If the indices do not fit the space, or choices are left open.
    """
    try:
        spec = mobile_classifier_factory.get_model_spec(
            params["ssd"],
            indices=search_space_utils.parse_list(params["indices"], int),
            filters_multipliers=params["filters_multiplier"],
            path_dropout_rate=0.0 if training is None else params["path_dropout_rate"],
            training=training,
        )
    except ValueError as error:
        raise UserError(
            f"--ssd {params['ssd']} and --indices {params['indices']!r} must name a network: "
            f"{error}"
        ) from error
    _, networks = search_space_utils.cardinality(spec)
    if networks > 1:
        raise UserError(
            f"A network is trained alone once all is chosen, but --ssd {params['ssd']} leaves "
            f"{networks:,} networks, and there are no --indices. Pass those that `analyze` prints, "
            "or the --search_dir of a search."
        )
    return spec


def first_weights(params):
    """Returns the path of the checkpoint with which a training `from_search` starts, a str."""
    return os.path.join(params["checkpoint_dir"], "from_search", "weights")


def model_fn(features, labels, mode, params):
    """Builds a network; an Estimator's `model_fn`, to be replicated or not.

    Args:
        features: Images, float32 [rows, height, width, channels]; with `params['use_tpu']`,
            [height, width, channels, rows].
        labels: One-hot labels, float32 [rows, classes]. A row of zeros marks padding, which counts
            for nothing. None to predict.
        mode: A `tf.estimator.ModeKeys`.
        params: Dict of all settings, see `train_settings.py`.

    Returns:
        An `EstimatorSpec`, on TPUs a `TPUEstimatorSpec`. Predictions are `classes`, int64 [rows],
        and `probabilities`, float32 [rows, classes].
    """
    training = mode == estimator.ModeKeys.TRAIN
    images = tpu.network_input(features, params)
    model = mobile_classifier_factory.get_standalone_model(
        model_spec(params, training),
        kernel_regularizer=lambda kernel: params["weight_decay"] * tf.nn.l2_loss(kernel),
        dropout_rate=params["dropout_rate"],
        num_classes=params["num_classes"],
    )
    model.build(images.shape)
    if training and params.get("from_search") and cluster.writes(cluster.this_task()):
        first = first_weights(params)
        # A run that goes on has a checkpoint, which wins. Workers wait until all is there.
        names = {name: name for name, _ in tf.train.list_variables(first)}
        tf.train.init_from_checkpoint(first, names)
    logits, _ = model.apply(images, training)
    logits = tf.cast(logits, tf.float32)
    if mode == estimator.ModeKeys.PREDICT:
        return evaluation.inference_spec(mode, logits, None, None, params)

    empirical_loss = tf.losses.softmax_cross_entropy(
        labels, logits, weights=evaluation.weights(labels), label_smoothing=0.1
    )
    regularization_loss = model.regularization_loss()
    loss = empirical_loss + regularization_loss

    if mode == estimator.ModeKeys.EVAL:
        return evaluation.inference_spec(mode, logits, labels, loss, params)

    step = tf.train.get_or_create_global_step()
    learning_rate = cosine_decay_with_linear_warmup(
        params["learning_rate"], step, params["max_global_step"], params["warmup_steps"]
    )
    optimizer = replicate.TowerOptimizer(
        tf.train.RMSPropOptimizer(
            learning_rate, decay=0.9, momentum=params["momentum"], epsilon=1.0
        )
    )
    update = optimizer.minimize(loss, step, var_list=model.trainable_variables())
    scalars = replicate.cross_tower_mean(
        {
            "model/loss": loss,
            "model/empirical_loss": empirical_loss,
            "model/regularization_loss": regularization_loss,
            "model/learning_rate": learning_rate,
        }
    )
    return summaries.make_spec(mode, loss, tf.group(update, *model.updates()), scalars, params)
