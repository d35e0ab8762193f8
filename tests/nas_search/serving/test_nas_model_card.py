"""Model cards of exports: they tell what files of the training tell, and their programs run."""

import html
import json
import re
import shutil

import markdown as markdown_lib
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from scipy import stats

import programs
import record_sets
import replicate
from examples.nas_search.commands import PROGRAM
from examples.nas_search.search import run_facts
from examples.nas_search.serving import card_facts, card_program, markdown, model_card
from examples.nas_search.training import mobile_train_eval, train_settings
from examples.runs import settings_file
from examples.runs.flags import SettingsError
from nas_search import nas_searches

SMALL = "0:0:0:0:0:1:0:0:0:0:0:1:0:0"  # the smallest network of digits_search
NASTY = ("# a|b", "`c`", "![d](x)", "<script>e", "f\\", "*g* _h_", "``i", "| --- |", "- j\nk", " l")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Directory with a search, the network found, trained, measured and exported, and the card."""
    root = tmp_path_factory.mktemp("digits")
    data = {"dataset": "digits", "validation_fraction": 0.2, "test_fraction": 0.2, "seed": 7}
    data.update(skip_delay_steps=4, start_at_target=True)
    with tf.Graph().as_default():
        search = nas_searches.write_search(root / "search", **data)
    (search / "run_facts.json").write_text(
        json.dumps({"machines": [{"device_model": "Abacus 1", "tensorflow": "2.15.0"}]})
    )
    small = ["--max_global_step=2", "--train_batch_size=8", "--num_towers=1"]
    with tf.Graph().as_default():
        run("train", f"--search_dir={search}", f"--checkpoint_dir={root / 'alone'}", *small)
        run("evaluate", f"--checkpoint_dir={root / 'alone'}", "--split=test")
        run("export", f"--checkpoint_dir={root / 'alone'}", f"--export_dir={root / 'exported'}")
    return root


def run(*command):
    assert PROGRAM.main([*map(str, command)]) == 0


def text_of(directory):
    return (directory / "README.md").read_text()


def test_a_card_tells_what_the_network_is(digits):
    text = text_of(digits / "exported")
    indices = ":".join(map(str, nas_searches.INDICES))
    record = json.loads((digits / "exported" / "network.json").read_text())
    assert f"for 10 classes: indices `{indices}` of the space `digits_search`." in text
    assert f"- {record['madds']:,} multiply-adds for an image, {record['params']:,} weights" in text
    assert "- Classes, from number 0: `0`, `1`, `2`," in text
    assert "8×8×1 pixels and channels, with values from 0 to 16." in text
    assert re.search(r"```text\nblock 0, width 4\n  convolution 3×3, batch norm +8×8×4 ", text)
    assert len(text.splitlines()) < 120  # a page


def test_a_card_tells_how_the_network_was_found(digits):
    text = text_of(digits / "exported")
    assert f"that the search in `{digits / 'search'}` found: the most probable one after" in text
    assert "- Target: 0.5 `million MAdds`; the network found was estimated at 0.0" in text
    settings = "`seed 7`, `rl_delay_steps 10`, `skip_delay_steps 4`, `start_at_target True`."
    assert settings in text
    assert "- Searched with `Abacus 1`, TensorFlow `2.15.0`." in text


def test_a_card_tells_how_good_the_network_is(digits):
    text = text_of(digits / "exported")
    for part in ("validation", "test"):
        name = {"validation": "metrics.json", "test": "metrics_test.json"}[part]
        metrics = json.loads((digits / "alone" / name).read_text())
        hits = round(metrics["accuracy"] * metrics["num_images"])
        interval = stats.binomtest(hits, metrics["num_images"]).proportion_ci(method="wilson")
        low, high = (f"{end:.2%}" for end in interval)
        row = f"| {part} | {metrics['accuracy']:.2%} | {low} to {high} | {metrics['num_images']} |"
        assert row in text
    assert "| test | 321 | measuring |" in text
    assert "| validation | 357 | rewards of the search, measuring |" in text
    assert "Accuracy there is too high an estimate" in text


def test_a_card_tells_where_the_network_was_trained(digits):
    text = text_of(digits / "exported")
    assert f"TensorFlow `{tf.__version__}`" in text
    assert f"replicate `{replicate.__version__}`" in text
    assert "on `/device:CPU:0`" in text
    assert (
        "- Settings: `seed 0`, `max_global_step 2`, `train_batch_size 8`, `num_towers 1`," in text
    )


def test_metrics_that_cannot_be_written_are_printed_all_the_same(digits, monkeypatch, capsys):
    def refuse(*args):
        raise SettingsError("read-only.")

    monkeypatch.setattr(settings_file, "write_json", refuse)
    run("evaluate", f"--checkpoint_dir={digits / 'alone'}", "--split=test")
    captured = capsys.readouterr()
    assert json.loads(captured.out)["split"] == "test"
    assert "No metrics_test.json, for the model card of an export: read-only." in captured.err


def program_of(text):
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return program


def test_the_program_of_a_card_classifies_arrays(digits, tmp_path):
    (tmp_path / "classify.py").write_text(program_of(text_of(digits / "exported")))
    np.save(tmp_path / "images.npy", np.full([3, 8, 8, 1], 5.0))
    result = programs.run("classify.py", digits / "exported", "images.npy", root=tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"(?:\d [\d.]+%\n){3}", result.stdout)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Directory of an export of a network for images in folders."""
    root = tmp_path_factory.mktemp("photos")
    for number, file in enumerate(record_sets.encode(record_sets.pictures(24, 16))):
        path = root / "images" / ("a|b", "c`d")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)
    given = {"ssd": "digits_search", "indices": SMALL, "dataset": "image_folder", "num_towers": 1}
    given.update(dataset_dir=str(root / "images"), max_global_step=1, train_batch_size=4)
    given.update(validation_fraction=0.4, checkpoint_dir=str(root / "alone"))
    with tf.Graph().as_default():
        mobile_train_eval.train(train_settings.resolve(**given))
        run("export", f"--checkpoint_dir={root / 'alone'}", f"--export_dir={root / 'exported'}")
    return root


