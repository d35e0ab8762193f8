"""The commands of the README run from searching to sampling, on small copies of their data."""

import json

import pytest
import tensorflow_datasets as tfds

import command_lines
import record_sets
from examples.nas_search.commands import PROGRAM
from examples.nas_search.search import search_settings

README = "examples/nas_search/README.md"
SIDE = 72  # of photographs, which no data set keeps as they are
SHOWN = [words for name, words in command_lines.of_pages() if name == README]
# A word that tells the search of the README on a kind of data or devices.
KINDS = {
    "devices": "--devices",
    "tpu": "--tpu",
    "tfds": "tfds:imagenet2012",
    "folder": "image_folder",
    "tfrecords": "tfrecords",
}
# Small enough for a few images: a step, and parts that are none of them empty.
SMALL = ["--max_global_step=1", "--train_batch_size=4"]
SMALL_SEARCH = [*SMALL, "--rl_batch_size_multiplier=1", "--validation_fraction=0.4"]
# Of networks that take seconds to build and not a minute.
QUICK = ["--ssd=digits_search", "--image_size=16"]


def searches():
    """Returns the searches of the README on data that are not here, by kind."""
    found = {}
    for words in SHOWN:
        if words[:4] == ["python", "-m", "examples.nas_search", "search"]:
            kinds = [kind for kind, word in KINDS.items() if word in words]
            kind = "tpu" if "tpu" in kinds else (kinds or ["cifar10"])[0]
            if kinds or "cifar10" in words:
                found.setdefault(kind, []).append(words[3:])
    return found


def test_there_is_a_command_for_each_kind_of_data_and_devices():
    found = searches()
    assert set(found) == {*KINDS, "cifar10"}
    assert all(len(commands) == 1 for commands in found.values())


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Where the data of a kind of search are, by its name."""
    root = tmp_path_factory.mktemp("data")
    small, photographs = (record_sets.pictures(24, side) for side in (32, SIDE))
    parts = {"train": small[:16], "test": small[16:]}
    record_sets.write_tfds(root / "tfds", "cifar10", parts)
    record_sets.write_tfds(
        root / "tfds",
        "imagenet2012",
        {"train": photographs[:16], "validation": photographs[16:]},
        num_classes=1000,
        image=tfds.features.Image(encoding_format="jpeg"),
    )
    files = record_sets.encode(photographs, "jpg")
    examples = [record_sets.example(file, 1 + i % 5) for i, file in enumerate(files)]
    record_sets.write_shards(root / "records", "train", examples[:16], (9, 7))
    record_sets.write_shards(root / "records", "validation", examples[16:], (8,))
    for i, file in enumerate(files):
        path = root / "folder" / ("train" if i < 16 else "test") / f"class{i % 2}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)
    kinds = {"folder": "folder", "tfrecords": "records"}
    return {kind: str(root / kinds.get(kind, "tfds")) for kind in [*KINDS, "cifar10"]}


def with_paths(words, **paths):
    """Returns a command with other values of its flags of paths, and CPUs in place of GPUs."""
    words = [word.replace("/gpu:", "/cpu:") for word in words]
    for flag, path in paths.items():
        words[words.index(f"--{flag}") + 1] = str(path)
    return words


def shown(command):
    """Returns the first command of a name that the README shows."""
    start = ["python", "-m", "examples.nas_search", command]
    return next(words[3:] for words in SHOWN if words[:4] == start and "--help" not in words)


@pytest.fixture
def search(folders, tmp_path):
    """Runs the search of a kind of data for a step; returns its directory."""

    def run_search(kind, *flags):
        paths = {"dataset_dir": folders[kind], "checkpoint_dir": tmp_path / "search"}
        (words,) = searches()[kind]
        assert PROGRAM.main([*with_paths(words, **paths), *SMALL_SEARCH, *flags]) == 0
        return tmp_path / "search"

    return run_search


def run_all_else(searched, capsys):
    """Runs the README's commands on the results of a search, and checks their output."""
    alone, exported = searched.parent / "alone", searched.parent / "exported"
    params = json.loads((searched / "params.json").read_text())
    run = PROGRAM.main
    assert run(with_paths(shown("analyze"), dirname=searched)) == 0
    assert (searched / "search.html").exists()
    train = with_paths(shown("train"), search_dir=searched, checkpoint_dir=alone)
    assert run([*train, *SMALL, "--num_towers=1"]) == 0
    capsys.readouterr()
    assert run(with_paths(shown("evaluate"), checkpoint_dir=alone)) == 0
    assert json.loads(capsys.readouterr().out)["num_images"] == 8
    assert run(with_paths(shown("export"), checkpoint_dir=alone, export_dir=exported)) == 0
    assert (exported / "model.tflite").exists()
    capsys.readouterr()
    assert run(with_paths(shown("sample"), search_dir=searched)) == 0
    (target,) = params["rl_cost_model_target"]
    drawn = json.loads(capsys.readouterr().out)
    assert [abs(network["cost"] / target - 1) < 0.011 for network in drawn] == [True] * 3


@pytest.mark.parametrize(
    "kind",
    # `test_nas_export.py` trains on a folder, `test_nas_tfrecords.py` on records.
    ["tfds", *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("folder", "tfrecords"))],
)
def test_a_search_begins_on_each_kind_of_data(kind, search):
    searched = search(kind, *QUICK, "--num_towers=1")
    assert json.loads((searched / "params.json").read_text())["image_shape"] == [16, 16, 3]
    assert (searched / "model.ckpt-1.index").exists()


def test_what_follows_a_search_of_cifar10_on_devices_runs_on_what_it_found(search, capsys):
    searched = search("devices", *QUICK)
    assert json.loads((searched / "params.json").read_text())["num_towers"] == 2
    run_all_else(searched, capsys)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["cifar10", "devices", "tfds", "folder", "tfrecords"])
def test_the_space_of_the_readme_is_searched_and_what_follows_runs(kind, search, capsys):
    run_all_else(search(kind), capsys)


@pytest.mark.slow
@pytest.mark.thorough
def test_a_published_network_is_trained_on_cifar10(folders, tmp_path):
    (words,) = [words[3:] for words in SHOWN if "cifar10_mobilenet_v2" in words]
    paths = {"dataset_dir": folders["cifar10"], "checkpoint_dir": tmp_path / "alone"}
    assert PROGRAM.main([*with_paths(words, **paths), *SMALL]) == 0


def test_a_search_on_a_tpu_has_settings(folders, tmp_path):
    (words,) = searches()["tpu"]
    paths = {"dataset_dir": folders["tpu"], "checkpoint_dir": tmp_path / "search"}
    command = ["python", "-m", "examples.nas_search", *with_paths(words, **paths), *SMALL_SEARCH]
    params = search_settings.resolve(**vars(command_lines.parse(command)))
    assert params["use_tpu"] and params["num_towers"] is None
    assert params["image_shape"] == [224, 224, 3] and params["num_classes"] == 1001
    assert (params["tpu"], params["gcp_project"]) == ("my-tpu", "my-project")
