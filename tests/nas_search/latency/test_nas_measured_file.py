"""The file of measured latencies, with which measuring is resumed."""

import json

import pytest

from bodies import matching
from examples.nas_search.latency import measurement_log
from examples.nas_search.latency.measurement_log import Measured
from examples.runs.errors import UserError

HEADER = {"ssd": "digits_search", "device_model": "Abacus 1", "threads": 2}
SOME = [Measured("0:1", 0.5, 1.0), Measured("1:1", 0.1 + 0.2, 1.25)]


def test_what_is_appended_is_read_to_the_last_bit(tmp_path):
    path = str(tmp_path / "measured")
    assert measurement_log.read(path, HEADER) == []
    measurement_log.append(path, SOME[:1])
    measurement_log.append(path, SOME[1:])
    assert measurement_log.read(path, HEADER) == SOME


@pytest.mark.parametrize("cut", [1, 20])
def test_a_line_that_was_not_written_to_its_end_is_dropped(tmp_path, cut):
    path = tmp_path / "measured"
    measurement_log.read(str(path), HEADER)
    measurement_log.append(str(path), SOME)
    path.write_text(path.read_text()[:-cut])
    assert measurement_log.read(str(path), HEADER) == SOME[:1]
    measurement_log.append(str(path), SOME[1:])
    assert measurement_log.read(str(path), HEADER) == SOME


def test_a_first_line_that_was_not_written_to_its_end_starts_anew(tmp_path):
    path = tmp_path / "measured"
    path.write_text('{"ssd": "dig')
    assert measurement_log.read(str(path), HEADER) == []
    measurement_log.append(str(path), SOME)
    assert measurement_log.read(str(path), HEADER) == SOME


def test_other_settings_are_named(tmp_path):
    path = str(tmp_path / "measured")
    measurement_log.read(path, HEADER)
    message = (
        "goes on with the settings and on the device it started with…measured differ: "
        "device_model was 'Abacus 1' and is 'Abacus 2'; threads was 2 and is 1. Pass the old ones"
    )
    with pytest.raises(UserError, match=matching(message)):
        measurement_log.read(path, {**HEADER, "threads": 1, "device_model": "Abacus 2"})


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"indices": "0:1", "ms": 0.5}',
        '{"indices": [0, 1], "ms": 0.5, "reference_ms": 1.0}',
        '{"indices": "0:1", "ms": "0.5", "reference_ms": 1.0}',
        '{"indices": "0:1", "ms": NaN, "reference_ms": 1.0}',
        '{"indices": "0:1", "ms": 0.5, "reference_ms": 0.0}',
        '{"indices": "0:1", "ms": 0.5, "reference_ms": 1.0, "more": 1}',
    ],
)
def test_a_damaged_file_is_named(tmp_path, line):
    path = tmp_path / "measured"
    path.write_text(f"{json.dumps(HEADER)}\n{line}\n")
    with pytest.raises(
        UserError, match=matching("measured must hold measured latencies, but cannot…Delete it")
    ):
        measurement_log.read(str(path), HEADER)


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "measured").write_text("[1]\n")
    with pytest.raises(UserError, match="must hold measured latencies"):
        measurement_log.read(str(tmp_path / "measured"), HEADER)


def test_bytes_that_are_no_text_and_directories_are_named(tmp_path):
    path = tmp_path / "measured"
    path.write_bytes(json.dumps(HEADER).encode() + b"\n\xff\n")
    with pytest.raises(UserError, match=matching("cannot be read (A text must be JSON…Delete it")):
        measurement_log.read(str(path), HEADER)
    with pytest.raises(UserError, match=matching("cannot be read (…directory). Delete it")):
        measurement_log.read(str(tmp_path), HEADER)


def test_networks_must_be_those_that_are_due():
    measurement_log.check_networks("file", SOME, ["0:1", "1:1", "1:0"])
    message = "file must hold the networks in the order…line 3 has 1:1 where 1:0 is due. Delete"
    with pytest.raises(UserError, match=matching(message)):
        measurement_log.check_networks("file", SOME, ["0:1", "1:0", "1:1"])


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    message = "--output must be a file in a directory that can be written to, but…/file/measured"
    with pytest.raises(UserError, match=matching(message)):
        measurement_log.read(str(tmp_path / "file" / "measured"), HEADER)
