"""The two tutorials run as a reader runs them: their code and commands, in the order of the page.

Searches and trainings end after a few steps.
"""

import re
import shlex
import sys

import pytest
import tensorflow.compat.v1 as tf

import pages
import programs
from examples.nas_search.commands import PROGRAM

# Flags that make a command short. They come last, so they win.
SHORT = {
    "search": ["--max_global_step=2", "--train_batch_size=8", "--num_towers=1"],
    "train": ["--max_global_step=2", "--train_batch_size=8", "--num_towers=1"],
}


@pytest.fixture
def fresh_graph():
    """Instead of the one of `conftest.py`: pages run as programs do, without a graph."""
    yield


@pytest.fixture
def run_page(tmp_path, monkeypatch, capsys):
    """Returns a function that runs a page of `docs/` in a new directory; it returns the output."""
    monkeypatch.chdir(tmp_path)

    def run(name):
        names = {}
        for block in pages.blocks((pages.ROOT / "docs" / name).read_text()):
            if block.language == "python":
                exec(compile("\n" * block.line + block.text, name, "exec"), names)
            elif block.language == "sh":
                for line in block.text.replace("\\\n", " ").splitlines():
                    run_line(shlex.split(line))
        return capsys.readouterr().out

    def run_line(words):
        if words[:3] == ["python", "-m", "examples.nas_search"]:
            with tf.Graph().as_default():
                status = PROGRAM.main([*words[3:], *SHORT.get(words[3], [])])
            assert status == 0, capsys.readouterr().err
        else:
            assert words[:2] == ["python", "classify.py"], words
            classify(words[2:])

    def classify(words):
        card = (tmp_path / "runs" / "exported" / "README.md").read_text()
        (program,) = re.findall(r"^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)
        (tmp_path / "classify.py").write_text(program)
        result = programs.run("classify.py", *words, root=tmp_path)
        assert result.returncode == 0, result.stderr
        sys.stdout.write(f"classified:\n{result.stdout}")

    return run


def test_from_a_folder_of_images_to_classes_of_files(run_page, tmp_path):
    out = run_page("search_your_images.md")
    assert re.search(r"classified:\n(?:(?:disc|square|stripes) [\d.]+%\n){2}$", out)
    card = (tmp_path / "runs" / "exported" / "README.md").read_text()
    shown = (pages.ROOT / "docs" / "search_your_images.md").read_text()
    # The card on the page has the lines of a card, and other figures.
    lines = re.findall(r"^\| (?:part|---|validation|test) .*\|$", shown, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        assert re.sub(r"[\d.,]+", "0", line) in re.sub(r"[\d.,]+", "0", card)


def test_a_space_of_ones_own_is_searched_and_trained(run_page, tmp_path):
    out = run_page("define_a_space.md")
    assert "3,888 networks" in out
    assert out.count('"indices": ') == 5 + 2  # drawn, and of the metrics of two commands
    assert (tmp_path / "runs" / "mine" / "space.json").exists()
    assert re.search(r"^classifier +1×1×10 ", out, re.MULTILINE)
