"""Harness of "a graph in towers computes what one device computes".

Trains a `model_fn` as it is on one device, and by `replicate_model_fn` in towers with the mechanism
that partitions one device's graph, on the same batches with the same seed. Then it evaluates and
predicts with the weights that came out. A model_fn that works here takes

    features   those of `rows_of`, and their labels
    params     `optimizer`, a function without arguments, and `batch_size`

and may have `predictions` in training: they are compared after every step, as the loss is.
"""

import contextlib
import functools
import logging
import os
from typing import Any, Dict, List, NamedTuple
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from replicate.partition import build
from replicate.partition import model as partition_model

SEED = 7
F64 = tf.float64
ModeKeys = tf.estimator.ModeKeys
GLOROT = tf.glorot_uniform_initializer


class Batches(NamedTuple):
    """An epoch of batches: `total` rows, `size` of them at a time.

    Attributes:
        total: The rows of all batches.
        size: The rows of a batch, of the last one the rest.
        static: Whether the graph knows the batch size.
        optimizer: Function without arguments that makes the optimizer.
    """

    total: int
    size: int
    static: bool
    optimizer: Any


def _sgd():
    return tf.train.GradientDescentOptimizer(0.05)


def _momentum():
    return tf.train.MomentumOptimizer(0.02, 0.9)


# Over 2 and 3 towers, 11 rows make shards of 6+5 and 4+4+3; 1 row leaves towers without rows.
STATIC = Batches(33, 11, True, _sgd)
UNKNOWN = Batches(23, 11, False, _momentum)
CASES = [
    selection.cell(2, STATIC, id="2-static", is_quick=True),
    selection.cell(3, UNKNOWN, id="3-unknown", is_quick=True),
    selection.cell(3, STATIC, id="3-static", is_quick=False),
    selection.cell(2, UNKNOWN, id="2-unknown", is_quick=False),
]


class Batch(NamedTuple):
    """A batch of n rows, by which losses are made.

    Attributes:
        x: [n, 4] float64.
        ids: [n, 2] int32, of six.
        weight: [n, 1] float64, zeros and ones.
        steps: [n, 5, 3] float64.
        image: [n, 6, 6, 2] float64.
        y: [n, 1] float64, of [-1, 1].
        k: [n] int32, of three classes.
    """

    x: Any
    ids: Any
    weight: Any
    steps: Any
    image: Any
    y: Any
    k: Any


class Record(NamedTuple):
    """What a `model_fn` did in one mode.

    Attributes:
        steps: Of each batch the loss and the spec's predictions, by name.
        variables: After each training step all global variables, by name.
        metrics: What was evaluated, by name.
        said: What the library warned of.
        in_towers: How many operations are in towers.
        kept_whole: Of each type of operation that takes what towers have and runs once: how many.
    """

    steps: List[Dict[str, Any]]
    variables: List[Dict[str, Any]]
    metrics: Dict[str, Any]
    said: List[str]
    in_towers: int
    kept_whole: Dict[str, int]

    def part(self, name):
        """Returns what is of the model `name`, of several in one graph."""

        def own(values):
            return {key: value for key, value in values.items() if key.startswith(f"{name}/")}

        return self._replace(
            steps=[own(step) for step in self.steps],
            variables=[own(step) for step in self.variables],
            metrics=own(self.metrics),
        )


def rows_of(total):
    """Returns features and labels of `total` rows that differ from one another."""
    random = np.random.RandomState(SEED)
    x = random.normal(size=(total, 4))
    features = {
        "x": x,
        "ids": random.randint(0, 6, size=(total, 2)).astype(np.int32),
        "weight": (random.uniform(size=(total, 1)) > 0.3).astype(np.float64),
        "steps": random.normal(size=(total, 5, 3)),
        "image": random.normal(size=(total, 6, 6, 2)),
    }
    labels = {
        "y": np.sin(x.sum(axis=1, keepdims=True)),
        "k": random.randint(0, 3, size=total).astype(np.int32),
    }
    return features, labels


def dataset(batches):
    """Returns the `tf.data.Dataset` of `batches`; an `input_fn` when bound to its argument."""
    data = tf.data.Dataset.from_tensor_slices(rows_of(batches.total))
    return data.batch(batches.size, drop_remainder=batches.static)


def get_variable(name, shape, **kwargs):
    """A float64 variable; its initialiser follows the graph's seed."""
    initializer = GLOROT() if len(shape) > 1 else tf.zeros_initializer()
    return tf.get_variable(name, shape, F64, kwargs.pop("initializer", initializer), **kwargs)


def hidden(x, units=3, name="net"):
    """Two dense layers, [n, m] to [n, units]."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        w, b = get_variable("w", [x.shape[1], 5]), get_variable("b", [5])
        return tf.tanh(x @ w + b) @ get_variable("v", [5, units])


def one_hot(k):
    return tf.one_hot(k, 3, dtype=F64)


@contextlib.contextmanager
def mechanism():
    """Lets graphs be partitioned after they are built; gives the list of their `Partitioned`."""
    made = []

    def partition(*args, **kwargs):
        made.append(build.partition(*args, **kwargs))
        return made[-1]

    with mock.patch.dict(os.environ, {"REPLICATE_PARTITION": "1"}), mock.patch.object(
        partition_model, "partition", partition
    ):
        yield made


def replicated(model_fn, num_towers):
    """Returns `model_fn` for so many towers, as it is for one."""
    if num_towers == 1:
        return model_fn
    return replicate.replicate_model_fn(model_fn, devices=contract.device_names(num_towers))


def _session_config(num_towers):
    """Without TensorFlow's graph optimizer, which takes longer than all these steps."""
    config = replicate.session_config(contract.device_names(num_towers))
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


