"""A front as one page that needs nothing else, front.html, and its picture, front.svg."""

from __future__ import annotations

import json
from typing import Any, Iterator, Sequence

from examples.nas_search.fronts import front_plot
from examples.nas_search.fronts.front_record import Front
from examples.nas_search.fronts.front_statistics import DRAWS, SAME_TIME
from examples.nas_search.fronts.trained import FOUND, RANDOM, Trained
from examples.nas_search.reports import html_page
from examples.nas_search.reports.html_page import Column, Html
from examples.runs import figures

PAGE, PICTURE = "front.html", "front.svg"
_NONE = "none: all are equal"


def page(front: Front) -> str:
    """Returns the page of a front, HTML."""
    settings = front.plan.settings
    summary = [
        html_page.paragraph(
            f"{len(front.plan.searches)} searches at {len(settings['targets'])} costs, beside "
            f"{settings['num_random']} random networks for each cost, all trained alone "
            f"{_times(settings['num_trainings'])}. {front.record['date']}.",
            "quiet",
        ),
        html_page.figures(_headline(front)),
    ]
    sections = [
        ("Accuracy over cost", _over_cost(front)),
        ("Hypervolume", _hypervolume(front)),
        ("All networks", [_all_networks(front)]),
        ("How it was measured", _measured(front)),
        ("Settings", [html_page.unfolding("settings.json", [_settings(settings)])]),
    ]
    title = f"Fronts of {front.plan.model.ssd}"
    return html_page.page(title, Html("\n".join(summary)), sections)


def picture(front: Front) -> str:
    """Returns the picture of a front as a file of its own, SVG."""
    return front_plot.standalone(_svg(front))


def _svg(front: Front) -> str:
    networks, unit = front.results.networks, front.plan.model.unit_and_device
    words = (
        f"Accuracy on test images over cost, {unit}. " + ". ".join(_in_words(front)) + ". "
        "Lines show the best accuracy up to each cost."
    )
    return figures.svg(lambda: front_plot.draw(networks, front.comparison, unit), "front", words)


def _in_words(front: Front) -> Iterator[str]:
    """Yields for each target how accurate its networks are."""
    for target in front.plan.settings["targets"]:
        found, random = (_of(front, kind, target) for kind in (FOUND, RANDOM))
        yield (
            f"At {target:g}: found {_range(found)}, random {_range(random)}, "
            f"mean {_mean(random):.1%}"
        )


def _of(front: Front, kind: str, target: float) -> list[Trained]:
    networks = front.results.networks
    return [each for each in networks if (each.kind, each.target) == (kind, target)]


def _range(networks: Sequence[Trained]) -> str:
    low, high = (end(each.test for each in networks) for end in (min, max))
    return f"{low:.1%}" if low == high else f"{low:.1%} to {high:.1%}"


def _mean(networks: Sequence[Trained]) -> float:
    return sum(each.test for each in networks) / len(networks)


def _headline(front: Front) -> Iterator[tuple[str, str, str]]:
    """Yields the most important figures: name, value and note."""
    for kind, name in names(front).items():
        figure = front.comparison.figures[kind]
        note = "hypervolume"
        if figure["interval"]:
            note += ", 95% of bootstrap sets: {:.4f} to {:.4f}".format(*figure["interval"])
        yield name, f"{figure['hypervolume']:.4f}", note
    share = front.comparison.figures[FOUND][f"better_than_{RANDOM}"]
    yield "better than", f"{share:.0%}", "of sets of as many random networks"


def names(front: Front) -> dict[str, str]:
    """Returns what the kinds of sets are called, in the order in which they are shown."""
    return {
        FOUND: "found by searches",
        RANDOM: "random, as many",
        SAME_TIME: f"random, best of {front.comparison.affordable} by validation",
    }


def _over_cost(front: Front) -> Iterator[Html]:
    yield html_page.scrolling("Plot of accuracy over cost", Html(_svg(front)))
    yield html_page.paragraph(
        "Each mark is a network. Lines show the best accuracy up to each cost: of the networks "
        "found; and, as means over sets, of random ones. A set has as many random networks for "
        "each target as there were searches. The dashed line replaces each of them by the best of "
        f"{front.comparison.affordable}, chosen by validation images."
        + (
            " Bars are one standard deviation of the trainings."
            if front.plan.settings["num_trainings"] > 1
            else ""
        ),
        "quiet",
    )
    columns = [Column("target", True)]
    columns += [
        Column(name, True)
        for name in (
            *("found: cost", "found: accuracy", "random: accuracy, mean", "random: worst, best"),
            "found are better than",
        )
    ]
    rows = []
    for target in front.plan.settings["targets"]:
        found, random = (_of(front, kind, target) for kind in (FOUND, RANDOM))
        wins = [(a.test > b.test) + 0.5 * (a.test == b.test) for a in found for b in random]
        rows.append(
            [f"{target:g}", ", ".join(f"{each.cost:.4g}" for each in found), _range(found)]
            + [f"{_mean(random):.1%}", _range(random), f"{sum(wins) / len(wins):.0%} of random"]
        )
    caption = f"Accuracy on test images by target, {front.plan.model.unit_and_device}"
    yield html_page.table(caption, columns, rows)


