"""Findings, i.e. changes that moving a codebase takes at one place; and rules, by importance."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """A kind of finding.

    Attributes:
        severity: "error" if the program stops or silently trains differently, "warning" if it may,
            "note" for information.
        title: A description of the kind, in a few words.
    """

    severity: str
    title: str


# In the order of the report: unreadable files, code that trains differently, code that stops.
RULES = {
    "python-2": Rule("error", "files of Python 2"),
    "unreadable": Rule("error", "what could not be read"),
    "keras-optimizer": Rule("error", "Keras optimizers that train nothing in a graph"),
    "contrib-none": Rule("error", "names of tf.contrib that nothing replaces exactly"),
    "contrib-package": Rule("warning", "names of tf.contrib that a package has"),
    "contrib-name": Rule("warning", "names of tf.contrib"),
    "star-import": Rule("warning", "imports that do not say what they import"),
    "removed-name": Rule("error", "names that newer TensorFlows do not have"),
    "tensorflow-1": Rule("error", "files that mean version 1 by `tensorflow`"),
    "version-2-behavior": Rule("error", "files that need version 2's behavior switched off"),
    "compat-install": Rule("error", "codebases that need `replicate.compat.install()`"),
    "session-loop": Rule("warning", "training loops without an Estimator"),
    "replicate-model-fn": Rule("note", "where `replicate_model_fn` goes"),
    "fused-batch-norm": Rule("note", "batch norm of each tower's own rows"),
    "cross-replica": Rule("note", "sums over the cores of a TPU, which mean towers"),
    "private-path": Rule("note", "imports of TensorFlow's own insides"),
    "notebook": Rule("note", "notebooks, which are not read"),
}
_ORDER = {name: place for place, name in enumerate(RULES)}


class Edit(NamedTuple):
    """A change of a file: `text` replaces the characters from `start` to `end`."""

    start: int
    end: int
    text: str


class Finding(NamedTuple):
    """A change that moving a codebase takes at one place.

    Attributes:
        path: Path of the file, a str, relative like the paths of the command line.
        line: Line from 1 on; 0 for the whole file.
        column: Column from 1 on; 0 for the whole file.
        rule: A key of `RULES`.
        name: The code at that place, in a few words.
        message: Advice on the change.
        replacement: The name to write instead; "" if the advice is not another name.
        edits: Tuple of `Edit`s that make the change; empty if it must be made by hand.
        needs: Facts on the whole codebase, separated by ", ". The finding is dropped unless all
            hold; facts that begin with "no " must not hold. None if there are none.
    """

    path: str
    line: int
    column: int
    rule: str
    name: str
    message: str
    replacement: str = ""
    edits: tuple[Edit, ...] = ()
    needs: str | None = None

    @property
    def severity(self) -> str:
        """The severity of its rule."""
        return RULES[self.rule].severity

    @property
    def key(self) -> tuple[int, str, int, int, str]:
        """Sort key: by importance of the rule, then by place."""
        return _ORDER[self.rule], self.path, self.line, self.column, self.name
