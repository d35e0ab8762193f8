"""Trainings that start with the weights of a search: the network is that of the super-network."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples import data
from examples.nas_search import mobile_classifier_factory
from examples.nas_search.rematlib import layers as lib
from examples.nas_search.rematlib.switch import Switch
from examples.nas_search.training import (
    mobile_train_eval,
    train_model_fn,
    train_settings,
    weights_of_search,
)
from examples.runs import settings_file
from examples.runs.errors import UserError
from nas_search import nas_searches
from nas_search.nas_searches import INDICES

SKIPPING = ":".join(map(str, INDICES))  # skips one optional layer of two
NARROW = "0:1:0:0:1:1:0:0:1:0:0:0:0:0"  # the narrowest, with layers and without
WIDE = "0:0:1:1:1:0:2:1:0:1:1:0:2:0"


def save_search(directory, params):
    """Saves a super-network with random weights, batch normalisation too, as a search does."""
    random = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("model"):
            network = weights_of_search.shared_network(params)
            network.build([1, *params["image_shape"]])
        step = tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        for variable in network.trainable_variables():
            variable.load(random.normal(0, 0.4, variable.shape.as_list()), session)
        tf.train.Saver().save(session, str(directory / "model.ckpt"), step)


@pytest.fixture
def settings(tmp_path):
    """Returns a function of settings that returns those of a training from a search's weights."""

    def make(**given):
        search = tmp_path / "search"
        params = {"ssd": "digits_search", "seed": 0, "dataset": "digits", **given}
        params.update(validation_fraction=0.2, test_fraction=0.2)
        nas_searches.write_search(search, **params)
        small = {"train_batch_size": 16, "max_global_step": 1, "num_towers": 1}
        return train_settings.resolve(
            **{**small, **given},
            search_dir=str(search),
            from_search=True,
            checkpoint_dir=str(tmp_path / "alone"),
        )

    return make