def test_the_program_of_a_card_classifies_files(photos, tmp_path):
    text = text_of(photos / "exported")
    (tmp_path / "classify.py").write_text(program_of(text))
    file = next((photos / "images" / "a|b").iterdir())
    result = programs.run("classify.py", photos / "exported", file, file, root=tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"((?:a\|b|c`d) [\d.]+%\n)\1", result.stdout)


def test_what_was_not_measured_is_said(photos):
    text = text_of(photos / "exported")
    assert "| validation | not measured |  |  |" in text
    assert "| test | not measured |  |  |" in text
    assert "- It was not measured on test images: `evaluate --split test` does it." in text
    assert "It was named by the user. It is not known whether a search found it." in text
    sizes = run_facts.read(str(photos / "alone"))["images"]
    assert sum(sizes.values()) == 24
    assert f"| validation | {sizes['validation']} | measuring |" in text


def test_metrics_of_another_checkpoint_are_not_measured(digits, tmp_path):
    facts = older(digits, tmp_path, "metrics_test.json", lambda metrics: {"global_step": 1})
    assert facts.measured["test"] is None and facts.measured["validation"] is not None


def older(digits, tmp_path, name, changes):
    """Returns facts of a training in which a JSON file has changes, or with None is not there."""
    directory = tmp_path / "alone"
    shutil.copytree(digits / "alone", directory)
    value = json.loads((directory / name).read_text())
    (directory / name).unlink()
    if changes:
        (directory / name).write_text(json.dumps({**value, **changes(value)}))
    params = train_settings.resolve_evaluation(checkpoint_dir=str(directory), num_towers=1)
    return card_facts.gather(params, json.loads((digits / "exported/network.json").read_text()))


def test_a_run_of_an_older_version_has_a_card_without_what_it_lacks(digits, tmp_path):
    text = model_card.card(older(digits, tmp_path, run_facts.NAME, None))
    assert f"The user named the search in `{digits / 'search'}`. More of it is not known." in text
    assert "Images by part" not in text and "Trained with" not in text and "Target" not in text
    assert "| test | " in text and "Accuracy there is too high" not in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"images": {"train": "many"}, "machines": "none", "search": 3},
        {"images": [1], "machines": [{"os": 1}, 2], "search": {"settings": {}, "costs": []}},
    ],
)
def test_facts_that_are_none_are_left_out(digits, tmp_path, wrong):
    facts = older(digits, tmp_path, run_facts.NAME, lambda facts: wrong)
    assert (facts.images, facts.machines, facts.search) == ({}, [], None)
    assert "## Limits" in model_card.card(facts)


