"""Trains networks alone, several times each, and measures them; a rerun goes on where it stopped.

Seconds are those of the processor, of all threads: other programs, and pauses, make no difference.
"""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any, Callable

from examples.nas_search.training import mobile_train_eval, train_settings
from examples.runs import settings_file


def train(
    directory: pathlib.Path, indices: str, num_trainings: int, seed: int = 0, **given: Any
) -> list[dict[str, Any]]:
    """Trains a network several times, in directories of its own.

    Args:
        directory: Where the directories of all networks are.
        indices: The choices of the network, separated by colons.
        num_trainings: How often it is trained.
        seed: Number that the first training depends on; others have the next ones.
        **given: Settings of `train_settings.resolve`.

    Returns:
        List of a dict for each training: `seconds`, the accuracies `validation` and `test`, in
        [0, 1], and `madds`, multiply-adds for one image.

    Raises:
        SettingsError: If it was trained there with other settings.
        KeyboardInterrupt: If training was stopped; it is saved.
    """
    runs = []
    for number in range(seed, seed + num_trainings):
        place = directory / indices.replace(":", "") / str(number)
        params = train_settings.resolve(
            indices=indices, checkpoint_dir=str(place), seed=number, **given
        )
        settings_file.check_same(params)  # also if it is at its end
        runs.append(_figures(params, place / "figures.json"))
    return runs


def _figures(params: dict[str, Any], record: pathlib.Path) -> dict[str, Any]:
    """Returns the figures of a training from its record; trains if there is none."""
    if not record.exists():
        figures = {"seconds": finish(mobile_train_eval.train, params)}
        for split in ("validation", "test"):
            metrics = mobile_train_eval.evaluate_network(params, split)
            figures.update({split: metrics["accuracy"], "madds": metrics["madds"]})
        settings_file.write_json(figures, str(record.parent), record.name)
    return json.loads(record.read_text())


def finish(run: Callable[[dict[str, Any]], bool], params: dict[str, Any]) -> float:
    """Runs to its end what may have been stopped before; returns the processor's seconds in all.

    Args:
        run: Function of `params` that begins or resumes it; returns whether it is at its end.
        params: Its settings; the time is kept in their `checkpoint_dir`.

    Raises:
        KeyboardInterrupt: If it was stopped again. The network found so far is no result.
    """
    record = pathlib.Path(params["checkpoint_dir"]) / "seconds.json"
    seconds, is_done = json.loads(record.read_text()) if record.exists() else (0.0, False)
    if not is_done:
        start = time.process_time()
        is_done = run(params)
        seconds += time.process_time() - start
        settings_file.write_json([seconds, is_done], str(record.parent), record.name)
    if not is_done:
        raise KeyboardInterrupt
    return seconds
