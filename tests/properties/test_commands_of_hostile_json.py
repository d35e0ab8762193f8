"""Whatever a file of JSON holds, a command that reads it says one line and ends with status 2."""

import json

import pytest

from examples.nas_search.commands import PROGRAM as NAS_SEARCH
from examples.revnet.commands import PROGRAM as REVNET
from nas_search import nas_searches
from selection import cell, on_diagonal

DEEP = b"[" * 100_000
# Of an object {"ssd": ...}, which is good until it is cut or changed.
CONTENTS = {
    "empty": lambda good: b"",
    "deep": lambda good: DEEP,
    "deep_inside": lambda good: good[:-1] + b', "more": ' + DEEP + b"]" * len(DEEP) + b"}",
    "list": lambda good: b"[]",
    "number": lambda good: b"3",
    "null": lambda good: b"null",
    "other_types": lambda good: json.dumps({key: [None] for key in json.loads(good)}).encode(),
    "not_a_number": lambda good: good[:-1] + b', "more": NaN}',
    "infinite": lambda good: good[:-1] + b', "more": 1e999}',
    "huge": lambda good: good[:-1] + b', "more": ' + b"9" * 5_000 + b"}",
    "no_text": lambda good: good[:-1] + b', "\xff": 1}',
    "half_a_pair": lambda good: good[:-1] + rb', "more": "\ud800"}',
    "cut": lambda good: good[: len(good) // 2],
}
SPACE_CONTENTS = {**CONTENTS, "other_types": lambda good: b'["oneof", ["choices", 3], ["tag", 4]]'}
# The program, its arguments and the hostile file. {} is the directory.
COMMANDS = {
    "resume": (NAS_SEARCH, "search --preset digits --checkpoint_dir {}", "params.json"),
    "cost_model": (
        NAS_SEARCH,
        "search --preset digits --checkpoint_dir {}/new --cost_model {}/cost.json",
        "cost.json",
    ),
    "analyze": (NAS_SEARCH, "analyze --dirname {}", "params.json"),
    "analyze_space": (NAS_SEARCH, "analyze --dirname {}", "model_spec.json"),
    "train": (NAS_SEARCH, "train --search_dir {} --checkpoint_dir {}/new", "params.json"),
    "train_space": (NAS_SEARCH, "train --search_dir {} --checkpoint_dir {}/new", "model_spec.json"),
    "evaluate": (NAS_SEARCH, "evaluate --checkpoint_dir {}", "params.json"),
    "export": (NAS_SEARCH, "export --checkpoint_dir {} --export_dir {}/new", "params.json"),
    "sample": (NAS_SEARCH, "sample --search_dir {}", "params.json"),
    "revnet_evaluate": (REVNET, "evaluate --checkpoint_dir {}", "params.json"),
    "revnet_export": (REVNET, "export --checkpoint_dir {} --export_dir {}/new", "params.json"),
}


@pytest.mark.parametrize(
    ("command", "contents"),
    [
        cell(command, contents, is_quick=on_diagonal(row, column, every=4))
        for row, command in enumerate(COMMANDS)
        for column, contents in enumerate(CONTENTS)
    ],
)
def test_a_command_says_one_line(command, contents, tmp_path, capsys):
    program, line, name = COMMANDS[command]
    directory = nas_searches.write_search(tmp_path / "run", image_size=32, dataset="digits")
    nas_searches.save_checkpoint(directory)
    path = directory / name
    good = path.read_bytes() if path.exists() else b'{"ssd": "digits_search", "format": 2}'
    make = (SPACE_CONTENTS if name == "model_spec.json" else CONTENTS)[contents]
    path.write_bytes(make(good))
    assert program.main(line.format(*[str(directory)] * 2).split()) == 2
    shown = capsys.readouterr()
    errors = [line for line in shown.err.splitlines() if "rror" in line]
    (error,) = errors
    assert error.startswith(f"python -m {program.package} {line.split()[0]}: error: ")
    if program is REVNET or "analyze" not in line:
        assert error.endswith((".", "]")), "it says the way out"
    assert len(error) < 3_000
    assert "Traceback" not in shown.err
    assert not (directory / "new").exists()
