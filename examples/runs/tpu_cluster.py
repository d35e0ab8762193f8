"""The TPU that the setting `tpu` names, found or refused within seconds."""

import contextlib
import logging
import socket
import urllib.parse

import tensorflow.compat.v1 as tf

from examples.runs.flags import SettingsError

_SECONDS = 20  # until an answer is no longer expected


def resolve(params):
    """Returns the `TPUClusterResolver` of a TPU.

    Args:
        params: Dict of settings: `tpu`, its name or address, or 'local'; `tpu_zone` and
            `gcp_project`, of a name.

    Raises:
        SettingsError: If there is no such TPU, or it does not answer.
    """
    try:
        with _one_quiet_try():
            cluster = tf.distribute.cluster_resolver.TPUClusterResolver(
                params["tpu"], zone=params["tpu_zone"], project=params["gcp_project"]
            )
            _connect(cluster.get_master())
    except Exception as error:  # The cloud's clients have classes of errors of their own.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SettingsError(
            "--tpu must be the name or address of a TPU that can be reached from here, or 'local' "
            f"on a TPU VM, but {params['tpu']!r} is not: {reason}. Leave it out to run on towers."
        ) from error
    return cluster


@contextlib.contextmanager
def _one_quiet_try():
    """Context in which connections are given up after a while, and others' logs say nothing."""
    timeout, disabled = socket.getdefaulttimeout(), logging.root.manager.disable
    socket.setdefaulttimeout(_SECONDS)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        socket.setdefaulttimeout(timeout)
        logging.disable(disabled)


def _connect(master):
    """Connects to an address such as 'grpc://10.0.0.2:8470', which sessions do without end."""
    address = urllib.parse.urlsplit(master)
    if address.hostname:
        socket.create_connection((address.hostname, address.port or 8470)).close()