def _hypervolume(front: Front) -> Iterator[Html]:
    reference = front.comparison.reference
    yield html_page.paragraph(
        "The hypervolume of networks is the area between their line and the reference point "
        "(Zitzler and Thiele, 1999). Its unit is accuracy times doublings of the cost: costs are "
        "on a logarithmic axis, because targets and choices are multiples of each other. The "
        f"reference point is at a cost of {reference.cost:.4g}, where the next target would be, "
        f"and an accuracy of {reference.accuracy:.2%}"
        + (
            ", which was given."
            if front.plan.settings["reference_accuracy"] is not None
            else ", the least of all networks here."
        )
    )
    columns = [Column("networks"), Column("hypervolume", True), Column("95% of bootstrap sets")]
    columns += [Column("found have more than", True)]
    rows = []
    for kind, name in names(front).items():
        figure = front.comparison.figures[kind]
        interval = figure["interval"]
        share = front.comparison.figures[FOUND].get(f"better_than_{kind}")
        rows.append(
            [name, f"{figure['hypervolume']:.4f}"]
            + ["{:.4f} to {:.4f}".format(*interval) if interval else _NONE]
            + ["" if share is None else f"{share:.0%} of sets"]
        )
    yield html_page.table("Hypervolume of networks found, and of random ones", columns, rows)
    yield html_page.paragraph(
        f"Figures of random networks are means over {DRAWS:,} sets. Bootstrap sets are drawn in "
        "the same way, but with replacement, from the networks of each target, and accuracies are "
        "means of trainings drawn with replacement. Test images are the same in all of them, and "
        "so is the reference point: intervals do not tell how accuracies would be on other images. "
        "A single search of each target, trained once, makes only one set.",
        "quiet",
    )


def _all_networks(front: Front) -> Html:
    columns = [Column("network"), Column("indices")]
    columns += [
        Column(name, True)
        for name in (
            *("target", f"cost ({front.plan.model.unit})", "multiply-adds", "weights"),
            *("validation", "test", "test, by training"),
        )
    ]
    rows = [
        [f"{each.kind} {each.number + 1}", html_page.code(each.indices), f"{each.target:g}"]
        + [f"{each.cost:.4g}", f"{each.madds:,}", f"{each.params:,}"]
        + [f"{each.validation:.2%}", f"{each.test:.2%}"]
        + [", ".join(f"{training.test:.2%}" for training in each.trainings)]
        for each in front.results.networks
    ]
    return html_page.unfolding(
        f"{len(rows)} networks", [html_page.table("All networks, trained alone", columns, rows)]
    )


def _measured(front: Front) -> Iterator[Html]:
    record, settings = front.record, front.plan.settings
    images, seconds, machine = record["images"], record["seconds"], record["machine"]
    yield html_page.paragraph(
        f"Random networks cost what their target is, ± {settings['window']:.0%}. Each network is "
        f"trained {_times(settings['num_trainings'])} on {images['train']:,} training images. "
        f"Accuracies are means over trainings, on {images['test']:,} test images, which neither "
        f"searches nor trainings see. Searches get their rewards on {images['validation']:,} "
        "validation images."
    )
    yield html_page.paragraph(
        f"A search takes {seconds['search']:.0f} seconds of the processor, a training "
        f"{seconds['training']:.1f}, on average: in the time of a search and a training, "
        f"{record['hypervolume']['random_networks_in_the_time_of_a_search']} networks can be "
        f"trained. For each target there are {settings['num_random']} random ones."
    )
    yield html_page.paragraph(
        f"{machine['device_model']}, {machine['cores']} cores, {machine['os']}, TensorFlow "
        f"{machine['tensorflow']}, NumPy {machine['numpy']}, Python {machine['python']}, replicate "
        f"{record['replicate']}.",
        "quiet",
    )


def _settings(settings: dict[str, Any]) -> Html:
    rows = [
        [name, html_page.code(value if isinstance(value, str) else json.dumps(value))]
        for name, value in sorted(settings.items())
    ]
    columns = [Column("setting"), Column("value")]
    return html_page.table("Settings of the front, from settings.json", columns, rows)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
