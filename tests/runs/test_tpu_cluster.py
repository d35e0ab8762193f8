"""A TPU that cannot be reached is one line, and soon."""

import logging
import socket
import types

import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from examples.nas_search.commands import PROGRAM as NAS_SEARCH
from examples.revnet.commands import PROGRAM as REVNET
from examples.runs import tpu_cluster
from examples.runs.flags import SettingsError

PARAMS = {"tpu": "my-tpu", "tpu_zone": None, "gcp_project": None}
MESSAGE = "--tpu must be the name or address of a TPU…but 'my-tpu' is not: {}. Leave it out to run"


@pytest.fixture
def at(monkeypatch):
    """Returns a function that lets the TPU be at an address, or not be found by an error."""

    def pretend(master):
        def found(*args, **kwargs):
            assert socket.getdefaulttimeout() is not None
            logging.getLogger("google.auth").warning("attempt 1 of 3")
            if isinstance(master, Exception):
                raise master
            return types.SimpleNamespace(get_master=lambda: master)

        monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", found)

    return pretend


class CloudError(Exception):
    """As the clients of clouds raise, of no class that others have."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError("no route"), "no route"), (CloudError("a\n b"), "a b"), (CloudError(), "CloudError")],
)
def test_a_tpu_that_is_not_found_is_named(at, caplog, error, reason):
    at(error)
    with pytest.raises(SettingsError, match=matching(MESSAGE.format(reason))):
        tpu_cluster.resolve(PARAMS)
    assert caplog.messages == []
    logging.getLogger("google.auth").warning("heard again")
    assert caplog.messages == ["heard again"]
    assert socket.getdefaulttimeout() is None


def test_a_tpu_that_does_not_answer_is_named(at):
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        listening.listen()
        address = f"grpc://localhost:{listening.getsockname()[1]}"
        at(address)
        assert tpu_cluster.resolve(PARAMS).get_master() == address
    with pytest.raises(SettingsError, match=matching(MESSAGE.format("…refused"))):
        tpu_cluster.resolve(PARAMS)


def test_the_tpu_of_this_host_is_not_called(at):
    at("")
    assert tpu_cluster.resolve(PARAMS).get_master() == ""


@pytest.mark.parametrize(
    ("program", "flags"),
    [
        (NAS_SEARCH, "search --preset digits"),
        (NAS_SEARCH, "train --preset digits --ssd digits_search --indices " + "0:" * 13 + "0"),
        (REVNET, "train --preset digits --engine tpu"),
    ],
)
def test_a_command_says_one_line(program, flags, tmp_path, monkeypatch, capsys):
    def nowhere(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)  # There is no network.
    line = [*flags.split(), "--tpu=foo", f"--checkpoint_dir={tmp_path / 'run'}"]
    assert program.main(line) == 2
    *own, error = capsys.readouterr().err.splitlines()
    assert all(line.startswith("Training ") for line in own)
    assert error.startswith(f"python -m {program.package} {flags.split()[0]}: error: --tpu must be")
