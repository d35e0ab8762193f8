"""`apply_adam` on one device and on towers, step by step against NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from examples.nas_search.tpu_optimizer_ops import apply_adam
from nas_search import nas_steps

W0 = {"a": np.array([[1.0, -2.0], [0.5, 3.0]]), "b": np.array([0.3, -0.7, 2.0])}
STEPS = 5
ROWS = 6  # of a batch: on 2 and 3 towers 3 and 2 each

# Coefficients of a row's loss: columns 0-3 for a's elements, 4-6 for b's, 7 for the penalty.
BATCHES = list(np.random.RandomState(3).normal(size=(STEPS, ROWS, 8)))


def rate_of_step(step):
    """A learning rate that is 0 at first, as it is while a search is delayed."""
    return 0.0 if step == 0 else 0.1 / step


def variables(dtype=tf.float64):
    return [
        tf.get_variable(name, initializer=tf.constant(value, dtype), use_resource=True)
        for name, value in W0.items()
    ]


def losses(rows):
    """Returns a loss with gradient x·w + x for the mean row x, and a penalty of `a` alone."""
    a, b = tf.trainable_variables()
    x = tf.reduce_mean(rows, axis=0)
    w = tf.concat([tf.reshape(a, [-1]), b], axis=0)
    return tf.reduce_sum(x[:7] * (w**2 / 2 + w)), x[7] * tf.reduce_sum(a**2 / 2)


def by_hand(num_towers, beta1, beta2, epsilon, with_penalty, scale=1.0):
    """Yields weights, m and v after each step, as vectors, by the formulas of the docstring."""
    w = np.concatenate([W0["a"].ravel(), W0["b"]])
    m = v = np.zeros(7)
    for step, batch in enumerate(BATCHES):
        towers = [rows.mean(axis=0) for rows in np.split(batch, num_towers)]
        grads = [scale * (x[:7] * w + x[:7]) for x in towers]
        m = beta1 * m + (1 - beta1) * np.mean(grads, axis=0)
        v = beta2 * v + (1 - beta2) * np.mean(np.square(grads), axis=0)
        t, rate = step + 1, rate_of_step(step)
        debiased = rate * np.sqrt(1 - beta2**t) / (1 - beta1**t)
        penalty = np.mean([x[7] for x in towers]) * np.concatenate([w[:4], np.zeros(3)])
        w = w - debiased * m / (np.sqrt(v) + epsilon) - rate * with_penalty * penalty
        yield w, m, v


@pytest.mark.parametrize("num_towers", [1, pytest.param(2, marks=pytest.mark.thorough), 3])
@pytest.mark.parametrize("beta1, beta2", [(0.0, 0.999), (0.9, 0.999), (0.5, 0.0)])
@pytest.mark.parametrize("with_penalty", [False, True])
@pytest.mark.parametrize("dtype, rtol", [("float64", 1e-11), ("float32", 2e-6)])
def test_steps(num_towers, beta1, beta2, with_penalty, dtype, rtol):
    epsilon = 1e-3

    def body(rows):
        made = variables(rows.dtype)
        loss, penalty = losses(rows)
        step = tf.cast(tf.train.get_global_step(), rows.dtype)
        # As `rate_of_step`.
        rate = tf.where(step < 0.5, tf.zeros_like(step), 0.1 / tf.maximum(step, 1))
        update = apply_adam(
            loss,
            tf.train.get_global_step(),
            made,
            rate,
            beta1,
            beta2,
            epsilon,
            regularization_loss=penalty if with_penalty else None,
        )
        return update, {}

    steps = nas_steps.run(body, BATCHES, num_towers, dtype)
    want = by_hand(num_towers, beta1, beta2, epsilon, with_penalty)
    for number, ((_, got), (w, m, v)) in enumerate(zip(steps, want)):
        for suffix, expected in [("", w), ("/m", m), ("/v", v)]:
            vector = np.concatenate([got["a" + suffix].ravel(), got["b" + suffix]])
            np.testing.assert_allclose(vector, expected, rtol, rtol * np.abs(expected).max())
        assert got["apply_adam/t"] == got["global_step"] == number + 1
    # Two weights with two slots each, the count and the global step: nothing per tower.
    assert sorted(steps[0][1]) == sorted(
        ["a", "b", "a/m", "a/v", "b/m", "b/v", "apply_adam/t", "global_step"]
    )


@pytest.mark.parametrize("grads", [[3.0, 1.0], [1.0, -1.0], [2.0, 2.0, -1.0], [1.0]])
def test_squares_are_averaged_not_the_average_squared(grads):
    """The first step is lr·⟨g⟩/√⟨g²⟩: 2/√5 for 3 and 1, where stock Adam steps by 1 always."""

    def body(rows):
        w = tf.get_variable("w", initializer=np.float64(0.0))
        loss = w * tf.reduce_mean(rows)
        return apply_adam(loss, learning_rate=1.0, beta1=0.0, epsilon=1e-15), {}

    ((_, got),) = nas_steps.run(body, [np.array(grads)], len(grads))
    want = -np.mean(grads) / np.sqrt(np.mean(np.square(grads)))
    np.testing.assert_allclose(got["w"], want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(got["w/v"], 0.001 * np.mean(np.square(grads)), rtol=1e-12)


def test_towers_count_by_their_rows():
    """Tower 0 has two of three rows: means are (2·1 + 4)/3 of gradients and (2·1 + 16)/3."""

    def body(rows):
        w = tf.get_variable("w", initializer=np.float64(0.0))
        return apply_adam(w * tf.reduce_mean(rows), learning_rate=0.0, beta1=0.0), {}

    ((_, got),) = nas_steps.run(body, [np.array([0.0, 2.0, 4.0])], 2)
    np.testing.assert_allclose(got["w/m"], 2.0, rtol=1e-12)
    np.testing.assert_allclose(got["w/v"], 0.001 * 6.0, rtol=1e-12)
    assert got["w"] == 0.0


@pytest.mark.parametrize("num_towers", [1, 2])
def test_the_transformation_sees_the_gradients_of_the_loss_alone(num_towers):
    def body(rows):
        made = variables()
        loss, penalty = losses(rows)

        def transform(grads_and_vars):
            assert [variable for _, variable in grads_and_vars] == list(made)
            return [(10.0 * grad, variable) for grad, variable in grads_and_vars]

        rate = tf.constant(0.1, tf.float64)
        update = apply_adam(
            loss,
            learning_rate=rate * 0,  # The first step of `by_hand`
            beta1=0.0,
            regularization_loss=penalty,
            transform_grads_fn=transform,
        )
        return update, {}

    ((_, got),) = nas_steps.run(body, BATCHES[:1], num_towers)
    w, m, v = next(by_hand(num_towers, 0.0, 0.999, 1e-8, True, scale=10.0))
    np.testing.assert_allclose(np.append(got["a"].ravel(), got["b"]), w, rtol=1e-12)
    np.testing.assert_allclose(np.append(got["a/m"].ravel(), got["b/m"]), m, rtol=1e-12)
    np.testing.assert_allclose(np.append(got["a/v"].ravel(), got["b/v"]), v, rtol=1e-12)


def test_state_is_named_by_the_variable_in_any_scope():
    with tf.variable_scope("controller"):
        w = tf.get_variable("w", [2])
        with tf.name_scope("names"), tf.variable_scope("optimizer"):
            apply_adam(tf.reduce_sum(w), var_list=[w], name="adam")
    assert [v.op.name for v in tf.global_variables()] == [
        "controller/w",
        "controller/optimizer/adam/t",
        "controller/w/m",
        "controller/w/v",
    ]
    assert [v.op.name for v in tf.trainable_variables()] == ["controller/w"]


def test_two_sets_of_variables():
    a, b = tf.get_variable("a", [2]), tf.get_variable("b", [])
    updates = [apply_adam(tf.reduce_sum(a), var_list=[a]), apply_adam(b, var_list=[b])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run([a, b])
        session.run(updates)
        for old, new in zip(before, session.run([a, b])):
            np.testing.assert_allclose(new, old - 1e-3, rtol=1e-4)  # lr·1/√1


def test_a_weight_without_gradient_stays():
    """0 / (√0 + ε) is 0, and no NaN."""
    w = tf.get_variable("w", initializer=[1.0, 2.0])
    update = apply_adam(w[0] * 3.0, beta1=0.0, learning_rate=0.5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(update)
        np.testing.assert_allclose(session.run(w), [0.5, 2.0], rtol=1e-6)


@pytest.mark.parametrize(
    "error, kwargs, message",
    [
        (ValueError, {"beta1": 1.0}, "`beta1` must lie in [0, 1)…is 1.0…no memory"),
        (ValueError, {"beta2": -0.5}, "`beta2` must lie in [0, 1)…is -0.5…no memory"),
        (ValueError, {"epsilon": 0}, "`epsilon` must be positive, but is 0…pass 1e-8"),
        (ValueError, {"var_list": []}, "must be a variable to update…empty…check the scope"),
        (TypeError, {"var_list": "ab"}, "`var_list` must hold variables…'a'…pass the variable"),
        (
            TypeError,
            {"var_list": "mixed"},
            "All variables must be of one type…float32 and float64…once for each type",
        ),
        (
            ValueError,
            {"var_list": "missed"},
            "`loss` must depend on every variable…no gradient for other:0…Leave them out",
        ),
        (
            ValueError,
            {"transform_grads_fn": lambda pairs: []},
            "`transform_grads_fn` must return a pair (gradient, variable) for each of 2 variables, "
            "in their order, but returned []. Return zeros",
        ),
        (
            ValueError,
            {"transform_grads_fn": lambda pairs: [grad for grad, _ in pairs]},
            "`transform_grads_fn` must return a pair…returned [<tf.Tensor…",
        ),
        (
            ValueError,
            {"var_list": "both", "transform_grads_fn": lambda pairs: pairs[::-1]},
            "`transform_grads_fn` must return a pair…each of 2 variables, in their order…",
        ),
    ],
)
def test_misuse(error, kwargs, message):
    w = tf.get_variable("w", [2])
    other = tf.get_variable("other", [2], trainable=False)
    wide = tf.get_variable("wide", [2], tf.float64, trainable=False)
    lists = {"mixed": [w, wide], "missed": [w, other], "both": [w, tf.get_variable("more", [2])]}
    name = kwargs.get("var_list")
    if isinstance(name, str):
        kwargs = {**kwargs, "var_list": lists.get(name, name)}
    with pytest.raises(error, match=matching(message)):
        apply_adam(tf.reduce_sum(sum(lists["both"])), **kwargs)
