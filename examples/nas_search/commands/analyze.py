"""`analyze`: tells which network a search found, what it costs and how sure the controller is.

Results go to stdout, as lines for people, CSV or JSON; notices go to stderr. Pictures and a page
with all of it are written into the directory of the search, see `report.py`.
"""

import csv
import io
import json
import os
import sys
import uuid

from examples.runs import flags
from examples.runs.errors import UserError
from examples.runs.flags import Flag, boolean

# The first four columns are those of the published tool.
_COLUMNS = (
    *("indices", "global_step", "directory", "cost_model"),
    *("ssd", "cost_target", "madds", "params", "probability", "entropy", "initial_entropy"),
)

FLAGS = (
    Flag(
        "dirname",
        str,
        None,
        "directory of a search, or a pattern like 'runs/*' for several",
        required=True,
    ),
    Flag(
        "output_format",
        str,
        "lines",
        "how results are written to stdout",
        choices=("lines", "csv", "json"),
    ),
    Flag(
        "plot",
        boolean,
        True,
        "whether to write search.html and its pictures, as PNG files, into each directory",
    ),
)


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, FLAGS, {"all": {}})


def main(args):
    """Analyses the directories that `args.dirname` names.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0.

    Raises:
        UserError: If nothing was analysed.
    """
    # Here, because they import TensorFlow: flags are checked without.
    import tensorflow.compat.v1 as tf

    from examples.nas_search.reports import search_analysis

    given = flags.with_defaults(vars(args), FLAGS, {})
    directories = sorted(tf.io.gfile.glob(given["dirname"]))
    if not directories:
        raise UserError(
            f"--dirname must name a directory, but nothing matches {given['dirname']!r}."
        )
    analyses = []
    for directory in directories:
        if len(directories) > 1 and not tf.io.gfile.isdir(directory):
            continue  # A pattern matches files, too.
        try:
            analyses.append(search_analysis.analyze(directory))
        except search_analysis.UnreadableError as error:
            if len(directories) == 1:
                raise UserError(
                    f"--dirname must name a search, but {directory}: {error}"
                ) from error
            _notice(f"skipping {directory}: {error}")
    if not analyses:
        raise UserError(f"--dirname must name a search, but none matches {given['dirname']!r}.")
    written = {a.directory: _write_files(a) if given["plot"] else [] for a in analyses}
    write = {"lines": _write_lines, "csv": _write_csv, "json": _write_json}
    write[given["output_format"]](analyses, written, sys.stdout)
    return 0


def _notice(text):
    print(text, file=sys.stderr)


def _write_files(analysis):
    """Writes the page and the pictures of a search; returns the paths of those that were."""
    from examples.nas_search.reports import report
    from examples.runs import figures

    written = []
    for name, draw in report.pictures(analysis).items():
        contents = io.BytesIO()
        figures.png(draw, contents)
        written += _write(analysis, name, contents.getvalue())
    return _write(analysis, report.PAGE, report.page(analysis).encode()) + written


def _write(analysis, name, contents):
    """Writes a file beside the search; returns its path in a list, empty if it cannot be."""
    import tensorflow.compat.v1 as tf

    path = os.path.join(analysis.directory, name)
    draft = os.path.join(analysis.directory, f".{name}.{uuid.uuid4().hex}")
    try:
        with tf.io.gfile.GFile(draft, "wb") as file:
            file.write(contents)
        # The name may be a link to a file elsewhere, which is not to be written to.
        tf.io.gfile.rename(draft, path, overwrite=True)
    except tf.errors.OpError as error:  # Results of others may be read-only.
        _notice(f"no {name} in {analysis.directory}: {error.message}")
        return []
    return [path]


def _record(analysis):
    """Returns the numbers of an `Analysis` by column; None where the search had no cost model."""
    record = {name: getattr(analysis, name) for name in _COLUMNS}
    return {**record, "indices": ":".join(map(str, analysis.indices))}


def _write_lines(analyses, written, stream):
    for analysis in analyses:
        # The first four as the published tool has them.
        lines = [
            f"directory = {analysis.directory}",
            f"global_step = {analysis.global_step}",
            f"indices = {':'.join(map(str, analysis.indices))}",
        ]
        if analysis.cost_model is not None:
            lines.append(f"cost_model = {analysis.cost_model:.6f}")
        if analysis.cost_target is not None:
            lines.append(f"cost_target = {analysis.cost_target:.6f}")
        lines += [f"cost {cost.label} = {_in_words(cost)}" for cost in analysis.costs]
        lines += [
            f"ssd = {analysis.ssd}",
            f"madds = {analysis.madds}",
            f"params = {analysis.params}",
            f"probability = {analysis.probability:.4g}",
            f"entropy = {analysis.entropy:.4g}",
            f"initial_entropy = {analysis.initial_entropy:.4g}",
        ]
        for path in written[analysis.directory]:
            lines.append(f"{'page' if path.endswith('.html') else 'plot'} = {path}")
        lines += ["", *analysis.layers, "", *_certainty(analysis.nodes), ""]
        print("\n".join(lines), file=stream)


def _in_words(cost):
    """Returns what there is to say of a `search_analysis.Cost`."""
    share = f"{cost.estimate / cost.target:.1%} of the target {cost.target:.4g}"
    return f"{cost.estimate:.4g} {cost.unit_and_device}; {share}; weight {cost.weight:.3g}"


def _certainty(nodes):
    """Returns a table of the nodes with more than one alternative as lines."""
    from examples.nas_search.reports import architecture_text

    rows = [("choice", "taken", "probability", "entropy", "of")]
    for node in nodes:
        if len(node.choices) == 1:
            continue
        taken = node.choices[node.index] if node.reached else "(not reached)"
        rows.append(
            (
                node.path,
                taken,
                f"{node.probability:.1%}",
                f"{node.entropy:.2f}",
                " ".join(node.choices),
            )
        )
    return architecture_text.aligned(rows, "<<>><")


def _write_csv(analyses, written, stream):
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for analysis in analyses:
        cost = analysis.cost_model
        cost = "" if cost is None else f"{cost:.6f}"
        writer.writerow({**_record(analysis), "cost_model": cost})


def _write_json(analyses, written, stream):
    records = [
        {
            **_record(analysis),
            "layers": analysis.layers,
            "costs": [cost._asdict() for cost in analysis.costs],
            "nodes": [node._asdict() for node in analysis.nodes],
            "files": written[analysis.directory],
        }
        for analysis in analyses
    ]
    json.dump(records, stream, indent=2)
    stream.write("\n")
