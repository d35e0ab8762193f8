"""Every night, a search for files that do harm, guided by the code that they reach."""

import sys

import pytest

import programs
from properties.parsers import PARSERS


@pytest.mark.nightly
@pytest.mark.skipif(
    sys.version_info < (3, 11) or sys.platform != "linux",
    reason="Atheris has no wheels for older Pythons, nor for other systems.",
)
@pytest.mark.parametrize("name", PARSERS)
def test_no_file_that_is_found_does_harm(name, tmp_path):
    directory, runs = tmp_path / "all", PARSERS[name][-1]
    result = programs.run(
        *("-m", "tests.properties.guided", name, f"--runs={runs}", f"--directory={directory}")
    )
    print(result.stdout, result.stderr[-5_000:])  # With the seed, and the file that did harm.
    assert result.returncode == 0
    assert f"Done {runs} runs" in result.stderr
    assert {each.name for each in directory.iterdir()} == {"above", "corpus"}
    assert [each.name for each in (directory / "above").iterdir()] == ["directory"]
