"""Towers of uneven shards against the plain network on one device, step by step."""

import functools

import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from examples.revnet import RevNet
from revnet import revnet_networks as networks
from revnet.revnet_networks import eager, error

STEPS, ROWS = 2, 7
RATE = 0.25  # exact in the float32 that optimizers keep it in


def _config(**fields):
    """A network that keeps, reconstructs and stores, as small as it can be."""
    return networks.config(units=(3, 2), filters=(4, 6), initial_filters=4, **fields)


def _batches(config):
    return [networks.batch(config, ROWS, seed) for seed in range(STEPS)]


def _model_fn(config, by_hand, summed, features, labels, mode, loss_scale=None):
    model = RevNet(config)
    plain = tf.train.GradientDescentOptimizer(RATE)
    optimizer = replicate.TowerOptimizer(plain, loss_scale=loss_scale)
    logits, saved_hidden = model(features, training=True)

    def of_shard(loss):
        """Makes the sum of the rows' losses of their mean; penalties are the towers' shares."""
        penalties = tf.add_n(model.losses)
        return (loss - penalties) * tf.cast(tf.shape(labels)[0], loss.dtype) / ROWS + penalties

    if by_hand:
        scale_loss = of_shard if summed else optimizer.scale_loss
        gradients, loss = model.compute_gradients(saved_hidden, labels, scale_loss=scale_loss)
        gradients = optimizer.unscale(gradients)
        update = optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    else:
        loss = model.training_loss(labels, logits)
        update = optimizer.minimize(of_shard(loss) if summed else loss)
    loss = of_shard(loss) if summed else loss
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(update, model.updates))


def _run(config, num_towers, by_hand, summed=False, loss_scale=None, steps=STEPS, **kwargs):
    """Returns the losses of the steps, and all variables after them by name."""
    model_fn = functools.partial(_model_fn, config, by_hand, summed, loss_scale=loss_scale)
    batches = _batches(config)[:steps]
    with tf.Graph().as_default():
        tf.train.create_global_step()
        rows = [tf.placeholder(each.dtype, each.shape) for each in batches[0]]
        reduction = contract.SUM if summed else contract.MEAN
        replicated = contract.replicated(model_fn, num_towers, reduction, **kwargs)
        spec = replicated(*rows, contract.ModeKeys.TRAIN)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        session_config = replicate.session_config(contract.device_names(num_towers))
        session_config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=session_config) as session:
            session.run(tf.global_variables_initializer())
            losses = [
                session.run([spec.loss, spec.train_op], dict(zip(rows, batch)))[0]
                for batch in batches
            ]
            return losses, session.run(variables)


@functools.lru_cache(maxsize=None)
def _one_device(config):
    """Trains the plain network; returns losses, and weights by place."""
    losses = []
    with eager():
        model = RevNet(config)
        weights = {networks.place(v): v.numpy() for v in model.variables}
        trained = [networks.place(variable) for variable in model.trainable_variables]
        for images, labels in _batches(config):
            values = {at: tf.constant(value) for at, value in weights.items()}
            plain = networks.Plain(config, values)
            with tf.GradientTape() as tape:
                tape.watch(values)
                loss = plain.loss(tf.constant(images), tf.constant(labels))
            gradients = tape.gradient(loss, [values[at] for at in trained])
            losses.append(loss.numpy())
            for at, gradient in zip(trained, gradients):
                weights[at] = weights[at] - RATE * gradient.numpy()
            momentum = config.batch_norm_momentum
            for at, x in plain.inputs.items():
                pixels = x.numpy().reshape([-1, x.shape[-1]])
                moments = {"mean": pixels.mean(0), "variance": pixels.var(0, ddof=1)}
                for name, value in moments.items():
                    old = weights[f"{at}/moving_{name}"]
                    weights[f"{at}/moving_{name}"] = momentum * old + (1 - momentum) * value
    return losses, weights


def _by_place(variables):
    return {
        name.split("rev_net/")[1]: value for name, value in variables.items() if "rev_net/" in name
    }


def _check(config, run):
    losses, variables = run
    wanted_losses, wanted = _one_device(config)
    assert error(losses, wanted_losses) < 1e-10
    found = _by_place(variables)
    assert set(wanted) <= set(found)
    assert error([found[at] for at in wanted], list(wanted.values())) < 1e-9


@pytest.mark.parametrize(
    "num_towers, by_hand",
    [
        (2, True),
        (3, False),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in [(1, True), (2, False), (3, True)]
        ),
    ],
)
def test_towers_are_one_device(num_towers, by_hand):
    config = _config()
    _check(config, _run(config, num_towers, by_hand))


@pytest.mark.parametrize("by_hand", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_penalties_count_once_in_a_sum(by_hand):
    config = _config(weight_decay=0.1)
    _check(config, _run(config, 2, by_hand, summed=True))


@pytest.mark.parametrize("by_hand", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_a_loss_scale_changes_nothing(by_hand):
    config = _config()
    _check(config, _run(config, 2, by_hand, loss_scale=1024.0))


def test_moving_statistics_that_towers_have_by_themselves_are_averaged():
    config = _config(cross_tower_batch_norm=False)
    _, variables = _run(config, 2, by_hand=True, steps=1, per_tower=True)
    found = _by_place(variables)
    images, _ = _batches(config)[0]
    of_towers = []
    with eager():
        for shard in (images[:4], images[4:]):
            model = RevNet(config)
            model(tf.constant(shard), training=True)
            of_towers.append({networks.place(v): v.numpy() for v in model.non_trainable_variables})
    places = list(of_towers[0])
    one, other = ([of_tower[at] for at in places] for of_tower in of_towers)
    assert error(one, other) > 1e-3
    means = [(4 * a + 3 * b) / 7 for a, b in zip(one, other)]
    assert error([found[at] for at in places], means) < 1e-12


@pytest.mark.thorough
def test_variables_have_the_same_names():
    config = networks.config("max_pool")

    def names(num_towers):
        with tf.Graph().as_default():
            tf.train.create_global_step()
            rows = map(tf.constant, networks.batch(config, 4))
            model_fn = functools.partial(_model_fn, config, False, False)
            contract.replicated(model_fn, num_towers)(*rows, contract.ModeKeys.TRAIN)
            return {variable.op.name for variable in tf.global_variables()}

    alone = names(1)
    assert names(2) == alone
    assert "rev_net/stage_1/unit_1/g/layer_1/moving_variance" in alone
