"""`train_and_evaluate` with `BestExporter`, two early-stopping hooks and `InMemoryEvaluatorHook`.

Equal on uneven shards: the evaluations in between, the step at which training stops, and what the
best SavedModel answers.
"""

import collections
import pathlib

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator

STOPS_AT = 6


def model_fn(features, labels, mode, params):
    hidden = tf.layers.dense(features["x"], 8, activation=tf.nn.tanh)
    logits = tf.layers.dense(hidden, 3)
    predictions = {"class": tf.argmax(logits, 1), "logits": logits}
    if mode == estimator.ModeKeys.PREDICT:
        outputs = {
            "serving_default": estimator.export.PredictOutput(predictions),
            "classification": estimator.export.ClassificationOutput(scores=tf.nn.softmax(logits)),
        }
        return estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    tf.summary.histogram("hidden", hidden)
    metrics = {"accuracy": tf.metrics.accuracy(labels, predictions["class"])}
    optimizer = replicate.TowerOptimizer(tf.train.AdagradOptimizer(params["learning_rate"]))
    return estimator.EstimatorSpec(
        mode,
        predictions=predictions,
        loss=loss,
        train_op=optimizer.minimize(loss, tf.train.get_global_step()),
        eval_metric_ops=metrics,
    )


class AtEveryStep(tf.train.SessionRunHook):
    """Tells an early-stopping hook the step after the update.

    By itself it fetches the step beside the update, before or after it as chance will have it, and
    does not look a second time at a step that it has seen.
    """

    def __init__(self, hook):
        self._hook = hook

    def begin(self):
        self._hook.begin()
        self._step = tf.train.get_global_step()

    def before_run(self, run_context):
        return self._hook.before_run(run_context)

    def after_run(self, run_context, run_values):
        step = run_context.session.run(self._step)
        self._hook.after_run(run_context, run_values._replace(results=step))


def drive(model, input_fn, hooks):
    saved = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            saved.append(int(global_step_value))

    def should_stop():
        return saved[-1] >= STOPS_AT

    features = {"x": tf.placeholder(tf.float32, [None, 5])}
    exporter = estimator.BestExporter(
        "best",
        estimator.export.build_raw_serving_input_receiver_fn(features),
        exports_to_keep=1,
    )
    early_stopping = [
        estimator.experimental.make_early_stopping_hook(
            model, should_stop, run_every_secs=None, run_every_steps=1
        ),
        estimator.experimental.stop_if_no_decrease_hook(
            model, "loss", max_steps_without_decrease=100, run_every_secs=None, run_every_steps=1
        ),
    ]
    in_memory = estimator.experimental.InMemoryEvaluatorHook(model, input_fn, every_n_iter=4)
    train_spec = estimator.TrainSpec(
        lambda: input_fn().repeat(),
        max_steps=20,
        hooks=[*hooks, *map(AtEveryStep, early_stopping), in_memory],
        saving_listeners=[Listener()],
    )
    eval_spec = estimator.EvalSpec(
        input_fn, steps=None, exporters=[exporter], throttle_secs=0, start_delay_secs=0
    )
    final, _ = estimator.train_and_evaluate(model, train_spec, eval_spec)
    return {
        "saved": saved,
        **{f"final {key}": value for key, value in final.items()},
        **_evaluations(model),
        **_answers(pathlib.Path(model.model_dir) / "export" / "best"),
    }


def _evaluations(model):
    """Returns the metrics that evaluations wrote, by tag, in the order of steps."""
    values = collections.defaultdict(list)
    for path in sorted(pathlib.Path(model.model_dir).glob("eval*/events.*")):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag in ("accuracy", "loss"):
                    number = tf.make_ndarray(value.tensor) if value.HasField("tensor") else None
                    number = value.simple_value if number is None else float(number)
                    values[value.tag].append((event.step, number))
    return {f"evaluated {tag}": np.array(sorted(found)) for tag, found in values.items()}


def _answers(directory):
    """Returns what the only SavedModel in `directory` answers."""
    exports = [path for path in directory.iterdir() if path.name.isdigit()]
    with tf.Graph().as_default(), tf.Session() as session:
        exported = tf.saved_model.load(session, ["serve"], str(exports[-1]))
        signature = exported.signature_def["serving_default"]
        x = np.linspace(-1, 1, 25).reshape(5, 5)
        logits = session.run(
            signature.outputs["logits"].name, {signature.inputs["x"].name: x.astype(np.float32)}
        )
    return {"exports": len(exports), "exported logits": logits}


def rows(total):
    x, labels = data.vectors(total)
    return {"x": x}, labels


PROGRAM = program.Program(
    program.as_model_fn(model_fn),
    rows,
    drive=drive,
    params=(("learning_rate", 0.1),),
    config=(("save_checkpoints_steps", 3),),
)
