"""The pages of the documentation: their blocks of code, and what runs them.

A *page* is README.md, CONTRIBUTING.md or a file of `docs/`. Its blocks are fenced at the left
margin, and name their language:

    python  runs. The blocks of a page run in order, and share their names. Pages but the README and
            the tutorial begin with what the README's first block defines and imports.
    sh      is looked at: targets of make, modules, their flags, files.
    json    is read.
    diff    is a step of a program: `moving/page_steps.py` makes it, and tests run what is made.
    text    is a drawing, or what something prints.

A comment of HTML, which no reader sees, may stand right before a block:

    <!-- in model_fn -->      the block is a part of a `model_fn`, from `loss` to `train_op`; it is
                              trained over two towers
    <!-- not run: reason -->  the block cannot run here

or be a block itself: `<!-- hidden`, lines of Python, `-->`. It prepares or checks what is shown.
"""

import ast
import re
import textwrap
from typing import NamedTuple

import programs

ROOT = programs.ROOT
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN_START = ("README.md", "docs/tutorial.md")
LANGUAGES = ("python", "sh", "json", "diff", "text")

_BLOCK = re.compile(
    r"^<!-- hidden\n(?P<hidden>.*?)^-->"
    r"|(?:^<!-- (?P<note>in model_fn|not run: [^\n]+) -->\n+)?"
    r"^```(?P<language>\w*)\n(?P<shown>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A block of a page.

    Attributes:
        language: One of `LANGUAGES`; hidden blocks are python.
        text: Its lines.
        line: The page's line before its first one.
        note: What the comment before it says, '' if there is none.
    """

    language: str
    text: str
    line: int
    note: str


def name_of(path):
    """Returns a page's path in the repository, a str."""
    return path.relative_to(ROOT).as_posix()


def blocks(text):
    """Returns the blocks of a page."""
    found = []
    for match in _BLOCK.finditer(text):
        kind = "hidden" if match["hidden"] is not None else "shown"
        language = "python" if kind == "hidden" else match["language"]
        line = text.count("\n", 0, match.start(kind))
        found.append(Block(language, match[kind], line, match["note"] or ""))
    return found


def definitions():
    """Returns the source of what the README's first block imports and defines."""
    first = blocks((ROOT / "README.md").read_text())[0]
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    found = [node for node in ast.parse(first.text).body if isinstance(node, kinds)]
    lines = first.text.splitlines()
    return "\n".join(line for node in found for line in lines[node.lineno - 1 : node.end_lineno])


def run(path):
    """Runs the blocks of a page, in order; returns the names that they made."""
    names = {"__name__": "page"}
    if name_of(path) not in OWN_START:
        exec(definitions(), names)
    for block in blocks(path.read_text()):
        if block.language == "python" and not block.note.startswith("not run"):
            # The lines of a traceback are the page's.
            code = compile("\n" * block.line + block.text, str(path), "exec")
            if block.note == "in model_fn":
                train(code, names)
            else:
                exec(code, names)
    return names


def train(code, names):
    """Trains what `code` makes of a loss, over two towers, on the README's rows."""
    import replicate
    from replicate import estimator

    start = {}
    exec(definitions() + _MODEL, start)

    def model_fn(features, labels, mode, params, config):
        loss = start["loss_of"](features, labels)
        own = {**names, "features": features, "labels": labels, "mode": mode, "loss": loss}
        own["hooks"] = ()
        own.update(params=params, config=config, variables=start["tf"].trainable_variables())
        exec(code, own)
        spec = estimator.EstimatorSpec(mode, loss=loss, train_op=own["train_op"])
        return spec._replace(training_hooks=tuple(own["hooks"]))

    devices = ["/cpu:0", "/cpu:1"]
    config = estimator.RunConfig(session_config=replicate.session_config(devices))
    model = estimator.Estimator(
        replicate.replicate_model_fn(model_fn, devices=devices), config=config, params={}
    )
    model.train(start["input_fn"], max_steps=2)
    assert model.get_variable_value("weights").any()  # They begin at zero.


_MODEL = textwrap.dedent(
    """

    def loss_of(features, labels):
        weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
        return tf.losses.mean_squared_error(labels, features["x"] @ weights)
    """
)
