"""The flags of stand-alone training and of evaluation, and their presets.

Names and the values of the preset `imagenet` are those of `mobile_train_eval` of TuNAS (Bender,
Liu et al., CVPR 2020) where that has them. The presets `digits`, `mnist5k` and `pulses` train in
seconds on a laptop, `cifar10` on a GPU or a few.
"""

from examples.runs import training_flags
from examples.runs.flags import ANY, BELOW_ONE, POSITIVE, SHARE, Flag, boolean

# Only for the command: they do not change the training.
MODE = Flag(
    "mode",
    str,
    "train_and_eval",
    "train and evaluate once, train only, or evaluate what another process trains",
    choices=("train_and_eval", "train", "eval"),
)

FLAGS = (
    Flag(
        "preset",
        str,
        "digits",
        "what flags are by default: digits, mnist5k and pulses train in seconds, cifar10 on GPUs, "
        "imagenet as published",
        choices=("digits", "mnist5k", "pulses", "cifar10", "imagenet"),
    ),
    Flag(
        "search_dir",
        str,
        None,
        "directory of a search: trains the network that it found, on the same data",
    ),
    Flag(
        "from_search",
        boolean,
        False,
        "whether to start with the weights of --search_dir in place of random ones",
    ),
    *training_flags.RUN,
    Flag(
        "ssd",
        str,
        "proxylessnas_mobile",
        "reference network, or space of --indices; or the JSON file of one of your own",
    ),
    Flag("indices", str, "", "the network's choices as `analyze` prints them, like 0:3:1"),
    Flag("filters_multiplier", float, 1.0, "factor of all widths", (0, ANY)),
    *training_flags.DATA,
    Flag(
        "use_held_out_test_set",
        boolean,
        False,
        "whether to train on validation images as well, and to evaluate on test images",
    ),
    *training_flags.ENGINE,
    Flag(
        "epochs",
        int,
        None,
        "passes through the training images; for imagenet 90, to evaluate on test images 360",
        POSITIVE,
    ),
    Flag("max_global_step", int, None, "in place of --epochs: steps of training", POSITIVE),
    Flag("train_batch_size", int, 4096, "images per step, of all towers", POSITIVE),
    Flag("eval_batch_size", int, 256, "images per step of evaluation, of all towers", POSITIVE),
    Flag("base_learning_rate", float, 0.165, "peak rate, per 256 images", (0, ANY)),
    Flag("warmup_steps_fraction", float, 0.025, "share of steps that it rises for", SHARE),
    Flag("momentum", float, 0.9, "of RMSProp", SHARE),
    Flag("weight_decay", float, None, "L2 penalty (default: 4e-5, with bfloat16 3e-5)", (0, ANY)),
    Flag(
        "dropout_rate",
        float,
        None,
        "before the classifier (default: 0 below 150 epochs, else 0.15, like MobileNetV3 0.25)",
        SHARE,
    ),
    Flag("path_dropout_rate", float, 0.0, "share of steps without a residual layer", BELOW_ONE),
    Flag("use_bfloat16", boolean, False, "whether the network computes in bfloat16"),
)

PRESETS = {
    "digits": {
        **training_flags.DIGITS,
        "ssd": "digits_search",
        "epochs": 60,
        "train_batch_size": 64,
    },
    "mnist5k": {
        **training_flags.MNIST5K,
        "ssd": "mnist_search",
        "epochs": 20,
        "train_batch_size": 64,
        "base_learning_rate": 1.0,
    },
    "pulses": {
        **training_flags.PULSES,
        "ssd": "pulses_search",
        "epochs": 10,
        "train_batch_size": 64,
        "base_learning_rate": 1.0,
    },
    "cifar10": {
        **training_flags.CIFAR10,
        "ssd": "cifar10_proxylessnas",
        "epochs": 90,
        "train_batch_size": 128,
    },
    "imagenet": {},
}