@contextlib.contextmanager
def _spec(model_fn, batches, num_towers, mode):
    """A graph of a `model_fn`, which gives its spec."""
    with tf.Graph().as_default():
        tf.set_random_seed(SEED)
        tf.train.create_global_step()
        features, labels = tf.data.make_one_shot_iterator(dataset(batches)).get_next()
        yield replicated(model_fn, num_towers)(
            features,
            None if mode == ModeKeys.PREDICT else labels,
            mode=mode,
            params={"optimizer": batches.optimizer, "batch_size": batches.size},
        )


def _fetches(spec):
    """Returns what is looked at in each step, by name."""
    predictions = {} if spec.predictions is None else spec.predictions
    if not isinstance(predictions, dict):
        predictions = {"predictions": predictions}
    return predictions if spec.loss is None else {"loss": spec.loss, **predictions}


@contextlib.contextmanager
def _heard():
    """Collects what the library warns of, which is not to depend on a test's own log."""
    said = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    logger, verbosity = logging.getLogger("tensorflow"), tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.WARN)
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        tf.logging.set_verbosity(verbosity)
        said[:] = [line for line in said if line.startswith("replicate:")]


@functools.lru_cache(maxsize=None)
def trained(model_fn, batches, num_towers=1):
    """Trains in towers, or on one device; returns the `Record`."""
    steps, variables = [], []
    with _heard() as said, mechanism() as made, _spec(
        model_fn, batches, num_towers, ModeKeys.TRAIN
    ) as spec:
        every = {variable.op.name: variable for variable in tf.global_variables()}
        hooks = [*spec.training_hooks, *spec.training_chief_hooks]
        creator = tf.train.ChiefSessionCreator(spec.scaffold, config=_session_config(num_towers))
        with tf.train.MonitoredSession(creator, hooks, stop_grace_period_secs=0) as session:
            while not session.should_stop():
                steps.append(session.run((_fetches(spec), spec.train_op))[0])
                variables.append(session.run(every))  # Not of the step, which may be before.
    return Record(steps, variables, {}, said, *_towers(made))


@functools.lru_cache(maxsize=None)
def applied(model_fn, batches, num_towers=1, mode=ModeKeys.EVAL):
    """Evaluates, or predicts, with the weights that one device trained; returns the `Record`."""
    weights, steps = trained(model_fn, batches).variables[-1], []
    with _heard() as said, mechanism() as made, _spec(model_fn, batches, num_towers, mode) as spec:
        spec.scaffold.finalize()
        metrics = spec.eval_metric_ops or {}
        step = _fetches(spec), [update for _, update in metrics.values()]
        with tf.Session(config=_session_config(num_towers)) as session:
            session.run([spec.scaffold.init_op, spec.scaffold.local_init_op])
            initializers = {v.op.name: v.initializer for v in tf.global_variables()}
            fed = {made.inputs[1]: weights[name] for name, made in initializers.items()}
            session.run(list(initializers.values()), fed)
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    steps.append(session.run(step)[0])
            metrics = session.run({name: value for name, (value, _) in metrics.items()})
    return Record(steps, [], metrics, said, *_towers(made))


def _towers(made):
    """Returns how many operations are in towers, and the types of those that are not."""
    if not made:
        return 0, {}
    return len(made[0].plan.copied), dict(made[0].plan.layouts.kept_whole)


def assert_same(got, want, rtol=1e-9):
    """Compares the `Record` of towers with that of one device, step by step."""
    assert got.said == []
    assert got.in_towers > 0
    for what in ("steps", "variables"):
        pairs = list(zip(getattr(got, what), getattr(want, what)))
        assert len(getattr(got, what)) == len(pairs) == len(getattr(want, what))
        for index, (one, other) in enumerate(pairs):
            contract.assert_same_values(one, other, rtol, step=f"{index} of {what}")
    contract.assert_same_values(got.metrics, want.metrics, rtol, step="evaluation")


def assert_trains(want):
    """Asserts of a `Record` of one device that comparing it with another shows something."""
    for values in want.steps + want.variables:
        for name, value in values.items():
            assert np.all(np.isfinite(value)), f"{name} is {value}"
    first, last = want.variables[0], want.variables[-1]
    moved = [np.max(np.abs(last[name] - first[name]), initial=0.0) for name in first]
    assert max(moved) > 1e-5, "its variables stay what they are"


def check_training(model_fn, batches, num_towers):
    """Asserts that a `model_fn` trains in towers as on one device."""
    assert_trains(trained(model_fn, batches))
    assert_same(trained(model_fn, batches, num_towers), trained(model_fn, batches))


def check_applied(model_fn, batches, num_towers):
    """Asserts that a `model_fn` evaluates and predicts in towers as on one device."""
    for mode in (ModeKeys.EVAL, ModeKeys.PREDICT):
        want = applied(model_fn, batches, 1, mode)
        assert_same(applied(model_fn, batches, num_towers, mode), want)
