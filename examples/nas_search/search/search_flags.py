"""The flags of a search, and its presets.

Names and the values of the preset `imagenet` are those of `mobile_architecture_search` of TuNAS
(Bender, Liu et al., CVPR 2020) where that has them. The presets `digits`, `mnist5k` and `pulses`
search on a laptop, `cifar10` on a GPU or a few.
"""

from examples.runs import training_flags
from examples.runs.flags import ANY, BELOW_ONE, POSITIVE, SHARE, Flag, boolean

_NON_NEGATIVE = (0, ANY)

FLAGS = (
    Flag(
        "preset",
        str,
        "digits",
        "what flags are by default: digits, mnist5k and pulses search in minutes on a laptop, "
        "cifar10 on GPUs, imagenet as published",
        choices=("digits", "mnist5k", "pulses", "cifar10", "imagenet"),
    ),
    *training_flags.RUN,
    Flag("ssd", str, "proxylessnas_search", "search space, or JSON file of one of your own"),
    *training_flags.DATA,
    *training_flags.ENGINE,
    Flag(
        "strategy",
        str,
        "reinforce",
        "how it picks a network: a controller learns with the weights; or once they are trained, "
        "it evaluates random networks, or evolves networks",
        choices=("reinforce", "random", "evolution"),
    ),
    Flag(
        "supernet_steps_fraction",
        float,
        None,
        "of random and evolution: share of steps that train the weights, on random networks; the "
        "others evaluate networks (default: 0.75)",
        SHARE,
    ),
    Flag(
        "cost_window",
        float,
        None,
        "of random and evolution: share of the target that the cost of a network that they "
        "evaluate may be away (default: 0.05)",
        (0, ANY),
    ),
    Flag(
        "evolution_population_size",
        int,
        None,
        "of evolution: networks that live at a time (default: 50)",
        POSITIVE,
    ),
    Flag(
        "evolution_sample_size",
        int,
        None,
        "of evolution: networks, the best of which has offspring (default: 12)",
        POSITIVE,
    ),
    Flag("epochs", int, 90, "passes through the training images", POSITIVE),
    Flag(
        "max_global_step",
        int,
        None,
        "in place of --epochs: steps of the search",
        POSITIVE,
    ),
    Flag("train_batch_size", int, 4096, "training images per step, of all towers", POSITIVE),
    Flag("model_learning_rate", float, 0.165, "peak rate of the weights, per 256 images", (0, ANY)),
    Flag("model_warmup_steps_fraction", float, 0.025, "share of steps that it rises for", SHARE),
    Flag("model_momentum", float, 0.9, "of RMSProp", SHARE),
    Flag(
        "model_weight_decay",
        float,
        None,
        "L2 penalty (default: 4e-5, with bfloat16 3e-5)",
        (0, ANY),
    ),
    Flag(
        "rl_learning_rate", float, 0.0003, "first rate of the controller, per 256 images", (0, ANY)
    ),
    Flag(
        "use_exponential_rl_learning_rate_schedule",
        boolean,
        True,
        "whether the controller's rate grows tenfold until the end",
    ),
    Flag(
        "start_at_target",
        boolean,
        False,
        "whether the networks drawn at first cost the target on average, rather than being uniform "
        "(always for random and evolution)",
    ),
    Flag("rl_entropy_regularization", float, 0.0, "weight of the entropy bonus", (-ANY, ANY)),
    Flag(
        "rl_baseline_momentum",
        float,
        0.95,
        "of the mean reward that others are compared to",
        BELOW_ONE,
    ),
    Flag(
        "rl_batch_size_multiplier",
        float,
        4.0,
        "validation images for each training image of a step",
        (0, ANY),
    ),
    Flag(
        "rl_delay_steps_fraction", float, 0.25, "share of steps before the controller learns", SHARE
    ),
    Flag(
        "increase_ops_warmup_steps_fraction",
        float,
        0.25,
        "share of steps in which choices are at times replaced by the mean of all operations",
        SHARE,
    ),
    Flag(
        "increase_filters_warmup_steps_fraction",
        float,
        0.25,
        "share of steps in which choices are at times replaced by the largest width",
        SHARE,
    ),
    Flag(
        "skip_delay_steps_fraction",
        float,
        0.0,
        "share of steps before layers may be skipped, so that those that may be are trained as "
        "well as others",
        SHARE,
    ),
    Flag(
        "rl_reward_function",
        str,
        "abs",
        "how accuracy and cost make a reward",
        choices=("abs", "mnas", "mnas_hard"),
    ),
    Flag("enable_cost_model", boolean, True, "whether cost counts"),
    Flag(
        "cost_model",
        str,
        ("madds",),
        "what cost is: madds (multiply-adds), params, one of your own in cost_fit.OBJECTIVES, or a "
        "file of fit-cost; or several of these",
        nargs="+",
    ),
    Flag(
        "cost_model_weights",
        float,
        None,
        "how much each counts (default: all the same, 1 together); they are not scaled",
        (0, ANY),
        nargs="+",
    ),
    Flag(
        "rl_cost_model_target",
        float,
        None,
        "cost to aim at, of each, in its unit: millions, ms (default: that of the space)",
        (0, ANY),
        nargs="+",
    ),
    Flag("rl_cost_model_exponent", float, -0.10, "how much cost counts, <= 0", (-ANY, 0)),
    Flag(
        "use_bfloat16",
        str,
        "auto",
        "whether networks compute in bfloat16; auto: on TPUs, in mobilenet_v3_like_search",
        choices=("auto", "true", "false", "ontpu"),
    ),
    Flag(
        "slice_widths",
        boolean,
        True,
        "whether only the channels of the drawn widths are computed, in place of all; never on a "
        "TPU",
    ),
    Flag(
        "use_gradient_sync_barrier",
        boolean,
        True,
        "whether all gradients are computed before any is used",
    ),
)

