"""Mixed precision: trains a network in float16 on two towers, with and without a loss scale.

    python -m examples.mixed_precision

The recipe is that of Micikevicius et al., "Mixed Precision Training", ICLR 2018: variables, the
loss and the optimizer are float32, all between them is float16, and the loss is scaled, so that
small gradients are not zero. Three runs on scikit-learn's handwritten digits, from the same weights
and over the same batches, show that it takes all of it: float32 learns them, float16 with a dynamic
loss scale as well, and float16 without one learns nothing.

Why nothing: float16 has no positive number below 2^-24, about 6e-8. The loss is a mean over the
rows of a tower, so that each row's gradient is a few hundred times smaller to begin with. On its
way down it passes four layers whose weights are drawn with the fixed standard deviation of 0.01, as
AlexNet's were, each of which takes some 95% of it. At the first layer, it is zero in float16.
That layer starts at zero, as layers that are to change nothing at first do (adapters, the last one
of a residual block), and never leaves it. So no image gets through, and no gradient but that of the
last bias is other than zero. In float32 that gradient is tiny, but Adam divides by its size.

The network was chosen to show this: many small ones learn digits in float16 without a scale, too.
"""

import dataclasses
import json
import pathlib
import sys
import tempfile
from typing import Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from matplotlib.figure import Figure

import replicate
from examples import digits
from replicate import estimator
from replicate.hooks import ProgressHook

# The type of the layers and the loss scale, by the name of a run.
RUNS = {
    "float32": ("float32", None),
    "float16, dynamic scale": ("float16", "dynamic"),
    "float16, no scale": ("float16", None),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """All that the runs have in common."""

    devices: Tuple[str, ...] = ("/cpu:0", "/cpu:1")  # one tower on each
    steps: int = 400
    batch_size: int = 675  # half of the rows; odd, so that two shards are uneven
    dtype: str = "float32"  # of the images, before they are cast
    hidden_layers: int = 4
    hidden_units: int = 32
    learning_rate: float = 0.01
    increment_period: int = 25  # finite steps after which the loss scale doubles
    seed: int = 1  # of the weights, of the order of the rows, and of the choice of test rows


@dataclasses.dataclass(frozen=True)
class Run:
    """Results of a training run of T attempted steps, including those that were skipped."""

    loss: np.ndarray  # [T], of the whole batch, not scaled
    loss_scale: np.ndarray  # [T], 1 if there is none
    zeros: np.ndarray  # [T], share of the entries of all weights' gradients that are zero
    skipped: int  # how many steps changed nothing, because a gradient overflowed
    accuracy: float  # on the test rows, in [0, 1]


def float32_variables(getter, name, *args, dtype=None, **kwargs):
    """The custom getter: layers that ask for a float16 variable get a float32 one, cast.

    The gradient passes the cast the other way, so that the optimizer sees float32 as well.
    """
    if dtype != tf.float16:
        return getter(name, *args, dtype=dtype, **kwargs)
    return tf.cast(getter(name, *args, dtype=tf.float32, **kwargs), tf.float16)


def model_fn(features, labels, mode, params):
    """A deep network without biases below the last layer, computed in `params["dtype"]`."""
    image = (features["image"] - params["mean"]) / params["spread"]
    hidden = tf.cast(image, params["dtype"])
    small = tf.random_normal_initializer(stddev=0.01)
    initializers = [tf.zeros_initializer()] + [small] * (params["hidden_layers"] - 1)
    with tf.variable_scope("network", custom_getter=float32_variables):
        for initializer in initializers:
            hidden = tf.layers.dense(
                hidden,
                params["hidden_units"],
                tf.nn.tanh,
                use_bias=False,
                kernel_initializer=initializer,
            )
        logits = tf.layers.dense(hidden, 10, kernel_initializer=small)
    logits = tf.cast(logits, tf.float32)  # and so is the loss
    answers = tf.argmax(logits, axis=1, output_type=tf.int32)

    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"digit": answers})

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)

    if mode == estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, answers)}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    loss_scale = params["loss_scale"]
    if loss_scale == "dynamic":
        # `loss_scale="dynamic"` would do, but waits for 2,000 steps before it doubles.
        loss_scale = replicate.loss_scale.DynamicLossScale(
            increment_period=params["increment_period"]
        )
    optimizer = tf.train.AdamOptimizer(params["learning_rate"])
    optimizer = replicate.TowerOptimizer(optimizer, loss_scale=loss_scale)
    grads_and_vars = optimizer.compute_gradients(loss)
    train_op = optimizer.apply_gradients(grads_and_vars, tf.train.get_global_step())

    # For the report only.
    entries = tf.concat([tf.reshape(gradient, [-1]) for gradient, _ in grads_and_vars], axis=0)
    zeros = tf.reduce_mean(tf.cast(tf.equal(entries, 0), tf.float64))
    tf.identity(replicate.cross_tower_mean(zeros), name="zeros")
    scale = optimizer.loss_scale() if optimizer.loss_scale else tf.constant(1.0)
    tf.identity(scale, name="scale")

    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Recorder(tf.train.SessionRunHook):
    """Keeps loss, loss scale and share of zeros of every attempted step."""

    def __init__(self):
        self.values = []

    def begin(self):
        """Finds what to keep."""
        graph = tf.get_default_graph()
        self._fetches = {
            "loss": tf.losses.get_losses()[-1],  # where the Estimator puts the one it trains on
            "loss_scale": graph.get_tensor_by_name("scale:0"),
            "zeros": graph.get_tensor_by_name("zeros:0"),
        }

    def before_run(self, run_context):
        """Asks for it."""
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        """Keeps it."""
        self.values.append(run_values.results)


