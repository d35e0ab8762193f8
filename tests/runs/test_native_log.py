"""Standard error of native code is held back, unless it reports a fault."""

import os

import pytest

from examples.runs import command_line, native_log

NEWS = (
    "2026-11-24 09:46:48.624360: I tensorflow/core/util/port.cc:113] oneDNN custom operations\n"
    "2026-11-24 09:46:50.199892: W tensorflow/compiler/py_utils.cc:38] TF-TRT Warning\n"
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    "I0000 00:00:1795513527.234360   12259 cudart_stub.cc:31] Could not find cuda drivers\n"
    "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\n"
    "E0000 00:00:1795513527.234360 1 cuda_dnn.cc:1] Unable to register cuDNN factory: Attempting\n"
)
SUMMARY = "Summary on the non-converted ops:\n * 20 ARITH ops\n"
FAULTS = (
    "E0000 00:00:1795513527.234360   12259 model.cc:1] It is broken\n"
    "2026-11-24 09:46:48.728790: E model.cc:2] It is broken\n"
    "ERROR: It is broken\n"
)
ALL = NEWS + SUMMARY + FAULTS


@pytest.fixture(autouse=True)
def usual_level(monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)


@pytest.mark.parametrize(("only_faults", "shown"), [(True, FAULTS), (False, SUMMARY + FAULTS)])
def test_news_are_kept_back(capfd, only_faults, shown):
    with native_log.kept_back(only_faults):
        os.write(2, ALL.encode())
        assert capfd.readouterr().err == ""
    os.write(2, b"after\n")
    assert capfd.readouterr().err == shown + "after\n"


def test_after_an_error_all_is_shown(capfd):
    with pytest.raises(ValueError, match="broken"), native_log.kept_back(only_faults=True):
        os.write(2, ALL.encode())
        raise ValueError("broken")
    assert capfd.readouterr().err == ALL


def test_after_an_interrupt_news_are_kept_back(capfd):
    with pytest.raises(KeyboardInterrupt), native_log.kept_back(only_faults=True):
        os.write(2, ALL.encode())
        raise KeyboardInterrupt
    assert capfd.readouterr().err == FAULTS


def test_who_wants_all_gets_all(capfd, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with native_log.kept_back(only_faults=True):
        os.write(2, ALL.encode())
        assert capfd.readouterr().err == ALL


def test_a_program_imports_tensorflow_in_silence(capfd, monkeypatch):
    def imported(name):
        assert name == "replicate"
        os.write(2, NEWS.encode())

    program = command_line.Program("examples.nas_search", "A program.", {"sample": "draw"})
    command = command_line.importlib.import_module("examples.nas_search.commands.sample")
    monkeypatch.setattr(command, "main", lambda args: 0)
    monkeypatch.setattr(
        command_line.importlib,
        "import_module",
        lambda name: command if name.startswith("examples.") else imported(name),
    )
    assert program.main(["sample"]) == 0
    assert capfd.readouterr().err == ""
