"""`memory`: what recomputing activations saves and costs, over the depth of the network.

Four ways to the same gradients are measured, each in processes of its own: stored activations,
`tf.recompute_grad` around each unit, the model's own gradient by a tape, and by hand.
"""

import pathlib
import sys

from examples.revnet.network.config import PRESETS, preset
from examples.runs import flags
from examples.runs.flags import POSITIVE, Flag, SettingsError

_DEPTHS = (3, 6, 9, 18)
FLAGS = (
    Flag(
        "depth",
        int,
        None,
        "units, not layers, of every stage, one network each (default: 3 6 9 18)",
        POSITIVE,
        nargs="+",
    ),
    Flag(
        "preset",
        str,
        "cifar38",
        "network that widths and the size of images are those of",
        choices=tuple(PRESETS),
    ),
    Flag("image_size", int, None, "side of an image (default: that of the preset)", POSITIVE),
    Flag(
        "filters",
        int,
        None,
        "width of each stage (default: those of the preset)",
        POSITIVE,
        nargs="+",
    ),
    Flag("batch_size", int, 64, "images of a step", POSITIVE),
    Flag(
        "engine",
        str,
        "function",
        "eager, a tf.function, or a graph in a session",
        choices=("eager", "function", "graph"),
    ),
    Flag("rounds", int, 9, "steps of each way, in turns; figures are medians", POSITIVE),
    Flag(
        "out",
        str,
        "revnet_memory.jsonl",
        "file that JSON lines are added to; the plot stands beside it",
    ),
)


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, FLAGS, {"": {}})


def main(args):
    """Measures, prints a table, and writes the figures and a plot.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status.
    """
    from examples.revnet.profiling import gradient_costs, memory_plot
    from examples.runs.progress_display import Display
    from replicate.bench import harness

    settings = flags.with_defaults(vars(args), FLAGS, {})
    out = pathlib.Path(settings["out"])
    if not out.parent.is_dir() or out.is_dir() or out.suffix == ".png":
        raise SettingsError(
            f"--out must be a file in a directory that is there, and no .png, which is the plot's, "
            f"but is {settings['out']!r}. Make {out.parent}, or name another file."
        )
    cases = [_case(settings, units) for units in settings["depth"] or _DEPTHS]
    ways = gradient_costs.WAYS
    total = len(cases) * (2 * len(ways) + 1)
    display, done, made = Display("memory", "process", 0, total, sys.stderr), [], []

    def show():
        done.append(None)
        display.show(len(done))

    try:
        for case in cases:
            for record in gradient_costs.measure(case, ways, settings["rounds"], show):
                made.append({**record, **harness.machine()})
                harness.append(made[-1], out)  # Now, so that no measurement is lost.
    finally:
        display.close()
    plot = out.with_suffix(".png")
    memory_plot.save(made, plot)
    print(gradient_costs.table(made))
    print(f"\nFigures are in {out}, a plot is in {plot}.")
    return 0


def _case(settings, units):
    """Returns a case of `gradient_costs.measure`; raises what is wrong with it."""
    of_preset = PRESETS[settings["preset"]]
    filters = settings["filters"] or of_preset["filters"]
    overrides = {"filters": list(filters), "units": [units] * len(filters)}
    if settings["image_size"]:
        channels = of_preset["image_shape"][2]
        overrides["image_shape"] = [settings["image_size"]] * 2 + [channels]
    try:
        preset(settings["preset"], **overrides)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    kept = {name: settings[name] for name in ("preset", "batch_size", "engine")}
    return {**kept, "overrides": overrides}
