"""A `model_fn` in the published style: on one device, on towers, and for the cores of a TPU."""

import numpy as np
import published_style
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from examples.data import tpu
from examples.nas_search import schema_io
from examples.nas_search.search import model_fn
from graph_walks import behind

TRAIN = tf.estimator.ModeKeys.TRAIN
ROWS = {"train": 4, "validation": 8}
STEPS = 4

pytestmark = pytest.mark.filterwarnings("ignore:`tf.nn.rnn_cell:UserWarning")


def batch(rows, classes=published_style.CLASSES):
    """Returns images with rows last, and one-hot labels."""
    random = np.random.RandomState(2)
    images = {part: random.rand(8, 8, 1, n).astype(np.float32) for part, n in rows.items()}
    hot = {
        part: np.eye(classes, dtype=np.float32)[random.randint(10, size=n)]
        for part, n in rows.items()
    }
    return images, hot


def trained(build, params, features, labels, towers):
    """Returns losses and the variables before and after training."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        spec = build(features=features, labels=labels, mode=TRAIN, params=params)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        config = replicate.session_config(contract.device_names(towers))
        with tf.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            before, losses = session.run(variables), []
            for _ in range(STEPS):
                losses.append(session.run([spec.loss, spec.train_op])[0])
            return losses, before, session.run(variables)


@pytest.mark.parametrize("towers", [1, 2])
def test_it_trains(towers, tmp_path):
    params = published_style.make_params(tmp_path, cores=towers)

    def build(features, labels, mode, params):
        # On towers rows come first, as axis 0 is split; the model takes them last.
        def own(features, labels, mode, params):
            features = {part: tf.transpose(x, [1, 2, 3, 0]) for part, x in features.items()}
            return published_style.model_fn(features, labels, mode, params)

        if towers > 1:
            devices = contract.device_names(towers)
            own = replicate.replicate_model_fn(own, devices=devices, per_tower=True)
        features = {part: tf.constant(x.transpose(3, 0, 1, 2)) for part, x in features.items()}
        return own(features, tf.nest.map_structure(tf.constant, labels), mode, params)

    losses, before, after = trained(build, params, *batch(ROWS), towers)
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    assert after["global_step"] == STEPS
    still = {
        name for name, value in before.items() if np.array_equal(np.asarray(value), after[name])
    }
    weights = {name for name in before if name.endswith(("kernel", "gamma", "bias"))}
    assert not still & weights
    controller = [name for name in before if name.startswith("rl_controller/blocks")]
    assert any(name not in still for name in controller)
    assert schema_io.load(tmp_path, "spec.json") is not None


def test_it_builds_for_two_cores_whose_gradients_wait_before_they_are_summed(tmp_path):
    params = published_style.make_params(tmp_path, cores=2)
    images, labels = batch(ROWS)

    def computation(train, validation, train_labels, validation_labels):
        spec = published_style.model_fn(
            {"train": train, "validation": validation},
            {"train": train_labels, "validation": validation_labels},
            TRAIN,
            params,
        )
        with tf.control_dependencies([spec.train_op]):
            return tf.identity(spec.loss)

    assert _waits_before_sums(computation, images, labels)


@pytest.mark.parametrize("barrier", [True, False])
def test_so_do_those_of_the_search_of_this_project(barrier, tmp_path):
    params = published_style.make_params(tmp_path, use_gradient_sync_barrier=barrier)
    images, labels = batch(ROWS, classes=10)

    def computation(train, validation, train_labels, validation_labels):
        spec = model_fn.model_fn(
            {"train": train, "validation": validation},
            {"train": train_labels, "validation": validation_labels},
            TRAIN,
            {**params, "use_tpu": True},
        )
        with tf.control_dependencies([spec.train_op]):
            return tf.identity(spec.loss)

    assert _waits_before_sums(computation, images, labels) == barrier


def _waits_before_sums(computation, images, labels):
    """Whether what one core sums of its gradients is all behind each of the sums."""
    with tf.Graph().as_default() as graph:
        given = [images["train"], images["validation"], labels["train"], labels["validation"]]
        tf.tpu.replicate(computation, [[tf.constant(x) for x in given]] * 2)
        updates = [op for op in graph.get_operations() if op.type == "ResourceApplyRMSProp"]
        sums = [_sum_behind(update.inputs[-1].op) for update in updates]
        assert len(sums) > 10
        gradients = [{op for op in behind(one) if "gradients/" in op.name} for one in sums]
        every = set().union(*gradients)
        return all(len(one) == len(every) for one in gradients)


def _sum_behind(op):
    while op.type != "CrossReplicaSum":
        (op,) = (tensor.op for tensor in op.inputs[:1])
    return op


@pytest.mark.parametrize("use_bfloat16", ["false", "ontpu", False, "auto"])
def test_published_settings_suffice_for_the_search_of_this_project(use_bfloat16, tmp_path):
    params = published_style.make_params(tmp_path, use_bfloat16=use_bfloat16)
    images, labels = batch(ROWS, classes=10)
    images = {part: tf.constant(x.transpose(3, 0, 1, 2)) for part, x in images.items()}
    spec = model_fn.model_fn(images, tf.nest.map_structure(tf.constant, labels), TRAIN, params)
    with pytest.raises(ValueError, match=r"`use_bfloat16` must be True, False, 'true'.*'no'"):
        tpu.computes_in_bfloat16({"use_bfloat16": "no"})
    types = {t.dtype for op in tf.get_default_graph().get_operations() for t in op.outputs}
    assert tf.bfloat16 not in types
    assert spec.loss.shape == []
