"""The hook that refuses long subjects of commits."""

import pytest

import programs
from tools import commit_subject

LONG = "x" * (commit_subject.LONGEST + 1)


@pytest.mark.parametrize(
    "message",
    [
        "x" * commit_subject.LONGEST,
        "é" * commit_subject.LONGEST,
        f"Short\n\n{LONG}",
        f"# {LONG}\n\nShort\n",
        f"fixup! fixup! {LONG[1:]}",
        "",
    ],
)
def test_short_subjects_pass(message):
    assert commit_subject.check(message) is None


@pytest.mark.parametrize("message", [LONG, f"\n# A comment\n{LONG}\nmore", f"squash! {LONG}"])
def test_long_subjects_are_refused(message):
    fault = commit_subject.check(message)
    assert f"must have at most 72 characters, but has 73:\n  {LONG}\nShorten it" in fault


@pytest.mark.parametrize(("subject", "status"), [("Short", 0), (LONG, 1)])
def test_the_program_reads_the_file_that_git_names(subject, status, tmp_path):
    path = tmp_path / "COMMIT_EDITMSG"
    path.write_text(f"{subject}\n")
    done = programs.run("tools/commit_subject.py", str(path))
    assert done.returncode == status
    assert done.stdout == ""
    assert ("Shorten it" in done.stderr) == bool(status)
