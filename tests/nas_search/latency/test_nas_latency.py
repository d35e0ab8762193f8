"""Latencies are measured as if nothing else had run, by a clock that the tests set."""

import gc

import numpy as np
import pytest

from examples.nas_search import mobile_classifier_factory
from examples.nas_search.latency import device_info, timing
from nas_search.nas_searches import INDICES, SSD


class Machine:
    """Runs functions that take a known time, at a speed that may change; its clock tells it."""

    def __init__(self, latencies_ms):
        self.now = 0.0
        self.slowness = 1.0
        self.calls = [0] * len(latencies_ms)
        self.disturb = lambda machine, k: 0.0  # returns ms by which a call is late
        self.runs = [lambda k=k, ms=ms: self._run(k, ms) for k, ms in enumerate(latencies_ms)]

    def _run(self, k, ms):
        self.calls[k] += 1
        self.now += (ms * self.slowness + self.disturb(self, k)) / 1000

    def time(self, rounds, seed=0, on_round=lambda done: None):
        random = np.random.RandomState(seed)
        return timing.time_turns(self.runs, rounds, random, on_round, clock=lambda: self.now)


def test_every_network_has_a_turn_in_every_round():
    rounds = []
    machine = Machine([2.0, 3.0, 20.0])
    turns = machine.time(4, on_round=rounds.append)
    np.testing.assert_allclose(turns, [[2.0, 3.0, 20.0]] * 4)
    assert rounds == [1, 2, 3, 4]
    # 10 ms in a turn, but at least two runs; three to warm up.
    assert machine.calls == [3 + 4 * 5, 3 + 4 * 4, 3 + 4 * 2]


def test_what_comes_first_in_a_turn_does_not_count():
    machine = Machine([2.0, 20.0])
    before = []

    def cold(machine, k):
        is_cold = before[-1:] != [k]
        before.append(k)
        return 50.0 if is_cold else 0.0

    machine.disturb = cold
    np.testing.assert_allclose(machine.time(5), [[2.0, 20.0]] * 5)


def test_runs_that_another_program_disturbs_do_not_count():
    machine = Machine([1.0, 1.5])
    late = np.random.RandomState(3)
    machine.disturb = lambda machine, k: 5.0 * (late.rand() < 0.4)
    turns = machine.time(30)
    assert np.mean(turns > 2) > 0.01  # Some turns are lost.
    np.testing.assert_allclose(timing.without_drift(turns), [1.0, 1.5])


def test_drift_is_not_taken_for_latency():
    machine = Machine([1.0, 2.0, 4.0])

    def slow_down(done):
        machine.slowness = 1 + done / 10  # up to twice as slow

    latencies = timing.without_drift(machine.time(11, on_round=slow_down))
    np.testing.assert_allclose(latencies / latencies[0], [1.0, 2.0, 4.0])
    np.testing.assert_allclose(latencies[0], 1.5)  # the median


def test_rounds_of_different_speed_can_be_compared():
    turns = np.outer([1.0, 1.0, 1.0, 2.0, 2.0], [1.0, 3.0, 5.0, 7.0])
    # The median of what is left would be twice as high.
    turns[:2, 0] *= 3
    np.testing.assert_allclose(timing.without_drift(turns), [1.0, 3.0, 5.0, 7.0])


def test_groups_are_compared_by_their_reference_network():
    # The second group was measured when all was 20 % slower.
    latencies = np.array([1.0, 2.0, 3.0, 1.2, 2.4])
    references = np.array([5.0, 5.0, 5.0, 6.0, 6.0])
    got = timing.at_one_speed(latencies, references)
    np.testing.assert_allclose(got, [1.0, 2.0, 3.0, 1.0, 2.0])


@pytest.mark.parametrize("was_enabled", [True, False])
def test_garbage_is_not_collected_meanwhile(was_enabled):
    seen = set()
    machine = Machine([1.0])
    machine.disturb = lambda machine, k: seen.add((machine.calls[0] > 3, gc.isenabled())) or 0.0
    enable = gc.enable if was_enabled else gc.disable
    enable()
    try:
        machine.time(2)
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()
    assert seen == {(False, was_enabled), (True, False)}


def test_networks_are_built_alone_and_run(monkeypatch):
    built = []
    make = mobile_classifier_factory.get_standalone_model

    def remember(spec, **kwargs):
        built.append((spec, kwargs))
        return make(spec, **kwargs)

    monkeypatch.setattr(mobile_classifier_factory, "get_standalone_model", remember)
    small = mobile_classifier_factory.get_model_spec(SSD, indices=INDICES)
    setting = timing.Setting((8, 8, 1), 10, 3, "/device:CPU:0", 2, rounds=3)
    shapes = []

    def look(runs, *args, **kwargs):
        shapes.extend(run().shape for run in runs)
        builds = [0.5, 9.0, 0.4, 0.7, 0.6, 8.0]  # three of each network, then six of the reference
        return np.outer([1.0, 1.0, 1.0], [*builds, 2.0, 4.0, 1.0, 3.0, 9.0, 0.1])

    monkeypatch.setattr(timing, "time_turns", look)
    random = np.random.RandomState(0)
    latencies, reference = timing.measure_group([small, small], small, setting, random)
    assert [kwargs for _, kwargs in built] == 12 * [{"num_classes": 10}]
    assert shapes == 12 * [(3, 10)]
    # The median over the builds of a network counts.
    np.testing.assert_allclose(latencies, [0.5, 0.7])
    np.testing.assert_allclose(reference, 2.5)


def test_a_device_is_known_by_its_makers_name(monkeypatch, tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Abacus 1 @ 2 Hz\nflags : a b\n")
    monkeypatch.setattr(device_info, "_CPU_INFO", info)
    described = device_info.describe("/device:CPU:0")
    assert described["device_model"] == "Abacus 1 @ 2 Hz"
    assert sorted(described) == ["device_model", "numpy", "os", "python", "tensorflow"]
    info.write_text("processor\t: 0\n")
    monkeypatch.setattr(device_info.platform, "processor", lambda: "")
    monkeypatch.setattr(device_info.platform, "machine", lambda: "s390x")
    assert device_info.describe("/device:CPU:0")["device_model"] == "s390x"


def test_a_gpu_is_known_by_its_makers_name(monkeypatch):
    config = device_info.tf.config.experimental
    monkeypatch.setattr(config, "list_physical_devices", lambda kind: [f"{kind}0", f"{kind}1"])
    monkeypatch.setattr(config, "get_device_details", lambda gpu: {"device_name": f"Card {gpu}"})
    assert device_info.describe("/device:GPU:1")["device_model"] == "Card GPU1"
