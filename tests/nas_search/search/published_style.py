"""A `model_fn` that calls this project's modules as TuNAS' own program calls its modules.

Nothing in it is of this project but the modules' place: names, arguments and settings are the
published ones, see Bender, Liu et al., CVPR 2020.
"""

import os

import tensorflow.compat.v1 as tf

from examples.nas_search import (
    controller,
    cost_model_lib,
    custom_layers,
    mobile_classifier_factory,
    mobile_cost_model,
    schema_io,
    search_space_utils,
    tpu_optimizer_ops,
)
from examples.nas_search.rematlib import layers

CLASSES = 1001  # The published networks have as many without being told so.


def make_params(directory, **changes):
    """Returns settings as the published program resolves its flags; no other has been added."""
    return {
        "checkpoint_dir": str(directory),
        "ssd": "digits_search",
        "model_learning_rate": 0.1,
        "model_momentum": 0.9,
        "model_weight_decay": 4e-5,
        "model_warmup_steps": 0,
        "rl_learning_rate": 0.1,
        "rl_entropy_regularization": 0.01,
        "rl_baseline_momentum": 0.95,
        "rl_delay_steps": 1,
        "rl_reward_function": search_space_utils.RL_REWARD_ABS,
        "rl_cost_model_target": 0.012,
        "rl_cost_model_exponent": -0.1,
        "increase_ops_warmup_steps": 1,
        "increase_filters_warmup_steps": 1,
        "use_exponential_rl_learning_rate_schedule": True,
        "enable_cost_model": True,
        "use_bfloat16": "false",
        "use_gradient_sync_barrier": True,
        "max_global_step": 4,
        "tpu_iterations_per_loop": 2,
        **changes,
    }


def model_fn(features, labels, mode, params):
    """Builds the search step of two cores, or of towers; images have their rows last."""
    images = {part: tf.transpose(batch, [3, 0, 1, 2]) for part, batch in features.items()}
    global_step = tf.train.get_or_create_global_step()
    cores = params["cores"]

    spec = mobile_classifier_factory.get_model_spec(params["ssd"])
    with tf.io.gfile.GFile(os.path.join(params["checkpoint_dir"], "spec.json"), "w") as file:
        file.write(schema_io.serialize(spec))
    ops_steps, filters_steps = (
        params[f"increase_{each}_warmup_steps"] for each in ("ops", "filters")
    )
    with tf.variable_scope("rl_controller") as scope:
        spec, draw = controller.independent_sample(
            spec,
            increase_ops_probability=custom_layers.linear_decay(
                global_step=global_step, decay_steps=ops_steps, name="increase_ops"
            ),
            increase_filters_probability=custom_layers.linear_decay(
                global_step=global_step, decay_steps=filters_steps, name="increase_filters"
            ),
            name=scope,
        )
    cost_features = mobile_cost_model.coupled_tf_features(spec)
    cost = cost_model_lib.estimate_cost(cost_features, params["ssd"])

    model = mobile_classifier_factory.get_model_for_search(
        spec, kernel_regularizer=tf.keras.regularizers.l2(0.5 * params["model_weight_decay"])
    )
    model.build(images["train"].shape)
    with tf.name_scope("training"):
        logits, _ = model.apply(images["train"], training=True)
        loss = tf.losses.softmax_cross_entropy(
            onehot_labels=labels["train"], logits=logits, label_smoothing=0.1
        )
        loss += model.regularization_loss()
        learning_rate = custom_layers.cosine_decay_with_linear_warmup(
            peak_learning_rate=params["model_learning_rate"],
            global_step=global_step,
            max_global_step=params["max_global_step"],
            warmup_steps=params["model_warmup_steps"],
        )
        optimizer = tf.train.RMSPropOptimizer(
            learning_rate, decay=0.9, momentum=params["model_momentum"], epsilon=1.0
        )
        if cores > 1:
            optimizer = tf.tpu.CrossShardOptimizer(optimizer)
        pairs = optimizer.compute_gradients(loss, var_list=model.trainable_variables())
        if params["use_gradient_sync_barrier"]:
            pairs = barrier(pairs)
        update = optimizer.apply_gradients(pairs)

    with tf.name_scope("validation"), tf.control_dependencies([update]):
        (valid,) = layers.with_data_dependencies(
            [weight.read_value() for weight in model.trainable_variables()], [images["validation"]]
        )
        logits, _ = model.apply(valid, training=False)
        hits = tf.equal(tf.argmax(logits, 1), tf.argmax(labels["validation"], 1))
        accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))

    with tf.name_scope("controller"):
        rewards = search_space_utils.reward_for_single_cost_model(
            accuracy,
            rl_reward_function=params["rl_reward_function"],
            estimated_cost=cost,
            rl_cost_model_target=params["rl_cost_model_target"],
            rl_cost_model_exponent=params["rl_cost_model_exponent"],
        )
        reward = rewards["rl_reward"]
        mean = tf.tpu.cross_replica_sum(reward) / cores if cores > 1 else reward
        baseline = custom_layers.update_exponential_moving_average(
            tensor=mean, momentum=tf.constant(params["rl_baseline_momentum"]), name="rl_baseline"
        )
        adam = tpu_optimizer_ops.apply_adam(
            -tf.stop_gradient(reward - baseline) * draw["sample_log_prob"],
            regularization_loss=-params["rl_entropy_regularization"] * draw["entropy"],
            global_step=global_step,
            var_list=tf.trainable_variables(scope.name),
            learning_rate=params["rl_learning_rate"]
            * custom_layers.linear_warmup(global_step, params["rl_delay_steps"], name="delay"),
            beta1=0.0,
            transform_grads_fn=barrier,
        )
    scalars = tf.stack([loss, reward, cost, baseline])[tf.newaxis]
    return tf.estimator.tpu.TPUEstimatorSpec(
        mode, loss=loss, train_op=tf.group(update, adam), host_call=(_written, [scalars])
    )


def barrier(grads_and_vars):
    """Lets no gradient be used before all are computed."""
    gradients, variables = zip(*grads_and_vars)
    return list(zip(layers.with_data_dependencies(gradients, gradients), variables))


def _written(scalars):
    for index, name in enumerate(["loss", "reward", "cost", "baseline"]):
        tf.summary.scalar(f"search/{name}", tf.reduce_mean(scalars[:, index]))
    return tf.no_op()
