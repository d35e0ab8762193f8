"""`python -m replicate check-gpus`."""

import itertools
import json
import re
import types

import pytest
import tensorflow.compat.v1 as tf

import selection
from bodies import matching
from replicate import __main__ as program
from replicate import devices as devices_lib
from replicate.bench import choices
from replicate.checking import check, command, machine, models, placements, probe, report
from replicate.comparing import Deviation

TWO = ["--devices", "/cpu:0", "/cpu:1"]
SMALL = [*TWO, "--models", "embedding", "--steps", "2", "--timed", "2"]
DEVICES = ["/device:CPU:0", "/device:CPU:1"]
GPUS = ["/device:GPU:0", "/device:GPU:1"]

ONE_GPU = "One device is compared with several, but …/device:GPU:0 is the only GPU…/gpu:0 /cpu:0"
FLAGS = [
    ([], "There is no GPU that TensorFlow sees here…lists GPUs…--devices /cpu:0 /cpu:1"),
    (["--devices", "/cpu:0"], "`--devices` must be two or more GPUs or CPUs…are /cpu:0. Pass"),
    (["--devices", "/cpu:0", "/tpu:0"], "`--devices` must be two or more…are /cpu:0 /tpu:0. Pass"),
    (
        ["--devices", "/job:worker/cpu:0", "/cpu:0"],
        "`--devices` must be two or more GPUs or CPUs of this host…/job:worker/cpu:0 /cpu:0",
    ),
    (["--devices", "/gpu:6", "/cpu:0"], "`devices` must exist, but /device:GPU:6 does not…"),
    (["--devices", "/cpu:0", "cpu:0"], "must name each device once…/device:CPU:0"),
    ([*TWO, "--models", "cnn,rnn"], "must be distinct names out of…cnn,fused…'cnn,rnn'…Leave"),
    ([*TWO, "--steps", "0"], "--steps: must be a whole number >= 1, but is…'0'"),
    ([*TWO, "--tolerance", "0"], "must be a number greater than 0, but is …'0'. Leave it out"),
    ([*TWO, "--tolerance", "much"], "must be a number greater than 0, but is 'much'"),
    ([*TWO, "--dtype", "float16"], "invalid choice: 'float16'"),
]


@pytest.mark.parametrize(("argv", "text"), FLAGS)
def test_wrong_arguments_are_one_line(argv, text, capsys):
    with pytest.raises(SystemExit) as end:
        command.main(argv)
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert said.count("\n") == 1
    assert re.search(matching(text), said)


def test_one_gpu_is_too_few(monkeypatch, capsys):
    monkeypatch.setattr(devices_lib, "local", lambda: ["/device:CPU:0", "/device:GPU:0"])
    with pytest.raises(SystemExit) as end:
        command.main([])
    assert end.value.code == 2
    assert re.search(matching(ONE_GPU), capsys.readouterr().err)


def test_all_gpus_are_checked(monkeypatch):
    monkeypatch.setattr(devices_lib, "local", lambda: ["/device:CPU:0", *GPUS])
    assert command._devices(None) == GPUS
    assert {*probe.that_run_on(GPUS)} == {*probe.CHOICES} <= {*choices.CHOICES}
    assert "nccl" not in probe.that_run_on(["/device:GPU:0", "/device:CPU:0"])


# From end to end.


