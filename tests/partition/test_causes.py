"""Operations that run once: the one to blame, why, what follows from it, and what would help."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from replicate.planning import plan

ROWS, WIDTH, ROUNDS = 12, 16, 5
DEVICES = ["/cpu:0", "/cpu:1", "/cpu:2"]
pytestmark = pytest.mark.filterwarnings("ignore:`tf.layers:UserWarning")


def input_fn():
    return rows().batch(ROWS, drop_remainder=False)


def input_fn_of_unknown_size():
    return rows().map(lambda row: tf.placeholder_with_default(row, [None])).batch(ROWS)


def rows():
    rows = np.random.RandomState(0).normal(size=[ROWS, WIDTH]).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(rows)


def product(x, name):
    return x @ tf.get_variable(name, [WIDTH, WIDTH])


def model_of(body):
    """Returns a `model_fn` of two products after the function `body` of rows."""

    def model_fn(features, labels, mode):
        x = product(tf.tanh(product(body(features), "w")), "v")
        loss = tf.reduce_mean(tf.square(x))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def planned(body, given=input_fn, **options):
    return plan.make_plan(model_of(body), given, devices=DEVICES, **options)


def row_by_row(x):
    w = tf.get_variable("of_row", [WIDTH, WIDTH])
    return tf.map_fn(lambda row: (row[None] @ w)[0], x)


def all_at_once(x):
    w = tf.get_variable("of_row", [WIDTH, WIDTH])
    return tf.vectorized_map(lambda row: (row[None] @ w)[0], x)


def filtered(x):
    """Convolutions of rows, of which each tower needs one, so that they run once."""
    kernels = [
        tf.get_variable(name, [3, 3, *ends]) for name, ends in (("a", [1, 9]), ("b", [9, 1]))
    ]
    made = tf.reshape(x, [-1, 4, 4, 1])
    for kernel in kernels:
        made = tf.nn.conv2d(made, kernel, 1, "SAME")
    return tf.reshape(made, [-1, WIDTH])


def by_python(x):
    return tf.numpy_function(lambda rows: rows - rows.mean(0), [x], tf.float32)


def reshaped(x):
    return filtered(tf.reshape(by_python(x), [tf.shape(x)[0], WIDTH]))


def known(x):
    made = by_python(x)
    made.set_shape([None, WIDTH])
    return filtered(made)


def squeezed(x):
    return filtered(tf.squeeze(x[:, tf.newaxis]))


def squeezed_by_name(x):
    return filtered(tf.squeeze(x[:, tf.newaxis], [1]))


def sorted_rows(x):
    return filtered(tf.gather(x, tf.argsort(x[:, 0])[: tf.shape(x)[0] // 2]))


def every_second(x):
    return filtered(x[::2])


def weighted(x):
    return filtered(x * tf.sigmoid(x[:, :1]))


def loop(x, round_of):
    return tf.while_loop(
        lambda i, _: i < ROUNDS, lambda i, h: (i + 1, round_of(h)), [0, x], name="refine"
    )[1]


def centred_in_each_round(x):
    w = tf.get_variable("of_loop", [WIDTH, WIDTH])
    return loop(x, lambda h: tf.tanh(h @ w - tf.reduce_mean(h, 0)))


def centred_before(x):
    w = tf.get_variable("of_loop", [WIDTH, WIDTH])
    return loop(x - tf.reduce_mean(x, 0), lambda h: tf.tanh(h @ w))


def line_of(function, after):
    return f"{__file__}:{function.__code__.co_firstlineno + after}"


@pytest.mark.parametrize(
    ("body", "after", "why", "advice", "advised"),
    [
        (row_by_row, 2, "a loop takes one row after another", "`tf.vectorized_map`", all_at_once),
        (
            known,
            -7,
            "the Python code that it calls is not known",
            "[tf.shape(x)[0], ...]",
            reshaped,
        ),
        (squeezed, 1, "it needs all rows", "as by `tf.squeeze(x, [1])`", squeezed_by_name),
        (sorted_rows, 1, "it needs all rows", "mask or weight rows", weighted),
        (every_second, 1, "it needs all rows", "mask or weight rows", weighted),
        (
            centred_in_each_round,
            -5,
            "needs all rows in each round of the loop",
            "or outside of the loop",
            centred_before,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_advice_helps(body, after, why, advice, advised):
    told = planned(body).as_dict()
    assert told["share"] < 0.9
    first = told["once"][0]
    assert why in first["why"] and advice in first["advice"]
    assert first["line"] == line_of(body, after)
    assert planned(advised).as_dict()["share"] > 0.9


def taken_by_places(x, bound=lambda columns: columns):
    """Takes entries of each row by their places in the flat batch, which are computed from data."""
    made = product(x, "u")
    columns = bound(tf.cast(made, tf.int32))
    places = columns + tf.range(tf.shape(made)[0])[:, tf.newaxis] * WIDTH
    return tf.reshape(tf.gather(tf.reshape(made, [-1]), places), [-1, WIDTH])


def test_rows_that_indices_pick_are_told():
    made = planned(taken_by_places)
    told = made.as_dict()
    (first,) = told["once"]
    assert told["share"] == 1.0 and first["type"] == "UnsortedSegmentSum"
    assert "by indices, and less crosses between devices so" in first["why"]
    assert "tf.clip_by_value(places, 0, size - 1)" in made.coverage.joined[0].advice
    bounded = planned(lambda x: taken_by_places(x, lambda one: tf.clip_by_value(one, 0, WIDTH - 1)))
    assert not bounded.as_dict()["once"]


def test_rows_of_unknown_size_are_told():
    told = planned(filtered, input_fn_of_unknown_size).as_dict()
    (first,) = [one for one in told["once"] if one["type"] == "Reshape"]
    assert first["why"] == "the graph does not know the size of a row"
    assert "`tensor.set_shape([None, 784])`" in first["advice"]
    assert planned(filtered).as_dict()["share"] == 1.0


@pytest.mark.parametrize("body", [row_by_row, centred_in_each_round])
def test_all_that_follows_counts(body):
    made = planned(body)
    first = made.coverage.costliest[0]
    assert first.cost == pytest.approx(made.coverage.one_device, rel=0.01)


def test_a_loop_names_the_operation_in_it():
    first = planned(centred_in_each_round).as_dict()["once"][0]
    assert first["why"].startswith("'sub', Sub, needs all rows")
    assert (first["operation"], first["type"]) == ("refine", "While")


@pytest.fixture(params=[False, True], ids=["while_v1", "while_v2"])
def _flow(request):
    was = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if request.param else tf.disable_control_flow_v2)()
    yield
    (tf.enable_control_flow_v2 if was else tf.disable_control_flow_v2)()


@pytest.mark.usefixtures("_flow")
def test_a_loop_that_reads_an_array_of_the_batch_counts():
    told = planned(row_by_row).as_dict()
    assert told["share"] < 0.75
    assert told["once"][0]["why"] == "a loop takes one row after another"


@pytest.mark.usefixtures("_flow")
@pytest.mark.parametrize("body", [centred_in_each_round, centred_before])
def test_the_loop_of_a_gradient_has_as_many_rounds(body):
    made = planned(body)
    products = [one for one in made.coverage.operations if one.operation.type == "MatMul"]
    each = (
        2 * (32 * len(DEVICES)) * WIDTH * WIDTH
    )  # 32 rows of each tower: their number is unknown.
    # A product and its two gradients, in each round; and those of two layers.
    assert sum(one.cost for one in products) == pytest.approx(3 * each * (ROUNDS + 2))


@pytest.mark.usefixtures("_flow")
def test_a_loop_says_why_an_operation_in_it_has_no_rule():
    def called(x):
        rounds = tf.while_loop(lambda i, _: i < ROUNDS, lambda i, h: (i + 1, known(h)), [0, x])
        return product(rounds[1], "after")

    first = planned(called).as_dict()["once"][0]
    assert first["why"].endswith(
        "its function has effects, or cannot be inlined"
        if tf.control_flow_v2_enabled()
        else "PyFunc, is in the loop: the Python code that it calls is not known"
    )


@pytest.mark.usefixtures("_flow")
def test_a_loop_that_draws_the_numbers_of_one_device_is_told():
    def noisy(x):
        w = tf.get_variable("of_loop", [WIDTH, WIDTH])
        return loop(x, lambda h: tf.nn.dropout(tf.tanh(h @ w), rate=0.5, seed=1))

    assert planned(noisy).as_dict()["share"] > 0.9
    first = planned(noisy, random="batch").as_dict()["once"][0]
    assert "RandomUniform, draws random numbers for all rows in each round" in first["why"]
    assert first["advice"] == 'draw them before the loop, or leave `random="batch"` out'
