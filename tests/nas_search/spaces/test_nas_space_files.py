"""Spaces of one's own in files: they are searched, and what follows needs the files no more."""

import json

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import schema_io
from examples.nas_search.basic_specs import OP_TAG, ConvTowerSpec, block
from examples.nas_search.commands import PROGRAM
from examples.nas_search.costs import cost_model_io
from examples.nas_search.mobile_search_space_v3 import (
    RELU,
    ActivationSpec,
    ConvSpec,
    GlobalAveragePoolSpec,
    ResidualSpec,
    choose_filters,
)
from examples.nas_search.schema import OneOf
from examples.nas_search.search import search_settings
from examples.nas_search.spaces import search_spaces, space_files
from examples.nas_search.training import train_settings
from examples.runs.flags import SettingsError

SMALL = ["--num_towers=1", "--max_global_step=1", "--train_batch_size=8"]


def space(kernels=(1, 3), strides=2, activation=RELU):
    """Returns a space of four networks for small images."""
    first = [ConvSpec(OneOf(list(kernels), OP_TAG), strides), ActivationSpec(activation)]
    second = [ConvSpec(1, 1), GlobalAveragePoolSpec()]
    return ConvTowerSpec([block(first, choose_filters([4, 8])), block(second, 8)], 4)


def write(path, **changes):
    """Writes a space; returns the path of its file, a str."""
    schema_io.save(space(**changes), str(path.parent), path.name)
    return str(path)


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "mine.json")


@pytest.fixture
def forget(monkeypatch):
    """Returns a function that lets this process be as a new one: it has read no space."""
    return lambda: monkeypatch.setattr(space_files, "_read", {})


def run(*words):
    return PROGRAM.main([*map(str, words)])


def test_a_file_is_a_space(file):
    assert search_spaces.get_search_space_spec(file) == space()
    identity = space_files.read(file)
    assert search_spaces.get_search_space_spec(identity) == space()


def test_a_space_is_known_by_its_content(file, tmp_path):
    identity = space_files.read(file)
    content = json.loads((tmp_path / "mine.json").read_text())
    (tmp_path / "copy.json").write_text(json.dumps(content))
    assert space_files.read(str(tmp_path / "copy.json")) == identity
    assert space_files.read(write(tmp_path / "other.json", kernels=(3, 5))) != identity


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"by `schema_io.save`, but '.*mine.json' cannot be used: .*No such file"),
        ("{", r"cannot be used: A text must be JSON, but '{' is not"),
        ('["list", 3]', r"cannot be used: A space is a ConvTowerSpec of blocks, but is \[3\]"),
        ('["namedtuple:os.system", ["x", 1]]', r"must have a registered class, but reads"),
    ],
)
@pytest.mark.parametrize("resolve", [search_settings.resolve, train_settings.resolve])
def test_a_file_without_a_space_is_refused(tmp_path, text, message, resolve):
    path = tmp_path / "mine.json"
    if text:
        path.write_text(text)
    with pytest.raises(SettingsError, match=message):
        resolve(ssd=str(path), checkpoint_dir=str(tmp_path / "run"))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([ResidualSpec(ConvSpec(3, 2))], r"strides \(1, 1\), but has \(2, 2\)"),
        ([ActivationSpec("none")], r"none"),
        ([3], r"\[8, 8, 1\] and 10 classes, but they cannot: "),
    ],
)
def test_networks_that_cannot_be_built_are_refused(tmp_path, layers, message):
    spec = ConvTowerSpec([block(layers, 4)], 4)
    schema_io.save(spec, str(tmp_path), "mine.json")
    with pytest.raises(SettingsError, match=message) as caught:
        search_settings.resolve(ssd=str(tmp_path / "mine.json"), checkpoint_dir=str(tmp_path / "r"))
    assert "--ssd must be a space whose networks can be built for images of" in str(caught.value)


def test_a_space_that_was_not_read_is_unknown():
    with pytest.raises(ValueError, match=r"'space:0' was not\. Pass the file that it is in"):
        search_spaces.get_search_space_spec("space:0")


@pytest.fixture
def searched(file, tmp_path):
    """Directory of a search of a step in the space of `file`."""
    assert run("search", f"--ssd={file}", f"--checkpoint_dir={tmp_path / 'search'}", *SMALL) == 0
    return tmp_path / "search"


