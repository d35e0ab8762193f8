"""Networks evaluated with shared weights are as accurate as each is in a graph of its own."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
from examples import data as data_lib
from examples.nas_search import mobile_classifier_factory as factory
from examples.nas_search.costs import network_batch
from examples.nas_search.search import search_settings
from examples.nas_search.search.shared_weights import SharedWeights
from examples.nas_search.search_space_utils import prune_model_spec
from examples.runs.errors import UserError
from nas_search import nas_layers, nas_searches, nas_supernets

SPACE = nas_supernets.digits()
NETWORKS = network_batch.random_index_lists(SPACE, 5, np.random.RandomState(0))
ROWS = 24 * 2 // 2  # of a tower: images of a step, twice as many to reward, two towers
VALIDATION = 356  # images
BATCHES = VALIDATION // ROWS


def make_params(directory):
    return search_settings.resolve(
        preset="digits",
        train_batch_size=24,
        max_global_step=1,
        num_towers=2,
        checkpoint_dir=str(directory),
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Settings of a search, with a checkpoint; and how accurate `NETWORKS` are, each alone."""
    directory = tmp_path_factory.mktemp("search")
    params = make_params(directory)
    with tf.Graph().as_default():
        masks = nas_supernets.placeholders(SPACE)
        images, labels = batches_of(params)
        model = factory.get_model_for_search(nas_supernets.with_masks(SPACE, masks), num_classes=10)
        with tf.variable_scope("model"):
            model.build(images[0].shape)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        alone = [
            factory.get_model_for_search(prune_model_spec(SPACE, indices), num_classes=10)
            for indices in NETWORKS
        ]
        x = tf.placeholder(tf.float32, images[0].shape)
        for number, network in enumerate(alone):
            with tf.variable_scope(f"alone{number}"):
                network.build(x.shape)
        classes = [tf.argmax(network.apply(x, False)[0], axis=1) for network in alone]
        with nas_layers.session() as session:
            nas_layers.randomize(session, variables.values(), low=-1.0, high=1.0)
            step = tf.Variable(np.int64(7))
            session.run(step.initializer)
            saver = tf.train.Saver({**variables, "global_step": step})
            saver.save(session, str(directory / "model.ckpt"), 7)
            for network, indices in zip(alone, NETWORKS):
                feed = nas_supernets.one_hot(masks, indices)
                nas_supernets.copy_drawn(model, network, session, feed)
            right = [
                [np.mean(guessed == batch_labels) for guessed in session.run(classes, {x: batch})]
                for batch, batch_labels in zip(images, labels)
            ]
    return params, np.mean(right, axis=0)


def batches_of(params):
    """Returns the batches by which a tower rewards in the first epoch: images, and classes."""
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = data_lib.open_data(params).training_batches("validation", ROWS, 0)
        following = tf.data.make_one_shot_iterator(dataset).get_next()
        found = [session.run(following) for _ in range(BATCHES)]
    return [images for images, _ in found], [labels.argmax(axis=1) for _, labels in found]


@pytest.mark.parametrize("num_towers", [1, 2])
def test_networks_are_as_accurate_as_each_alone(trained, num_towers):
    params, want = trained
    assert len({*want}) > 3  # so that networks are told apart
    with SharedWeights(params, devices=contract.device_names(num_towers)) as shared:
        assert shared.num_towers == num_towers
        assert (shared.global_step, shared.num_images) == (7, BATCHES * ROWS)
        got = shared.accuracies(NETWORKS)
        again = shared.accuracies([*NETWORKS[3:], NETWORKS[0]])  # in other places
        none = shared.accuracies([])
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, atol=1e-6)
    np.testing.assert_allclose(again, [*want[3:], want[0]], atol=1e-6)
    assert none.shape == (0,)


def test_a_network_normalizes_by_its_batch(trained):
    """So the same images in other batches make another result."""
    params, want = trained
    one_tower = contract.device_names(1)
    with SharedWeights(params, batch_size=2, devices=one_tower) as shared:
        assert shared.num_images == VALIDATION
        got = shared.accuracies(NETWORKS)
    assert np.abs(got - want).max() > 0.01


def test_parts_smaller_than_a_batch_are_used_twice(trained):
    params, _ = trained
    with SharedWeights(params, batch_size=400, devices=contract.device_names(1)) as shared:
        assert shared.num_images == 400
        assert shared.accuracies(NETWORKS[:1]).shape == (1,)


def test_weights_of_searches_on_tpus_are_evaluated_on_towers_here(trained):
    params, _ = trained
    on_tpu = {**params, "use_tpu": True, "tpu": "local", "devices": [], "num_towers": None}
    with SharedWeights(on_tpu) as shared:
        assert shared.num_towers == 2
        assert shared.num_images == BATCHES * ROWS


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            [0] * 13,
            "0:0:0:0:0:0:0:0:0:0:0:0:0 does not: `indices` must have an index for each of 14",
        ),
        ([9] + [0] * 13, r"9:0:0:0:0:0:0:0:0:0:0:0:0:0 does not: `indices` must lie in \[0, 1\)"),
    ],
    ids=["choices", "options"],
)
def test_networks_of_other_spaces_are_refused(trained, network, message):
    params, _ = trained
    shared = SharedWeights(params, devices=contract.device_names(1))
    with shared, pytest.raises(UserError, match=f"fit the space of the search, but {message}"):
        shared.accuracies([NETWORKS[0], network])


def test_there_must_be_a_checkpoint(tmp_path):
    with pytest.raises(UserError, match="has the weights of a checkpoint, but there is none in"):
        SharedWeights(make_params(tmp_path))


def test_checkpoints_of_something_else_are_refused(tmp_path):
    nas_searches.save_checkpoint(tmp_path, step=3)
    with pytest.raises(
        UserError, match=r"must hold the weights of the search's space, but .* does"
    ):
        SharedWeights(make_params(tmp_path))
