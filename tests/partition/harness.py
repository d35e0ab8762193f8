"""Harness of "a graph in towers computes what one device computes".

Trains a `model_fn` as it is on one device, and by `replicate_model_fn` in towers with the mechanism
that partitions one device's graph, on the same batches with the same seed. Then it evaluates and
predicts with the weights that came out. A model_fn that works here takes

    features   those of `model_inputs.rows_of`, and their labels
    params     `optimizer`, a function without arguments, and `batch_size`

and may have `predictions` in training: they are compared after every step, as the loss is.
"""

import collections
import contextlib
import functools
import logging
from typing import Any, Dict, List, NamedTuple
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf

import contract
import replicate
from partition.model_inputs import SEED, UNKNOWN, dataset
from replicate.compat import graph as graph_lib
from replicate.graphs.ancestors import ancestors
from replicate.partition import build
from replicate.partition import model as partition_model

ROUNDING = 1e-14  # The remainder that is allowed where sums cancel.
ModeKeys = tf.estimator.ModeKeys
_UPDATES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")


class Record(NamedTuple):
    """A run of a `model_fn` in one mode.

    Attributes:
        steps: Of each batch the loss and the spec's predictions, by name.
        variables: After each training step all global variables, by name.
        metrics: What was evaluated, by name.
        said: What the library warned of.
        in_towers: The types of the operations that are in towers, by name.
        once: Those of the others.
        kept_whole: Of each type of operation that takes what towers have and runs once: how many.
    """

    steps: List[Dict[str, Any]]
    variables: List[Dict[str, Any]]
    metrics: Dict[str, Any]
    said: List[str]
    in_towers: Dict[str, str]
    once: Dict[str, str]
    kept_whole: Dict[str, int]

    def part(self, name):
        """Returns the record of model `name`, one of several in one graph."""

        def own(values):
            return {key: value for key, value in values.items() if key.startswith(f"{name}/")}

        return self._replace(
            steps=[own(step) for step in self.steps],
            variables=[own(step) for step in self.variables],
            metrics=own(self.metrics),
            in_towers=own(self.in_towers),
            once=own(self.once),
        )


@contextlib.contextmanager
def mechanism():
    """Lets graphs be partitioned after they are built; gives the list of their `Partitioned`."""
    made = []

    def partition(*args, **kwargs):
        made.append(build.partition(*args, **kwargs))
        return made[-1]

    with mock.patch.object(partition_model, "partition", partition):
        yield made


def replicated(model_fn, num_towers):
    """Returns `model_fn` for so many towers, with its `options`, as it is for one."""
    if num_towers == 1:
        return model_fn
    options = getattr(model_fn, "options", {})
    devices = contract.device_names(num_towers)
    return replicate.replicate_model_fn(model_fn, devices=devices, **options)


def _reading_first(model_fn):
    """Returns `model_fn` whose updates of a variable wait for the reads that were made before.

    Predictions that the loss does not use may read a variable before or after its update; on one
    device as well, where it depends on the load of the machine.
    """

    @functools.wraps(model_fn)
    def ordered(*args, **kwargs):
        spec = model_fn(*args, **kwargs)
        needed = set() if spec.train_op is None else ancestors([spec.train_op])
        reads = collections.defaultdict(list)
        for op in tf.get_default_graph().get_operations():
            handles = [one for one in op.inputs if one.op.type == "VarHandleOp"]
            if op.type.startswith(_UPDATES):
                if op in needed:  # Not an initializer, before which nothing can be read.
                    before = [read for one in handles for read in reads[one.op]]
                    graph_lib.add_control_inputs(op, before)
            elif not graph_lib.is_in_control_flow(op):  # That of a branch may not run.
                for one in handles:
                    reads[one.op].append(op)
        return spec

    return ordered


def session_config(num_towers):
    """Without TensorFlow's graph optimizer, which takes longer than all these steps."""
    config = replicate.session_config(contract.device_names(num_towers))
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.operation_timeout_in_ms = 60_000  # Where towers wait for each other.
    return config


