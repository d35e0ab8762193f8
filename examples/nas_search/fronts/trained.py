"""A network that was trained alone, found or random, with its costs and accuracies."""

from __future__ import annotations

from typing import Any, NamedTuple

from examples.nas_search.fronts.hypervolume import Point

FOUND, RANDOM = KINDS = ("found", "random")


class Training(NamedTuple):
    """A training of a network; accuracies are in [0, 1]."""

    seed: int
    validation: float  # accuracy on images that give searches their rewards
    test: float  # accuracy on images that neither searches nor trainings see
    seconds: float  # of the processor


class Trained(NamedTuple):
    """A network and its trainings."""

    kind: str  # of `KINDS`
    target: float  # of the search, or of the window that it was drawn from, in the unit of `cost`
    number: int  # among those of its kind and target, from 0; of what was found, of the search
    indices: str  # its choices, separated by colons
    cost: float  # as the cost model estimates it
    madds: int  # multiply-adds for one image, exact
    params: int  # trainable weights, exact
    trainings: tuple[Training, ...]

    @property
    def validation(self) -> float:
        """Mean accuracy on validation images."""
        return sum(each.validation for each in self.trainings) / len(self.trainings)

    @property
    def test(self) -> float:
        """Mean accuracy on test images."""
        return sum(each.test for each in self.trainings) / len(self.trainings)

    @property
    def point(self) -> Point:
        """Its cost and mean accuracy on test images."""
        return Point(self.cost, self.test)

    def as_json(self) -> dict[str, Any]:
        """Returns it as a dict that can be written as JSON, with its means."""
        trainings = [each._asdict() for each in self.trainings]
        means = {"validation": self.validation, "test": self.test}
        return {**self._asdict(), **means, "trainings": trainings}
