"""`fit-cost`: from networks to a file, with latencies that the tests make up, and real ones."""

import argparse
import itertools
import json

import numpy as np
import pytest

from bodies import matching
from examples.nas_search import mobile_cost_model
from examples.nas_search.basic_specs import FILTERS_TAG, OP_TAG, ConvTowerSpec, block
from examples.nas_search.commands import PROGRAM
from examples.nas_search.commands import search as search_command
from examples.nas_search.costs import cost_fit, cost_model_io, network_cost
from examples.nas_search.latency import device_info, fit_cost, timing
from examples.nas_search.mobile_specs import ActivationSpec, ConvSpec
from examples.nas_search.schema import OneOf
from examples.nas_search.spaces import search_spaces
from examples.runs.errors import UserError

SSD = "digits_search"


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine on which a network takes 0.1 ms and a µs per 100 MAdds, but is ever slower."""
    groups = []
    speeds = itertools.count(10)

    def measure_group(specs, reference, setting, random, on_round):
        if machine.stop_at == len(groups):
            raise KeyboardInterrupt
        slowness = next(speeds) / 10
        groups.append((specs, setting))
        for number in range(setting.rounds):
            on_round(number + 1)

        def ms(spec):
            madds = network_cost.network_cost(spec, setting.input_shape, setting.num_classes).madds
            return slowness * (0.1 + madds / 1e5)

        return np.array([ms(spec) for spec in specs]), ms(reference)

    def machine():
        return groups

    machine.stop_at = None
    monkeypatch.setattr(timing, "measure_group", measure_group)
    monkeypatch.setattr(device_info, "_cpu_model", lambda: "Abacus 1")
    return machine


@pytest.fixture
def run(tmp_path, capsys):
    """Runs `fit-cost`; returns its exit status, what it printed and the file's name."""

    def run_fit_cost(*flags, name="cost.json"):
        path = tmp_path / name
        status = PROGRAM.main(["fit-cost", f"--output={path}", *flags])
        return status, capsys.readouterr(), path

    return run_fit_cost


def test_latencies_are_fitted_and_written(run):
    status, shown, path = run("--num_networks=100", "--threads=2", "--batch_size=4")
    assert status == 0
    model = cost_model_io.from_json(path.read_text())
    assert (model.ssd, model.objective, model.unit) == (SSD, "latency", "ms")
    assert (model.input_shape, model.num_classes) == ((8, 8, 1), 10)
    # The drift is gone, and what remains is linear.
    assert model.statistics["r_squared"] > 0.9999 and model.statistics["mean_error"] < 1e-3
    assert (model.statistics["num_fitted"], model.statistics["num_held_out"]) == (80, 20)
    others = cost_fit.random_networks(SSD, seed=99, num_draws=500)
    madds = mobile_cost_model.default_model(SSD).estimate(others.positions)
    got = model.estimate(others.positions)
    assert np.corrcoef(got, madds)[0, 1] > 0.9999
    how = model.measurement
    assert (how["device"], how["device_model"]) == ("/device:CPU:0", "Abacus 1")
    assert (how["batch_size"], how["threads"], how["rounds"]) == (4, 2, 10)
    assert str(path.parent) not in path.read_text()
    lines = shown.out.splitlines()
    assert lines[0].startswith(
        "Measuring 100 networks of digits_search: latency on Abacus 1, batch 4, 2 threads, TensorF"
    )
    assert lines[2].startswith("Fitted to 80 networks. On 20 others: R² ")
    aim = model.statistics["lower_quartile"]
    assert lines[3].endswith(f"; a search aims at {aim:.4g}.")
    assert f"{path}: latency, ms on Abacus 1, batch 4, 2 threads, from " in lines[3]
    assert lines[4].endswith(
        f"search --preset digits --ssd digits_search --cost_model {path} "
        "--checkpoint_dir runs/search"
    )
    package, *command = lines[4].split()[2:]
    assert package == "examples.nas_search"
    parser = argparse.ArgumentParser()
    search_command.add_flags(parser)
    assert parser.parse_args(command[1:]).checkpoint_dir == "runs/search"
    assert len(shown.err.splitlines()) == 10
    assert "fit-cost: network 100 of 100, " in shown.err


def test_measuring_goes_on_where_it_stopped(run, machine):
    flags = ("--num_networks=60", "--threads=2")
    _, _, whole = run(*flags, name="whole.json")
    machine.stop_at = len(machine()) + 2
    status, shown, path = run(*flags)
    assert status == 130
    assert not path.exists()
    assert "\nStopped. Measurements are kept" in shown.err
    assert (
        f"    python -m examples.nas_search fit-cost --output={path} --num_networks=60" in shown.err
    )
    machine.stop_at = None
    before = len(machine())
    status, shown, _ = run(*flags)
    assert status == 0
    assert "60 networks of digits_search, 32 of which are known: " in shown.out
    assert [len(specs) for specs, _ in machine()[before:]] == [16, 12]

    def indices(path):
        lines = (path.parent / f"{path.name}.measured.jsonl").read_text().splitlines()
        return [json.loads(line)["indices"] for line in lines[1:]]

    assert len(set(indices(path))) == 60
    assert indices(path) == indices(whole)
    # More of them begin with the same; none is measured again.
    before = len(machine())
    assert run("--num_networks=70", "--threads=2")[0] == 0
    assert [len(specs) for specs, _ in machine()[before:]] == [10]
    assert indices(path)[:60] == indices(whole)
    before = len(machine())
    assert run(*flags)[0] == 0
    assert len(machine()) == before
    assert cost_model_io.from_json(path.read_text()).statistics["num_fitted"] == 48