def test_all_that_follows_a_search_needs_its_directory_alone(
    searched, file, tmp_path, forget, capsys
):
    params = json.loads((searched / "params.json").read_text())
    assert (params["ssd"], params["ssd_file"]) == (space_files.read(file), file)
    assert (params["image_shape"], params["num_classes"]) == ([8, 8, 1], 10)
    moved = searched.rename(tmp_path / "moved")
    (tmp_path / "mine.json").unlink()
    alone, exported = tmp_path / "alone", tmp_path / "exported"
    for words in (
        ["search", f"--ssd={file}", f"--checkpoint_dir={moved}", *SMALL],  # at its end
        ["analyze", f"--dirname={moved}", "--noplot"],
        ["sample", f"--search_dir={moved}", "--min_cost=0", "--max_cost=1"],
        ["train", f"--search_dir={moved}", f"--checkpoint_dir={alone}", *SMALL],
        ["evaluate", f"--checkpoint_dir={alone}"],
        ["export", f"--checkpoint_dir={alone}", f"--export_dir={exported}"],
    ):
        forget()
        with tf.Graph().as_default():
            assert run(*words) == 0, capsys.readouterr().err
    assert f"of the space `{params['ssd']}`." in (exported / "README.md").read_text()


def test_a_changed_file_is_another_space(searched, file, tmp_path, capsys):
    write(tmp_path / "mine.json", kernels=(3, 5))
    flags = [f"--checkpoint_dir={searched}", *SMALL]
    assert run("search", f"--ssd={file}", *flags) == 2
    err = capsys.readouterr().err
    assert f"--ssd must be the space that the run in {searched} began with, but {file} was" in err
    assert run("search", f"--ssd={searched / 'space.json'}", *flags) == 0
    assert run("train", f"--search_dir={searched}", f"--ssd={file}", "--checkpoint_dir=x") == 2
    assert "--ssd must be that of the search, but is 'space:" in capsys.readouterr().err


def test_a_changed_copy_is_refused(searched, capsys):
    write(searched / "space.json", kernels=(3, 5))
    assert run("analyze", f"--dirname={searched}") == 2
    assert "space.json must be the space of the run, space:" in capsys.readouterr().err


def test_a_network_of_a_file_is_trained_and_resumed_without_it(file, tmp_path, forget):
    given = [f"--ssd={file}", "--indices=1:1:0", f"--checkpoint_dir={tmp_path / 'alone'}"]
    assert run("train", *given, *SMALL) == 0
    (tmp_path / "mine.json").unlink()
    forget()
    assert run("train", *given, *SMALL, "--max_global_step=2") == 0


def test_a_cost_is_fitted_to_a_file_and_used_for_the_same_space(file, tmp_path, forget, capsys):
    cost = tmp_path / "cost.json"
    fit = ["--objective=params", f"--output={cost}", "--num_networks=2000", "--num_held_out=2"]
    assert run("fit-cost", f"--ssd={file}", *fit) == 0
    assert f"--ssd {file} --cost_model {cost}" in capsys.readouterr().out
    model = cost_model_io.from_json(cost.read_text())
    assert (model.input_shape, model.num_classes) == ((8, 8, 1), 10)  # of the preset
    with pytest.raises(
        ValueError, match=r"is for 'space:.*', a space of another file than the one"
    ):
        forget()
        cost_model_io.from_json(cost.read_text())
    given = {"cost_model": [str(cost)], "checkpoint_dir": str(tmp_path / "run")}
    assert search_settings.resolve(ssd=file, **given)["cost_model_files"] == [str(cost)]
    with pytest.raises(SettingsError, match="--cost_model must be for the space and the images"):
        search_settings.resolve(ssd=write(tmp_path / "b.json", kernels=(5, 7)), **given)


def test_networks_of_a_file_are_drawn_for_images_that_are_told(file, capsys):
    assert run("sample", f"--ssd={file}") == 2
    assert "pass --image_shape HEIGHT WIDTH CHANNELS and --num_classes" in capsys.readouterr().err
    given = ["sample", f"--ssd={file}", "--min_cost=0", "--max_cost=1", "--num_classes=3"]
    assert run(*given, "--image_shape", "8", "8") == 2
    assert "must be height, width and channels, but is 8 8." in capsys.readouterr().err
    assert run(*given, "--image_shape", "8", "8", "3") == 0
    (drawn,) = json.loads(capsys.readouterr().out)
    kernel, width, _ = map(int, drawn["indices"].split(":"))
    size, channels = (1, 3)[kernel], (4, 8)[width]
    madds = 16 * channels * (size * size * 3 + 8) + 8 * 3
    assert drawn["cost"] == pytest.approx(madds / 1e6, rel=1e-6)
    assert run(*given, "--search_dir=x") == 2
    assert "The search tells images and classes: leave out" in capsys.readouterr().err
