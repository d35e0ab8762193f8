"""Gradients that towers have of their own are reduced: dense, sparse and missing ones."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import TRAIN, build, matching, session, spec
from replicate.reduction import collectives

ROWS, WIDTH = 4, 2
DENSE = np.arange(ROWS * WIDTH, dtype=np.float64).reshape(ROWS, WIDTH) + 1
MEAN, SUM = tf.losses.Reduction.MEAN, tf.losses.Reduction.SUM


class Recording(tf.train.GradientDescentOptimizer):
    """Keeps the gradients that it applies."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        self.pairs = list(grads_and_vars)
        return tf.no_op()


def reduced(make, rows=4, reduction=MEAN, shape=(ROWS, WIDTH), dtype=tf.float64):
    """Returns the gradient that is applied of those that `make(scale, index)` gives.

    The scale is 1 in the first tower, and 3 in the second.
    """
    optimizer = Recording(1.0)

    def body(index, features):
        variable = tf.get_variable("v", shape, dtype, tf.ones_initializer())
        index = tf.convert_to_tensor(index)
        gradient = make(tf.cast(2 * index + 1, dtype), index)
        wrapped = replicate.TowerOptimizer(optimizer)
        return spec(TRAIN, train_op=wrapped.apply_gradients([(gradient, variable)]))

    build(body, rows if tf.is_tensor(rows) else tf.ones([rows, 1]), loss_reduction=reduction)
    ((gradient, _),) = optimizer.pairs
    return gradient


def sparse(scale, rows, known=True):
    """Slices of `rows`, each of ones times `scale`."""
    rows = tf.convert_to_tensor(rows)
    values = tf.ones(tf.stack([tf.size(rows), WIDTH]), tf.float64) * scale
    return tf.IndexedSlices(values, rows, tf.constant([ROWS, WIDTH], rows.dtype) if known else None)


def as_dense(scale, rows):
    value = np.zeros([ROWS, WIDTH])
    np.add.at(value, list(rows), scale)
    return value


# Name: a gradient of the scale and the index, and what both towers' are, of weights 1/2 and 1/2.
CASES = {
    "dense": (lambda scale, index: DENSE * scale, 2 * DENSE),
    "array": (lambda scale, index: DENSE, DENSE),
    "sparse": (lambda scale, index: sparse(scale, [1, 3]), as_dense(2, [1, 3])),
    "sparse, other rows": (
        lambda scale, index: sparse(scale, index + [0, 1]),
        as_dense(0.5, [0, 1]) + as_dense(1.5, [1, 2]),
    ),
    "sparse, a row twice": (lambda scale, index: sparse(scale, [2, 2]), as_dense(4, [2])),
    "sparse, no rows": (
        lambda scale, index: sparse(scale, tf.boolean_mask([1, 3], [index > 0, index > 0])),
        as_dense(1.5, [1, 3]),
    ),
    "sparse, int64": (
        lambda scale, index: sparse(scale, tf.constant([1, 3], tf.int64)),
        as_dense(2, [1, 3]),
    ),
    "sparse, unknown shape": (
        lambda scale, index: sparse(scale, [1, 3], known=False),
        as_dense(2, [1, 3]),
    ),
}


def value_of(gradient):
    with session(2) as running:
        if not isinstance(gradient, tf.IndexedSlices):
            return running.run(gradient)
        values, indices = running.run([gradient.values, gradient.indices])
    return as_dense(values, indices)


@pytest.mark.parametrize("dynamic", [False, True], ids=["known rows", "dynamic rows"])
@pytest.mark.parametrize(("make", "want"), list(CASES.values()), ids=list(CASES))
def test_mean(make, want, dynamic):
    rows = tf.placeholder_with_default(tf.ones([4, 1]), [None, 1]) if dynamic else 4
    gradient = reduced(make, rows)
    is_sparse = make is not CASES["dense"][0] and make is not CASES["array"][0]
    assert isinstance(gradient, tf.IndexedSlices) == is_sparse
    np.testing.assert_allclose(value_of(gradient), want, rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "rows", "reduction", "want"),
    [
        ("dense", 3, MEAN, 5 / 3 * DENSE),  # 2/3 · 1 + 1/3 · 3
        ("sparse", 3, MEAN, as_dense(5 / 3, [1, 3])),
        ("dense", 4, SUM, 4 * DENSE),
        ("array", 4, SUM, 2 * DENSE),
        ("sparse", 4, SUM, as_dense(4, [1, 3])),
    ],
)
def test_weights_are_those_of_the_losses(name, rows, reduction, want):
    gradient = reduced(CASES[name][0], rows, reduction)
    np.testing.assert_allclose(value_of(gradient), want, rtol=1e-15)


def test_no_gradient():
    assert reduced(lambda scale, index: None) is None


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64])
def test_the_type_stays(dtype):
    gradient = reduced(lambda scale, index: scale * tf.ones([1], dtype), 4, MEAN, [1], dtype)
    assert gradient.dtype == dtype
    assert value_of(tf.cast(gradient, tf.complex64)) == 2


@pytest.mark.parametrize("rows", [4, 3])
def test_half_precision_does_not_overflow_where_the_mean_does_not(rows):
    # The largest float16 is 65504: 40000 + 40000 is too much, their mean is not.
    gradient = reduced(
        lambda scale, index: tf.minimum(scale * 40000, 40000), rows, MEAN, [], tf.float16
    )
    assert value_of(gradient) == pytest.approx(40000, rel=1e-3)


UNKNOWN = "A gradient must be a tensor, a `tf.IndexedSlices` or None…'v:0' on tower 0 is <object"
TYPES = "The towers' gradients of '…w:0' must be of one type, but tower 0…float32…1 float64…Cast"


def test_what_is_no_gradient():
    with pytest.raises(TypeError, match=matching(UNKNOWN)):
        reduced(lambda scale, index: object())


def test_gradients_of_several_types():
    variable = tf.get_variable("w", [])
    with pytest.raises(TypeError, match=matching(TYPES)):
        collectives.check_types(variable, [(0, tf.float32), (1, tf.float64)])
