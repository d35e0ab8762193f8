"""The model of tests of faults, for their own process and, as a program, for one that is killed.

Batches depend on the global step alone, so that a run that resumes sees what it would have seen.
The program takes a dictionary of the arguments of `train` as JSON. It tells each step on a line of
standard output, and at steps in `pause` waits there for a line of standard input.
"""

import contextlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import zlib

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as v2

import replicate
from replicate import estimator
from replicate.faults import checkpoints

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICES = ["/cpu:0", "/cpu:1"]
ROWS, FEATURES = 6, 3


def batch(step):
    """Returns the features and labels of the batch that follows a global step."""
    random = np.random.RandomState(step)
    features = random.uniform(-1, 1, [ROWS, FEATURES]).astype(np.float32)
    return features, features.sum(axis=1, keepdims=True)


def dataset(start, end=None, change=lambda step, rows: rows):
    """Returns the batches that follow steps `start` to `end` - 1, as `change` has them."""

    def numbers():
        step = start
        while end is None or step < end:
            yield change(step, batch(step))
            step += 1

    shapes = tf.TensorShape([None, FEATURES]), tf.TensorShape([None, 1])
    return tf.data.Dataset.from_generator(numbers, (tf.float32, tf.float32), shapes)


def model_fn(features, labels, mode, params):
    # Those that layers have by default do not keep to the seed of a `RunConfig`.
    drawn = tf.glorot_uniform_initializer()
    with tf.variable_scope("model", initializer=drawn):
        hidden = tf.get_variable("hidden", [FEATURES, params.get("units", 8)])
        output = tf.get_variable("output", [params.get("units", 8), 1])
    units = tf.tanh(features @ hidden)
    # A row of zeros has a finite loss, but no gradient: a norm has none at 0.
    prediction = units @ output + tf.norm(units, axis=1, keepdims=True)
    loss = tf.losses.mean_squared_error(labels, prediction)
    if mode == estimator.ModeKeys.EVAL:
        return estimator.EstimatorSpec(mode, loss=loss)
    optimizer = replicate.TowerOptimizer(
        tf.train.AdamOptimizer(0.05), **params.get("optimizer", {})
    )
    update = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    scaffold = None
    if params.get("own_saver"):
        scaffold = tf.train.Scaffold(saver=tf.train.Saver(save_relative_paths=True))
    return estimator.EstimatorSpec(mode, loss=loss, train_op=update, scaffold=scaffold)


def make_estimator(directory, devices=DEVICES, save_steps=5, **params):
    config = estimator.RunConfig(
        model_dir=str(directory),
        tf_random_seed=1,
        save_checkpoints_steps=save_steps,
        session_config=replicate.session_config(DEVICES, intra_op_parallelism_threads=1),
        log_step_count_steps=None,
    )
    model = model_fn if devices is None else replicate.replicate_model_fn(model_fn, devices=devices)
    return estimator.Estimator(model, config=config, params=params)


class Record(tf.train.SessionRunHook):
    """Records each step with its loss; tells it, and waits where it is to."""

    def __init__(self, tell=False, pause=()):
        self.losses = []
        self._tell = tell
        self._pause = pause

    def begin(self):
        self._step = tf.train.get_global_step()
        self._loss = tf.losses.get_losses()[-1]

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        step = int(run_context.session.run(self._step))
        self.losses.append((step, float(run_values.results)))
        if self._tell:
            say(f"step {step}")
            if step in self._pause:
                wait()


def say(line):
    print(line, flush=True)


def wait():
    """Waits for a line from the test; signals are handled meanwhile."""
    sys.stdin.readline()


def step_of(directory):
    """Returns the global step that training resumes from."""
    path = checkpoints.fall_back(str(directory))
    return 0 if path is None else int(tf.train.load_variable(path, "global_step"))


def train(directory, max_steps, hooks=(), record=None, made=None, **settings):
    """Trains from where the directory stands; returns the steps made, each with its loss."""
    record = record or Record()
    made = made or make_estimator(directory, **settings)
    start = step_of(directory) * settings.get("optimizer", {}).get("accumulate_steps", 1)
    made.train(lambda: dataset(start), max_steps=max_steps, hooks=[record, *hooks])
    return record.losses


