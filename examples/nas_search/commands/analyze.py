"""`analyze`: tells which network a search found, what it costs and how sure the controller is.

Results go to stdout, as lines for people, CSV or JSON; notices go to stderr. Pictures and a page
with all of it are written into the directory of the search, see `report.py`. Several searches are
compared on a page, see `comparison.py`.
"""

import io
import os
import sys
import uuid

from examples.runs import flags
from examples.runs.errors import UserError
from examples.runs.flags import Flag, boolean

FLAGS = (
    Flag(
        "dirname",
        str,
        None,
        "directory of a search, or a pattern like 'runs/*' for several; more than one are compared",
        required=True,
        nargs="+",
    ),
    Flag(
        "output",
        str,
        None,
        "page that compares the searches (default: comparison.html beside the first one, if "
        "--dirname is given more than one)",
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
        UserError: If nothing was analysed, or searches cannot be compared.
    """
    # Here, because it imports TensorFlow: flags are checked without.
    from examples.nas_search.reports import result_formats

    given = flags.with_defaults(vars(args), FLAGS, {})
    if given["output"] and not given["plot"]:
        raise UserError("--output is a page, and --noplot writes none. Leave out one of the two.")
    analyses = _analyses(given["dirname"])
    is_compared = len(given["dirname"]) > 1 or bool(given["output"])
    if is_compared:
        _check_comparable(analyses)
    written = {a.directory: _write_files(a) if given["plot"] else [] for a in analyses}
    compared = None
    if is_compared and given["plot"]:
        compared = _write_comparison(analyses, given["output"])
    result_formats.WRITE[given["output_format"]](analyses, written, compared, sys.stdout)
    return 0


def _analyses(patterns):
    """Returns the `Analysis`es of the searches that patterns match."""
    import tensorflow.compat.v1 as tf

    from examples.nas_search.reports import search_analysis

    analyses = []
    for pattern in patterns:
        directories = sorted(tf.io.gfile.glob(pattern))
        if not directories:
            raise UserError(f"--dirname must name a directory, but nothing matches {pattern!r}.")
        if len(patterns) > 1 and directories == [pattern] and not tf.io.gfile.isdir(pattern):
            _notice(f"skipping {pattern}: it is no directory")  # The shell has matched it, too.
            continue
        found = []
        for directory in directories:
            if len(directories) > 1 and not tf.io.gfile.isdir(directory):
                continue  # A pattern matches files, too.
            try:
                found.append(search_analysis.analyze(directory))
            except search_analysis.UnreadableError as error:
                if len(directories) == 1:
                    raise UserError(
                        f"--dirname must name a search, but {directory}: {error}"
                    ) from error
                _notice(f"skipping {directory}: {error}")
        if not found:
            raise UserError(f"--dirname must name a search, but none matches {pattern!r}.")
        analyses += found
    return analyses


def _check_comparable(analyses):
    """Raises a UserError if searches cannot be compared."""
    from examples.nas_search.reports import agreement

    if len(analyses) < 2:
        only = ", ".join(analysis.directory for analysis in analyses) or "none"
        raise UserError(
            f"To compare, --dirname must name two searches or more, but it names {only}. Name "
            "others, or leave out --output."
        )
    seen = {}
    for analysis in analyses:
        other = seen.setdefault(os.path.realpath(analysis.directory), analysis)
        if other is not analysis:
            raise UserError(
                f"--dirname must name each search once, but {other.directory} and "
                f"{analysis.directory} are the same. Leave out one of the two."
            )
        difference = agreement.difference(analyses[0], analysis)
        if difference:
            raise UserError(
                f"--dirname must name searches of one space to compare them, but that of "
                f"{analyses[0].directory} ({analyses[0].ssd}) and that of {analysis.directory} "
                f"({analysis.ssd}) differ: {difference}. Leave out one of the two."
            )


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


def _write_comparison(analyses, path):
    """Writes the page that compares searches; returns its path."""
    import tensorflow.compat.v1 as tf

    from examples.nas_search.reports import comparison

    if not path:
        beside = os.path.dirname(analyses[0].directory.rstrip("/"))
        path = os.path.join(beside, comparison.PAGE)
    try:
        _save(path, comparison.page(analyses).encode())
    except tf.errors.OpError as error:
        raise UserError(
            f"--output must name a file that can be written, but {path} cannot: {error.message}"
        ) from error
    return path


def _write(analysis, name, contents):
    """Writes a file beside the search; returns its path in a list, empty if it cannot be."""
    import tensorflow.compat.v1 as tf

    path = os.path.join(analysis.directory, name)
    try:
        _save(path, contents)
    except tf.errors.OpError as error:  # Results of others may be read-only.
        _notice(f"no {name} in {analysis.directory}: {error.message}")
        return []
    return [path]


def _save(path, contents):
    """Writes a file all at once; raises an OpError if it cannot be."""
    import tensorflow.compat.v1 as tf

    directory, name = os.path.split(path)
    draft = os.path.join(directory, f".{name}.{uuid.uuid4().hex}")
    with tf.io.gfile.GFile(draft, "wb") as file:
        file.write(contents)
    try:
        # The name may be a link to a file elsewhere, which is not to be written to.
        tf.io.gfile.rename(draft, path, overwrite=True)
    except tf.errors.OpError:
        tf.io.gfile.remove(draft)
        raise