def logits_of(build, values, images):
    """Returns what a network makes of images by their statistics, with values of its variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        logits, _ = build(tf.constant(images))
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            variable.load(values[variable.op.name], session)
        return session.run(logits)


@pytest.mark.parametrize("indices", [SKIPPING, NARROW, WIDE])
def test_logits_are_those_of_the_super_network(settings, tmp_path, indices):
    params = settings(indices=indices)
    save_search(tmp_path / "search", params)
    images = np.random.RandomState(1).normal(size=[6, 8, 8, 1]).astype(np.float32)

    def shared(images):
        network = weights_of_search.shared_network(params)
        with tf.variable_scope("model"):
            network.build(images.shape)
            return network.apply(images, training=True)

    def alone(images):
        network = mobile_classifier_factory.get_standalone_model(
            train_model_fn.model_spec(params), num_classes=10
        )
        network.build(images.shape)
        return network.apply(images, training=True)

    reader = tf.train.load_checkpoint(str(tmp_path / "search"))
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    wanted = logits_of(shared, values, images)
    got = logits_of(alone, weights_of_search.slices(params), images)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    assert np.ptp(wanted, axis=0).min() > 0.1  # they depend on the image


def test_training_starts_with_these_weights(settings, tmp_path):
    """At a rate of 0 they stay, on two towers; moving statistics have those of the images."""
    params = settings(num_towers=2, base_learning_rate=0.0, indices=SKIPPING)
    save_search(tmp_path / "search", params)
    mobile_train_eval.train(params)
    wanted = weights_of_search.slices(params)
    reader = tf.train.load_checkpoint(str(tmp_path / "alone"))
    for name, value in wanted.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value)
    first = tf.train.load_checkpoint(train_model_fn.first_weights(params))
    names = [name for name in first.get_variable_to_shape_map() if "moving" in name]
    assert names and set(first.get_variable_to_shape_map()) == {*names, *wanted}
    assert all(np.any(first.get_tensor(n) != float("variance" in n)) for n in names)


def test_moving_statistics_are_those_of_training_images(settings, tmp_path):
    params = settings(indices=SKIPPING, train_batch_size=64)
    save_search(tmp_path / "search", params)
    opened = data.open_data(params)
    weights_of_search.write(params, opened)
    reader = tf.train.load_checkpoint(train_model_fn.first_weights(params))
    kernel = reader.get_tensor("sequential/sequential/conv2d/kernel")
    with tf.Graph().as_default(), tf.Session() as session:
        batches = opened.input_fn("train", 10**4, training=False)
        images, _ = tf.data.make_one_shot_iterator(batches).get_next()
        moments = tf.nn.moments(tf.nn.conv2d(images, kernel, padding="SAME"), [0, 1, 2])
        wanted = session.run(moments)
    scope = "sequential/sequential/batch_norm"
    got = [reader.get_tensor(f"{scope}/moving_{name}") for name in ("mean", "variance")]
    scale = np.sqrt(wanted[1])
    np.testing.assert_allclose(got[0] / scale, wanted[0] / scale, atol=0.05)
    np.testing.assert_allclose(got[1], wanted[1], rtol=0.1)


def test_a_run_that_goes_on_keeps_its_weights(settings, tmp_path):
    params = settings(indices=SKIPPING, momentum=0.0)
    save_search(tmp_path / "search", params)

    def train(params):
        settings_file.save(params)
        mobile_train_eval.train(params)
        reader = tf.train.load_checkpoint(str(tmp_path / "alone"))
        return reader.get_tensor("sequential/conv2d/kernel")

    before = train(params)
    assert np.any(before != weights_of_search.slices(params)["sequential/conv2d/kernel"])
    (tmp_path / "search" / "checkpoint").unlink()  # The search may have gone.
    after = train({**params, "max_global_step": 2, "learning_rate": 0.0})
    np.testing.assert_array_equal(after, before)


# Searches that have no such weights.


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"with the weights of a search, but there is no --search_dir\. Pass it"),
        ({"search_dir": True, "filters_multiplier": 0.5}, r"but --filters_multiplier is 0\.5\."),
        ({"search_dir": True, "tpu": "mine"}, r"--from_search is for towers, but --tpu is given"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, given, message):
    if "search_dir" in given:
        search = nas_searches.write_search(tmp_path / "search", dataset="digits")
        given = {**given, "search_dir": str(search)}
    with pytest.raises(UserError, match=message):
        train_settings.resolve(from_search=True, checkpoint_dir=str(tmp_path / "a"), **given)


def test_a_search_without_a_checkpoint_is_refused(settings):
    with pytest.raises(UserError, match=r"but there is no checkpoint in --search_dir .*search\."):
        mobile_train_eval.check(settings(indices=SKIPPING))


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({}, "not there"),
        ({"model/sequential/sequential/conv2d/kernel": np.zeros([3, 3, 1, 5])}, "5]"),
    ],
)
def test_weights_of_another_space_are_refused(settings, tmp_path, values, fault):
    params = settings(indices=SKIPPING)
    nas_searches.save_checkpoint(tmp_path / "search", **values)
    with pytest.raises(
        UserError, match=r"needs the weights of the space, such as model/"
    ) as caught:
        weights_of_search.slices(params)
    assert f"{fault}. Leave out --from_search." in str(caught.value)


def test_older_trainings_have_no_such_setting(tmp_path):
    params = train_settings.resolve(checkpoint_dir=str(tmp_path), indices=SKIPPING)
    assert "from_search" not in params


@pytest.mark.parametrize("mask", [[0.5, 0.5], None])
def test_a_switch_without_a_choice_has_none(mask):
    mask = tf.placeholder(tf.float32, [2]) if mask is None else tf.constant(mask)
    with pytest.raises(ValueError, match="if `mask` is a constant that is one-hot, but it is"):
        Switch(mask, [lib.Identity(), lib.Identity()]).chosen()