def train(config, dtype, loss_scale, model_dir, name):
    """Trains on `config.devices`, then evaluates; returns a `Run`. See `RUNS`."""
    (images, _), _ = digits.load(config)
    params = {
        "mean": images.mean(axis=0),  # of each pixel
        "spread": images.std(axis=0) + 0.1,  # some pixels are always 0
        "dtype": dtype,
        "loss_scale": loss_scale,
        "hidden_layers": config.hidden_layers,
        "hidden_units": config.hidden_units,
        "learning_rate": config.learning_rate,
        "increment_period": config.increment_period,
    }
    train_input_fn, test_input_fn = digits.make_datasets(config)
    classifier = digits.make_estimator(model_fn, params, config.seed, config.devices, model_dir)
    recorder = Recorder()
    progress = ProgressHook(config.steps, config.batch_size, description=name)
    # A step that is skipped does not count: training goes on until `max_steps` are applied.
    classifier.train(train_input_fn, max_steps=config.steps, hooks=[recorder, progress])
    values = {key: np.stack([step[key] for step in recorder.values]) for key in recorder.values[0]}
    return Run(
        **values,
        skipped=len(recorder.values) - config.steps,
        accuracy=float(classifier.evaluate(test_input_fn)["accuracy"]),
    )


def report(runs):
    """Returns the runs as a table."""
    row = "{:<22}  {:>8}  {:>9}  {:>7}  {:>10}  {:>17}".format
    lines = [row("", "accuracy", "last loss", "skipped", "last scale", "zeros: first, last")]
    for name, run in runs.items():
        zeros = f"{run.zeros[0]:.1%}, {run.zeros[-1]:.1%}"
        scale = f"{run.loss_scale[-1]:,.0f}"
        lines.append(
            row(name, f"{run.accuracy:.2%}", f"{run.loss[-1]:.4f}", run.skipped, scale, zeros)
        )
    return "\n".join(lines)


def plot(runs, path):
    """Draws the loss curves and the loss scale; saves the image."""
    figure = Figure(figsize=(8, 6), layout="constrained")
    top, bottom = figure.subplots(2, sharex=True, gridspec_kw={"height_ratios": (3, 2)})
    widths = (4, 1.2, 1.2)
    for (name, run), width in zip(runs.items(), widths):
        steps = np.arange(1, len(run.loss) + 1)
        alpha = 0.5 if width > 2 else 1
        top.plot(steps, run.loss, linewidth=width, alpha=alpha, label=name)
        bottom.plot(steps, run.loss_scale, linewidth=width, alpha=alpha, label=name)
    top.set(ylabel="loss of the batch", title="Digits in float32 and in float16")
    top.legend()
    bottom.set_yscale("log", base=2)
    bottom.set(ylabel="loss scale", xlabel="step, skipped ones included")
    figure.savefig(path, dpi=150)


def run(config, out, model_dir):
    """Trains in all three ways and reports."""
    print(f"{len(config.devices)} towers on {', '.join(config.devices)}: {config.steps} steps each")
    runs = {
        name: train(config, dtype, scale, str(model_dir / name.replace(", ", "_")), name)
        for name, (dtype, scale) in RUNS.items()
    }
    print(report(runs))

    record = {
        "config": dataclasses.asdict(config),
        "runs": {
            name: {"accuracy": run.accuracy, "loss": float(run.loss[-1]), "skipped": run.skipped}
            for name, run in runs.items()
        },
    }
    (out / "mixed_precision.json").write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    plot(runs, out / "mixed_precision.png")
    print(f"Loss curves and loss scale: {out / 'mixed_precision.png'}")


def main(argv=None):
    """Parses the command line; returns the exit status."""
    default = Config()
    parser = digits.make_parser(__doc__, default, out="runs/mixed_precision")
    parser.add_argument("--seed", type=int, default=default.seed)
    args = parser.parse_args(argv)
    digits.check(parser, args)
    config = Config(
        devices=tuple(args.devices),
        steps=args.steps,
        batch_size=args.batch_size,
        seed=args.seed,
    )
    with tempfile.TemporaryDirectory() as scratch:
        run(config, args.out, pathlib.Path(scratch))
    return 0


if __name__ == "__main__":
    digits.quiet_tensorflow()
    sys.exit(main())
