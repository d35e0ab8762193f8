"""The flags of training and of evaluation, and their presets.

A preset is a network and how it is trained. CIFAR and ImageNet are trained as published; the preset
`digits` takes a minute on a laptop.
"""

from examples.revnet.network.config import DATA_FORMATS, PRESETS
from examples.runs import training_flags
from examples.runs.flags import ANY, BELOW_ONE, POSITIVE, Flag, boolean

ENGINES = ("eager", "function", "estimator", "towers", "tpu")
# Without a loss scale, gradients in float16 are lost.
_DTYPES = ("float32", "float64", "bfloat16")

# Fields of `RevNetConfig`; None: as the preset has it.
NETWORK = (
    Flag("units", int, None, "units of each stage (default: the preset's)", POSITIVE, nargs="+"),
    Flag("filters", int, None, "width of each stage (default: the preset's)", POSITIVE, nargs="+"),
    Flag("initial_filters", int, None, "width before them (default: the preset's)", POSITIVE),
    Flag("recompute", boolean, True, "whether activations are recomputed; else they are stored"),
    Flag(
        "stored_units", int, 2, "units of late stages whose activations could be stored", (0, ANY)
    ),
    Flag("dtype", str, "float32", "what convolutions compute in", choices=_DTYPES),
    Flag(
        "data_format",
        str,
        "channels_last",
        "channels_first is for GPUs",
        choices=DATA_FORMATS,
    ),
    Flag(
        "cross_tower_batch_norm",
        boolean,
        True,
        "whether batch norm takes its moments over the rows of all towers",
    ),
    Flag("batch_norm_momentum", float, 0.9, "what stays of moving statistics", BELOW_ONE),
    Flag("dropout_rate", float, 0.0, "before the last convolution of F and G", BELOW_ONE),
    Flag("weight_decay", float, None, "L2 penalty on kernels (default: the preset's)", (0, ANY)),
)

FLAGS = (
    Flag(
        "preset",
        str,
        "digits",
        "a network, and what flags are by default",
        choices=tuple(PRESETS),
    ),
    *training_flags.RUN,
    Flag(
        "engine",
        str,
        "towers",
        "how to run: step by step in Python (eager), compiled (function), in an Estimator, "
        "replicated over towers, or in a TPUEstimator, without --tpu on this host",
        choices=ENGINES,
    ),
    *NETWORK,
    *training_flags.DATA,
    Flag(
        "use_held_out_test_set",
        boolean,
        False,
        "whether to train on validation images as well, and to evaluate on test images",
    ),
    *training_flags.ENGINE,
    Flag("max_global_step", int, 80000, "steps of training", POSITIVE),
    Flag("train_batch_size", int, 100, "images per step, of all towers", POSITIVE),
    Flag("eval_batch_size", int, 256, "images per step of evaluation, of all towers", POSITIVE),
    Flag(
        "learning_rates",
        float,
        [0.1, 0.01, 0.001],
        "one after the other",
        (0, ANY),
        nargs="+",
    ),
    Flag(
        "boundaries",
        int,
        [40000, 60000],
        "steps from which on the next rate holds; none for a single rate",
        POSITIVE,
        nargs="*",
    ),
    Flag("momentum", float, 0.9, "of gradient descent", BELOW_ONE),
)

_CIFAR = {"dataset": "tfds:cifar10", "image_size": None}
_IMAGENET = {
    "dataset": "tfds:imagenet2012",
    "image_size": None,
    "max_global_step": 600000,
    "train_batch_size": 256,
    "learning_rates": [0.1, 0.01, 0.001, 0.0001],
    "boundaries": [160000, 320000, 480000],
}
DEFAULTS = {
    "digits": {
        **training_flags.DIGITS,
        "max_global_step": 500,
        "train_batch_size": 64,
        "boundaries": [300, 400],
    },
    "cifar38": _CIFAR,
    "cifar110": _CIFAR,
    "cifar164": _CIFAR,
    "imagenet56": _IMAGENET,
    "imagenet104": _IMAGENET,
}
