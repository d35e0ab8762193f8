"""Losses that are sums, quotients or other functions of sums and means: those of one device.

Each is trained with the default `loss_reduction`, in float64, by SGD, on uneven batches.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from bodies import control_flow
from contract.models import F64, get_variable, optimizer, step
from towers.strangers_gradients import spec
from towers.strangers_state import linear

pytestmark = pytest.mark.conformance


def _penalty():
    return tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])


def _mask(features):
    """Weights of rows, of which a third are 0, and shards have different numbers of others."""
    return tf.cast(features["x"][:, :1] > -0.4, F64)


def _quotient(errors, features):
    mask = _mask(features)
    return tf.reduce_sum(errors * mask) / tf.reduce_sum(mask)


def _safe_quotient(errors, features):
    mask = _mask(features)
    return tf.reduce_sum(errors * mask) / (tf.reduce_sum(mask) + 1e-3)


def _tf_losses(reduction):
    def of_tf_losses(errors, features):
        zeros = tf.zeros_like(errors)
        return tf.losses.absolute_difference(
            zeros, errors, weights=_mask(features), reduction=reduction
        )

    return of_tf_losses


def _dice(errors, features):
    """A quotient that also the divisor has a gradient in, of segmentation."""
    found, mask = tf.exp(-errors), _mask(features)
    both = tf.reduce_sum(found * mask)
    return 1.0 - (2.0 * both + 1.0) / (tf.reduce_sum(found**2) + tf.reduce_sum(mask) + 1.0)


def _by_time(errors, features):
    """As of sequences: rows of different lengths, flattened, and averaged over what is there."""
    steps = tf.tile(errors, [1, 3]) * tf.constant([[1.0, 0.5, 2.0]], F64)
    lengths = tf.cast(tf.reshape(features["x"][:, 0], [-1]) > 0, tf.int32) * 2 + 1
    mask = tf.cast(tf.reshape(tf.sequence_mask(lengths, 3), [-1]), F64)
    return tf.div(tf.reduce_sum(tf.reshape(steps, [-1]) * mask), tf.reduce_sum(mask))


def _python_sum(errors, features):
    return sum([tf.reduce_mean(errors), 0.01 * tf.reduce_sum(errors), 0.1 * _penalty()])


def _scaled_by_a_weight(errors, features):
    return (tf.reduce_sum(errors) + 0.1 * _penalty()) * tf.exp(-0.1 * _penalty())


LOSSES = {
    "sum": lambda errors, features: tf.reduce_sum(errors),
    "sum and penalty": lambda errors, features: tf.reduce_sum(errors) + 0.1 * _penalty(),
    "sum times a weight": _scaled_by_a_weight,
    "sum by the batch": lambda errors, features: tf.reduce_sum(errors) / 11.0,
    "sum by rows": lambda errors, features: (
        tf.reduce_sum(errors) / tf.cast(tf.shape(errors)[0], F64)
    ),
    "l2_loss": lambda errors, features: tf.nn.l2_loss(errors),
    "mean and sum": _python_sum,
    "mean and a sum of activations": lambda errors, features: (
        tf.reduce_mean(errors) + 0.05 * tf.reduce_sum(tf.square(linear(features)))
    ),
    "quotient": _quotient,
    "safe quotient": _safe_quotient,
    "quotient and penalty": lambda e, features: _quotient(e, features) + 0.1 * _penalty(),
    "weighted mean": _tf_losses(tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS),
    "mean by weights": _tf_losses(tf.losses.Reduction.MEAN),
    "weighted sum": _tf_losses(tf.losses.Reduction.SUM),
    "sum over batch size": _tf_losses(tf.losses.Reduction.SUM_OVER_BATCH_SIZE),
    "dice": _dice,
    "sequences": _by_time,
    "root": lambda errors, features: tf.sqrt(tf.reduce_mean(errors)),
    "log": lambda errors, features: tf.log(1.0 + tf.reduce_sum(errors)),
    "perplexity": lambda e, features: tf.exp(0.1 * _quotient(e, features)) - 1.0,
    "stacked": lambda e, features: tf.reduce_mean(
        tf.stack([tf.reduce_mean(e), _quotient(e, features)])
    ),
    "clipped": lambda errors, features: tf.minimum(tf.reduce_mean(errors), 5.0),
    "checked": lambda errors, features: tf.check_numerics(tf.reduce_sum(errors), "no number"),
}


def model_fn_of(loss_of, minimize):
    def model_fn(features, labels, mode, params):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            scale = get_variable("scale", [], initializer=tf.ones_initializer())
            errors = (linear(features) * scale - labels) ** 2
            loss = loss_of(errors, features)
        return spec(mode, loss, minimize(optimizer(params), loss))

    return model_fn


def _minimize(opt, loss):
    return opt.minimize(loss, step())


def _clip(opt, loss):
    variables = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.3)
    return opt.apply_gradients(zip(grads, variables), step())


def record(model_fn, num_towers, wrap, batches, **kwargs):
    return contract.record_plain(model_fn, num_towers, batches, wrap, **kwargs)


def _tolerance(name):
    """`tf.losses` computes in float32."""
    return 1e-6 if LOSSES[name].__name__ == "of_tf_losses" else 1e-9


def cells():
    for number, name in enumerate(LOSSES):
        for position, batches in enumerate(["UNEVEN", "DYNAMIC"]):
            yield selection.cell(name, batches, is_quick=(number // 2 + position) % 2 == 0)


@pytest.mark.parametrize(("name", "batches"), list(cells()))
def test_a_loss_is_that_of_one_device(name, batches):
    number = list(LOSSES).index(name)
    model_fn = model_fn_of(LOSSES[name], [_minimize, _clip][number % 2])
    batches = getattr(contract, batches)
    want = record(model_fn, 1, contract.plain, batches)
    wrap = [contract.plain, replicate.TowerOptimizer][number // 2 % 2]
    got = record(model_fn, 2 + number % 2, wrap, batches)
    assert np.ptp(want.losses) > 0
    contract.assert_same_run(got, want, _tolerance(name))


@pytest.mark.parametrize("name", ["sum", "quotient", "weighted mean", "root"])
def test_equal_shards(name):
    model_fn = model_fn_of(LOSSES[name], _minimize)
    want = record(model_fn, 1, contract.plain, contract.EVEN)
    got = record(model_fn, 3, contract.plain, contract.EVEN)
    contract.assert_same_run(got, want, _tolerance(name))


# In equal shards of 8 rows, what counts rows is a number, and so is the size of the batch, 24.
BY_NUMBERS = {
    "rows": lambda errors, batch: tf.reduce_sum(errors) / errors.shape.as_list()[0],
    "numbers": lambda e, batch: tf.reduce_sum(tf.tile(e, [1, 3])) / (3 * e.shape.as_list()[0]),
    # As Keras and heads have it; here there are as many numbers in a shard as rows in the batch.
    "numbers, summed twice": lambda e, batch: (
        tf.reduce_sum(tf.reduce_sum(tf.tile(e, [1, 3]))) / (3 * e.shape.as_list()[0])
    ),
    "batch": lambda errors, batch: tf.reduce_sum(errors) / batch,
    "numbers of the batch": lambda e, batch: tf.reduce_sum(tf.tile(e, [1, 2])) / (2 * batch),
    "weighted": lambda errors, batch: 0.125 * tf.reduce_sum(errors),
    "size": lambda errors, batch: tf.reduce_sum(errors) / tf.cast(tf.size(errors), F64),
}


@pytest.mark.parametrize("name", list(BY_NUMBERS))
def test_divided_by_a_number(name, warnings):
    model_fn = model_fn_of(lambda errors, features: BY_NUMBERS[name](errors, 24), _minimize)
    want = record(model_fn, 1, contract.plain, contract.EVEN)
    contract.assert_same_run(record(model_fn, 3, contract.plain, contract.EVEN), want)
    assert warnings() == []


# Over as many towers as a batch has rows, where a sum and a mean over the shard are the same.
SINGLE = contract.Batches(total=12, size=3, static=True)


@pytest.mark.parametrize("name", list(BY_NUMBERS))
def test_divided_by_a_number_in_shards_of_one_row(name, warnings):
    model_fn = model_fn_of(lambda errors, features: BY_NUMBERS[name](errors, 3), _minimize)
    want = record(model_fn, 1, contract.plain, SINGLE)
    contract.assert_same_run(record(model_fn, 3, contract.plain, SINGLE), want)
    assert warnings() == []


@pytest.mark.parametrize(
    "name", ["sum", "quotient", "weighted mean", "weighted sum", "sum over batch size", "sequences"]
)
def test_shards_of_one_row(name):
    model_fn = model_fn_of(LOSSES[name], _minimize)
    want = record(model_fn, 1, contract.plain, SINGLE)
    got = record(model_fn, 3, contract.plain, SINGLE)
    contract.assert_same_run(got, want, _tolerance(name))


@pytest.mark.parametrize("batches", [contract.EVEN, SINGLE])
def test_divided_by_a_number_that_may_count_rows(batches, warnings):
    """48 may be a multiple of the rows of a shard, or anything else; `loss_reduction` says it."""
    model_fn = model_fn_of(lambda errors, features: tf.reduce_sum(errors) / 48.0, _minimize)
    want = record(model_fn, 1, contract.plain, batches)
    got = record(model_fn, 3, contract.plain, batches, reduction=contract.SUM)
    contract.assert_same_run(got, want)
    assert warnings() == []
    record(model_fn, 3, contract.plain, batches)
    (said,) = warnings()
    assert "a loss is divided (truediv" in said


@pytest.mark.parametrize("reduction", [contract.MEAN, contract.SUM])
@pytest.mark.parametrize("name", ["sum", "quotient", "root", "mean and sum"])
def test_what_the_graph_tells_comes_before_loss_reduction(name, reduction):
    model_fn = model_fn_of(LOSSES[name], _minimize)
    want = record(model_fn, 1, contract.plain, contract.UNEVEN)
    got = record(model_fn, 2, contract.plain, contract.UNEVEN, reduction=reduction)
    contract.assert_same_run(got, want)


def test_a_tape_of_a_product_of_sums_and_penalties():
    def model_fn(features, labels, mode, params):
        with tf.GradientTape() as tape:
            errors = (linear(features) - labels) ** 2
            loss = _scaled_by_a_weight(errors, features)
        variables = tf.trainable_variables()
        pairs = zip(tape.gradient(loss, variables), variables)
        return spec(mode, loss, optimizer(params).apply_gradients(pairs, step()))

    want = record(model_fn, 1, contract.plain, contract.UNEVEN)
    contract.assert_same_run(record(model_fn, 3, contract.plain, contract.UNEVEN), want)


@pytest.mark.parametrize("name", ["sum by rows", "sum", "quotient"])
def test_gradients_for_activations_beside_those_for_variables(name):
    """They are of the tower's own loss, whatever becomes of it in the whole batch's."""
    over_towers = replicate.cross_tower_mean if name == "sum by rows" else replicate.cross_tower_sum

    def model_fn(features, labels, mode, params):
        predictions = linear(features)
        loss = LOSSES[name]((predictions - labels) ** 2, features)
        variables = tf.trainable_variables()
        own, *grads = tf.gradients(loss, [predictions, *variables])
        seen = tf.reduce_sum(predictions - labels)
        own = seen if name == "quotient" else tf.reduce_sum(own)
        total = over_towers(own) if params["wrap"] is not contract.plain else own
        report = tf.get_variable("report", [], F64, trainable=False)
        apply = optimizer(params).apply_gradients(zip(grads, variables), step())
        return spec(mode, loss, tf.group(apply, report.assign(total)))

    want = record(model_fn, 1, contract.plain, contract.UNEVEN)
    got = record(model_fn, 2, replicate.TowerOptimizer, contract.UNEVEN)
    contract.assert_same_run(got, want)


def test_a_divisor_of_which_nothing_is_known_is_said(warnings):
    def model_fn(features, labels, mode, params):
        errors = (linear(features) - labels) ** 2
        mask = tf.map_fn(lambda row: tf.cast(row[0] > 0, F64), features["x"])
        loss = tf.reduce_sum(errors) / (1.0 + tf.reduce_sum(mask))
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    record(model_fn, 2, contract.plain, contract.UNEVEN)
    said = "\n".join(warnings())
    assert "a loss is divided (truediv" in said
    assert "test_whole_loss.py" in said


def _of_rows_in_a_loop(errors):
    return tf.map_fn(lambda row: row, errors)  # Nothing tells what comes out of a loop.


OPAQUE_SUMS = {
    "sum": lambda errors: tf.reduce_sum(_of_rows_in_a_loop(errors)),
    "divided": lambda errors: tf.reduce_sum(_of_rows_in_a_loop(errors)) / 11.0,
    "multiplied, with a mean": lambda errors: (
        0.1 * tf.reduce_sum(_of_rows_in_a_loop(errors)) + tf.reduce_mean(errors)
    ),
    "l2_loss": lambda errors: tf.nn.l2_loss(_of_rows_in_a_loop(errors)),
}


@pytest.mark.parametrize("name", OPAQUE_SUMS)
def test_a_sum_of_which_nothing_is_known_is_said(name, warnings):
    def model_fn(features, labels, mode, params):
        loss = OPAQUE_SUMS[name](linear(features) - labels)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    record(model_fn, 2, contract.plain, contract.UNEVEN)
    (said,) = [text for text in warnings() if "a loss is a sum (" in text]
    assert "test_whole_loss.py" in said and "pass `loss_reduction=tf.losses.Reduction.SUM`" in said


OPAQUE_MEANS = {
    "mean": lambda errors: tf.reduce_mean(_of_rows_in_a_loop(errors)),
    "mean of sums": lambda errors: tf.reduce_mean(tf.reduce_sum(_of_rows_in_a_loop(errors), 1)),
    "tf.losses": lambda errors: tf.losses.mean_squared_error(
        tf.zeros_like(errors), _of_rows_in_a_loop(errors)
    ),
    "sum by the tower's rows": lambda errors: (
        tf.reduce_sum(_of_rows_in_a_loop(errors)) / errors.shape.as_list()[0]
    ),
}


@pytest.mark.parametrize("name", OPAQUE_MEANS)
def test_a_mean_of_which_nothing_is_known_is_not_said(name, warnings):
    """In shards of a size that the graph knows, means divide by numbers."""

    def model_fn(features, labels, mode, params):
        loss = OPAQUE_MEANS[name](linear(features) - labels)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    record(model_fn, 2, contract.plain, contract.EVEN)
    assert warnings() == []


def _drawn_by_the_tower(shape):
    draw = replicate.tower_index() + replicate.num_towers() * tf.cast(step(), tf.int32)
    return tf.random.stateless_uniform(shape, tf.stack([7, draw]), dtype=F64)


# What each tower adds to its loss, and whether rows of its own enter it.
SUMS_OF_TOWERS = {
    "a penalty of weights that it draws": (
        lambda weights, errors: tf.nn.l2_loss(weights * tf.round(_drawn_by_the_tower([4, 1]))),
        False,
    ),
    "in a loop, of as many as it draws": (
        lambda weights, errors: tf.while_loop(
            lambda index, total: index < tf.cast(3 * _drawn_by_the_tower([]), tf.int32),
            lambda index, total: (index + 1, total + tf.reduce_sum(weights)),
            [0, tf.zeros([], weights.dtype)],
        )[1],
        False,
    ),
    "a class drawn for each row": (
        lambda weights, errors: tf.nn.l2_loss(
            tf.cast(tf.random.stateless_categorical(errors, 2, [1, 2]), tf.float32)
        ),
        True,
    ),
    "drawn, times the rows": (
        lambda weights, errors: tf.nn.l2_loss(_of_rows_in_a_loop(errors) * _drawn_by_the_tower([])),
        True,
    ),
    "rows of its own, which it looks up": (
        lambda weights, errors: tf.nn.l2_loss(
            tf.gather(tf.reshape(tf.range(8.0), [2, 4]), replicate.tower_index())
        ),
        True,
    ),
}


@pytest.mark.parametrize("name", SUMS_OF_TOWERS)
def test_of_what_a_tower_draws_no_sum_is_one_of_rows(name, warnings):
    """As penalties of the weights that a network which the tower draws has."""
    add, has_rows = SUMS_OF_TOWERS[name]

    def model_fn(features, labels, mode, params):
        errors = linear(features) - labels
        weights = tf.trainable_variables()[0]
        added = tf.cast(add(weights, errors), errors.dtype)
        loss = tf.reduce_mean(errors**2) + added
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    record(model_fn, 2, contract.plain, contract.UNEVEN)
    assert [text for text in warnings() if "replicate: a loss is" not in text] == []
    assert bool(warnings()) == has_rows


@pytest.mark.parametrize("name", ["sum", "divided", "l2_loss"])
def test_with_loss_reduction_sum_it_is_one(name, warnings):
    def model_fn(features, labels, mode, params):
        loss = OPAQUE_SUMS[name](linear(features) - labels)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    want = record(model_fn, 1, contract.plain, contract.UNEVEN)
    got = record(model_fn, 2, contract.plain, contract.UNEVEN, reduction=tf.losses.Reduction.SUM)
    contract.assert_same_run(got, want)
    assert warnings() == []


def _in_condition(of_errors):
    return lambda errors: tf.cond(
        step() > 100, lambda: of_errors(2.0 * errors), lambda: of_errors(errors)
    )


def _in_loop(of_errors):
    def over_columns(errors):
        def body(i, total):
            return i + 1, total + of_errors(errors * tf.cast(i, F64))

        return tf.while_loop(lambda i, total: i < 3, body, [1, tf.zeros([], F64)])[1]

    return over_columns


def _in_function(of_errors):
    return tf.function(of_errors)


def _in_functions(of_errors):
    inner = tf.function(of_errors)
    return tf.function(lambda errors: 0.5 * inner(errors))


BODIES = [_in_condition, _in_loop, _in_function, _in_functions]
ADDED_UP = {
    "sum": tf.reduce_sum,
    "divided": lambda errors: tf.reduce_sum(errors) / 11.0,
    "quotient": lambda errors: (
        tf.reduce_sum(errors * tf.cast(errors > 0, F64))
        / tf.reduce_sum(tf.cast(errors > 0, F64) + 0.1)
    ),
}


def _of_body(loss_of, wrapped_by):
    of_errors = wrapped_by(loss_of)

    def model_fn(features, labels, mode, params):
        errors = (linear(features) - labels) ** 2
        return spec(mode, *_trained_by(of_errors(errors), params))

    return model_fn


def _trained_by(loss, params):
    return loss, optimizer(params).minimize(loss, step())


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", ADDED_UP)
def test_what_is_added_up_where_the_graph_does_not_tell_is_said(name, body, kind, warnings):
    with control_flow(kind):
        record(_of_body(ADDED_UP[name], body), 2, contract.plain, contract.UNEVEN)
    (said,) = warnings()
    assert "a loss is added up in a condition, loop or function (" in said
    assert "test_whole_loss.py" in said and "pass `loss_reduction=tf.losses.Reduction.SUM`" in said


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("body", BODIES)
def test_by_loss_reduction_it_is_one(body, kind, warnings):
    model_fn = _of_body(ADDED_UP["divided"], body)
    with control_flow(kind):
        want = record(model_fn, 1, contract.plain, contract.UNEVEN)
        got = record(model_fn, 2, contract.plain, contract.UNEVEN, reduction=contract.SUM)
    contract.assert_same_run(got, want)
    assert warnings() == []


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    "loss_of",
    [
        tf.reduce_mean,
        lambda errors: tf.sqrt(tf.reduce_mean(tf.reduce_sum(errors, 1))),
        lambda errors: tf.reduce_sum(errors) / tf.cast(tf.shape(errors)[0], F64),
    ],
    ids=["mean", "root", "by size"],
)
def test_a_mean_in_a_body_is_not_said(loss_of, body, kind, warnings):
    with control_flow(kind):
        record(_of_body(loss_of, body), 2, contract.plain, contract.EVEN)
    assert warnings() == []


@pytest.mark.parametrize("kind", [1, 2])
def test_a_penalty_in_a_condition_is_not_said(kind, warnings):
    def model_fn(features, labels, mode, params):
        errors = (linear(features) - labels) ** 2
        (weights,) = tf.trainable_variables()
        even = tf.equal(step() % 2, 0)
        penalty = tf.cond(even, lambda: tf.reduce_sum(weights**2), lambda: tf.zeros([], F64))
        return spec(mode, *_trained_by(tf.reduce_mean(errors) + 0.1 * penalty, params))

    with control_flow(kind):
        want = record(model_fn, 1, contract.plain, contract.UNEVEN)
        contract.assert_same_run(record(model_fn, 2, contract.plain, contract.UNEVEN), want)
    assert warnings() == []


def _per_count(count_of):
    def model_fn(features, labels, mode, params):
        errors, mask = (linear(features) - labels) ** 2, _mask(features)
        loss = tf.reduce_sum(errors * mask) / count_of(tf.reduce_sum(mask))
        return spec(mode, *_trained_by(loss, params))

    return model_fn


BY_ALL = {
    "sum": (replicate.cross_tower_sum, contract.SUM),
    "mean": (replicate.cross_tower_mean, contract.MEAN),
}


@pytest.mark.parametrize("name", BY_ALL)
def test_a_count_of_all_towers_goes_with_its_reduction(name, warnings):
    count_of, right = BY_ALL[name]
    batches = contract.EVEN  # In others, rows weigh in a mean.
    want = record(_per_count(tf.identity), 1, contract.plain, batches)
    got = record(_per_count(count_of), 2, replicate.TowerOptimizer, batches, reduction=right)
    contract.assert_same_run(got, want)
    assert warnings() == []
    wrong = contract.MEAN if right == contract.SUM else contract.SUM
    record(_per_count(count_of), 2, replicate.TowerOptimizer, batches, reduction=wrong)
    (said,) = warnings()
    assert f"is a sum over the tower's rows, and is computed with {SAID_OF[name]}" in said
    assert "test_whole_loss.py" in said


SAID_OF = {
    "sum": "what the model has of all towers, as a `cross_tower_sum`",
    "mean": "a `cross_tower_mean`",
}


def test_a_loss_that_is_known_adds_nothing_to_the_graph():
    """Means, as nearly all losses are, need neither the whole loss nor its parts."""

    def operations(loss_of):
        model_fn = contract.replicated(model_fn_of(loss_of, _minimize), 2)
        with tf.Graph().as_default() as graph:
            rows = tf.data.make_one_shot_iterator(contract.dataset(contract.UNEVEN)).get_next()
            model_fn(*rows, mode="train", params=contract.make_params())
        return [op.type for op in graph.get_operations()]

    means = operations(lambda errors, features: tf.reduce_mean(errors))
    assert operations(lambda e, features: tf.reduce_sum(e) / tf.cast(tf.size(e), F64)).count(
        "AddN"
    ) == means.count("AddN")


@pytest.mark.usefixtures("resource_variables")
def test_a_penalty_of_what_each_tower_draws():
    """It differs among towers, though no row enters; means of the towers' count, as of rows."""

    def model_fn(features, labels, mode, params):
        errors = (linear(features) - labels) ** 2
        index = tf.cast(tf.convert_to_tensor(replicate.tower_index()), F64)
        mask = tf.cast(tf.sequence_mask(tf.cast(index, tf.int32) + 1, 4), F64)[:, None]
        (weights,) = tf.trainable_variables()
        loss = tf.reduce_mean(errors) + 0.1 * tf.nn.l2_loss(weights * tf.stop_gradient(mask))
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    def by_hand(features, labels, mode, params):
        errors = (linear(features) - labels) ** 2
        (weights,) = tf.trainable_variables()
        mask = tf.constant([[11.0], [5.0], [0.0], [0.0]], F64) / 11.0  # The first tower has 6 rows.
        loss = tf.reduce_mean(errors) + 0.05 * tf.reduce_sum(mask * weights**2)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    want = record(by_hand, 1, contract.plain, contract.UNEVEN)
    contract.assert_same_run(record(model_fn, 2, contract.plain, contract.UNEVEN), want)


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")
@pytest.mark.usefixtures("resource_variables")
@pytest.mark.parametrize("by", ["boolean_mask", "where"])
def test_a_mean_over_chosen_rows_is_said(by, warnings):
    def model_fn(features, labels, mode, params):
        errors, mask = (linear(features) - labels) ** 2, _mask(features)[:, 0] > 0
        if by == "where":
            chosen = tf.gather(errors, tf.where(mask)[:, 0])
        else:
            chosen = tf.boolean_mask(errors, mask)
        loss = tf.reduce_mean(tf.sqrt(chosen))
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    record(model_fn, 2, contract.plain, contract.UNEVEN)
    (said,) = warnings()
    assert "a loss is a mean over rows that the model chooses (Mean" in said
    assert "test_whole_loss.py" in said
