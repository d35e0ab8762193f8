"""The devices of the towers in one call, when its session configuration and batch are known."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.batch import sharding


def place(
    devices: Sequence[str] | None,
    consolidation_device: str | None,
    config: tf.estimator.RunConfig | None,
) -> tuple[Sequence[str], str]:
    """Returns the towers' devices and the consolidation device.

    Args:
        devices: The argument of `replicate_model_fn`, None for the default.
        consolidation_device: Likewise, None for the first of the devices.
        config: The Estimator's `RunConfig`, None if the call has none.

    Raises:
        ValueError: If a device does not exist.
    """
    session_config = getattr(config, "session_config", None)
    if devices is None:
        devices = devices_lib.default(devices_lib.local(session_config))
        # A driver that does not load would otherwise go unnoticed.
        if len(devices) == 1 and "GPU" not in devices[0]:
            tf.logging.info(
                "replicate: no GPU was found, and `devices` names none, so %s computes all.",
                devices[0],
            )
    consolidation = consolidation_device or devices[0]
    devices_lib.check_exist(
        [*devices, consolidation], session_config, cpus_known=config is not None
    )
    return devices, consolidation


def with_rows(devices: Sequence[str], features: Any, labels: Any, training: bool) -> Sequence[str]:
    """Returns the devices whose towers have rows, as far as the static shapes of the batch tell.

    In training, a batch of k rows, fewer than there are devices, uses the first k devices. A batch
    without a tensor of rank 1 or more uses the first device. Both log a warning.
    """
    sizes, size = sharding.static_rows(features, labels), len(devices)
    if not sizes:
        tf.logging.warning(
            "replicate: neither `features` nor `labels` holds a tensor of rank 1 or more, so there "
            "are no rows to split, and one of %d towers computes all. Let `input_fn` return a "
            "batch.",
            size,
        )
        return devices[:1]
    rows = sizes.pop() if len(sizes) == 1 else None
    if training and rows and rows < size:
        tf.logging.warning(
            "replicate: a training batch has %d rows, fewer than the %d towers, so only %d of them "
            "train it. Enlarge the batch, or pass fewer `devices`.",
            rows,
            size,
            rows,
        )
        return devices[:rows]
    return devices