PRESETS = {
    "digits": {
        **training_flags.DIGITS,
        "ssd": "digits_search",
        "epochs": 120,
        "train_batch_size": 64,
        "rl_batch_size_multiplier": 2.0,
        "rl_learning_rate": 0.04,
        # A few per cent of the cost may buy a point of accuracy here.
        "rl_cost_model_exponent": -0.5,
    },
    "mnist5k": {
        **training_flags.MNIST5K,
        "ssd": "mnist_search",
        "epochs": 60,
        "train_batch_size": 64,
        "model_learning_rate": 0.6,
        "rl_batch_size_multiplier": 1.0,
        "rl_learning_rate": 0.04,
        "rl_cost_model_exponent": -0.2,
    },
    "pulses": {
        **training_flags.PULSES,
        "ssd": "pulses_search",
        "epochs": 64,
        "train_batch_size": 64,
        "model_learning_rate": 0.6,
        "rl_batch_size_multiplier": 1.0,
        "rl_learning_rate": 0.04,
        "rl_cost_model_exponent": -0.5,
        # Narrow networks, which the target leaves, learn too little beside wider ones.
        "start_at_target": True,
        "rl_delay_steps_fraction": 0.4,
        # With shared weights, layers that may be skipped cost accuracy until they are trained.
        "skip_delay_steps_fraction": 0.6,
        "increase_ops_warmup_steps_fraction": 0.0,
        "increase_filters_warmup_steps_fraction": 0.0,
    },
    "cifar10": {
        **training_flags.CIFAR10,
        "ssd": "cifar10_search",
        "epochs": 90,
        "train_batch_size": 128,
        "rl_batch_size_multiplier": 1.0,
        # That of a published step, of which there are as many: 0.0003 for 256 of 4,096 images.
        "rl_learning_rate": 0.0096,
    },
    "imagenet": {},
}
