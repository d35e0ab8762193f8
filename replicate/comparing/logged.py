"""Collects warnings of this library from TensorFlow's log."""

from __future__ import annotations

import contextlib
import logging
from typing import Iterator

import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def library_warnings() -> Iterator[list[str]]:
    """A scope that gives a list, to which warnings of this library are added."""
    messages: list[str] = []
    logger = tf.get_logger()
    level = logger.level

    def take(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if message.startswith("replicate: ") and record.levelno >= logging.WARNING:
            messages.append(message)
        return bool(record.levelno >= level)

    logger.addFilter(take)
    # A user who silences the log still wants warnings in the report.
    logger.setLevel(min(level, logging.WARNING))
    try:
        yield messages
    finally:
        logger.removeFilter(take)
        logger.setLevel(level)
