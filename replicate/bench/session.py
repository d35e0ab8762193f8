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
        setups: Mapping[str, Sequence[plan.Setup]],
        args: Any,
        progress: Progress,
        context: Mapping[str, Any],
    ) -> None:
        """Makes a session.

        Args:
            setups: Dict of the list of `plan.Setup`s by model, first the one on one device.
            args: The command line's arguments.
            progress: The `progress.Progress` to update.
            context: Dict of entries to add to every record.
        """
        self._setups, self._args, self._progress, self._context = setups, args, progress, context
        self._records: dict[tuple[str, plan.Setup], dict[str, Any]] = {}
        self._kept: set[tuple[str, plan.Setup]] = set()
        self.sentences: list[str] = []

    def train(self, model: str) -> None:
        """Runs all setups to train a model, writes their figures, and compares losses.

        Raises:
            RuntimeError: If a process fails, or engines have different losses.
            OSError: If the file of records cannot be written.
        """
        alone = self._setups[model][0]
        rounds: list[dict[Any, Any]] = [{} for _ in range(self._args.rounds)]
        for run in plan.runs(model, self._setups[model], self._args):
            self._progress.begin()
            result = self._measured(run)
            self._progress.end()
            rounds[(run.round or 1) - 1][run.setup] = result
            if run.round is None:
                continue
            record = rows.record(model, run.setup, alone, rounds[: run.round])
            self._records[model, run.setup] = {**record, **self._context}
            self._progress.say(rows.line(record, self._args.rounds))
            if run.round == self._args.rounds:
                self._keep(model, run.setup)
        self._check(model, rounds[0])

    def records(self) -> list[dict[str, Any]]:
        """Returns the records of all setups with figures, which are medians over rounds so far."""
        return list(self._records.values())

    def keep(self) -> None:
        """Appends the records that are not in the file of `--out` yet.

        Raises:
            OSError: If it cannot be written.
        """
        for model, setup in self._records:
            self._keep(model, setup)

    def _keep(self, model: str, setup: plan.Setup) -> None:
        if self._args.out and (model, setup) not in self._kept:
            self._kept.add((model, setup))
            harness.append(self._records[model, setup], self._args.out)

    def _measured(self, run: plan.Run) -> dict[str, Any]:
        setup = run.setup
        choice = self._args.choices[setup.choice] if setup.choice else None
        devices, tick = list(setup.devices), self._progress.tick
        return engines.run(
            setup.case, setup.engine, run.warmup, run.steps, devices, choice, tick=tick
        )

    def _check(self, model: str, results: Mapping[plan.Setup, Any]) -> None:
        """Checks that all engines trained the same on the same rows, and adds a remark on it."""
        setups = self._setups[model]
        for size in plan.sizes(setups):
            several = [setup for setup in setups[1:] if len(setup.devices) == size]
            found = {setup.name: results[setup]["losses"] for setup in several}
            whole, compared = plan.on_one_device(model, setups, size), "each other"
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
