"""Updates that wait for each other, reads of variables in loops, and positions in a queue."""

import pytest
import tensorflow.compat.v1 as tf

import contract
from bodies import control_flow
from contract.models import F64, get_variable, optimizer, spec, step, untrained
from replicate.reports import transfers

pytestmark = pytest.mark.conformance


def _record(model_fn, num_towers):
    return contract.record_plain(model_fn, num_towers, contract.UNEVEN)


def _centred(x, name, by_dependency):
    """Subtracts a moving mean that is updated first, as `updates_collections=None` does."""
    mean = tf.reduce_mean(x, 0)
    moving = untrained(f"{name}/moving", mean.shape, 0.5, use_resource=True)
    update = moving.assign(0.9 * moving + 0.1 * mean)
    if not by_dependency:
        return x - tf.stop_gradient(update)
    with tf.control_dependencies([update]):
        return x - tf.stop_gradient(moving.read_value())


@pytest.mark.parametrize("by_dependency", [True, False])
@pytest.mark.parametrize("num_layers", [2, 3])
def test_a_layer_waits_for_the_update_of_the_one_before(num_layers, by_dependency, warnings):
    """Values that are reduced are packed, but not with others that have to wait for them."""

    def model_fn(features, labels, mode, params):
        x = features["x"]
        for layer in range(num_layers):
            x = tf.tanh(x @ get_variable(f"w{layer}", [4, 4]))
            x = _centred(x, f"layer{layer}", by_dependency)
        loss = tf.reduce_mean((tf.reduce_sum(x, 1, keepdims=True) - labels) ** 2)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    contract.assert_same_run(
        _record(model_fn, 2),
        _record(model_fn, 1),
    )
    assert warnings() == []


def test_updates_that_wait_for_none_cross_devices_together():
    def model_fn(features, labels, mode, params):
        x = features["x"]
        updates = []
        for layer in range(3):
            x = tf.tanh(x @ get_variable(f"w{layer}", [4, 4]))
            moving = untrained(f"moving{layer}", [4], use_resource=True)
            updates.append(moving.assign(0.9 * moving + 0.1 * tf.reduce_mean(x, 0)))
        loss = tf.reduce_mean((tf.reduce_sum(x, 1, keepdims=True) - labels) ** 2)
        train_op = optimizer(params).minimize(loss, step())
        return spec(mode, loss, tf.group(train_op, *updates))

    with tf.Graph().as_default():
        rows = tf.data.make_one_shot_iterator(contract.dataset(contract.UNEVEN)).get_next()
        built = contract.replicated(model_fn, 2)(*rows, mode="train", params=contract.make_params())
        crossing = transfers.crossing([built.train_op])
    packs = [each.tensor for each in crossing if each.source == "/device:CPU:1"]
    assert len(packs) == 2 and all(pack.op.name.startswith("replicate/") for pack in packs)
    assert min(pack.shape[0] for pack in packs) >= 3 * 4  # The means; gradients are in the other.
    contract.assert_same_run(
        _record(model_fn, 2),
        _record(model_fn, 1),
    )


@pytest.mark.parametrize("is_resource", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_an_embedding_that_a_loop_looks_up(is_resource, version):
    """A decoder that looks up what it has just chosen, beside its variable."""

    def model_fn(features, labels, mode, params):
        table = get_variable("table", [4, 4], use_resource=is_resource)
        project = get_variable("project", [4, 4], use_resource=is_resource)

        def body(index, state, total):
            chosen = tf.nn.embedding_lookup(table, tf.argmax(state, 1))
            state = tf.tanh(chosen + state @ project)
            return index + 1, state, total + tf.reduce_sum(state, 1, keepdims=True)

        start = [0, features["x"], tf.zeros_like(features["x"][:, :1])]
        _, _, total = tf.while_loop(lambda index, *_: index < 3, body, start)
        loss = tf.reduce_mean((total - labels) ** 2)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    with control_flow(version):
        want = _record(model_fn, 1)
        contract.assert_same_run(_record(model_fn, 3), want)


# Where rows are put into a queue. Towers that counted by themselves would all begin at one place.
PLACES = {
    "places": lambda queue, rows: tf.scatter_update(queue, tf.range(tf.shape(rows)[0]), rows),
    "the next places": lambda queue, rows: tf.scatter_update(
        queue,
        tf.floormod(tf.cast(step(), tf.int32) * 5 + tf.range(tf.size(rows[:, 0])), 12),
        rows,
    ),
    "places by axes": lambda queue, rows: tf.scatter_nd_update(
        queue, tf.range(tf.shape(rows)[0])[:, tf.newaxis], rows
    ),
}


def _with_queue(put):
    def model_fn(features, labels, mode, params):
        rows = features["x"] @ get_variable("w", [4, 2])
        loss = tf.reduce_mean((tf.reduce_sum(rows, 1, keepdims=True) - labels) ** 2)
        queue = untrained("queue", [12, 2])
        # The step is read before it is counted, or even one device might take either number.
        with tf.control_dependencies([put(queue, tf.stop_gradient(rows))]):
            train_op = optimizer(params).minimize(loss, step())
        return spec(mode, loss, train_op)

    return model_fn


@pytest.mark.parametrize("batches", ["DYNAMIC", "UNEVEN"])
@pytest.mark.parametrize("name", PLACES)
def test_places_that_are_counted_are_those_of_the_batch(name, batches, warnings):
    model_fn, given = _with_queue(PLACES[name]), getattr(contract, batches)
    got = contract.record_plain(model_fn, 2, given)
    contract.assert_same_run(got, contract.record_plain(model_fn, 1, given))
    assert warnings() == []


def test_places_that_rows_have_are_those_of_all_rows(warnings):
    def put(queue, rows):
        places = tf.cast(tf.floormod(tf.abs(1e6 * rows[:, 0]), 12), tf.int32)
        return tf.scatter_add(queue, places, rows)

    got = _record(_with_queue(put), 2)
    want = _record(_with_queue(put), 1)
    contract.assert_same_run(got, want, 1e-6)
    assert warnings() == []


class _Nameless(tf.train.Optimizer):
    """As `tf.contrib.opt.MovingAverageOptimizer`, which calls no constructor of its base."""

    def __init__(self, inner):
        self._inner = inner

    def compute_gradients(self, *args, **kwargs):
        return self._inner.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args, **kwargs):
        return self._inner.apply_gradients(*args, **kwargs)


def test_an_optimizer_without_a_name():
    def model_fn(features, labels, mode, params):
        loss = tf.reduce_mean((features["x"] @ get_variable("w", [4, 1]) - labels) ** 2)
        inner = tf.train.GradientDescentOptimizer(tf.constant(0.1, F64))
        return spec(mode, loss, _Nameless(inner).minimize(loss, step()))

    contract.assert_same_run(
        _record(model_fn, 2),
        _record(model_fn, 1),
    )
