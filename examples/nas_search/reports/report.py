"""What a search found, as pictures and as one page that needs nothing else.

    search.html     all of it: opens from disk, prints, and loads nothing from anywhere
    search.png      reward, accuracy, cost and entropy over time
    network.png     a drawing of the network found
    choices.png     the probabilities of every choice over time

Texts come from files that anyone may have written: the page shows them, and does as they say in
nothing.
"""

import html
import json
import os
import pathlib
import string

import numpy as np

from examples.nas_search.reports import choice_plots, network_drawing, search_plots
from examples.nas_search.search import search_costs
from examples.runs import figures
from examples.runs.command_line import command_line

PAGE = "search.html"
_TEMPLATE = pathlib.Path(__file__).with_name("report.html")
_OPEN_BLOCKS = 2  # Blocks of choices that are unfolded at first, where there are more of them.
_RECENT = 10  # The accuracy that is reported is the mean over the last tenth.


def pictures(analysis):
    """Returns the pictures of a search.

    Args:
        analysis: An `Analysis`.

    Returns:
        Dict from names of PNG files to functions that draw a figure for `figures.png`. A picture of
        which there is nothing to draw is not there.
    """
    title = f"{analysis.ssd}, step {analysis.global_step:,}"
    drawn = {
        "search.png": lambda: _series(analysis, title),
        "network.png": lambda: network_drawing.draw_network(analysis, f"Found in {title}"),
    }
    if choice_plots.by_block(analysis.nodes):
        drawn["choices.png"] = lambda: choice_plots.draw_all(analysis)
    return drawn


def page(analysis):
    """Returns the page of an `Analysis`, HTML as a string."""
    template = string.Template(_TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(
        title=_text(f"Search of {analysis.ssd}"),
        directory=_text(analysis.directory),
        step=f"{analysis.global_step:,}",
        indices=_indices(analysis),
        headline="\n".join(_headline(analysis)),
        series=figures.svg(lambda: _series(analysis), "series"),
        network=figures.svg(lambda: network_drawing.draw_network(analysis), "network"),
        layers=_text("\n".join(analysis.layers)),
        taken=choice_plots.TAKEN,
        choices="\n".join(_choices(analysis)),
        certainty="\n".join(_certainty(analysis)),
        commands="\n".join(_commands(analysis)),
        settings="\n".join(_settings(analysis)),
    )


def _text(value):
    """Returns a text as HTML that shows it."""
    return html.escape(str(value))


def _indices(analysis):
    return ":".join(map(str, analysis.indices))


def _series(analysis, title=""):
    history = analysis.history
    percent = {step: 100 * value for step, value in history["accuracy"].items()}
    suffixes = search_costs.suffixes(analysis.costs)
    costs = [
        search_plots.Series(f"{cost.label}\n({cost.unit})", history[f"cost{suffix}"], cost.target)
        for cost, suffix in zip(analysis.costs, suffixes)
    ]
    panels = [
        search_plots.Series("reward", history["reward"]),
        search_plots.Series("validation\naccuracy (%)", percent),
        *costs,
        search_plots.Series("entropy of\ncontroller (nats)", history["entropy"], is_sampled=False),
    ]
    return search_plots.draw_search(panels, title, analysis.controller_start)


def _headline(analysis):
    """Yields the most important figures as entries of a description list."""
    accuracies = list(analysis.history["accuracy"].values())
    if accuracies:
        recent = accuracies[-max(1, len(accuracies) // _RECENT) :]
        note = "of the networks drawn of late, with shared weights"
        yield _figure("validation accuracy", f"{np.mean(recent):.1%}", note)
    for cost in analysis.costs:
        note = f"target {cost.target:.4g}, {cost.estimate / cost.target - 1:+.1%}"
        yield _figure(cost.label, f"{cost.estimate:.4g} {cost.unit_and_device}", note)
    yield _figure("multiply-adds", f"{analysis.madds:,}", "for one image")
    yield _figure("parameters", f"{analysis.params:,}", "of the network alone")
    yield _figure("probability", f"{analysis.probability:.3g}", "that the controller draws it")
    note = f"at the beginning {analysis.initial_entropy:.3g}"
    yield _figure("entropy", f"{analysis.entropy:.3g} nats", note)


def _figure(name, value, note):
    small = f"<small>{_text(note)}</small>" if note else ""
    return f"<div><dt>{_text(name)}</dt><dd>{_text(value)}{small}</dd></div>"


def _choices(analysis):
    """Yields a part to unfold for each block that has open choices."""
    blocks = choice_plots.by_block(analysis.nodes)
    for place, (block, numbers) in enumerate(blocks.items()):
        panels = "\n".join(_choice(analysis, number) for number in numbers)
        is_open = " open" if place < _OPEN_BLOCKS else ""
        title = f"{block.replace('blocks/', 'Block ')}: {len(numbers)} choices"
        yield f"<details{is_open}><summary>{_text(title)}</summary>"
        yield f'<div class="choices">\n{panels}\n</div></details>'
    if not blocks:
        yield "<p>Every choice has one alternative.</p>"


def _choice(analysis, number):
    node = analysis.nodes[number]
    last = analysis.probabilities[analysis.global_step][number]
    named = []
    for index, (name, share) in enumerate(zip(choice_plots.alternatives(node), last)):
        swatch = (
            f'<span class="swatch" style="background:{choice_plots.color(node, index)}"></span>'
        )
        words = f"{_text(name)} {share:.0%}"
        words = f"<b>{words}</b>" if index == node.index else words
        named.append(f'<span class="alternative">{swatch}{words}</span>')
    picture = figures.svg(lambda: choice_plots.draw_one(analysis, number), f"choice{number}")
    unreached = "" if node.reached else " (not reached)"
    return (
        f"<figure>{picture}<figcaption>{_text(choice_plots.name_within_block(node.path))}"
        f"{unreached}: {' '.join(named)}</figcaption></figure>"
    )


def _certainty(analysis):
    for node in analysis.nodes:
        if len(node.choices) == 1:
            continue
        taken = _text(node.choices[node.index]) if node.reached else "(not reached)"
        yield (
            f"<tr><td>{_text(node.path)}</td><td>{taken}</td>"
            f'<td class="number">{node.probability:.1%}</td>'
            f'<td class="number">{node.entropy:.2f}</td>'
            f"<td>{_text(' | '.join(node.choices))}</td></tr>"
        )


def _commands(analysis):
    """Yields the commands that train and export the network found."""
    alone = os.path.join(os.path.dirname(analysis.directory.rstrip("/")), "alone")
    exported = os.path.join(os.path.dirname(alone), "exported")
    for words, command in (
        (
            "Train it alone, and measure it on images that the search never saw:",
            ("train", "--search_dir", analysis.directory, "--checkpoint_dir", alone)
            + ("--use_held_out_test_set",),
        ),
        (
            "Then make a SavedModel of it, and a file for TensorFlow Lite:",
            ("export", "--checkpoint_dir", alone, "--export_dir", exported, "--tflite"),
        ),
    ):
        line = command_line("examples.nas_search", *command)
        yield f"<p>{words}</p>\n<pre>{_text(line)}</pre>"


def _settings(analysis):
    for name, value in sorted(analysis.settings.items()):
        shown = value if isinstance(value, str) else json.dumps(value)
        yield f"<tr><td>{_text(name)}</td><td><code>{_text(shown)}</code></td></tr>"
