"""`make search`, with fewer steps: the whole story, and what it leaves."""

import json
import logging

import pytest

from examples.nas_search import demo


@pytest.mark.slow
def test_the_story_runs_and_names_its_files(tmp_path, capsys, caplog):
    argv = ["--quick", "--num_random", "1", "--out", str(tmp_path)]
    assert demo.main(argv) == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    out = capsys.readouterr().out
    comparison = json.loads((tmp_path / "comparison.json").read_text())
    assert [row["network"] for row in comparison] == ["found", "random 1"]
    assert len({row["indices"] for row in comparison}) == 2
    for row in comparison:
        assert row["split"] == "test"
        assert row["num_images"] > 300  # all of the part that no training sees
        assert f"{row['accuracy']:.2%}" in out
        assert f"{row['madds']:,}" in out
    names = ("search/search.png", "search/search.html", "search/network.png", "comparison.json")
    for name in (*names, "search/choices.png", "search/params.json", "exported/network.json"):
        assert (tmp_path / name).stat().st_size > 0
    for name in (*names, "exported"):
        assert name.split("/")[-1] in out
