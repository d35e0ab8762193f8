"""The search step: weight sharing and REINFORCE in one training step.

After "Can weight sharing outperform random architecture search? An investigation with TuNAS",
Bender, Liu et al., CVPR 2020. A *network* is one member of the search space; N towers draw N of
them per step. The *super-network* holds the weights that all networks share. The *controller* is
a distribution over networks: a vector of logits for each choice. In every step, each tower

1. draws a network from the controller,
2. estimates its cost,
3. takes part in one update of the shared weights, by the loss of its network on training images,
4. measures with the updated weights how accurate its network is on validation images,
5. rewards the controller for accuracy and cost, by one update together with all towers.

Nothing here names a device: the same function runs on one, on towers and in the replicas of a TPU.
"""

import tensorflow.compat.v1 as tf

import replicate
from examples.data import tpu
from examples.data.datasets import worker_of
from examples.nas_search import (
    controller,
    cost_model_lib,
    mobile_classifier_factory,
    schema_io,
    search_space_utils,
)
from examples.nas_search.custom_layers import (
    cosine_decay_with_linear_warmup,
    linear_decay,
    update_exponential_moving_average,
)
from examples.nas_search.rematlib.layers import with_data_dependencies
from examples.nas_search.search import (
    search_costs,
    search_settings,
    search_summaries,
    strategies,
)
from examples.nas_search.tpu_optimizer_ops import apply_adam
from examples.runs import cluster
from replicate import estimator


def model_fn(features, labels, mode, params, config=None):
    """Builds the search step; an Estimator's `model_fn`, to be replicated or not.

    Args:
        features: Dict of images, float [rows, height, width, channels], by part: `'train'` and
            `'validation'`; or laid out otherwise, see `tpu.network_input`.
        labels: Dict of one-hot labels, float32 [rows, classes], by part.
        mode: `tf.estimator.ModeKeys.TRAIN`.
        params: Dict of all settings, see `search_settings.py`; those of the published program
            suffice, see `search_settings.completed`.
        config: The Estimator's `RunConfig`, by which the workers of a cluster draw networks of
            their own. None: there is one.

    Returns:
        An `EstimatorSpec`, see `search_summaries.make_spec`. Its loss is that of the shared
        weights.

    Raises:
        NotImplementedError: If `mode` is another.
    """
    if mode != estimator.ModeKeys.TRAIN:
        raise NotImplementedError(
            f"A search can only be trained, but `mode` is {mode!r}. To evaluate the network that "
            "it found, train that alone: `python -m examples.nas_search train --search_dir SEARCH "
            "--checkpoint_dir NEW`."
        )
    params = search_settings.completed(params)
    step = tf.train.get_or_create_global_step()
    images = {part: tpu.network_input(batch, params) for part, batch in features.items()}

    # 1. Draw a network. At first some choices are replaced, so that all weights get trained: by
    #    the mean over all operations, or by the largest width, and no layer is skipped.
    space = mobile_classifier_factory.get_model_spec(params["ssd"])
    if cluster.writes(config):
        schema_io.save(space, params["checkpoint_dir"], "model_spec.json")
    increase_ops_prob = linear_decay(step, params["increase_ops_warmup_steps"])
    increase_filters_prob = linear_decay(step, params["increase_filters_warmup_steps"])
    costs = []
    if params["enable_cost_model"]:
        costs = search_costs.load(params, keep=cluster.writes(config))
    with tf.variable_scope("rl_controller") as controller_scope:
        network, draw = controller.independent_sample(
            space,
            initial_logits=strategies.initial_logits(costs, params),
            increase_ops_probability=increase_ops_prob,
            increase_filters_probability=increase_filters_prob,
            seed=_seed_of_draw(step, params, config),
            may_skip=_may_skip(step, params),
        )

    # 2. What does it cost?
    estimates = []
    if costs:
        cost_features = cost_model_lib.coupled_tf_features(network)
        estimates = [cost_model_lib.estimate_cost(cost_features, cost.model) for cost in costs]

    # 3. Train the shared weights.
    model = mobile_classifier_factory.get_model_for_search(
        network,
        kernel_regularizer=lambda kernel: params["model_weight_decay"] * tf.nn.l2_loss(kernel),
        num_classes=params["num_classes"],
        slice_widths=params["slice_widths"] and not params["use_tpu"],
    )
    with tf.variable_scope("model"):
        model.build(images["train"].shape)
        logits = tf.cast(_logits(model, images["train"], training=True), tf.float32)
    empirical_loss = tf.losses.softmax_cross_entropy(labels["train"], logits, label_smoothing=0.1)
    regularization_loss = model.regularization_loss()
    loss = empirical_loss + regularization_loss
    model_learning_rate = cosine_decay_with_linear_warmup(
        params["model_learning_rate"],
        step,
        strategies.training_steps(params),
        params["model_warmup_steps"],
    )
    optimizer = replicate.TowerOptimizer(
        tf.train.RMSPropOptimizer(
            model_learning_rate, decay=0.9, momentum=params["model_momentum"], epsilon=1.0
        )
    )
    weights = model.trainable_variables()
    # Before they are summed: no core sums a gradient that is still to compute others. XLA may drop
    # control dependencies.
    barrier = params["use_gradient_sync_barrier"]
    by_control = barrier and not params["use_tpu"]
    # Not the default, by which the gradients of each single operation wait for each other as well:
    # 5,000 operations that nothing needs, as no variable is updated before it is read.
    gate = optimizer.GATE_GRAPH if by_control else optimizer.GATE_NONE
    grads_and_vars = optimizer.compute_gradients(loss, var_list=weights, gate_gradients=gate)
    if barrier and params["use_tpu"]:
        gradients, weights = zip(*grads_and_vars)
        grads_and_vars = list(zip(with_data_dependencies(gradients, gradients), weights))
    model_update = optimizer.apply_gradients(grads_and_vars)

    # 4. How accurate is the same network with the updated weights?
    with tf.control_dependencies([model_update]):
        validation_images = images["validation"]
        if barrier and params["use_tpu"]:
            # XLA may drop the wait, but not what the images depend on.
            updated = [weight.read_value() for weight in weights]
            (validation_images,) = with_data_dependencies(updated, [validation_images])
        validation_logits = _logits(model, validation_images, training=False)
    accuracy = accuracy_of(labels["validation"], validation_logits)

    # 5. Reward the controller. All towers compare their rewards with one baseline.
    reward, cost_scalars = _reward(accuracy, costs, estimates, params)
    step_baseline = replicate.cross_tower_mean(reward)
    baseline = update_exponential_moving_average(step_baseline, params["rl_baseline_momentum"])
    advantage = reward - baseline
    controller_loss = -tf.stop_gradient(advantage) * draw["sample_log_prob"]
    entropy_loss = -params["rl_entropy_regularization"] * draw["entropy"]
    controller_learning_rate = _controller_learning_rate(step, params)
    controller_update = apply_adam(
        controller_loss,
        global_step=step,
        var_list=tf.trainable_variables(controller_scope.name),
        learning_rate=controller_learning_rate,
        beta1=0.0,
        beta2=0.999,
        epsilon=1e-8,
        regularization_loss=entropy_loss,
    )

    scalars = {
        "model/loss": loss,
        "model/empirical_loss": empirical_loss,
        "model/regularization_loss": regularization_loss,
        "model/learning_rate": model_learning_rate,
        "rlcontroller/increase_ops_prob": increase_ops_prob,
        "rlcontroller/increase_filters_prob": increase_filters_prob,
        "rlcontroller/empirical_loss": controller_loss,
        "rlcontroller/entropy_loss": entropy_loss,
        "rlcontroller/entropy": draw["entropy"],
        "rlcontroller/validation_accuracy": accuracy,
        "rlcontroller/reward": reward,
        "rlcontroller/step_baseline": step_baseline,
        "rlcontroller/baseline": baseline,
        "rlcontroller/advantage": advantage,
        "rlcontroller/log_prob": draw["sample_log_prob"],
        "rlcontroller/learning_rate": controller_learning_rate,
        **cost_scalars,
    }
    scalars = replicate.cross_tower_mean(scalars)
    scalars.update(search_summaries.logits("rlpathlogits", draw["logits_by_path"]))
    scalars.update(search_summaries.logits("rltaglogits", draw["logits_by_tag"]))
    train_op = tf.group(model_update, controller_update)
    return search_summaries.make_spec(mode, loss, train_op, scalars, params)


