"""Metrics over towers equal those of one device, or are refused; never a wrong number."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection

# All metrics are measured in one graph, which one process builds.
pytestmark = pytest.mark.xdist_group("tests/test_metrics.py")

SUM_ON_READ = {
    "synchronization": tf.VariableSynchronization.ON_READ,
    "aggregation": tf.VariableAggregation.SUM,
}

# The inputs of each public function of `tf.metrics`, by the names of `data` below.
BINARY = ("binary", "probability")
CLASSES = ("classes", "predicted_classes")
REAL = ("real", "predicted_real")
TOP_K = ("classes", "scores")
INTEGERS = ("binary", "binary_guess", "classes", "predicted_classes", "top")
TF_METRICS = {
    "accuracy": (CLASSES, {}),
    "auc": (BINARY, {"num_thresholds": 20}),
    "average_precision_at_k": (TOP_K, {"k": 2}),
    "false_negatives": (("binary", "binary_guess"), {}),
    "false_negatives_at_thresholds": (BINARY, {"thresholds": [0.2, 0.6]}),
    "false_positives": (("binary", "binary_guess"), {}),
    "false_positives_at_thresholds": (BINARY, {"thresholds": [0.2, 0.6]}),
    "mean": (("real",), {}),
    "mean_absolute_error": (REAL, {}),
    "mean_cosine_distance": (("unit", "predicted_unit"), {"dim": 1}),
    "mean_iou": (CLASSES, {"num_classes": 3}),
    "mean_per_class_accuracy": (CLASSES, {"num_classes": 3}),
    "mean_relative_error": (("real", "predicted_real", "real"), {}),
    "mean_squared_error": (REAL, {}),
    "mean_tensor": (("real",), {}),
    "percentage_below": (("real",), {"threshold": 0.1}),
    "precision": (("binary", "binary_guess"), {}),
    "precision_at_k": (TOP_K, {"k": 2}),
    "precision_at_thresholds": (BINARY, {"thresholds": [0.2, 0.6]}),
    "precision_at_top_k": (("classes", "top"), {}),
    "recall": (("binary", "binary_guess"), {}),
    "recall_at_k": (TOP_K, {"k": 2}),
    "recall_at_thresholds": (BINARY, {"thresholds": [0.2, 0.6]}),
    "recall_at_top_k": (("classes", "top"), {}),
    "root_mean_squared_error": (REAL, {}),
    "sensitivity_at_specificity": (BINARY, {"specificity": 0.5, "num_thresholds": 20}),
    "sparse_average_precision_at_k": (TOP_K, {"k": 2}),
    "sparse_precision_at_k": (TOP_K, {"k": 2}),
    "specificity_at_sensitivity": (BINARY, {"sensitivity": 0.5, "num_thresholds": 20}),
    "true_negatives": (("binary", "binary_guess"), {}),
    "true_negatives_at_thresholds": (BINARY, {"thresholds": [0.2, 0.6]}),
    "true_positives": (("binary", "binary_guess"), {}),
    "true_positives_at_thresholds": (BINARY, {"thresholds": [0.2, 0.6]}),
}
OF_SPARSE_LABELS = [f"{name} of sparse labels" for name in ("precision_at_k", "recall_at_k")]
KERAS_METRICS = {
    "keras_mean": (tf.keras.metrics.Mean, ("real",)),
    "keras_accuracy": (tf.keras.metrics.BinaryAccuracy, BINARY),
    "keras_auc": (tf.keras.metrics.AUC, BINARY),
    "keras_precision": (tf.keras.metrics.Precision, BINARY),
}
TOTAL = 21
# Rows of a batch and towers: uneven shards; and batches with empty shards. The first has both, as
# its last batch is one row.
RUNS = [selection.cell(*run, is_quick=run == (10, 3)) for run in ((10, 3), (7, 2), (8, 3), (2, 3))]


def data(total=TOTAL):
    random = np.random.RandomState(3)
    classes = random.randint(0, 3, total)
    scores = random.uniform(size=(total, 3))
    unit = random.normal(size=(2, total, 4))
    unit /= np.linalg.norm(unit, axis=2, keepdims=True)
    return {
        "binary": random.randint(0, 2, total),
        "binary_guess": random.randint(0, 2, total),
        "probability": random.uniform(size=total),
        "classes": classes,
        "predicted_classes": np.where(random.uniform(size=total) < 0.5, classes, 0),
        "scores": scores,
        "top": np.argsort(scores, axis=1)[:, :2],
        "real": random.normal(size=total) + 0.1 * np.arange(total),
        "predicted_real": random.normal(size=total),
        "unit": unit[0],
        "predicted_unit": unit[1],
        "weight": random.uniform(size=total),
    }


def batches(size, drop_remainder=False):
    features = tf.data.Dataset.from_tensor_slices(data())
    return features.batch(size, drop_remainder).map(lambda x: (x, {}))


def mean_tensor(x, weights):
    """`tf.metrics.mean_tensor` of the means of what is shaped like a batch, weighted by rows."""
    rows = tf.cast(tf.size(x), tf.float32)
    means = tf.math.divide_no_nan([tf.reduce_sum(x), tf.reduce_sum(x**2)], rows)
    return tf.metrics.mean_tensor(means, weights=tf.fill([2], rows))


def all_metrics(features):
    """Returns every metric of the tables by name, with weights for the rows."""
    floats = {key: tf.cast(x, tf.float32) for key, x in features.items()}
    metrics = {}
    for name, (inputs, kwargs) in TF_METRICS.items():
        make = mean_tensor if name == "mean_tensor" else getattr(tf.metrics, name)
        given = [features[key] if key in INTEGERS else floats[key] for key in inputs]
        metrics[name] = make(*given, weights=floats["weight"], **kwargs)
    for name in OF_SPARSE_LABELS:
        make = getattr(tf.metrics, name.partition(" ")[0])
        metrics[name] = make(tf.sparse.from_dense(features["top"]), floats["scores"], k=2)
    for name, (make, inputs) in KERAS_METRICS.items():
        metrics[name] = make()
        metrics[name].update_state(*(floats[key] for key in inputs))
    return metrics


def eval_spec(mode, metrics):
    return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), eval_metric_ops=metrics)


def model_fn(features, labels, mode, params):
    return eval_spec(mode, all_metrics(features))


@functools.lru_cache(maxsize=None)
def evaluated(size, num_towers):
    chosen = contract.replicated(model_fn, num_towers) if num_towers > 1 else model_fn
    return contract.evaluate(chosen, functools.partial(batches, size), num_towers)


def test_the_table_has_every_metric():
    assert sorted(TF_METRICS) == sorted(n for n in dir(tf.metrics) if not n.startswith("_"))


@pytest.mark.parametrize("size, num_towers", RUNS)
@pytest.mark.parametrize("name", [*TF_METRICS, *OF_SPARSE_LABELS, *KERAS_METRICS])
def test_a_metric_over_towers_is_that_of_one_device(name, size, num_towers):
    want, got = evaluated(size, 1), evaluated(size, num_towers)
    assert np.all(np.isfinite(want[name]))
    np.testing.assert_allclose(got[name], want[name], rtol=1e-5)  # Float32 sums of 21 terms.


def evaluate_metric(make_metric, size, num_towers, drop_remainder=False):
    """Returns the value of the metric that `make_metric(x)` makes of the rows x = 0, 1, … 20."""

    def metric_model_fn(features, labels, mode, params):
        return eval_spec(mode, {"metric": make_metric(features)})

    rows = tf.float64.as_numpy_dtype(0) + np.arange(TOTAL)
    seen = contract.evaluate(
        contract.replicated(metric_model_fn, num_towers),
        lambda: tf.data.Dataset.from_tensor_slices((rows, rows)).batch(size, drop_remainder),
        num_towers,
    )
    return seen["metric"]


def local(name, value, **kwargs):
    return tf.get_variable(
        name,
        initializer=np.float64(value),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        **kwargs,
    )


def running_max(x):
    largest = local("largest", -np.inf)
    replicate.metrics.declare_merge(largest, lambda values: tf.reduce_max(values, axis=0))
    # With empty shards, the maximum of nothing is -inf: neutral, as an initial value must be.
    return tf.identity(largest), largest.assign(tf.maximum(largest, tf.reduce_max(x % 15.0)))


def merge_moments(counts, means, squares):
    """Chan's rule: squares are sums of squared deviations from each part's own mean."""
    count = tf.reduce_sum(counts)
    mean = tf.reduce_sum(counts * means) / tf.maximum(count, 1.0)
    return [count, mean, tf.reduce_sum(squares + counts * (means - mean) ** 2)]


def running_variance(x):
    moments = [local(name, 0.0) for name in ("count", "mean", "squares")]
    replicate.metrics.declare_merge(moments, merge_moments)
    rows = tf.cast(tf.size(x), tf.float64)
    mean = tf.math.divide_no_nan(tf.reduce_sum(x), rows)
    own = [rows, mean, tf.reduce_sum((x - mean) ** 2)]
    merged = merge_moments(*(tf.stack([v.read_value(), o]) for v, o in zip(moments, own)))
    update = tf.group(*(v.assign(m, read_value=False) for v, m in zip(moments, merged)))
    with tf.control_dependencies([update]):
        done = tf.identity(rows)
    return moments[2] / moments[0], done


@pytest.mark.parametrize("size", [2, 7, 21])
@pytest.mark.parametrize("num_towers", [1, 2, 3, 8])
def test_declared_merges(num_towers, size):
    # The largest of x mod 15 over x = 0, …, 20 is 14; it is in the middle of the rows.
    assert evaluate_metric(running_max, size, num_towers) == 14.0
    # The variance of 0, …, n − 1 is (n² − 1) / 12 = 440 / 12.
    value = evaluate_metric(running_variance, size, num_towers)
    np.testing.assert_allclose(value, 440 / 12, rtol=1e-12)


@pytest.mark.parametrize("drop_remainder", [True, False])
def test_a_variable_that_says_how_it_adds_up_needs_no_declaration(drop_remainder):
    def total(x):
        variable = local("total", 0.0, **SUM_ON_READ)
        return tf.identity(variable), variable.assign_add(tf.reduce_sum(x))

    # Batches of 5: rows 20 is left over. 0 + … + 20 = 210.
    value = evaluate_metric(total, 5, 3, drop_remainder)
    assert value == (190.0 if drop_remainder else 210.0)


@pytest.mark.parametrize("num_towers", [1, 2])
def test_a_metric_of_any_kind_is_that_of_one_device(num_towers):
    def last_product(x):
        last = local("last", 0.0)
        return tf.identity(last), last.assign(tf.reduce_prod(x + 1.0))

    # 15 · 16 · … · 21 is that of the last batch.
    assert evaluate_metric(last_product, 7, num_towers) == np.prod(np.arange(15.0, 22.0))


def test_a_largest_value_needs_no_declaration():
    def largest(x):
        variable = local("largest", -np.inf)
        return tf.identity(variable), variable.assign(tf.maximum(variable, tf.reduce_max(x % 15.0)))

    assert evaluate_metric(largest, 7, 3) == 14.0


def test_a_wrong_declaration():
    def declare(x):
        replicate.metrics.declare_merge(local("largest", 0.0), "max")

    with pytest.raises(TypeError, match=r"`merge` must be a function.*'max'"):
        evaluate_metric(declare, 7, 2)


def of_batches(x):
    """Metrics that add one value a batch, by name: x has the rows of the batch, [n]."""
    pairs = tf.stack([x, x**2 / 9.0], axis=1)
    mean, mask = tf.reduce_mean(x), tf.cast(x % 3.0 > 0.5, tf.float32)
    masked = tf.reduce_sum(mask * x) / (1.0 + tf.reduce_sum(mask))
    rows = tf.cast(tf.shape(x)[0], tf.float32)
    keras = {
        "keras_mean": (tf.keras.metrics.Mean, mean),
        "keras_sum": (tf.keras.metrics.Sum, mean),
        "keras_batches": (tf.keras.metrics.Sum, tf.constant(1.0)),
        "keras_rows": (tf.keras.metrics.Sum, rows),
    }
    metrics = {
        "mean": tf.metrics.mean(mean),
        "sum": tf.metrics.mean(tf.reduce_sum(x)),
        "root": tf.metrics.mean(tf.sqrt(mean)),
        "masked": tf.metrics.mean(masked),
        "function": tf.metrics.mean(tf.exp(-masked) * tf.reduce_sum(x)),
        "largest": tf.metrics.mean(tf.reduce_max(x) - tf.reduce_min(x)),
        "means": tf.metrics.mean(tf.reduce_mean(pairs, axis=0)),
        "mean_tensor": tf.metrics.mean_tensor(tf.reduce_mean(pairs, axis=0)),
        "sum_tensor": tf.metrics.mean_tensor(tf.reduce_sum(pairs, axis=0)),
        "of_rows": tf.metrics.mean(x),
        "weighted": tf.metrics.mean(mean, weights=0.25),
        "weighted_by_rows": tf.metrics.mean(mean, weights=rows),
        "weighted_rows": tf.metrics.mean(x, weights=mask),
        "rows": tf.metrics.mean(rows),
        "root_mean_square": tf.metrics.root_mean_squared_error(x, x**2 / 9.0),
    }
    for name, (make, value) in keras.items():
        metrics[name] = make()
        metrics[name].update_state(value)
    return metrics


@functools.lru_cache(maxsize=None)
def evaluated_batches(num_towers, drop_remainder):
    def batches_model_fn(features, labels, mode, params):
        return eval_spec(mode, of_batches(tf.cast(features, tf.float32)))

    chosen = batches_model_fn
    if num_towers > 1:
        chosen = contract.replicated(batches_model_fn, num_towers)
    rows = np.arange(TOTAL, dtype=np.float64)
    size = 6 if drop_remainder else 8  # The last batches of 8 rows have 5.
    return contract.evaluate(
        chosen,
        lambda: tf.data.Dataset.from_tensor_slices((rows, rows)).batch(size, drop_remainder),
        num_towers,
    )


BATCH_METRICS = [
    "function",
    "keras_batches",
    "keras_mean",
    "keras_rows",
    "keras_sum",
    "largest",
    "masked",
    "mean",
    "mean_tensor",
    "means",
    "of_rows",
    "root",
    "root_mean_square",
    "rows",
    "sum",
    "sum_tensor",
    "weighted",
    "weighted_by_rows",
    "weighted_rows",
]


@pytest.mark.parametrize("drop_remainder", [False, True], ids=["uneven", "static"])
@pytest.mark.parametrize("name", BATCH_METRICS)
def test_what_is_added_once_a_batch_is_that_of_the_batch(name, drop_remainder):
    want, got = (evaluated_batches(n, drop_remainder) for n in (1, 3))
    assert {*BATCH_METRICS, "loss"} <= {*want}
    np.testing.assert_allclose(got[name], want[name], rtol=1e-5)


def test_of_what_is_known_nothing_is_said(warnings):
    evaluated_batches.cache_clear()
    evaluated_batches(3, False)
    assert warnings() == []


@pytest.mark.parametrize(
    "make",
    [
        lambda x: tf.metrics.mean(tf.reduce_prod(x + 1.0)),
        lambda x: tf.metrics.mean(tf.square(x - tf.reduce_mean(x))),
    ],
    ids=["product", "variance"],
)
def test_metrics_of_what_rows_have_in_common_are_those_of_one_device(make, warnings):
    want = evaluate_metric(make, 7, 1)
    np.testing.assert_allclose(evaluate_metric(make, 7, 2), want, rtol=1e-6)
    assert warnings() == []


def test_declarations_do_nothing_outside_towers():
    assert replicate.metrics.declare_merge(local("largest", 0.0), tf.reduce_max) is None


@pytest.mark.parametrize("size", [6, 7], ids=["even", "uneven"])
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "unknown"])
def test_programs_of_towers_add_up_what_is_the_same_in_each(is_static, size):
    """The number of values, by which a mean is divided, is known if the size of a batch is."""

    def program(features, labels, mode, params):
        x = tf.cast(features, tf.float32)
        keras = tf.keras.metrics.Mean()
        keras.update_state(x)
        metrics = {
            "mean": tf.metrics.mean(x),
            "mean_of_columns": tf.metrics.mean_tensor(tf.reduce_mean(x[:, None] * [[1.0, 3.0]], 0)),
            "accuracy": tf.metrics.accuracy(features > 5, features > 7),
            "keras": keras,
        }
        return eval_spec(mode, metrics)

    rows = np.arange(2 * size, dtype=np.float64)
    found = [
        contract.evaluate(
            contract.replicated(program, towers, per_tower=True) if towers > 1 else program,
            lambda: tf.data.Dataset.from_tensor_slices((rows, rows)).batch(size, is_static),
            towers,
        )
        for towers in (1, 3)
    ]
    for name in ("mean", "accuracy", "keras"):
        np.testing.assert_allclose(found[1][name], found[0][name], 1e-6, err_msg=name)
    # Of a mean of columns, each tower adds one, so they are means of the towers' means.
    if size == 6:
        np.testing.assert_allclose(found[1]["mean_of_columns"], found[0]["mean_of_columns"], 1e-6)
