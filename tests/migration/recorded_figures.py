"""Figures that another TensorFlow computed, in a file: by name, a line each."""

import json


def read(path):
    """Returns what is in a file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(path, found):
    """Writes what was found, by name."""
    lines = [f"{json.dumps(name)}: {json.dumps(answers)}" for name, answers in found.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