def test_other_settings_are_refused(run):
    run("--num_networks=20", "--threads=2")
    status, shown, _ = run("--num_networks=20", "--threads=1", "--image_size=16")
    assert status == 2
    assert "input_shape was [8, 8, 1] and is [16, 16, 1]; threads was 2 and is 1." in shown.err
    assert shown.out == ""


def test_all_networks_are_different_and_chosen_by_the_seed(run, machine):
    run("--num_networks=40", "--seed=3", name="a.json")
    run("--num_networks=40", "--seed=4", name="b.json")
    a, b = machine()[0][0], machine()[3][0]
    assert a != b
    networks = cost_fit.random_networks(SSD, 3)
    assert len(np.unique(networks.positions, axis=0)) == len(networks.positions)


def test_the_reference_network_of_a_space_is_measured_and_aimed_at(run):
    # A space for ImageNet, on small images.
    status, _, path = run("--preset=imagenet", "--num_networks=20", "--image_size=32")
    assert status == 0
    model = cost_model_io.from_json(path.read_text())
    assert model.input_shape == (32, 32, 3) and model.num_classes == 1001
    assert model.measurement["reference_network"] == "proxylessnas_mobile"
    target = mobile_cost_model.target_cost(model.ssd, (32, 32, 3))
    aim = mobile_cost_model.target_of(model)
    assert aim == model.measurement["reference_latency"]
    # In the middle one of the groups, 1.0 and 1.1 times as slow.
    np.testing.assert_allclose(aim, 1.05 * (0.1 + 10 * target), rtol=0.06)


def test_what_is_computed_is_not_measured(run, machine):
    status, shown, path = run("--objective=params", "--num_held_out=100")
    assert (status, machine()) == (0, [])
    model = cost_model_io.from_json(path.read_text())
    assert (model.objective, model.measurement) == ("params", None)
    assert model.statistics["num_held_out"] == 100
    assert model.statistics["max_relative_error"] < 1e-7
    assert shown.out.startswith("Fitted to 3,")
    assert mobile_cost_model.target_of(model) == mobile_cost_model.target_cost(
        SSD, objective="params"
    )
    assert [each.name for each in path.parent.iterdir()] == ["cost.json"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ssd=nowhere"], "--ssd: `ssd` must be one of…but is 'nowhere'"),
        (
            ["--objective=watts"],
            "--objective must be one of ['latency', 'madds', 'params'], but is 'watts'…OBJECTIVES",
        ),
        (["--device=/gpu:7"], "--device: `devices` must exist, but /device:GPU:7 does not"),
        (["--device=here"], "--device: A device is named by its type and index"),
        (
            ["--num_networks=40", "--num_held_out=39"],
            "--num_held_out must leave 2 networks or more…but is 39, which is 39 of 40 diff…Pass",
        ),
        (["--num_networks=40", "--num_held_out=0.01"], "but is 0.01, which is 0 of 40 different"),
        (["--objective=madds", "--num_held_out=40000"], "but is 40000, which is 3,"),
        (["--objective=madds", "--num_held_out=1"], "but is 1, which is 1 of 3,"),
        (["--num_held_out=1.7"], "whole number of networks, or a share below 1, but is 1.7. Pass"),
        (
            ["--objective=madds", "--threads=1", "--repeats=5"],
            "Only latency is measured, but --threads and --repeats say how…is madds. Leave",
        ),
        (["--ssd=mobilenet_v2"], "--ssd must be a space of at least 20 networks…v2 has 1. Pass"),
    ],
)
def test_bad_settings_are_told(run, machine, flags, message):
    status, shown, path = run(*flags)
    assert (status, machine(), path.exists()) == (2, [], False)
    with pytest.raises(UserError, match=matching(message)):
        raise UserError(shown.err)


def test_a_directory_is_no_output(run, machine, tmp_path):
    (tmp_path / "costs").mkdir()
    status, shown, path = run(name="costs")
    assert (status, machine()) == (2, [])
    assert f"--output must be a file, but {path} is a directory. Name a file in it" in shown.err
    assert [each.name for each in tmp_path.iterdir()] == ["costs"]


def test_all_cores_are_used_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(fit_cost.os, "sched_getaffinity", lambda pid: {0, 3, 5})
    assert fit_cost._cores() == 3
    monkeypatch.delattr(fit_cost.os, "sched_getaffinity")
    monkeypatch.setattr(fit_cost.os, "cpu_count", lambda: 12)
    assert fit_cost._cores() == 12


def test_real_networks_are_measured(run, monkeypatch):
    monkeypatch.undo()
    # 36 networks of a convolution and its activation.
    layers = [ConvSpec(OneOf([1, 3, 5], OP_TAG), 1), ActivationSpec("relu")]
    space = ConvTowerSpec([block(layers, OneOf(list(range(1, 13)), FILTERS_TAG))], 1)
    monkeypatch.setitem(search_spaces._SPACES, "tiny", lambda: space)
    monkeypatch.setattr(search_spaces, "ALL_SSDS", ("tiny",))
    status, shown, path = run("--ssd=tiny", "--image_size=8", "--num_networks=20", "--repeats=3")
    assert status == 0, shown.err
    model = cost_model_io.from_json(path.read_text())
    assert 0 < model.statistics["least"] < model.statistics["largest"] < 1000
    assert np.isfinite(model.kernel).all()
    assert model.measurement["reference_latency"] > 0
