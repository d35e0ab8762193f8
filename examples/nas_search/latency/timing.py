"""Measures how long networks take, stably even where other programs run.

A network is built as it is deployed: alone, for inference, with weights of its own. Several, a
*group*, are built three times each, and run in *rounds*: in each of them every build has a *turn*,
in shuffled order, of several runs without a pause. So have six builds of a *reference network*, the
same in all groups. What disturbs a measurement is dealt with where it arises:

    builds of a network differ        by several per cent for as long as they live: the median of
                                      a network's builds counts
    caches hold another network       the first run of a turn does not count
    another program takes the cores   of a turn counts the lower quartile of its runs
    the clock rate drifts             the latency of a turn is that of the network times the speed
                                      of the round: both are fitted, by medians (`without_drift`)
    ... from group to group           latencies of a group are divided by the reference network's
    the garbage collector             is off
    the session                       runs a compiled call; images and results are no copies

The least time of all is no measure: where a network runs in several threads, a few runs are faster
than all others by luck. Latencies are in milliseconds per run, of a whole batch.
"""

import contextlib
import gc
import time
from typing import NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from examples.nas_search import mobile_classifier_factory

GROUP = 16  # networks, without the reference network
_BUILDS = 3
_REFERENCE_BUILDS = 6  # It counts for the whole group.
_WARM_UP_RUNS = 3
_TURN_SECS = 0.01
_TURN_RUNS = (2, 10)  # at least and at most
_POLISHING_STEPS = 10


class Setting(NamedTuple):
    """How networks are measured."""

    input_shape: Tuple[int, int, int]  # height, width and channels of an image
    num_classes: int
    batch_size: int  # images per run
    device: str  # canonical name
    threads: int  # for each operation, on the CPU
    rounds: int


def measure_group(specs, reference, setting, random, on_round=lambda done: None):
    """Measures networks.

    Args:
        specs: `ConvTowerSpec` of each network, in which every choice has one option.
        reference: `ConvTowerSpec` of the reference network.
        setting: A `Setting`.
        random: A `numpy.random.RandomState`, for the order of turns.
        on_round: Is called after every round with the number of rounds so far.

    Returns:
        Pair of the latencies of the networks, float64 [n], and that of the reference network, a
        float, in ms.
    """
    builds = [spec for spec in specs for _ in range(_BUILDS)]
    with _ready_to_run(builds + [reference] * _REFERENCE_BUILDS, setting) as runs:
        turns = time_turns(runs, setting.rounds, random, on_round)
    latencies = without_drift(turns)
    by_network = latencies[: len(builds)].reshape(-1, _BUILDS)
    return np.median(by_network, axis=1), float(np.median(latencies[len(builds) :]))


def time_turns(runs, rounds, random, on_round=lambda done: None, clock=time.perf_counter):
    """Runs functions in rounds and times their turns.

    Args:
        runs: n functions without arguments.
        rounds: Number of rounds.
        random: A `numpy.random.RandomState`, for the order of turns.
        on_round: Is called after every round with the number of rounds so far.
        clock: Function that returns seconds.

    Returns:
        Float64 [rounds, n], ms.
    """

    def timed(run):
        start = clock()
        run()
        return 1000 * (clock() - start)

    warm = [[timed(run) for _ in range(_WARM_UP_RUNS)] for run in runs]
    wanted = [np.ceil(1000 * _TURN_SECS / max(times[-1], 1e-6)) for times in warm]
    num_runs = np.clip(wanted, *_TURN_RUNS).astype(int)
    turns = np.zeros([rounds, len(runs)])
    with _no_garbage_collection():
        for number in range(rounds):
            for k in random.permutation(len(runs)):
                times = [timed(runs[k]) for _ in range(num_runs[k])]
                turns[number, k] = np.quantile(times[1:], 0.25)
            on_round(number + 1)
    return turns


def without_drift(turns):
    """Separates the latencies of networks from the speeds of rounds: turns ≈ speed · latency.

    By median polish of the logarithms (Tukey, "Exploratory data analysis", 1977): single turns that
    were disturbed, and single rounds, make no difference.

    Args:
        turns: Float64 [rounds, n], ms.

    Returns:
        Float64 [n], ms in a round of median speed.
    """
    turns = np.log(turns)
    latencies = np.median(turns, axis=0)
    for _ in range(_POLISHING_STEPS):
        speeds = np.median(turns - latencies, axis=1, keepdims=True)
        latencies = np.median(turns - speeds, axis=0)
    return np.exp(latencies + np.median(speeds))


def at_one_speed(latencies, reference_latencies):
    """Takes out the drift from group to group.

    Args:
        latencies: Float64 [n], ms, of networks of any groups.
        reference_latencies: Float64 [n], ms, of the reference network in the group of each.

    Returns:
        Float64 [n], ms at the speed at which the reference network has its median latency.
    """
    return latencies * np.median(reference_latencies) / reference_latencies


@contextlib.contextmanager
def _ready_to_run(specs, setting):
    """Builds networks; gives functions that run them.

    Each has a graph and a session of its own: in one for all, TensorFlow would go through all of
    them for each.
    """
    # The process has one pool of threads, made with its first session.
    config = replicate.session_config(
        [setting.device], intra_op_parallelism_threads=setting.threads
    )
    with contextlib.ExitStack() as sessions:
        runs = []
        for spec in specs:
            with tf.Graph().as_default(), tf.device(setting.device):
                logits = _logits(spec, setting)
                session = sessions.enter_context(contextlib.closing(tf.Session(config=config)))
                session.run(tf.global_variables_initializer())
                runs.append(session.make_callable(logits))
        yield runs


def _logits(spec, setting):
    shape = [setting.batch_size, *setting.input_shape]
    images = tf.get_variable("images", initializer=tf.random.uniform(shape), trainable=False)
    model = mobile_classifier_factory.get_standalone_model(spec, num_classes=setting.num_classes)
    model.build(images.shape)
    logits, _ = model.apply(images, training=False)
    return logits


@contextlib.contextmanager
def _no_garbage_collection():
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
