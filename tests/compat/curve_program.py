"""Trains one model over two towers, for `test_one_curve.py`: on every TensorFlow the same program.

    python tests/compat/curve_program.py train CASE OUT START
        from the checkpoint START, or one that it makes
    python tests/compat/curve_program.py go_on CASE OUT FROM...
        continues and serves what others have trained

`CASE` is one of `CASES`. `OUT` and `FROM` have the name of the version of TensorFlow. Results
are written to `OUT/found.npz`.
"""

import pathlib
import shutil
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import replicate

DEVICES = ["/cpu:0", "/cpu:1"]
ROWS, STEPS, MORE = 7, 10, 5
# In float32 by momentum, in float64 by Adam, in which rounding would show.
CASES = {
    "float32": (tf.float32, lambda: tf.train.MomentumOptimizer(0.05, 0.9)),
    "float64": (tf.float64, lambda: tf.train.AdamOptimizer(0.01)),
}


def model_fn(features, labels, mode, params):
    dtype, make_optimizer = CASES[params["case"]]
    table = tf.get_variable("table", [5, 3], dtype, tf.glorot_uniform_initializer(seed=1))
    x = tf.concat([features["x"], tf.nn.embedding_lookup(table, features["id"])], axis=1)
    x = tf.layers.dense(x, 8, tf.tanh, kernel_initializer=tf.glorot_uniform_initializer(seed=2))
    output = tf.layers.dense(x, 1, kernel_initializer=tf.glorot_uniform_initializer(seed=3))
    predictions = {"output": output}
    if mode == "infer":
        outputs = {"serving_default": replicate.estimator.export.PredictOutput(predictions)}
        return replicate.estimator.EstimatorSpec(
            mode, predictions=predictions, export_outputs=outputs
        )
    loss = tf.reduce_mean((output - labels) ** 2)
    loss += 0.01 * tf.nn.l2_loss(table)
    train_op = make_optimizer().minimize(loss, tf.train.get_global_step())
    return replicate.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(case):
    """Returns features and labels of 40 batches."""
    random = np.random.RandomState(4)
    dtype = CASES[case][0].as_numpy_dtype
    x = random.normal(size=(40 * ROWS, 4)).astype(dtype)
    ids = random.randint(0, 5, 40 * ROWS)
    return {"x": x, "id": ids}, np.sin(x[:, :1] + ids[:, None]).astype(dtype)


class Losses(tf.train.SessionRunHook):
    """Keeps the loss of each step."""

    def __init__(self):
        self.losses = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(run_context.session.graph.get_tensor_by_name("whole_loss:0"))

    def after_run(self, run_context, run_values):
        self.losses.append(run_values.results)


def estimator(case, model_dir):
    """Returns the Estimator over two towers, whose whole loss is called `whole_loss`."""
    replicated = replicate.replicate_model_fn(model_fn, devices=DEVICES)

    def named(features, labels, mode, params):
        spec = replicated(features, labels, mode, params)
        if spec.loss is not None:
            tf.identity(spec.loss, name="whole_loss")
        return spec

    config = replicate.estimator.RunConfig(
        tf_random_seed=1, session_config=replicate.session_config(DEVICES)
    )
    return replicate.estimator.Estimator(named, str(model_dir), config, {"case": case})


def train(case, model_dir, first, last):
    """Trains on batches `first` to `last - 1`; returns losses and what the checkpoint holds."""
    whole = rows(case)

    def input_fn():
        taken = tf.nest.map_structure(lambda x: x[first * ROWS : last * ROWS], whole)
        return tf.data.Dataset.from_tensor_slices(taken).batch(ROWS)

    hook = Losses()
    made = estimator(case, model_dir)
    made.train(input_fn, hooks=[hook])
    found = {f"{case}/losses": np.array(hook.losses)}
    reader = tf.train.load_checkpoint(made.latest_checkpoint())
    for name in reader.get_variable_to_shape_map():
        found[f"{case}/{name}"] = reader.get_tensor(name)
    return made, found


def serve(case, path):
    """Returns what a SavedModel answers to the first rows."""
    x, ids = (rows(case)[0][key][:3] for key in ("x", "id"))
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], path)
        signature = meta.signature_def["serving_default"]
        feeds = {signature.inputs["x"].name: x, signature.inputs["id"].name: ids}
        return session.run(signature.outputs["output"].name, feeds)


def receiver(case):
    def serving_input_receiver_fn():
        dtype = CASES[case][0]
        features = {
            "x": tf.placeholder(dtype, [None, 4], "x"),
            "id": tf.placeholder(tf.int64, [None], "id"),
        }
        return replicate.estimator.export.ServingInputReceiver(features, features)

    return serving_input_receiver_fn


def begin(case, out, start):
    """Trains from a checkpoint, which it writes to `start` if there is none, and exports."""
    if not (start / case).exists():
        train(case, start / case, 0, 1)  # Slots, too, are to begin with.
    shutil.copytree(str(start / case), str(out / case))
    made, found = train(case, out / case, 1, 1 + STEPS)
    shutil.copytree(str(out / case), str(out / ("whole_" + case)))
    _, values = train(case, out / ("whole_" + case), 1 + STEPS, 1 + STEPS + MORE)
    found.update(("whole/" + key, value) for key, value in values.items())
    path = made.export_saved_model(str(out / ("export_" + case)), receiver(case))
    found[f"served/{case}"] = serve(case, path.decode() if isinstance(path, bytes) else path)
    return found


def go_on(case, out, others):
    """Continues the checkpoints of others, and serves what they have exported."""
    found = {}
    for other in others:
        shutil.copytree(str(other / case), str(out / (other.name + "_" + case)))
        _, values = train(case, out / (other.name + "_" + case), 1 + STEPS, 1 + STEPS + MORE)
        found.update((f"{other.name}/whole/{key}", value) for key, value in values.items())
        if version(other.name) <= version(tf.__version__):  # No older one can read it.
            (path,) = (other / ("export_" + case)).iterdir()
            found[f"{other.name}/served/{case}"] = serve(case, str(path))
    return found


def version(text):
    """Returns what versions are ordered by: `(2, 15)` of `2.15.1`."""
    return tuple(int(part) for part in text.split(".")[:2])


def main(command, case, out, *paths):
    tf.logging.set_verbosity(tf.logging.ERROR)
    out, paths = pathlib.Path(out), [pathlib.Path(path) for path in paths]
    out.mkdir(parents=True)
    found = begin(case, out, *paths) if command == "train" else go_on(case, out, paths)
    np.savez(str(out / "found.npz"), **found)
    print(tf.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
