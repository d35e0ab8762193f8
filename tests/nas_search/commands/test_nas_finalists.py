"""`finalists`: trainings of the networks that a search puts first; with stand-ins for them."""

import json

import pytest

from examples.nas_search.commands import PROGRAM
from nas_search import nas_fronts
from nas_search.nas_searches import FOUR, INDICES, UNREACHED, evaluation, write_evaluated


@pytest.fixture
def stand_in():
    with nas_fronts.stand_ins() as stand_in:
        yield stand_in


@pytest.fixture
def search(tmp_path):
    """Directory of a search that has evaluated four networks, which it puts in this order."""
    history = [evaluation(place, network, 0.9 - place / 10) for place, network in enumerate(FOUR)]
    return write_evaluated(tmp_path / "a search", history, max_global_step=24)


def run(search, *more):
    return PROGRAM.main(["finalists", f"--search_dir={search}", *map(str, more)])


def text(network):
    return ":".join(map(str, network))


def test_the_first_networks_are_trained_and_the_best_is_told(search, tmp_path, stand_in, capsys):
    assert run(search, "--num_networks=3", "--num_trainings=2", "--seed=5") == 0
    assert stand_in.trained == [(text(network), 5 + i) for network in FOUR[:3] for i in range(2)]
    record = json.loads((tmp_path / "a search" / "finalists" / "finalists.json").read_text())
    assert (record["ssd"], record["global_step"]) == ("digits_search", 24)
    networks = record["networks"]
    assert sorted(one["place"] for one in networks) == [1, 2, 3]
    accuracies = [one["validation"] for one in networks]
    assert accuracies == sorted(accuracies, reverse=True) and len(set(accuracies)) == 3
    for one in networks:
        assert one["indices"] == text(FOUR[one["place"] - 1])
        assert one["validation"] == sum(run["validation"] for run in one["trainings"]) / 2
        assert one["test"] == pytest.approx(one["validation"] + 0.1)
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].startswith("The first 3 networks of digits_search, trained alone")
    assert [line.split()[-1] for line in lines[2:5]] == [one["indices"] for one in networks]
    best = networks[0]["checkpoint_dir"]
    assert lines[-2] == f"The best is in {best}. Export it with"
    assert f"export --checkpoint_dir '{best}'" in lines[-1]  # The path has a blank.
    assert "Network 3 of 3: " in captured.err
    # It is at its end, and says the same again.
    assert run(search, "--num_networks=3", "--num_trainings=2", "--seed=5") == 0
    assert capsys.readouterr().out == captured.out
    assert len(stand_in.trained) == 6


def test_it_goes_on_where_it_stopped(search, tmp_path, stand_in, capsys):
    stand_in.stops_at = 2
    out = tmp_path / "mine"
    assert run(search, f"--out={out}") == 130
    assert "Stopped; all trainings so far are saved. Go on with\n    python -m" in (
        capsys.readouterr().err
    )
    assert not (out / "finalists.json").exists()
    stand_in.stops_at = None
    assert run(search, f"--out={out}") == 0
    assert [indices for indices, _ in stand_in.trained] == [text(network) for network in FOUR]
    assert len(json.loads((out / "finalists.json").read_text())["networks"]) == 4


def test_networks_may_be_put_in_another_order(search, tmp_path, stand_in):
    order = [FOUR[2], UNREACHED, INDICES, FOUR[0]]
    listed = tmp_path / "rank.json"
    record = {"split": "validation", "networks": [{"indices": text(network)} for network in order]}
    listed.write_text(json.dumps(record, indent=2))
    assert run(search, f"--networks={listed}", "--num_networks=3") == 0
    assert [indices for indices, _ in stand_in.trained] == [
        text(network) for network in (FOUR[2], UNREACHED, FOUR[0])
    ]


def test_bad_input(search, tmp_path, stand_in, capsys):
    (tmp_path / "file").write_text("")
    assert run(search, f"--out={tmp_path / 'file'}") == 2
    assert "--out must be a directory, but" in capsys.readouterr().err
    assert run(tmp_path / "none") == 2
    assert "finalists: error: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(search, "--num_networks=0")
    assert "--num_networks: must be at least 1, but is 0" in capsys.readouterr().err
    (tmp_path / "rank.json").write_text('{"indices": "0:1"}')
    assert run(search, f"--networks={tmp_path / 'rank.json'}") == 2
    assert "Networks must fit the space of the search, but 0:1" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.thorough
def test_real_trainings(search, capsys):
    assert run(search, "--num_networks=2", "--epochs=1") == 0
    assert "The first 2 networks of digits_search" in capsys.readouterr().out