def test_another_network_than_the_search_found_is_told_apart(digits, tmp_path):
    facts = older(digits, tmp_path, run_facts.NAME, lambda facts: {})
    text = model_card.card(facts._replace(record={**facts.record, "indices": SMALL}))
    found = ":".join(map(str, nas_searches.INDICES))
    assert f"found after step 20, which is `{found}`." in text


@pytest.mark.parametrize(
    ("strategy", "method", "best"),
    [
        ("reinforce", "- Method: a REINFORCE controller", "the most probable one after"),
        ("random", "- Method: random networks", "the one with most reward after"),
        ("evolution", "- Method: ageing evolution", "the one with most reward after"),
        ("of another program", None, "the one with most reward after"),
    ],
)
def test_a_card_tells_the_strategy(strategy, method, best, digits, tmp_path):
    facts = older(digits, tmp_path, run_facts.NAME, lambda facts: facts)
    settings = {**facts.search["settings"], "strategy": strategy}
    text = model_card.card(facts._replace(search={**facts.search, "settings": settings}))
    assert method in text if method else "- Method" not in text
    assert best in text


def test_texts_from_outside_do_not_break_the_page(digits, tmp_path):
    facts = older(digits, tmp_path, run_facts.NAME, lambda facts: {})
    params = {**facts.params, "dataset_dir": "# | `x`\n\n<b>", "search_dir": NASTY[3]}
    record = {**facts.record, "class_names": list(NASTY), "ssd": NASTY[1]}
    plain, nasty = (
        markdown_lib.markdown(model_card.card(each), extensions=["tables", "fenced_code"])
        for each in (facts, facts._replace(params=params, record=record))
    )
    for tag in ("h1", "h2", "li", "tr", "td", "pre", "p"):
        assert nasty.count(f"<{tag}>") == plain.count(f"<{tag}>"), tag
    assert not re.search("<script|<img|<b>|<em>", nasty)
    shown = list(map(html.unescape, re.findall("<code>(.*?)</code>", nasty)))
    for name in NASTY:
        assert name.replace("\n", "?").strip() in map(str.strip, shown)


def test_of_many_classes_some_are_named(digits, tmp_path):
    facts = older(digits, tmp_path, run_facts.NAME, lambda facts: {})
    names = [f"class{number}" for number in range(1000)]
    text = model_card.card(facts._replace(record={**facts.record, "class_names": names}))
    assert "`class29` and 970 more, see `network.json`." in text and "class30" not in text


def test_code_is_never_empty_nor_long():
    assert markdown.code("") == '`""`'
    assert markdown.code("x" * 200) == f"`{'x' * 97}...`"
    assert markdown.block("text", ["````"]) == ["`````text", "````", "`````"]


def test_without_names_the_program_prints_numbers():
    assert "names[number] if names else number" in card_program.program({"signatures": []})


def test_a_run_that_goes_on_elsewhere_has_both_machines(tmp_path, monkeypatch):
    params = {"checkpoint_dir": str(tmp_path), "devices": ["/device:CPU:0"], "use_tpu": False}
    run_facts.save(params, {"train": 1}, start=0)
    run_facts.save(params, {"train": 1}, start=5)
    assert len(run_facts.read(str(tmp_path))["machines"]) == 1
    monkeypatch.setattr(replicate, "__version__", "9")
    run_facts.save({**params, "devices": [], "use_tpu": True, "tpu": "mine"}, {"train": 1}, start=9)
    _, second = run_facts.machines_of(run_facts.read(str(tmp_path)))
    assert (second["device_model"], second["devices"], second["replicate"]) == ("TPU", "mine", "9")
    run_facts.save(params, {"train": 1}, start=0)  # another run
    assert len(run_facts.read(str(tmp_path))["machines"]) == 1
