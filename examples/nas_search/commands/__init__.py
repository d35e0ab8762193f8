"""The commands of `python -m examples.nas_search`, one module each."""

from examples.runs.command_line import Program

PROGRAM = Program(
    "examples.nas_search",
    "Weight-sharing architecture search on towers.",
    {
        "search": "search for a network that is accurate at a given cost",
        "analyze": "tell what a search found, what it costs, and how sure the controller is",
        "rank": "order networks by their accuracy with the shared weights of a search",
        "finalists": "train the networks that a search puts first, and tell the best",
        "train": "train a network alone, and measure how accurate it is",
        "evaluate": "measure a network that was trained alone",
        "export": "make a SavedModel of a network that was trained alone",
        "fit-cost": "measure the latency of random networks here, and fit a cost model to it",
        "sample": "draw random networks in a window of cost",
        "front": "search at several costs, and compare the fronts of accuracy with random networks",
    },
)
