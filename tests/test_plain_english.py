"""Documentation, docstrings, comments and messages are in plain English; see `plain_english.py`."""

import re

import pytest

import pages
import plain_english

FOLDERS = ("replicate", "benchmarks", "examples", "tools", "docs")
FILES = [
    *[pages.ROOT / name for name in ("README.md", "CONTRIBUTING.md")],
    *plain_english.files([str(pages.ROOT / folder) for folder in FOLDERS]),
]


@pytest.mark.parametrize("folder", ["README.md", "CONTRIBUTING.md", *FOLDERS])
def test_nothing_is_said_as_it_should_not_be(folder):
    found = [
        f"{pages.name_of(path)}:{line}: {pattern.name}: {pattern.advice}"
        for path in FILES
        if pages.name_of(path).split("/")[0] == folder
        for line, pattern in plain_english.findings(path)
    ]
    assert found == []


# These have bad sentences on purpose.
EXEMPT = ("plain_english.py", "test_plain_english.py")
TESTS = [
    path
    for path in plain_english.files([str(pages.ROOT / "tests")])
    if path.relative_to(pages.ROOT / "tests").as_posix() not in EXEMPT
]


def test_tests_are_in_plain_english_too():
    found = [
        f"{pages.name_of(path)}:{line}: {pattern.name}: {pattern.advice}"
        for path in TESTS
        for line, pattern in plain_english.findings(path)
    ]
    assert found == []


def test_all_sources_are_read():
    """As many as when this was written, or more."""
    kinds = [path.suffix for path in FILES]
    assert kinds.count(".md") >= 30 and kinds.count(".py") >= 500
    assert len(TESTS) >= 400


@pytest.mark.parametrize("page", [page for page in pages.PAGES if page.name != "README.md"])
def test_a_page_says_at_its_top_whom_it_is_for(page):
    heading, blank, readers, *_ = page.read_text(encoding="utf-8").splitlines()
    assert heading.startswith("# ") and not blank
    assert re.fullmatch(r"\*For .+\.\*", readers), readers
    assert len(readers) <= 120


# Each pattern finds what it should, and no more.

BAD = [
    "What no row enters is updated once.",
    "It is exact. What needs all rows runs once.",
    "It takes time. Of all operations, these are slow.",
    "It finds out what is dead where an operation is waited for.",
    "They are values of which nothing is known.",
    "So what leads to it is whole.",
    "A list is taken for a batch.",
    "An Estimator takes losses for means.",
    "The chief saves, and writes summaries besides.",
    "Besides weights, it saves slots.",
    "They are all told whoever reads.",
    "This is the heart of the library.",
    "A room imports those below it.",
    "A gradient is of the whole batch.",
    "A warning says so.",
    "The model knows nothing of towers.",
    "Nothing of the library imports it.",
    "A report tells of the model.",
    "All but for the last are equal.",
    "The graph is built anew.",
    "The Estimator stands on Keras 2.",
    "Each tower goes round for itself.",
]
GOOD = [
    "What does it cost?",
    "What if there is no GPU? Nothing is different.",
    "Is what is saved the same? It is.",
    "Of course, towers add in another order.",
    "It is one of the operations of which a step has many.",
    "Gradients must be of one type, and images of shape [n, 8, 8].",
    "The time is taken for all of them.",
    "It takes three minutes for 100 steps.",
    "There is room for more.",
    "Everything but the last row is equal.",
    "It says why, and how to fix it.",
    "Updates that do not depend on the batch run once.",
]


def found_in(sentence, **kwargs):
    text = plain_english.Text(plain_english.words_of(sentence, 1), **kwargs)
    return [pattern for _, pattern in plain_english.findings_in(text)]


@pytest.mark.parametrize("sentence", BAD)
def test_bad_sentences_are_found(sentence):
    assert found_in(sentence)
    assert found_in(sentence.replace(" ", "\n    "))


@pytest.mark.parametrize("sentence", GOOD)
def test_good_sentences_pass(sentence):
    assert found_in(sentence) == []


def test_every_pattern_finds_a_bad_sentence():
    found = {pattern for sentence in BAD for pattern in found_in(sentence)}
    assert found == {*plain_english.PATTERNS}
    for pattern in (*found, plain_english.DOCSTRING):
        assert pattern.advice


@pytest.mark.parametrize("word", ["What", "Which", "Whose", "Whoever", "Of"])
def test_docstrings_do_not_begin_with(word):
    sentence = f"{word} towers write."
    assert found_in(sentence, is_docstring=True) == [plain_english.DOCSTRING]
    assert plain_english.DOCSTRING not in found_in(sentence)


SOURCE = '''"""What is here."""

# A comment, in two
# lines, says so.
x = "built anew"


def f():
    """Returns one.

    What no row enters is left out.
    """
    raise ValueError(
        f"The graph {x} is "
        "built anew, it seems."
    )
'''


def test_docstrings_comments_and_messages_are_read(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    found = {(line, pattern.name.split(",")[0]) for line, pattern in plain_english.findings(path)}
    # A string of two words is no message. The line of a message is its first one.
    assert sorted(dict(found)) == [1, 4, 11, 14]
    assert (1, "docstring starts with 'What'") in found
    assert (4, "'says so'") in found and (14, "'anew'") in found


PAGE = """# What is compared, and how

The log
says so.

| what is here | is |
| --- | --- |
| a log | says so |

```text
The log says so.
```

- It is **built** anew.
- What is it?
<!-- The log says so. -->
"""


def test_pages_are_read_without_their_blocks(tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    assert plain_english.main([str(tmp_path)]) == 1
    first, in_cell, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}:4: 'says so': say who says what: ")
    assert in_cell.startswith(f"{path}:8: 'says so'")
    assert last.startswith(f"{path}:14: 'anew': say 'again'")
    path.write_text("Nothing is wrong here.\n")
    assert plain_english.main([str(tmp_path)]) == 0
