"""The flags of `front`. All other settings of searches and trainings are the preset's."""

from examples.nas_search.search import search_flags
from examples.runs import training_flags
from examples.runs.flags import POSITIVE, SHARE, Flag

_OF_SEARCH = {flag.name: flag for flag in search_flags.FLAGS}

FLAGS = (
    Flag(
        "preset",
        str,
        "digits",
        "settings of searches and trainings: digits takes minutes on a laptop, mnist5k longer, "
        "cifar10 and imagenet are for GPUs",
        choices=_OF_SEARCH["preset"].choices,
    ),
    Flag(
        "out", str, None, "directory for everything that is written; a rerun resumes", required=True
    ),
    Flag(
        "targets",
        float,
        None,
        "costs to search at, two or more, in the unit of the cost model: millions, ms",
        required=True,
        nargs="+",
    ),
    Flag(
        "cost_model",
        str,
        "madds",
        "what cost is: madds (multiply-adds), params, one of your own in cost_fit.OBJECTIVES, or a "
        "file of fit-cost",
    ),
    Flag("num_seeds", int, 1, "searches for each target", POSITIVE),
    Flag("num_random", int, 10, "random networks for each target, all different", POSITIVE),
    Flag("num_trainings", int, 1, "how often each network is trained alone", POSITIVE),
    Flag(
        "window",
        float,
        0.05,
        "by which share of the target costs of random networks may differ",
        SHARE,
    ),
    Flag(
        "reference_accuracy",
        float,
        None,
        "accuracy of the reference point of hypervolumes (default: the least of all networks)",
        SHARE,
    ),
    Flag(
        "max_global_step",
        int,
        None,
        "steps of each search (default: as many as the preset's epochs have)",
        POSITIVE,
    ),
    Flag(
        "epochs",
        int,
        None,
        "passes through the training images of a network alone (default: the preset's)",
        POSITIVE,
    ),
    Flag(
        "seed",
        int,
        0,
        "of the first search, the first training and the random networks",
        (0, 2**31 - 1),
    ),
    _OF_SEARCH["ssd"],
    *training_flags.DATA,
    Flag(
        "devices",
        str,
        None,
        "of searches, a tower on each (default: every GPU, else two towers on the CPU); networks "
        "are trained on the first",
        nargs="+",
    ),
    Flag("num_towers", int, None, "in place of --devices: how many of them", POSITIVE),
)
DATA = ("ssd", *(flag.name for flag in training_flags.DATA))
PRESETS = {
    name: {key: value for key, value in preset.items() if key in DATA}
    for name, preset in search_flags.PRESETS.items()
}
