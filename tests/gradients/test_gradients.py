"""`gradients.gather`: Σ wᵢ·gᵢ of dense, sparse and missing gradients."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from replicate.batch import sharding
from replicate.batch.weights import Weights, row_weights
from replicate.gathering import collectives
from replicate.gathering.gather import Gather

ROWS, WIDTH = 4, 2
DEVICES = ["/device:CPU:0", "/device:CPU:1", "/device:CPU:2"]
DENSE = np.arange(ROWS * WIDTH, dtype=np.float64).reshape(ROWS, WIDTH) + 1


def group(weights):
    """What `gather` asks of the towers."""
    return SimpleNamespace(
        devices=DEVICES,
        consolidation_device=DEVICES[0],
        loss_weights=Weights(weights),
        size=len(weights),
        variables=SimpleNamespace(where_summed=lambda where, _: where),
        summed_on=set(),
    )


def dense(scale):
    return tf.constant(scale * DENSE)


def sparse(scale, rows=(1, 3), dtype=tf.int64, shape=True):
    """Slices of `rows`, each of ones times `scale`."""
    return tf.IndexedSlices(
        tf.constant(np.full([len(rows), WIDTH], scale, np.float64)),
        tf.constant(rows, dtype),
        tf.constant([ROWS, WIDTH], dtype) if shape else None,
    )


def as_dense(scale, rows=(1, 3)):
    value = np.zeros([ROWS, WIDTH])
    np.add.at(value, list(rows), scale)
    return value


def gather(grads, weights, variable=None):
    """Returns the gathered gradient of one variable, of one gradient per tower."""
    if variable is None:
        variable = tf.get_variable("v", [ROWS, WIDTH], tf.float64)
    with tf.device("/device:CPU:0"):
        pairs = collectives.gather([[(gradient, variable)] for gradient in grads], group(weights))
    ((gathered, of),) = pairs
    assert of is variable
    return gathered


def run(*fetches):
    config = tf.ConfigProto(device_count={"CPU": 3})
    with tf.Session(config=config) as session:
        return session.run(fetches if len(fetches) > 1 else fetches[0])


HALVES, UNEVEN, ONES = [0.5, 0.5], [0.75, 0.25], [1.0, 1.0]
CASES = {
    # name: gradients, weights, whether the result is sparse, its dense value
    "mean": (lambda: [dense(1), dense(3)], HALVES, False, 2 * DENSE),  # (1 + 3) / 2
    "uneven": (lambda: [dense(1), dense(3)], UNEVEN, False, 1.5 * DENSE),  # 0.75 + 0.75
    "sum": (lambda: [dense(1), dense(3)], ONES, False, 4 * DENSE),
    "sparse": (lambda: [sparse(1), sparse(3)], UNEVEN, True, as_dense(1.5)),
    "sparse, other rows": (
        lambda: [sparse(1, (0, 1)), sparse(3, (1, 2))],
        HALVES,
        True,
        as_dense(0.5, (0, 1)) + as_dense(1.5, (1, 2)),
    ),
    "sparse, a row twice": (
        lambda: [sparse(1, (2, 2)), sparse(3, (2,))],
        HALVES,
        True,
        as_dense(2.5, (2,)),  # 0.5 + 0.5 + 1.5
    ),
    "sparse, mixed index types": (
        lambda: [sparse(1, dtype=tf.int32), sparse(3)],
        HALVES,
        True,
        as_dense(2),
    ),
    "sparse, no rows": (lambda: [sparse(1, ()), sparse(3)], HALVES, True, as_dense(1.5)),
    "mixed": (lambda: [dense(1), sparse(3)], UNEVEN, False, 0.75 * DENSE + as_dense(0.75)),
    "mixed, unknown shape": (
        lambda: [dense(1), sparse(3, shape=False)],
        HALVES,
        False,
        0.5 * DENSE + as_dense(1.5),
    ),
    "sparse, unknown shape": (
        lambda: [sparse(1, shape=False), sparse(3, shape=False)],
        HALVES,
        True,
        as_dense(2),
    ),
    "None counts as zero": (lambda: [None, dense(3)], UNEVEN, False, 0.75 * DENSE),
    "None counts as zero in the mean": (lambda: [dense(3), None], HALVES, False, 1.5 * DENSE),
    "sparse and None": (lambda: [None, sparse(3)], UNEVEN, True, as_dense(0.75)),
    "arrays": (lambda: [DENSE, 3 * DENSE], HALVES, False, 2 * DENSE),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["known weights", "dynamic weights"])
@pytest.mark.parametrize(("grads", "weights", "is_sparse", "want"), CASES.values(), ids=CASES)
def test_gather(grads, weights, is_sparse, want, dynamic):
    if dynamic:
        weights = [tf.placeholder_with_default(np.float64(weight), []) for weight in weights]
    gathered = gather(grads(), weights)
    assert isinstance(gathered, tf.IndexedSlices) == is_sparse
    if is_sparse:
        values, indices = run(gathered.values, gathered.indices)
        got = np.zeros([ROWS, WIDTH])
        np.add.at(got, indices, values)
    else:
        got = run(gathered)
    np.testing.assert_allclose(got, want, rtol=1e-15)


def test_no_gradient_anywhere():
    assert gather([None, None], HALVES) is None


def test_towers_may_list_other_variables_in_other_orders():
    a, b, c = (tf.get_variable(name, []) for name in "abc")
    first = [(tf.constant(1.0), a), (tf.constant(2.0), b)]
    second = [(tf.constant(8.0), c), (tf.constant(4.0), b), (None, a)]
    gathered = collectives.gather([first, second], group(ONES))
    assert [variable for _, variable in gathered] == [a, b, c]
    # a: 1; b: 2 + 4; c: 8.
    assert run(*[gradient for gradient, _ in gathered]) == (1, 6, 8)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64])
def test_the_type_stays(dtype):
    variable = tf.get_variable("v", [1], dtype, initializer=tf.ones_initializer())
    gathered = gather([tf.ones([1], dtype), 3 * tf.ones([1], dtype)], UNEVEN, variable)
    assert gathered.dtype == dtype
    assert run(tf.cast(gathered, tf.complex64)) == 1.5  # 0.75 + 3/4


def test_half_precision_does_not_overflow_where_the_mean_does_not():
    # The largest float16 is 65504: 40000 + 40000 is too much, their mean is not.
    variable = tf.get_variable("v", [], tf.float16)
    grads = [tf.constant(40000.0, tf.float16)] * 2
    assert run(gather(grads, HALVES, variable)) == 40000


@pytest.mark.parametrize("weights", [HALVES, UNEVEN, ONES])
def test_one_sum_per_variable_on_the_consolidation_device(weights, fresh_graph):
    with tf.device("/cpu:1"):
        grads = [dense(1), dense(3)]
    gather(grads, weights)
    ops = [op for op in fresh_graph.get_operations() if op.name.startswith("replicate/")]
    assert [op.device for op in ops if op.type == "AddN"] == ["/device:CPU:0"]
    scales = [op.device for op in ops if op.type == "Mul"]
    # Equal weights are applied once; 1 not at all; uneven ones where each gradient is.
    assert scales == {0.5: DEVICES[:1], 0.75: DEVICES[:2], 1.0: []}[weights[0]]


PACKED = {
    # name: (shapes of the gradients, bytes of a small one, bytes of a pack, sums)
    "all_small": ([(3,), (2, 2), (), (5,)], 64, 10**6, 1),
    "one_large": ([(3,), (9,), (2, 2), (5,)], 64, 10**6, 2),  # 9 float64 are 72 bytes.
    "packs_are_full": ([(4,), (4,), (4,), (4,), (4,)], 64, 64, 3),  # Of 2, 2 and 1.
    "nothing_small": ([(3,), (2, 2)], 0, 10**6, 2),
}


@pytest.mark.parametrize("weights", [HALVES, UNEVEN, ONES])
@pytest.mark.parametrize(("shapes", "small", "pack", "sums"), PACKED.values(), ids=list(PACKED))
def test_small_gradients_are_packed(shapes, small, pack, sums, weights, fresh_graph):
    how = Gather(small_bytes=small, pack_bytes=pack)
    values = [
        [
            np.asarray(np.random.RandomState(10 * tower + i).randn(*shape))
            for i, shape in enumerate(shapes)
        ]
        for tower in range(2)
    ]
    variables = [tf.get_variable(f"v{i}", shape, tf.float64) for i, shape in enumerate(shapes)]
    pairs = [list(zip(map(tf.constant, own), variables)) for own in values]
    gathered = collectives.gather(pairs, group(weights), how=how)
    assert [variable for _, variable in gathered] == variables
    for (gradient, variable), first, second in zip(gathered, *values):
        assert gradient.shape == variable.shape
        want = weights[0] * first + weights[1] * second
        np.testing.assert_allclose(run(gradient), want, rtol=1e-12)
    assert len([op for op in fresh_graph.get_operations() if op.type == "AddN"]) == sums


def test_gradients_of_other_types_or_towers_are_packed_apart(fresh_graph):
    a, b, c = (tf.get_variable(name, [2], tf.float64) for name in "abc")
    d, e = (tf.get_variable(name, [2], tf.float32) for name in "de")
    one = [(tf.ones([2], v.dtype), v) for v in (a, d, b, e)]
    gathered = collectives.gather([[*one, (tf.ones([2], tf.float64), c)], one], group(ONES))
    assert [variable for _, variable in gathered] == [a, d, b, e, c]
    assert [run(gradient).tolist() for gradient, _ in gathered] == [[2, 2]] * 4 + [[1, 1]]
    # a with b and d with e; c is tower 0's alone, and needs no sum.
    assert len([op for op in fresh_graph.get_operations() if op.type == "AddN"]) == 2


@pytest.mark.parametrize(
    ("grads", "phrases"),
    [
        (
            lambda: [tf.constant(1.0), tf.constant(1.0, tf.float64)],
            "The towers' gradients of '…w:0' must be of one type, but tower 0…float32…float64…Cast",
        ),
        (
            lambda: [None, object()],
            "A gradient must be a tensor, a `tf.IndexedSlices` or None…'w:0' on tower 1 is <object",
        ),
    ],
)
def test_wrong_gradients(grads, phrases):
    with pytest.raises(TypeError, match=matching(phrases)):
        gather(grads(), HALVES, tf.get_variable("w", []))


@pytest.mark.parametrize("sizes", [(2, 1), (1, 2), (3, 0)])
def test_row_weights_are_shares_of_the_batch(sizes):
    total = sum(sizes)
    for known in (True, False):
        rows = list(sizes) if known else [tf.constant(size) for size in sizes]
        shards = sharding.Shards([], [], rows, total if known else tf.constant(total))
        weights = row_weights(shards)
        assert weights.equal is None
        got = run(*[weights.of(index, tf.float64) for index in range(2)])
        np.testing.assert_array_equal(got, [size / total for size in sizes])


def test_a_weight_waits_for_nothing_that_is_open_where_it_is_first_used():
    weights = Weights([0.25, tf.constant(0.75, tf.float64)])
    with tf.control_dependencies([tf.no_op()]), tf.name_scope("users"):
        for index in range(2):
            weight = weights.of(index, tf.float32)
            assert weight.op.control_inputs == []
            assert weight is weights.of(index, tf.float32)
            assert not weight.name.startswith("users/")
