"""Counts the tensors that one step of a session sent between devices, from TensorFlow's metadata.

`replicate.reports.transfers` predicts transfers from a graph. This counts those that happened, for
any engine: after TensorFlow's graph optimizer, and with the sizes of tensors at run time.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import tensorflow.compat.v1 as tf

_SENDS = ("_Send", "_HostSend")
_COLLECTIVES = ("CollectiveReduce", "CollectiveReduceV2", "NcclAllReduce")

OPTIONS = {"trace_level": "SOFTWARE_TRACE", "output_partition_graphs": True}
"""Fields of the `tf.RunOptions` that a step needs. They do not start tracing of GPUs."""


class Sent(NamedTuple):
    """A tensor that went from one device to another."""

    name: str
    source: str
    """The device's type and index, e.g. `GPU:0`."""
    destination: str
    """The same of the other device."""
    size: int | None
    """Bytes, None if TensorFlow did not report them."""


def tensors_sent(metadata: tf.RunMetadata) -> list[Sent]:
    """Returns the tensors that TensorFlow sent.

    Args:
        metadata: The `tf.RunMetadata` of a step that ran with `OPTIONS`.

    Returns:
        List of `Sent`, without all-reduces that TensorFlow leaves to a library.
    """
    outputs = _outputs(metadata)
    found = []
    for node in _nodes(metadata):
        if node.op not in _SENDS:
            continue
        source, destination = (
            _short(node.attr[key].s.decode()) for key in ("send_device", "recv_device")
        )
        if source != destination:
            size = outputs.get((node.device, node.input[0]))
            found.append(Sent(node.attr["tensor_name"].s.decode(), source, destination, size))
    return found


def operations_run(metadata: tf.RunMetadata) -> int:
    """Returns how many operations a step ran, those of loops once, and sends among them.

    Args:
        metadata: As `tensors_sent` takes it.
    """
    return sum(len(graph.node) for graph in metadata.partition_graphs)


def all_reduced(metadata: tf.RunMetadata) -> list[int | None]:
    """Returns the sizes of all-reduced tensors in bytes, one for each device that took part.

    Args:
        metadata: As `tensors_sent` takes it.

    Returns:
        List of sizes, None for those that TensorFlow did not report.
    """
    outputs = _outputs(metadata)
    reduces = [node for node in _nodes(metadata) if node.op in _COLLECTIVES]
    return [outputs.get((node.device, node.input[0])) for node in reduces]


def _nodes(metadata: tf.RunMetadata) -> Iterator[tf.NodeDef]:
    for graph in metadata.partition_graphs:
        yield from graph.node
        for function in graph.library.function:
            yield from function.node_def


def _outputs(metadata: tf.RunMetadata) -> dict[tuple[str, str], int]:
    """Returns the bytes of each output of the step, by its device and tensor name."""
    sizes = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            for output in node.output:
                size = tf.as_dtype(output.tensor_description.dtype).size
                for dim in output.tensor_description.shape.dim:
                    size *= dim.size
                # In a graph, the name of a first output is that of its operation.
                suffix = f":{output.slot}" if output.slot else ""
                sizes[device.device, node.node_name + suffix] = size
    return sizes


def _short(device: str) -> str:
    spec = tf.DeviceSpec.from_string(device)
    return f"{spec.device_type.upper()}:{spec.device_index}"
