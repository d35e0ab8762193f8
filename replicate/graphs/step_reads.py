"""Orders the reads and writes of the global step in a training step.

A variable is read whenever the reading operation happens to run; a reference variable, whenever an
operation runs that takes its memory. A `model_fn` that increments the step itself, as BERT's and
XLNet's do, lets the increment wait for nothing: the learning rate may then be that of this step or
of the next one, even on one device.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types
from replicate.graphs import state
from replicate.graphs.ancestors import ancestors
from replicate.graphs.functions import line_of

_READ = "ReadVariableOp"


class Race(NamedTuple):
    """Operations on the global step that do not wait for each other.

    Attributes:
        write: The operation that writes the step.
        reads: The operations that read it.
        is_reference: Whether it is a reference variable.
    """

    write: Any
    reads: Sequence[Any]
    is_reference: bool


def order(fetches: Sequence[Any], reads_first: bool) -> None:
    """Lets writes of the global step wait for its reads, or logs that they do not.

    In towers, `partition.read_before_written` then lets writes of references wait in any case.

    Args:
        fetches: Operations and tensors that a training step runs.
        reads_first: Whether writes wait for reads.
    """
    for write, reads, is_reference in races(fetches):
        if reads_first:
            graph_lib.add_control_inputs(write, reads)
            continue
        tf.logging.info(
            "replicate: the global step is written at %s and read at %s, and neither waits for the "
            "other, so that a step may read the old or the new value, %s. "
            "replicate_model_fn(read_step_first=True) reads before.",
            line_of(write),
            " and ".join(sorted({line_of(read) for read in reads})),
            "on one device; towers read the old one" if is_reference else "on one device as well",
        )


def races(fetches: Sequence[Any]) -> list[Race]:
    """Returns the writes of the global step that wait for no read, in the current graph.

    Args:
        fetches: Operations and tensors that a training step runs.
    """
    step = tf.train.get_global_step()
    if step is None:
        return []
    # A `ReferenceVariable` has no handle.
    is_reference = not isinstance(getattr(step, "handle", None), tf.Tensor)
    users = _of_reference(step.op.outputs[0]) if is_reference else step.handle.consumers()
    return _races(users, is_reference, fetches)


def _of_reference(memory: Any) -> list[Any]:
    """Returns the operations that read or write the memory of a variable, given to them."""
    found, pending = [], [memory]
    while pending:
        for one in pending.pop().consumers():
            if one.type in op_types.SAME_MEMORY:
                pending += one.outputs
            else:
                found.append(one)
    return found


def _races(users: Sequence[Any], is_reference: bool, fetches: Sequence[Any]) -> list[Race]:
    # Operations outside a condition or loop cannot wait for one inside, which may not run.
    outside = [one for one in users if not graph_lib.is_in_control_flow(one)]
    writes = [one for one in outside if state.assigns(one)]
    reads = [one for one in outside if one.type == _READ or (is_reference and one not in writes)]
    if not reads or not writes:
        return []
    found = []
    known: dict[Any, list[Any]] = {}
    for write in writes:
        before = ancestors([write], known=known)
        late = [one for one in reads if one not in before]
        running = ancestors(fetches, known=known) if late else ()
        # Reads that wait for a write are meant to see it. If the step is written twice, the first
        # write must not wait for a read after the second one, and so wait for itself.
        racing = [
            one
            for one in late
            if one in running and ancestors([one], known=known).isdisjoint(writes)
        ]
        if racing and write in running:
            found.append(Race(write, racing, is_reference))
    return found
