"""`fit-cost`: fits what the networks of a space cost, such as their latency on this machine.

Random networks are measured one after the other, which can be stopped and resumed; a linear model
of their cost is fitted, tried on networks that it was not fitted to, and written as JSON, for
`search --cost_model`.
"""

import sys

from examples.nas_search.commands import PROGRAM
from examples.runs import flags
from examples.runs.command_line import INTERRUPTED
from examples.runs.flags import ANY, POSITIVE, Flag, SettingsError

FLAGS = (
    Flag(
        "preset",
        str,
        "digits",
        "what flags are by default: for digits_search, mnist_search, pulses_search, "
        "cifar10_search or the spaces for ImageNet",
        choices=("digits", "mnist5k", "pulses", "cifar10", "imagenet"),
    ),
    Flag("ssd", str, "proxylessnas_search", "search space, or JSON file of one of your own"),
    Flag(
        "objective",
        str,
        "latency",
        "latency, which is measured here, or what is computed: madds, params, or one of your own",
    ),
    Flag("output", str, None, "JSON file to write, for search --cost_model", required=True),
    Flag(
        "image_size",
        int,
        None,
        "side of an image (default: what the space, or the preset, is for)",
        POSITIVE,
    ),
    Flag(
        "num_classes",
        int,
        None,
        "classes (default: what the space, or the preset, is for)",
        POSITIVE,
    ),
    Flag(
        "num_networks",
        int,
        None,
        "random networks (default: 300 different ones to measure, 40000 draws to compute)",
        (20, 40_000),
    ),
    Flag(
        "num_held_out",
        float,
        0.2,
        "how many of them only try the model; below 1, which share",
        (0.01, ANY),
    ),
    Flag("batch_size", int, 1, "images per run", POSITIVE),
    Flag("device", str, None, "device to measure on, like /gpu:0 (default: the first GPU, or CPU)"),
    Flag("threads", int, None, "threads of an operation on the CPU (default: all)", POSITIVE),
    Flag("repeats", int, 10, "rounds in which each network is measured", (3, ANY)),
    Flag("seed", int, 0, "number that the networks depend on", (0, 2**31 - 1)),
)
_TO_MEASURE = ("batch_size", "device", "threads", "repeats")
PRESETS = {
    "digits": {"ssd": "digits_search"},
    "mnist5k": {"ssd": "mnist_search"},
    "pulses": {"ssd": "pulses_search"},
    "cifar10": {"ssd": "cifar10_search"},
    "imagenet": {},
}


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, FLAGS, PRESETS)


def main(args):
    """Measures and fits.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0 if the model is written, `INTERRUPTED` if measuring was stopped before.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.nas_search.latency import fit_cost

    given = vars(args)
    _check_used(given)
    preset = PRESETS.get(given.get("preset", "digits"), {})
    given_ssd = given.get("ssd", preset.get("ssd", "proxylessnas_search"))
    settings = fit_cost.resolve(flags.with_defaults(given, FLAGS, preset), preset.get("ssd"))
    try:
        model = fit_cost.run(settings, say=_say)
    except KeyboardInterrupt:
        print(
            "\nStopped. Measurements are kept, except those of unfinished networks. Go on with\n"
            f"    {PROGRAM.command_line('fit-cost', *flags.given_arguments(args))}",
            file=sys.stderr,
        )
        return INTERRUPTED
    for line in _report(model, given.get("preset", "digits"), given_ssd, settings["output"]):
        _say(line)
    return 0


def _check_used(given):
    """Raises `SettingsError` if a flag is given that the objective has no use for."""
    objective = given.get("objective", "latency")
    unused = [f"--{name}" for name in _TO_MEASURE if name in given and objective != "latency"]
    if unused:
        raise SettingsError(
            f"Only latency is measured, but {' and '.join(unused)} say how, and --objective is "
            f"{objective}. Leave them out."
        )


def _report(model, preset, ssd, output):
    """Returns lines that describe a `CostModel`."""
    from examples.nas_search import mobile_cost_model

    found = model.statistics
    yield (
        f"Fitted to {found['num_fitted']:,} networks. On {found['num_held_out']:,} others: R² "
        f"{found['r_squared']:.4f}, mean error {found['mean_error']:.2%} of the mean, "
        f"largest {found['max_relative_error']:.2%}."
    )
    yield (
        f"{output}: {model}, from {found['least']:.4g} to {found['largest']:.4g}, mean "
        f"{found['mean']:.4g}; a search aims at {mobile_cost_model.target_of(model):.4g}."
    )
    space = ["--preset", preset, "--ssd", ssd]
    given = ["--cost_model", output, "--checkpoint_dir", "runs/search"]
    yield "    " + PROGRAM.command_line("search", *space, *given)


def _say(line):
    print(line, flush=True)