def _may_skip(step, params):
    """Returns whether layers may be skipped in this step, None if they always may."""
    delay = params["skip_delay_steps"]
    return step >= delay if delay else None


def _seed_of_draw(step, params, config):
    """Returns the seed of this tower's draw, int32 [2], so that a resumed search draws the same."""
    if params["seed"] is None:
        return None
    draw = tf.cast(step, tf.int32)
    if not params["use_tpu"]:  # On TPUs, towers are counted over all hosts.
        worker, workers = worker_of(config)
        draw = draw * workers + worker  # Several workers may be at the same step.
    draw = draw * replicate.num_towers() + replicate.tower_index()
    return tf.stack([params["seed"], draw])


def _logits(model, images, training):
    """Returns [rows, classes] as the network computes them, with the weights as they are now."""
    logits, _ = model.apply(images, training)
    return logits


def accuracy_of(labels, logits):
    """Returns the share of rows whose most probable class is theirs, float32 scalar.

    Logits are compared in their own type: XLA for TPUs was reported to choose other classes of
    bfloat16 that is cast first.
    """
    is_correct = tf.equal(tf.argmax(labels, axis=1), tf.argmax(logits, axis=1))
    return tf.reduce_mean(tf.cast(is_correct, tf.float32))


def _reward(accuracy, costs, estimates, params):
    """Returns the reward of a network, float32 scalar, and a dict of what it was made of."""
    if not costs:
        return accuracy, {}
    parts = search_space_utils.reward_for_cost_models(
        accuracy,
        rl_reward_function=params["rl_reward_function"],
        estimated_costs=estimates,
        rl_cost_model_targets=[cost.target for cost in costs],
        rl_cost_model_exponent=params["rl_cost_model_exponent"],
        cost_model_weights=[cost.weight for cost in costs],
    )
    scalars = {"rlcontroller/cost_adjustment": parts["rl_cost_adjustment"]}
    for suffix, cost, ratio in zip(search_costs.suffixes(costs), estimates, parts["rl_cost_ratio"]):
        scalars[f"rlcontroller/estimated_cost{suffix}"] = cost
        scalars[f"rlcontroller/cost_ratio{suffix}"] = ratio
    return parts["rl_reward"], scalars


def _controller_learning_rate(step, params):
    """Returns 0 until `rl_delay_steps`, then the rate, which may grow tenfold until the end."""
    delay, end = params["rl_delay_steps"], params["max_global_step"]
    rate = tf.constant(params["rl_learning_rate"])
    if params["use_exponential_rl_learning_rate_schedule"]:
        progress = tf.cast(step - delay, tf.float32) / max(end - delay, 1)
        rate *= tf.pow(10.0, tf.clip_by_value(progress, 0.0, 1.0))
    return tf.where(step < delay, tf.zeros_like(rate), rate)
