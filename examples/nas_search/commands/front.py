"""`front`: searches at several costs, and compares what they find with random networks.

Writes front.json, with every network and all figures, front.html, a page, and front.svg, its
picture. A rerun goes on where it stopped.
"""

import os

from examples.nas_search.commands import PROGRAM
from examples.nas_search.fronts import front_flags
from examples.runs import flags
from examples.runs.command_line import INTERRUPTED

RECORD = "front.json"


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, front_flags.FLAGS, front_flags.PRESETS)


def main(args):
    """Searches, trains, compares and writes.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0, or `INTERRUPTED` if it was stopped before the end.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.nas_search.fronts import front_record, front_run, front_settings

    plan = front_settings.resolve(**vars(args))
    try:
        results = front_run.run(plan, _say)
    except KeyboardInterrupt:
        _say("Stopped; all results so far are saved. Go on with")
        _say(f"    {PROGRAM.command_line('front', *flags.given_arguments(args))}")
        return INTERRUPTED
    _say("Comparing.")
    front = front_record.evaluate(plan, results)
    for line in _report(front):
        _say(line)
    for path in _write(front):
        _say(f"Written: {path}")
    return 0


def _report(front):
    """Yields lines that tell the hypervolumes."""
    from examples.nas_search.fronts import front_page

    reference = front.comparison.reference
    yield (
        f"Hypervolumes, in {front.record['hypervolume']['unit']}, up to a cost of "
        f"{reference.cost:.4g} and an accuracy of {reference.accuracy:.2%}:"
    )
    for kind, name in front_page.names(front).items():
        figure = front.comparison.figures[kind]
        interval = figure["interval"]
        shown = " (95%: {:.4f} to {:.4f})".format(*interval) if interval else ""
        yield f"    {name}: {figure['hypervolume']:.4f}{shown}"


def _write(front):
    """Writes all files; yields their paths."""
    import tensorflow.compat.v1 as tf

    from examples.nas_search.fronts import front_page
    from examples.runs import settings_file

    directory = front.plan.settings["out"]
    settings_file.write_json(front.record, directory, RECORD)
    yield os.path.join(directory, RECORD)
    pages = {front_page.PAGE: front_page.page, front_page.PICTURE: front_page.picture}
    for name, make in pages.items():
        path = os.path.join(directory, name)
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(make(front))
        yield path


def _say(line):
    print(line, flush=True)