def test_two_cpu_devices_are_as_they_should_be(monkeypatch, capsys):
    monkeypatch.setattr(probe, "CHOICES", ("default", "replicated_in_turn"))
    assert program.main(["check-gpus", *SMALL]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[-1] == "OK: on these 2 CPU devices, all is as it should be."
    assert any(line.startswith("TensorFlow ") and tf.__version__ in line for line in lines)
    assert [line.split()[:2] for line in lines if "a sparse gradient" in line] == [
        ["embedding", "equal"]
    ]
    timed = [line for line in lines if line.startswith(("  default", "  replicated_in_turn"))]
    assert len(timed) == 2
    assert all(line.endswith("not known") for line in timed)
    assert any(line.startswith("Fastest here: ") for line in lines)
    assert "check-gpus: timing replicated_in_turn" in said.err


def let_towers_learn_faster(monkeypatch):
    make = models.make_model_fn

    def make_model_fn(name, dtype):
        model_fn, builds = make(name, dtype), itertools.count()

        def model_fn_of_both(features, labels, mode):
            # One device trains first. The next model is built for the measurement.
            monkeypatch.setattr(models, "_RATE", 0.2 if next(builds) else 0.1)
            return model_fn(features, labels, mode)

        return model_fn_of_both

    monkeypatch.setattr(models, "make_model_fn", make_model_fn)


def test_a_difference_is_told(monkeypatch, capsys):
    let_towers_learn_faster(monkeypatch)
    monkeypatch.setattr(probe, "CHOICES", ())
    assert command.main(SMALL) == 1
    said = capsys.readouterr().out
    last = "NOT OK: on these 2 CPU devices, not all is…: embedding: …deviates by"
    assert re.search(matching(last), said.splitlines()[-1])
    assert "embedding DIFFERENT" in " ".join(said.split())
    assert "--dtype float64 tells it from an error" in said
    assert "what this cannot tell" in said  # The report of the comparison.


def test_json_has_all_of_it_where_runs_fail(monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise RuntimeError("no kernel\nand more")

    monkeypatch.setattr(check, "compare", fail)
    monkeypatch.setattr(probe, "train", fail)
    assert command.main([*SMALL, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"]
    ways = probe.that_run_on(DEVICES)
    names = ["embedding", *ways, "one device"]
    assert found["problems"] == [f"{name}: RuntimeError: no kernel" for name in names]
    assert found["fastest"] is None
    assert {*found["devices"]} == {*DEVICES}
    assert found["models"][0]["comparison"] is None


def test_ctrl_c_ends_it(monkeypatch, capsys):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "run", interrupt)
    assert command.main(SMALL) == 130
    assert capsys.readouterr().err == "check-gpus: interrupted: there is no report\n"


# Parts.


# `test_two_cpu_devices_are_as_they_should_be` looks at the others.
@pytest.mark.parametrize(
    "name", [selection.cell(name, is_quick=name != "embedding") for name in models.MODELS]
)
def test_models_are_equal_in_all_types(name):
    for dtype in models.MODELS[name].dtypes[-1:]:
        made = check._equality(name, DEVICES, 2, dtype, check.TOLERANCES[dtype])
        assert made.problems == []
        assert made.comparison.not_compared == ()
        assert made.comparison.rows == (models.ROWS, models.ROWS - 1)


def node(name, device, kind="MatMul"):
    return placements.Node(name, kind, device)


TOWERS = [node("tower_0/a", GPUS[0]), node("tower_1/a", GPUS[1])]


def variable(name, device):
    return node(name, device, "VarHandleOp")


LOOKED = {
    "in place": ([*TOWERS, variable("w", GPUS[0])], "consolidation", []),
    "no operation": (
        [TOWERS[0], variable("w", GPUS[0])],
        "consolidation",
        ["tower 1 has no operation on /device:GPU:1"],
    ),
    "another's device": (
        [*TOWERS, node("tower_1/b", GPUS[0]), variable("w", GPUS[0])],
        "consolidation",
        ["not on the device of their tower: tower_1/b on /device:GPU:0"],
    ),
    "many": (
        [*TOWERS, *(node(f"tower_1/b{i}", GPUS[0]) for i in range(5)), variable("w", GPUS[0])],
        "consolidation",
        [
            "not on the device of their tower: tower_1/b0 on /device:GPU:0, tower_1/b1 on "
            "/device:GPU:0, tower_1/b2 on /device:GPU:0, and 2 more"
        ],
    ),
    "in turn": ([*TOWERS, variable("w", GPUS[0]), variable("v", GPUS[1])], "round_robin", []),
    "not in turn": (
        [*TOWERS, variable("w", GPUS[1]), variable("v", GPUS[1])],
        "round_robin",
        ["variable w must be on /device:GPU:0, but is on /device:GPU:1"],
    ),
    "a replica": (
        [*TOWERS, variable("w", GPUS[0]), variable("replicate/tower_1/w", GPUS[1])],
        "replicated",
        [],
    ),
    "no replica": (
        [*TOWERS, variable("w", GPUS[0])],
        "replicated",
        ["variable w of tower 1 must be on /device:GPU:1, but is on no device"],
    ),
}


@pytest.mark.parametrize("name", LOOKED)
def test_what_is_not_in_place_is_told(name):
    nodes, placement, problems = LOOKED[name]
    trained = [each.name for each in nodes if each.kind == "VarHandleOp" and "/" not in each.name]
    found = placements.look(nodes, GPUS, placement, trained)
    assert list(found.problems) == problems
    assert found.in_towers[0] == 1


def test_operations_on_the_host_are_named_and_no_problem():
    nodes = [*TOWERS, node("tower_1/b", "/device:CPU:0", "Unique")]
    found = placements.look(nodes, GPUS, "consolidation", [])
    assert (found.on_host, found.problems) == (("Unique",), ())
    mixed = ["/device:GPU:1", "/device:CPU:0"]
    nodes = [node("tower_0/a", mixed[0]), node("tower_0/b", mixed[1]), node("tower_1/a", mixed[1])]
    assert placements.look(nodes, mixed, "consolidation", []).problems == ()


def trained(losses, variables, ms=1.0):
    return probe.Trained(losses, variables, (ms, ms, ms), {}, None)


def test_a_replica_that_has_gone_astray_is_the_worst():
    alone = trained([1.0], {"a/w": 2.0})
    towers = trained([1.0], {"a/w": 2.0, "replicate/tower_1/a/w": 3.0})
    found = probe.worst_deviation(towers, alone, 1e-4)
    assert (found.what, found.value) == ("replicate/tower_1/a/w", 0.5)
    assert probe.worst_deviation(trained([1.0], {}), alone, 1e-4).note == "only on one device"


def test_a_way_that_differs_is_not_the_fastest():
    good = Deviation("w", 0.0, 1e-4)
    results = (
        report.Result("default", trained([], {}, 2.0), good, ""),
        report.Result("round_robin", trained([], {}, 1.0), good._replace(value=1.0), ""),
        report.Result("replicated", trained([], {}, 2.0), good, ""),
        report.Result("prefetched", trained([], {}, 3.0), good, ""),
    )
    devices = dict.fromkeys(GPUS, "a GPU")
    made = report.Report(
        {"TensorFlow": "3"}, devices, {}, "float32", 1, 1e-4, (), None, "", results
    )
    assert made.fastest is results[0]
    assert made.as_fast == ["replicated"]
    problem = "round_robin: w deviates by 1.0e+00, of 0.0001 allowed"
    assert made.problems == [problem]
    assert str(made).endswith(
        f"NOT OK: on these 2 devices, not all is as it should be: {problem} (1 in all)"
    )
    assert "do not predict those of GPUs" not in str(made)


def test_memory_and_names_of_gpus(monkeypatch):
    config = tf.config.experimental
    gpu = types.SimpleNamespace()
    details = {"device_name": "A100", "compute_capability": (8, 0)}
    monkeypatch.setattr(config, "list_physical_devices", lambda kind=None: [gpu])
    monkeypatch.setattr(config, "get_device_details", lambda device: details, raising=False)
    monkeypatch.setattr(
        config, "get_memory_info", lambda name: {"peak": {"GPU:0": 7}[name]}, raising=False
    )
    assert machine.names_of([GPUS[0], GPUS[1], DEVICES[0]]) == {
        GPUS[0]: "A100, compute capability 8.0",
        GPUS[1]: "not known",
        DEVICES[0]: "a part of the processor",
    }
    assert [probe.peak(name) for name in (*GPUS, DEVICES[0])] == [7, None, None]


def test_nvidia_smi(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.nvidia_smi() == {}
    path = tmp_path / "nvidia-smi"
    path.write_text('#!/bin/sh\n[ "$1" = topo ] && echo "GPU0 GPU1 NV12"\n')
    path.chmod(0o755)
    assert machine.nvidia_smi() == {"drivers": "not known", "links": "GPU0 GPU1 NV12"}
