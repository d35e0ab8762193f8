"""The runs of `python -m replicate bench`, and their figures so far."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from replicate.bench import engines, harness, losses, plan, rows
from replicate.bench.progress import Progress


class Session:
    """Runs the planned runs, and keeps their figures even if one fails.

    Attributes:
        sentences: List of remarks below the table.
    """

    def __init__(
        self,
        ways: Mapping[str, Sequence[plan.Way]],
        args: Any,
        progress: Progress,
        context: Mapping[str, Any],
    ) -> None:
        """Makes a session.

        Args:
            ways: Dict of the list of `plan.Way`s by model, first the one on one device.
            args: The command line's arguments.
            progress: The `progress.Progress` to update.
            context: Dict of entries to add to every record.
        """
        self._ways, self._args, self._progress, self._context = ways, args, progress, context
        self._records: dict[tuple[str, plan.Way], dict[str, Any]] = {}
        self._kept: set[tuple[str, plan.Way]] = set()
        self.sentences: list[str] = []

    def train(self, model: str) -> None:
        """Runs all ways to train a model, writes their figures, and compares losses.

        Raises:
            RuntimeError: If a process fails, or engines have different losses.
            OSError: If the file of records cannot be written.
        """
        alone = self._ways[model][0]
        rounds: list[dict[Any, Any]] = [{} for _ in range(self._args.rounds)]
        for run in plan.runs(model, self._ways[model], self._args):
            self._progress.begin()
            result = self._measured(run)
            self._progress.end()
            rounds[(run.round or 1) - 1][run.way] = result
            if run.round is None:
                continue
            record = rows.record(model, run.way, alone, rounds[: run.round])
            self._records[model, run.way] = {**record, **self._context}
            self._progress.say(rows.line(record, self._args.rounds))
            if run.round == self._args.rounds:
                self._keep(model, run.way)
        self._check(model, rounds[0])

    def records(self) -> list[dict[str, Any]]:
        """Returns the records of all ways with figures, which are medians over rounds so far."""
        return list(self._records.values())

    def keep(self) -> None:
        """Appends the records that are not in the file of `--out` yet.

        Raises:
            OSError: If it cannot be written.
        """
        for model, way in self._records:
            self._keep(model, way)

    def _keep(self, model: str, way: plan.Way) -> None:
        if self._args.out and (model, way) not in self._kept:
            self._kept.add((model, way))
            harness.append(self._records[model, way], self._args.out)

    def _measured(self, run: plan.Run) -> dict[str, Any]:
        way = run.way
        choice = self._args.choices[way.choice] if way.choice else None
        devices, tick = list(way.devices), self._progress.tick
        return engines.run(way.case, way.engine, run.warmup, run.steps, devices, choice, tick=tick)

    def _check(self, model: str, results: Mapping[plan.Way, Any]) -> None:
        """Checks that all engines trained the same on the same rows, and adds a remark on it."""
        ways = self._ways[model]
        for size in plan.sizes(ways):
            several = [way for way in ways[1:] if len(way.devices) == size]
            found = {way.name: results[way]["losses"] for way in several}
            whole, compared = plan.on_one_device(model, ways, size), "each other"
            if whole is not None:
                found = {plan.ONE: results[whole]["losses"], **found}
                compared = f"{plan.ONE} with the whole batch"
            elif len(found) == 1:
                self.sentences.append(
                    f"{model}, {size} devices: losses are not compared, since there is only one "
                    "engine."
                )
                continue
            losses.check(model, found, self._args.dtype)
            count = min(losses.STEPS, len(results[several[0]]["losses"]))
            self.sentences.append(
                f"{model}, {size} devices: losses of the first {count} steps of {'; '.join(found)} "
                f"are equal to {losses.RTOL[self._args.dtype]:g}, compared with {compared}."
            )
