"""A front runs, is stopped and resumes; with stand-ins for searches and trainings."""

import json

import pytest

from examples.nas_search.commands import PROGRAM
from examples.nas_search.fronts import front_page, front_run
from examples.nas_search.fronts.front_settings import SETTINGS
from nas_search import nas_fronts


@pytest.fixture
def stand_in():
    with nas_fronts.stand_ins() as stand_in:
        yield stand_in


def text(indices):
    return ":".join(map(str, indices))


def test_all_networks_are_trained(tmp_path, stand_in):
    plan = nas_fronts.plan(tmp_path / "out", num_trainings=2, seed=7)
    said = []
    networks = front_run.run(plan, said.append).networks
    assert stand_in.searched == [(0.006, 7), (0.01, 7), (0.02, 7)]
    assert [(each.kind, each.target, each.number) for each in networks] == [
        (kind, target, number)
        for target in nas_fronts.TARGETS
        for kind, number in [("found", 0), *(("random", number) for number in range(3))]
    ]
    for target in nas_fronts.TARGETS:
        [found, *random] = [each for each in networks if each.target == target]
        assert found.indices == text(nas_fronts.FOUND[target])
        assert [each.indices for each in random] == plan.random[target]
    for each in networks:
        assert each.cost == pytest.approx(each.madds / 1e6)
        assert [training.seed for training in each.trainings] == [7, 8]
        assert each.test == pytest.approx(each.validation + 0.1)
        assert each.test == pytest.approx((each.trainings[0].test + each.trainings[1].test) / 2)
    assert said[0] == "Search 1 of 3: target 0.006 million MAdds."
    assert sum(line.startswith("Network ") for line in said) == 12


def test_a_network_that_is_there_twice_is_trained_once(tmp_path, stand_in):
    plan = nas_fronts.plan(tmp_path / "out")
    again = {**plan.random, 0.006: [text(nas_fronts.FOUND[0.006]), *plan.random[0.006][1:]]}
    networks = front_run.run(plan._replace(random=again), lambda line: None).networks
    assert networks[0].trainings == networks[1].trainings
    assert len(networks) == len(stand_in.trained) + 1


def run(out, *more):
    targets = map(str, nas_fronts.TARGETS)
    flags = ("--targets", *targets, "--num_random", "3", "--out", str(out))
    return PROGRAM.main(["front", *flags, *more])


def test_the_command_writes_record_page_and_picture(tmp_path, stand_in, capsys):
    assert run(tmp_path / "out") == 0
    record = json.loads((tmp_path / "out" / "front.json").read_text())
    assert len(record["networks"]) == 12
    assert record["networks"][0]["indices"] == text(nas_fronts.FOUND[0.006])
    area = record["hypervolume"]["found"]["hypervolume"]
    out = capsys.readouterr().out
    assert f"found by searches: {area:.4f}" in out
    for name in ("front.json", front_page.PAGE, front_page.PICTURE):
        assert f"Written: {tmp_path / 'out' / name}" in out
        assert (tmp_path / "out" / name).stat().st_size > 1000
    # It is at its end, and says the same again.
    done = len(stand_in.trained)
    assert run(tmp_path / "out") == 0
    assert capsys.readouterr().out == out
    assert (len(stand_in.searched), len(stand_in.trained)) == (3, done)


@pytest.mark.parametrize("stops_at", [0, 2, 5])
def test_it_goes_on_where_it_stopped(tmp_path, stand_in, capsys, stops_at):
    stand_in.stops_at = stops_at
    assert run(tmp_path / "a front") == 130
    shown = capsys.readouterr().out
    assert (
        "Stopped; all results so far are saved. Go on with\n    python -m examples.nas_search"
        in shown
    )
    assert (tmp_path / "a front" / SETTINGS).exists()
    assert not (tmp_path / "a front" / "front.json").exists()
    stand_in.stops_at = None
    assert run(tmp_path / "a front") == 0
    assert [target for target, _ in stand_in.searched] == list(nas_fronts.TARGETS)
    assert len(set(stand_in.trained)) == len(stand_in.trained) == 12


def test_other_settings_are_refused(tmp_path, stand_in, capsys):
    stand_in.stops_at = 1
    assert run(tmp_path / "out") == 130
    assert run(tmp_path / "out", "--window", "0.1") == 2
    assert "window was 0.05 and is 0.1. Pass the old values" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.thorough
def test_a_small_front(tmp_path, capsys):
    flags = ("--targets", "0.006", "0.02", "--num_random", "1", "--out", str(tmp_path))
    assert PROGRAM.main(["front", *flags, "--max_global_step", "4", "--epochs", "1"]) == 0
    record = json.loads((tmp_path / "front.json").read_text())
    assert [network["kind"] for network in record["networks"]] == ["found", "random"] * 2
    assert all(0 < network["test"] < 1 for network in record["networks"])
    assert record["seconds"]["search"] > 0
    assert record["images"]["test"] == 321
