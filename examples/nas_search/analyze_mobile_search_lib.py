"""Reads what a search logged: its scalars, and the logits of its controller.

A search directory holds event files, `events.out.tfevents.*`, to which training appends scalars. A
*tag* names a series of scalars, a *step* is a global step. The controller has one *node* for each
choice of the search space, with one logit for each of its K alternatives. Its logits are logged
under two names:

    rlpathlogits/<path>/<i>      by the node's path in the space, e.g. blocks/0/filters
    rltaglogits/<tag>_<n>/<i>    by the node's tag and its number among the nodes of that tag

Published as `analyze_mobile_search_lib` of TuNAS (Bender, Liu et al., CVPR 2020).
"""

import collections
import itertools
import os
import re

import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError

from examples.nas_search import basic_specs
from examples.runs.record_lengths import count_whole_records

_EVENT_FILE = "events.out.tfevents."
_PATH_LOGIT = re.compile(r"rlpathlogits/(?P<node>.+)/(?P<choice>\d{1,9})")
_TAG_LOGIT = re.compile(r"rltaglogits/(?P<tag>.+)_(?P<node>\d{1,9})/(?P<choice>\d{1,9})")
# Tags of the first versions of the published system.
_LEGACY_LOGITS = {
    basic_specs.OP_TAG: re.compile(r"rllogits/(?P<node>\d{1,9})_(?P<choice>\d{1,9})"),
    basic_specs.FILTERS_TAG: re.compile(r"rlfilterslogits/(?P<node>\d{1,9})_(?P<choice>\d{1,9})"),
}


def event_files(dirname):
    """Returns the names of the event files of directory `dirname`, oldest first.

    Published searches end the names with `.v2`, ours with the name of the host.
    """
    if not tf.io.gfile.isdir(dirname):
        return []
    # The name goes on with the time at which the file was opened.
    names = sorted(name for name in tf.io.gfile.listdir(dirname) if name.startswith(_EVENT_FILE))
    return [os.path.join(dirname, name) for name in names]


def read_scalars(dirname):
    """Returns all scalars that were logged in directory `dirname`.

    A file that ends in the middle of a record, because it is still being written or the writer was
    killed, is read up to there. Where a resumed search logged a step again, the later file counts.

    Args:
        dirname: The directory; its subdirectories are not read.

    Returns:
        Dictionary {tag: {step: float}}, with the steps of a tag in ascending order. Empty if there
        are no event files.
    """
    scalars = collections.defaultdict(dict)
    for filename in event_files(dirname):
        for event in _events(filename):
            for value in event.summary.value:
                number = _number(value)
                if number is not None:
                    scalars[value.tag][event.step] = number
    return {tag: dict(sorted(series.items())) for tag, series in scalars.items()}


def read_tag_logits(dirname):
    """Returns the logits of all nodes by their tags.

    Args:
        dirname: Directory with the event files of a search.

    Returns:
        Dictionary {step: {tag: [[logits of node 0], [logits of node 1], ...]}} in ascending order
        of steps. Steps in which the numbers of nodes or of a node's logits have a gap are left out.
    """
    return tag_logits(read_scalars(dirname))


def read_path_logits(dirname):
    """Returns the logits of all nodes by their paths.

    Args:
        dirname: Directory with the event files of a search.

    Returns:
        Dictionary {step: {path: [logits]}} in ascending order of steps. Steps in which the numbers
        of a node's logits have a gap are left out.
    """
    return path_logits(read_scalars(dirname))


def tag_logits(scalars):
    """Like `read_tag_logits`, of what `read_scalars` returned."""
    found = _Nested()
    for name, series in scalars.items():
        tag, match = _match_tag(name)
        for step, logit in series.items() if match else ():
            found[step][tag][int(match["node"])][int(match["choice"])] = logit
    return _without_gaps(
        found, lambda nodes: _as_list({i: _as_list(row) for i, row in nodes.items()})
    )


def path_logits(scalars):
    """Like `read_path_logits`, of what `read_scalars` returned."""
    found = _Nested()
    for name, series in scalars.items():
        match = _PATH_LOGIT.fullmatch(name)
        for step, logit in series.items() if match else ():
            found[step][match["node"]][int(match["choice"])] = logit
    return _without_gaps(found, _as_list)


class _Nested(collections.defaultdict):
    """A dictionary whose missing values are such dictionaries."""

    def __init__(self):
        super().__init__(_Nested)


def _events(filename):
    """Yields the events of a file, up to where it is damaged."""
    try:
        events = tf.train.summary_iterator(filename)
        yield from itertools.islice(events, count_whole_records(filename)[0])
    except (tf.errors.DataLossError, DecodeError):
        return


def _number(value):
    """Returns the number in a `tf.Summary.Value`; None if it is something else."""
    if value.HasField("simple_value"):
        return value.simple_value
    # Writers of TensorFlow 2, by which a TPU's host logs, make tensors of rank 0.
    if value.HasField("tensor") and not value.tensor.tensor_shape.dim:
        try:
            number = tf.make_ndarray(value.tensor)
            return float(number) if number.dtype.kind in "fiu" else None
        except (TypeError, ValueError):  # Its fields contradict each other.
            return None
    return None


def _match_tag(name):
    """Returns the tag and the match of a logit's name; the match is None if it is no logit."""
    match = _TAG_LOGIT.fullmatch(name)
    if match:
        return match["tag"], match
    for tag, pattern in _LEGACY_LOGITS.items():
        match = pattern.fullmatch(name)
        if match:
            return tag, match
    return None, None


def _as_list(by_number):
    """Returns the values in the order of their numbers 0, 1, ...; None if some are missing."""
    values = [by_number.get(number) for number in range(len(by_number))]
    return None if any(value is None for value in values) else values


def _without_gaps(found, convert):
    """Returns {step: {key: list}} of those steps in which `convert` gives a list for all keys."""
    steps = {}
    for step in sorted(found):
        converted = {key: convert(value) for key, value in found[step].items()}
        if all(value is not None for value in converted.values()):
            steps[step] = converted
    return steps
