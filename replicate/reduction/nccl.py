"""Sums over GPUs by NCCL, which checks itself before training starts.

NCCL adds up along the fastest links that there are. TensorFlow's use of it was reported to give
wrong sums on some hosts, without an error; so it is nothing that `replicate` chooses by itself.
"""

import numpy as np
import tensorflow.compat.v1 as tf

_NUMBERS = 1000  # of the check, float32; all sums of them are exact


def check_devices(devices, consolidation_device):
    """Raises unless NCCL can add up the gradients of these towers.

    Args:
        devices: Device strings of the towers.
        consolidation_device: Device string of where sums are needed.

    Raises:
        ValueError: If a tower is on no GPU, or sums are needed on a device without a tower.
    """
    others = [name for name in devices if "GPU:" not in name.upper()]
    if others or consolidation_device not in devices:
        raise ValueError(
            "`gather='nccl'` adds up gradients over GPUs, one of which is the consolidation "
            f"device, but towers are on {', '.join(devices)} and it is {consolidation_device}. "
            "Leave `gather` out."
        )


def add(tensors, devices, place):
    """Returns the sum of N dense tensors, one on each of N devices, on the device `place`.

    Args:
        tensors: List of tensors of one shape and type.
        devices: List of device strings.
        place: One of these.
    """
    name = tf.get_default_graph().unique_name("replicate_nccl")
    sums = all_reduce(tensors, devices, name)
    # Each of them waits for all, so none may be left out of a step.
    with tf.device(place), tf.control_dependencies(sums):
        return tf.identity(sums[devices.index(place)])


def all_reduce(tensors, devices, name):
    """Returns the sum of N tensors on each of N devices."""
    sums = []
    for tensor, device in zip(tensors, devices):
        with tf.device(device):
            sums.append(
                tf.raw_ops.NcclAllReduce(
                    input=tensor, reduction="sum", num_devices=len(devices), shared_name=name
                )
            )
    return sums


class CheckHook(tf.train.SessionRunHook):
    """Ends training before its first step if NCCL adds up known numbers wrongly.

    Args:
        devices: Device strings of the towers.
        place: Device string of where sums are needed.
    """

    def __init__(self, devices, place):
        self._devices = list(devices)
        self._place = place

    def begin(self):
        """Makes the sum."""
        self._expected = np.zeros(_NUMBERS, np.float32)
        numbers = []
        with tf.name_scope("replicate/nccl_check/"):
            for index, device in enumerate(self._devices):
                own = np.arange(_NUMBERS, dtype=np.float32) * (index + 1)
                self._expected += own
                with tf.device(device):
                    numbers.append(tf.constant(own))
            self._sum = add(numbers, self._devices, self._place)

    def after_create_session(self, session, coord):
        """Compares it.

        Raises:
            RuntimeError: If it is wrong.
        """
        found = session.run(self._sum)
        wrong = np.flatnonzero(found != self._expected)
        if len(wrong):
            first = wrong[0]
            raise RuntimeError(
                "NCCL must add up gradients as they are, but of known numbers on "
                f"{', '.join(self._devices)} {len(wrong)} of {_NUMBERS} sums are wrong: "
                f"{found[first]!r} instead of {self._expected[first]!r}. Leave `gather='nccl'` out."
            )
