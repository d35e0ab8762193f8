"""A finding: what moving a codebase takes at one place; and the rules, most important first."""

from typing import NamedTuple, Optional, Tuple


class Rule(NamedTuple):
    """What findings have in common.

    Attributes:
        severity: "error" if the program stops or silently trains otherwise, "warning" if it may,
            "note" if it is something to know.
        title: What is found, in a few words.
    """

    severity: str
    title: str


# In the order in which they are printed: what could not be read, what trains otherwise, what stops.
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
    """A change of a text: from character `start` to `end`, `text` instead."""

    start: int
    end: int
    text: str


class Finding(NamedTuple):
    """What moving a codebase takes at one place.

    Attributes:
        path: Of the file, a str as the command line leads to it.
        line: From 1 on; 0 if it is the whole file.
        column: From 1 on; 0 likewise.
        rule: A key of `RULES`.
        name: What is there, a few words of the source.
        message: What to do about it.
        replacement: What takes the name's place, "" if that is no name.
        edits: Tuple of `Edit`s that do it, empty if it is to be done by hand.
        needs: Facts of the whole codebase without which it is no finding, divided by ", "; those
            that begin with "no " must not hold. None if there are none.
    """

    path: str
    line: int
    column: int
    rule: str
    name: str
    message: str
    replacement: str = ""
    edits: Tuple[Edit, ...] = ()
    needs: Optional[str] = None

    @property
    def severity(self):
        """That of its rule."""
        return RULES[self.rule].severity

    @property
    def key(self):
        """Orders findings: the most important rule first, then by place."""
        return _ORDER[self.rule], self.path, self.line, self.column, self.name
