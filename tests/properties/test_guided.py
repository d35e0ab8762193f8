"""Every night, a search for files that do harm, guided by the code that they reach."""

import pytest

import programs
from properties.parsers import PARSERS


@pytest.mark.nightly
@pytest.mark.parametrize("name", PARSERS)
def test_no_file_that_is_found_does_harm(name, tmp_path):
    pytest.importorskip("atheris", reason="Atheris is for Python 3.11 and newer on Linux.")
    directory, runs = tmp_path / "all", PARSERS[name][-1]
    result = programs.run(
        *("-m", "tests.properties.guided", name, f"--runs={runs}", f"--directory={directory}")
    )
    print(result.stdout, result.stderr[-5_000:])  # With the seed, and the file that did harm.
    assert result.returncode == 0
    assert f"Done {runs} runs" in result.stderr
    assert {each.name for each in directory.iterdir()} == {"above", "corpus"}
    assert [each.name for each in (directory / "above").iterdir()] == ["directory"]