@contextlib.contextmanager
def building(model_fn, batches, num_towers, mode):
    """A graph of a `model_fn`, which gives its spec."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(SEED)
        tf.train.create_global_step()
        features, labels = tf.data.make_one_shot_iterator(dataset(batches)).get_next()
        spec = replicated(_reading_first(model_fn), num_towers)(
            features,
            None if mode == ModeKeys.PREDICT else labels,
            mode=mode,
            params={"optimizer": batches.optimizer, "batch_size": batches.size},
        )
        assert_inputs_are_known(graph)
        yield spec


def assert_inputs_are_known(graph):
    """Asserts that operations have the inputs which C++ knows: imports tell Python of them."""
    for node in graph.as_graph_def().node:
        inputs = graph.get_operation_by_name(node.name).inputs
        known = [f"{one.op.name}:{one.value_index}" for one in inputs]
        there = [name for name in node.input if not name.startswith("^")]
        assert known == [name if ":" in name else f"{name}:0" for name in there], node.name


def _fetches(spec):
    """Returns what is looked at in each step, by name."""
    predictions = {} if spec.predictions is None else spec.predictions
    if not isinstance(predictions, dict):
        predictions = {"predictions": predictions}
    return predictions if spec.loss is None else {"loss": spec.loss, **predictions}


@contextlib.contextmanager
def heard():
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
    graph = building(model_fn, batches, num_towers, ModeKeys.TRAIN)
    with heard() as said, mechanism() as made, graph as spec:
        every = {variable.op.name: variable for variable in tf.global_variables()}
        hooks = [*spec.training_hooks, *spec.training_chief_hooks]
        creator = tf.train.ChiefSessionCreator(spec.scaffold, config=session_config(num_towers))
        with tf.train.MonitoredSession(creator, hooks, stop_grace_period_secs=0) as session:
            while not session.should_stop():
                steps.append(session.run((_fetches(spec), spec.train_op))[0])
                variables.append(session.run(every))  # Not of the step, which may be before.
    return Record(steps, variables, {}, said, *_towers(made))


@functools.lru_cache(maxsize=None)
def applied(model_fn, batches, num_towers=1, mode=ModeKeys.EVAL):
    """Evaluates, or predicts, with the weights that one device trained; returns the `Record`."""
    weights, steps = trained(model_fn, batches).variables[-1], []
    graph = building(model_fn, batches, num_towers, mode)
    with heard() as said, mechanism() as made, graph as spec:
        spec.scaffold.finalize()
        metrics = spec.eval_metric_ops or {}
        step = _fetches(spec), [update for _, update in metrics.values()]
        with tf.Session(config=session_config(num_towers)) as session:
            session.run([spec.scaffold.init_op, spec.scaffold.local_init_op])
            initializers = {v.op.name: v.initializer for v in tf.global_variables()}
            fed = {one.inputs[1]: weights[name] for name, one in initializers.items()}
            session.run(list(initializers.values()), fed)
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    steps.append(session.run(step)[0])
            metrics = session.run({name: value for name, (value, _) in metrics.items()})
    return Record(steps, [], metrics, said, *_towers(made))


def _towers(made):
    """Returns which operations are in towers and which are not, and what is kept whole."""
    if not made:
        return {}, {}, {}
    plan = made[0].plan
    in_towers = {one.name: one.type for one in plan.copied}
    once = {one.name: one.type for one in plan.operations if one.name not in in_towers}
    return in_towers, once, dict(plan.layouts.kept_whole)


def assert_close(got, want, rtol, name):
    """Compares elementwise, relative to the largest, except for rounding errors of 0."""
    want = np.asarray(want)
    assert np.shape(got) == want.shape, name
    if not np.issubdtype(want.dtype, np.inexact):
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    rtol = max(rtol, 1e-6) if want.dtype == np.float32 else rtol  # As most of `tf.metrics` are.
    scale = np.max(np.abs(want), initial=0.0)
    np.testing.assert_allclose(got, want, rtol, rtol * scale + ROUNDING, err_msg=name)


def _assert_same_values(got, want, rtol, when):
    assert sorted(got) == sorted(want)
    for name in want:
        assert_close(got[name], want[name], rtol, f"{name} {when}")


def assert_same(got, want, rtol=1e-9, is_split=True):
    """Compares the `Record` of towers with that of one device, step by step.

    Args:
        got: That of towers.
        want: That of one device.
        rtol: How much they may deviate.
        is_split: Whether towers are to have a part of the work.
    """
    assert got.said == []
    assert got.in_towers or not is_split
    assert len(got.steps) == len(want.steps) and len(got.variables) == len(want.variables)
    for step, (one, other) in enumerate(zip(got.steps, want.steps)):
        _assert_same_values(one, other, rtol, f"in step {step}")
    for step, (one, other) in enumerate(zip(got.variables, want.variables)):
        _assert_same_values(one, other, rtol, f"after step {step}")
    _assert_same_values(got.metrics, want.metrics, rtol, "of all steps")


def assert_trains(want):
    """Asserts of a `Record` of one device that comparing it with another shows something."""
    for values in want.steps + want.variables:
        for name, value in values.items():
            assert np.all(np.isfinite(value)), f"{name} is {value}"
    first, last = want.variables[0], want.variables[-1]
    moved = [
        np.max(np.abs(np.subtract(last[name], first[name], dtype=float)), initial=0.0)
        for name in first
    ]
    assert max(moved) > 1e-5, "its variables stay what they are"


def check_training(model_fn, batches, num_towers):
    """Asserts that a `model_fn` trains in towers as on one device."""
    assert_trains(trained(model_fn, batches))
    assert_same(trained(model_fn, batches, num_towers), trained(model_fn, batches))


@functools.lru_cache(maxsize=None)
def trained_where(model_fn, placement):
    """Returns the trained variables after each of three steps.

    Args:
        model_fn: The function, which is given resource variables.
        placement: The `variable_placement` of three towers; None: one device.
    """
    seen = []

    def of_resources(features, labels, mode, params):
        tf.get_variable_scope().set_use_resource(True)
        return model_fn(features, labels, mode=mode, params=params)

    chosen = of_resources
    if placement is not None:
        chosen = replicate.replicate_model_fn(
            of_resources, devices=contract.device_names(3), variable_placement=placement
        )
    with mechanism(), building(chosen, UNKNOWN, 1, ModeKeys.TRAIN) as spec:
        creator = tf.train.ChiefSessionCreator(config=session_config(3))
        with tf.train.MonitoredSession(creator, spec.training_hooks) as session:
            while not session.should_stop():
                session.run(spec.train_op)
                seen.append(session.run(tf.trainable_variables()))
    return seen


def check_applied(model_fn, batches, num_towers):
    """Asserts that a `model_fn` evaluates and predicts in towers as on one device."""
    for mode in (ModeKeys.EVAL, ModeKeys.PREDICT):
        want = applied(model_fn, batches, 1, mode)
        assert_same(applied(model_fn, batches, num_towers, mode), want)
