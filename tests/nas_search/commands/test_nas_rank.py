"""`rank`: networks in the order of their accuracies with shared weights."""

import json

import numpy as np
import pytest

from examples.nas_search import mobile_cost_model, schema_io
from examples.nas_search.commands import PROGRAM
from examples.nas_search.reports import rank_correlation, ranking
from examples.nas_search.search import search_settings
from examples.nas_search.search.shared_weights import SharedWeights
from examples.nas_search.spaces import search_spaces, space_files
from nas_search import nas_searches, nas_supernets

SSD = nas_searches.SSD
NETWORKS = [":".join(map(str, nas_supernets.draw(nas_supernets.digits(), i))) for i in range(4)]


def write_settings(directory, **changes):
    params = search_settings.resolve(
        preset="digits",
        max_global_step=1,
        num_towers=2,
        train_batch_size=100,
        rl_batch_size_multiplier=1.0,
        checkpoint_dir=str(directory),
        **changes,
    )
    search_settings.save(params)
    return params


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """Directory of a search with random weights."""
    directory = tmp_path_factory.mktemp("search")
    write_settings(directory)
    nas_supernets.save_weights(directory, nas_supernets.digits(), [1, 8, 8, 1], step=3)
    return directory


def run(capsys, *words):
    """Runs `rank`; returns its exit status, stdout and stderr."""
    capsys.readouterr()
    status = PROGRAM.main(["rank", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_random_networks_come_in_the_order_of_their_accuracies(search, tmp_path, capsys):
    output = tmp_path / "rank.json"
    words = ["--search_dir", search, "--num_networks", 7, "--seed", 1, "--output", output]
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert "7 networks of digits_search with the weights of step 3, on 350 validation images" in out
    result = json.loads(output.read_text())
    rows = result["networks"]
    assert [row["rank"] for row in rows] == list(range(1, 8))
    assert len({row["indices"] for row in rows}) == 7
    accuracies = [row["accuracy"] for row in rows]
    assert accuracies == sorted(accuracies, reverse=True)
    networks = [[int(index) for index in row["indices"].split(":")] for row in rows]
    with SharedWeights(search_settings_of(search)) as shared:
        np.testing.assert_allclose(shared.accuracies(networks), accuracies, atol=1e-6)
    for row, indices in zip(rows, networks):
        assert row["cost"] == pytest.approx(mobile_cost_model.estimate_cost(indices, SSD))
        assert f"{row['accuracy']:.2%}" in out
        assert row["indices"] in out
    assert result["prediction"] is None
    assert (result["split"], result["global_step"], result["num_images"]) == ("validation", 3, 350)
    run(capsys, *words, "--window", "0.1", "--num_towers", "1")
    target = mobile_cost_model.target_cost(SSD)
    costs = [row["cost"] for row in json.loads(output.read_text())["networks"]]
    assert len(costs) == 7
    assert all(0.9 * target <= cost <= 1.1 * target for cost in costs)


def test_networks_of_a_space_of_a_file(tmp_path, capsys, monkeypatch):
    schema_io.save(search_spaces.get_search_space_spec(SSD), tmp_path, "mine.json")
    directory, output = tmp_path / "search", tmp_path / "rank.json"
    directory.mkdir()
    params = write_settings(directory, ssd=str(tmp_path / "mine.json"))
    space_files.keep(params["ssd"], str(directory))
    nas_supernets.save_weights(directory, nas_supernets.digits(), [1, 8, 8, 1], step=3)
    (tmp_path / "mine.json").unlink()
    monkeypatch.setattr(space_files, "_read", {})  # as in another process
    status, _, _ = run(capsys, "--search_dir", directory, "--num_networks", 2, "--output", output)
    assert status == 0
    assert len(json.loads(output.read_text())["networks"]) == 2


def search_settings_of(directory):
    return json.loads((directory / "params.json").read_text())


def test_it_tells_how_well_shared_weights_predict(search, tmp_path, capsys):
    accuracies = {"test": [0.9, 0.8, 0.7, 0.95], "validation": [0.1, 0.2, 0.3, 0.4]}
    records = [
        {"indices": indices, **{name: values[i] for name, values in accuracies.items()}}
        for i, indices in enumerate(NETWORKS)
    ]
    # A second training of the first network, and the line in which the benchmark compares.
    records += [{**records[0], "test": 0.5}, {"searches": 3, "random_mean": 0.7}]
    trained = write_lines(tmp_path / "trained.json", records)
    listed = tmp_path / "networks.json"
    more = "0:0:0:0:0:0:0:0:0:0:0:0:0:0"
    listed.write_text(json.dumps([{"indices": NETWORKS[0], "cost": 1}, {"indices": more}]))
    output = tmp_path / "rank.json"
    words = ["--search_dir", search, "--trained", trained, "--networks", listed, "--output", output]
    status, out, _ = run(capsys, *words)
    assert status == 0
    result = json.loads(output.read_text())
    rows = {row["indices"]: row for row in result["networks"]}
    assert sorted(rows) == sorted([*NETWORKS, more])
    assert "trained_accuracy" not in rows[more]
    assert rows[NETWORKS[0]]["trained_accuracy"] == pytest.approx(0.7)
    assert rows[NETWORKS[0]]["trainings"] == 2
    prediction = result["prediction"]
    assert (prediction["networks"], prediction["field"]) == (4, "test")
    pairs = [
        [row[name] for row in rows.values() if row["indices"] != more]
        for name in ("accuracy", "trained_accuracy")
    ]
    for name in ("spearman", "kendall"):
        want = rank_correlation.correlate(getattr(rank_correlation, name), *pairs)
        assert prediction[name]["value"] == pytest.approx(want.value)
        assert f"{name.capitalize()}: {want.value:.2f}, 95% in [" in out


def test_trainings_are_read_from_their_directories(tmp_path):
    for number, indices in enumerate(NETWORKS):
        for seed in range(2):
            folder = tmp_path / f"{number}" / f"{seed}"
            folder.mkdir(parents=True)
            metrics = {"indices": indices, "accuracy": 0.1 * number + 0.2 * seed, "seed": seed}
            (folder / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "metrics.json").write_text("{")  # of a training that is being written
    found = ranking.read_trained(str(tmp_path))
    assert len(found) == 4
    network = tuple(map(int, NETWORKS[2].split(":")))
    assert found[network] == {"accuracy": pytest.approx(0.3), "trainings": 2, "field": "accuracy"}


def test_networks_that_are_equally_accurate_have_no_order():
    networks = [(0,), (1,), (2,)]
    trained = {network: {"accuracy": 0.5, "trainings": 1, "field": "test"} for network in networks}
    result = ranking.rank(networks, [0.1, 0.3, 0.2], None, trained)
    assert result["prediction"]["kendall"] is None
    facts = {"ssd": SSD, "global_step": 1, "num_images": 2, "split": "test"}
    lines = ranking.in_words({**facts, **result})
    assert "  Kendall: none, as all networks are equally accurate" in lines
    assert [line.split() for line in lines[3:6]] == [
        *(["1", "30.00%", "50.00%", "1"], ["2", "20.00%", "50.00%", "2"]),
        ["3", "10.00%", "50.00%", "0"],
    ]


def lines_of(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


ACCURATE = [{"indices": indices, "test": 0.5} for indices in NETWORKS]


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("trained", lines_of(*ACCURATE[:2]), "takes 3 trained networks at least, but {} has 2"),
        (
            "trained",
            lines_of(*ACCURATE[:2], {"indices": NETWORKS[2], "validation": 0.5}),
            "must all have an accuracy in [0, 1] of the same name, one of test, validation, "
            "accuracy, but those in {} have not",
        ),
        (
            "trained",
            lines_of(*ACCURATE, {"indices": "0:1", "test": 0.5}),
            "Networks must fit the space of the search, but 0:1 does not: `indices` must have",
        ),
        ("networks", lines_of({"cost": 1}), "must have an object with `indices` for each, but {}"),
        ("networks", lines_of({"indices": "a"}), "separated by colons, but in {} some are 'a'"),
        ("networks", '{\n"networks": 3\n}', "must have an object with `indices` for each, but {}"),
        ("networks", "{", "Networks must be in a file of JSON, but {} cannot be read: A text must"),
    ],
)
def test_files_that_cannot_be_used_are_refused(search, tmp_path, capsys, flag, text, message):
    path = tmp_path / "given.json"
    path.write_text(text)
    status, _, err = run(capsys, "--search_dir", search, f"--{flag}", path)
    assert status == 2
    assert message.format(path) in err


def test_there_must_be_a_search_with_a_checkpoint(tmp_path, capsys):
    status, _, err = run(capsys, "--search_dir", tmp_path)
    assert (status, "--search_dir must name a search, but" in err) == (2, True)
    nas_searches.write_search(tmp_path / "published")
    status, _, err = run(capsys, "--search_dir", tmp_path / "published")
    assert (status, "lacks train_batch_size, rl_batch_size_multiplier" in err) == (2, True)
    params = write_settings(tmp_path / "new", enable_cost_model=False)
    search_settings.save({**params, "train_batch_size": "many"})
    status, _, err = run(capsys, "--search_dir", tmp_path / "new")
    assert (status, "--train_batch_size must be a whole number, but is 'many'" in err) == (2, True)
    search_settings.save(params)
    status, _, err = run(capsys, "--search_dir", tmp_path / "new")
    assert (status, "has the weights of a checkpoint, but there is none in" in err) == (2, True)
    nas_searches.save_checkpoint(tmp_path / "new")
    status, _, err = run(capsys, "--search_dir", tmp_path / "new", "--window", "0.1")
    assert (status, "--window is about cost, which did not count in the search" in err) == (2, True)


def test_the_output_must_be_writable(search, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    listed = write_lines(tmp_path / "networks.json", ACCURATE[:1])
    words = ["--search_dir", search, "--networks", listed, "--num_towers", 1]
    status, _, err = run(capsys, *words, "--output", tmp_path / "file" / "rank.json")
    assert (status, "--output must name a file that can be written, but" in err) == (2, True)