def read(path):
    """Returns the tensors of a checkpoint, or of the latest in a directory, by name."""
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def assert_same(got, expected):
    """Asserts that two checkpoints hold the same to the last bit."""
    assert {*got} == {*expected}
    for name, value in expected.items():
        assert got[name].dtype == value.dtype, name
        assert got[name].tobytes() == value.tobytes(), name


def start(scenario, directory, *, under=(), **settings):
    """Starts this program, as an argument of `under`; returns the process, with pipes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [*under, sys.executable, __file__, json.dumps([scenario, str(directory), settings])],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process, line):
    """Reads what a process says until it says `line`; returns what it said before."""
    said = []
    for told in process.stdout:
        if told.rstrip() == line:
            return said
        said.append(told.rstrip())
    raise AssertionError(f"never said {line!r}, but {said}: {process.communicate()[1]}")


class Ending(tf.train.SessionRunHook):
    """Waits for a second signal while the process leaves on the first."""

    def end(self, session):
        say("leaving")
        wait()


class PauseInEvaluation(tf.train.SessionRunHook):
    def after_run(self, run_context, run_values):
        say("evaluating")
        wait()


def preempted(directory, pause, max_steps, hook, plain=False, ending=False, **settings):
    """Trains with a `PreemptionHook`."""
    made = make_estimator(directory, **settings)
    hook = replicate.hooks.PreemptionHook(
        made.config if plain else None, **hook, ending=[Ending()] if ending else []
    )
    train(directory, max_steps, [hook], Record(True, pause), made, **settings)


def preempted_in_evaluation(directory, max_steps, **settings):
    """Trains and evaluates with a `PreemptionHook`."""
    made = make_estimator(directory, **settings)
    hooks = [Record(True), replicate.hooks.PreemptionHook()]
    estimator.train_and_evaluate(
        made,
        estimator.TrainSpec(lambda: dataset(0), max_steps=max_steps, hooks=hooks),
        estimator.EvalSpec(
            lambda: dataset(0), steps=10**9, hooks=[PauseInEvaluation()], throttle_secs=0
        ),
    )


def disk_full(directory, limit, max_steps, **settings):
    """Trains, again when its disk is full, and again when there is space."""
    train(directory, 5, **settings)
    with full(directory, limit):
        try:
            train(directory, max_steps, **settings)
        except tf.errors.OpError as error:
            say(f"{type(error).__name__}: {error.message}".replace("\n", " "))
        say(f"is at {step_of(directory)}")
    losses = train(directory, max_steps, **settings)
    say(json.dumps([losses, digest(directory)]))


@contextlib.contextmanager
def full(directory, limit):
    """Leaves no space for a checkpoint: limits the size of files, or fills the file system."""
    filler = os.path.join(directory, "filler")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    else:
        free = os.statvfs(directory)
        with open(filler, "wb") as file:
            file.write(bytes(free.f_bavail * free.f_frsize - 2**18))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        if limit is None:
            os.remove(filler)


def digest(directory):
    """Returns a number for the bits of the latest checkpoint."""
    tensors = read(directory)
    return zlib.crc32(b"".join(tensors[name].tobytes() for name in sorted(tensors)))


class DieInSave(tf.train.SessionRunHook):
    """Ends its process as `kill -9` does, while the checkpoint of a step is written."""

    def __init__(self, directory, step):
        self._directory = directory
        self._step = step

    def before_run(self, run_context):
        self._step -= 1
        if self._step == 0:
            self._known = set(files(self._directory))
            threading.Thread(target=self._die, daemon=True).start()

    def _die(self):
        while set(files(self._directory)) <= self._known:
            pass
        os.kill(os.getpid(), signal.SIGKILL)


def files(directory):
    """Returns the paths of what belongs to checkpoints in a directory, unfinished or not."""
    return [
        os.path.join(where, name)
        for where, _, names in os.walk(directory)
        for name in names
        if name.startswith("model.ckpt") or "_temp" in where
    ]


def killed(directory, step, **settings):
    """Trains until it dies in the save after a step."""
    train(directory, step + 1, [DieInSave(directory, step)], **settings)


def reproducible(directory, max_steps, **settings):
    """Trains with deterministic operations."""
    v2.config.experimental.enable_op_determinism()
    train(directory, max_steps, **settings)


SCENARIOS = {
    function.__name__: function
    for function in (preempted, preempted_in_evaluation, disk_full, killed, reproducible)
}

if __name__ == "__main__":
    name, where, given = json.loads(sys.argv[1])
    SCENARIOS[name](where, **given)
