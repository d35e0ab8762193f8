"""The commands of `python -m examples.revnet`, one module each."""

from examples.runs.command_line import Program

PROGRAM = Program(
    "examples.revnet",
    "Reversible residual networks, which recompute their activations.",
    {
        "train": "train a network on one of five engines, and measure how accurate it is",
        "evaluate": "measure a network that was trained",
        "export": "make a SavedModel of a network that was trained",
        "memory": "show what recomputing activations saves in memory, and costs in time",
    },
)
