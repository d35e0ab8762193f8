"""The result of a search, as pictures and as one page that needs nothing else.

    search.html     all of it: opens from disk, prints, and loads nothing from anywhere
    search.png      reward, accuracy, cost and entropy over time
    network.png     a drawing of the network found
    choices.png     the probabilities of every choice over time

Texts come from files that anyone may have written: the page shows them, and does as they say in
nothing.
"""

import json
import os

import numpy as np

from examples.nas_search.reports import (
    choice_plots,
    evaluated,
    html_page,
    network_drawing,
    search_plots,
)
from examples.nas_search.reports.html_page import Column, Html
from examples.nas_search.search import search_costs
from examples.runs import figures
from examples.runs.command_line import command_line

PAGE = "search.html"
_OPEN_BLOCKS = 2  # Blocks of choices that are unfolded at first, where there are more of them.
_RECENT = 10  # Late values in a report are means over the last tenth.
_MAX_ROWS, _MAX_STEPS = 20, 6  # of tables of what was at which step
_NOTE = (
    "Each panel is a choice: the probabilities of its alternatives over the steps. "
    '<span class="alternative"><span class="swatch" style="background:{}"></span>taken</span> '
    "Pale ones are not reached by the network found, because it skips their layer."
)


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
    if analysis.evaluations is None and choice_plots.by_block(analysis.nodes):
        drawn["choices.png"] = lambda: choice_plots.draw_all(analysis)
    return drawn


def page(analysis):
    """Returns the page of an `Analysis`, HTML as a string."""
    summary = [
        html_page.paragraph(f"{analysis.directory}, step {analysis.global_step:,}", "quiet"),
        html_page.paragraph(Html(f"Found: {html_page.code(_indices(analysis))}")),
        html_page.figures(_headline(analysis)),
    ]
    sections = [
        ("Over time", _over_time(analysis)),
        ("The network found", network(analysis, "network")),
        *_how_it_was_found(analysis),
        ("How to go on", _commands(analysis)),
        ("Settings", [html_page.unfolding("params.json", [_settings(analysis)])]),
    ]
    return html_page.page(f"Search of {analysis.ssd}", Html("\n".join(summary)), sections)


def _how_it_was_found(analysis):
    """Yields sections about the controller, or about the networks that were evaluated."""
    if analysis.evaluations is not None:
        yield "Networks evaluated", evaluated.section(analysis)
        return
    note = html_page.paragraph(Html(_NOTE.format(choice_plots.TAKEN)), "quiet")
    yield "How the controller made up its mind", [note, *_choices(analysis)]
    yield "How sure it is", [_certainty(analysis)]


def network(analysis, name):
    """Yields the drawing of the network that a search found, and the network in words.

    Args:
        analysis: An `Analysis`.
        name: Letters and digits that no other picture of the page has.
    """
    rows = network_drawing.rows_of(analysis.network, analysis.layer_costs)
    words = f"The network found: {', then '.join(row.text for row in rows)}."
    drawing = figures.svg(lambda: network_drawing.draw_network(analysis), name, words)
    label = f"Drawing of the network found by {analysis.directory}"
    yield html_page.scrolling(label, drawing, "drawing")
    label = f"Layers of the network found by {analysis.directory}"
    layers = html_page.preformatted(label, "\n".join(analysis.layers))
    yield html_page.unfolding("In words", [layers])


def late(series):
    """Returns the mean over the last tenth of a series {step: value}, None if it is empty."""
    values = [value for _, value in sorted(series.items())]
    return float(np.mean(values[-max(1, len(values) // _RECENT) :])) if values else None


def table_of_steps(caption, names, series, summary):
    """Returns a table of what some series are at some of their steps, to be unfolded.

    Args:
        caption: Text; no other table of the page has it.
        names: Of the series, texts.
        series: For each a dict {step: value}.
        summary: Text that is seen where it is folded.
    """
    steps = figures.thinned(sorted(set().union(*series)), _MAX_ROWS)
    rows = [[f"{step:,}", *(_value_at(step, each) for each in series)] for step in steps]
    columns = [Column(name, True) for name in ("step", *names)]
    caption = f"{caption}: what was the latest at {len(steps)} of the steps"
    table = html_page.table(caption, columns, rows)
    return html_page.unfolding(summary, [table])


def _value_at(step, series):
    """Returns the latest value of {step: value} as text; empty before its first, after its last."""
    if not series or step > max(series):
        return ""
    until = [each for each in series if each <= step]
    return f"{series[max(until)]:.4g}" if until else ""


def _indices(analysis):
    return ":".join(map(str, analysis.indices))


def _panels(analysis):
    """Returns the `Series` of a search."""
    history = analysis.history
    percent = {step: 100 * value for step, value in history["accuracy"].items()}
    suffixes = search_costs.suffixes(analysis.costs)
    costs = [
        search_plots.Series(f"{cost.label}\n({cost.unit})", history[f"cost{suffix}"], cost.target)
        for cost, suffix in zip(analysis.costs, suffixes)
    ]
    return [
        search_plots.Series("reward", history["reward"]),
        search_plots.Series("validation\naccuracy (%)", percent),
        *costs,
        search_plots.Series("best reward\nso far", history.get("best", {}), is_sampled=False),
        search_plots.Series("entropy of\ncontroller (nats)", history["entropy"], is_sampled=False),
    ]


def _series(analysis, title=""):
    return search_plots.draw_search(_panels(analysis), title, analysis.starts)


def _over_time(analysis):
    """Yields the picture of a search over its steps, and a table of the same."""
    panels = [panel for panel in _panels(analysis) if panel.values]
    names = [panel.label.replace("\n", " ") for panel in panels]
    values = [[panel.values[step] for step in sorted(panel.values)] for panel in panels]
    ends = [f"{name} from {row[0]:.4g} to {row[-1]:.4g}" for name, row in zip(names, values)]
    words = f"Over the steps: {', '.join(ends)}."
    picture = figures.svg(lambda: _series(analysis), "series", words)
    yield html_page.scrolling("Plots of the search over its steps", picture)
    series = [panel.values for panel in panels]
    yield table_of_steps("The search", names, series, "Over time, as a table")


def _headline(analysis):
    """Yields the most important figures: name, value and note."""
    accuracy = late(analysis.history["accuracy"])
    if analysis.evaluations is not None:
        yield from evaluated.headline(analysis)
    elif accuracy is not None:
        note = "of the networks drawn of late, with shared weights"
        yield "validation accuracy", f"{accuracy:.1%}", note
    note_on_madds = "for one image"
    for cost in analysis.costs:
        away = f"{cost.estimate / cost.target - 1:+.1%}"
        if cost.label == "madds" and round(1e6 * cost.estimate) == analysis.madds:
            note_on_madds += f"; target {1e6 * cost.target:,.0f}, {away}"
            continue
        note = f"target {cost.target:.4g}, {away}"
        yield cost.label, f"{cost.estimate:.4g} {cost.unit_and_device}", note
    yield "multiply-adds", f"{analysis.madds:,}", note_on_madds
    yield "parameters", f"{analysis.params:,}", "of the network alone"
    if analysis.evaluations is not None:
        return
    yield "probability", f"{analysis.probability:.3g}", "that the controller draws it"
    note = f"with equal probabilities {analysis.initial_entropy:.3g}"
    yield "entropy", f"{analysis.entropy:.3g} nats", note


def _choices(analysis):
    """Yields a part to unfold for each block that has open choices."""
    blocks = choice_plots.by_block(analysis.nodes)
    for place, (block, numbers) in enumerate(blocks.items()):
        name = block.replace("blocks/", "Block ")
        panels = "\n".join(_choice(analysis, number) for number in numbers)
        contents = [
            f'<div class="choices">\n{panels}\n</div>',
            html_page.unfolding(f"{name}, as a table", [_probabilities(analysis, name, numbers)]),
        ]
        title = f"{name}: {len(numbers)} choices"
        yield html_page.unfolding(title, contents, is_open=place < _OPEN_BLOCKS)
    if not blocks:
        yield html_page.paragraph("Every choice has one alternative.")


def _choice(analysis, number):
    node = analysis.nodes[number]
    last = analysis.probabilities[analysis.global_step][number]
    first = analysis.probabilities[min(analysis.probabilities)][number]
    names = choice_plots.alternatives(node)
    entries = []
    for index, (name, share) in enumerate(zip(names, last)):
        swatch = (
            f'<span class="swatch" style="background:{choice_plots.color(node, index)}"></span>'
        )
        shown = f"{html_page.text(name)} {share:.0%}"
        shown = f"<b>{shown}</b>" if index == node.index else shown
        entries.append(f'<span class="alternative">{swatch}{shown}</span>')
    title = choice_plots.name_within_block(node.path)
    changes = [f"{name} from {a:.0%} to {b:.0%}" for name, a, b in zip(names, first, last)]
    words = f"Probabilities of {title} over the steps: {', '.join(changes)}."
    picture = figures.svg(lambda: choice_plots.draw_one(analysis, number), f"choice{number}", words)
    unreached = "" if node.reached else " (not reached)"
    return (
        f"<figure>{picture}<figcaption>{html_page.text(title)}"
        f"{unreached}: {' '.join(entries)}</figcaption></figure>"
    )


def _probabilities(analysis, block, numbers):
    """Returns a table of the probabilities of a block's choices over time."""
    steps = figures.thinned(sorted(analysis.probabilities), _MAX_STEPS)
    columns = [Column("choice"), Column("alternative")]
    columns += [Column(f"step {step:,}", True) for step in steps]
    rows = [
        [choice_plots.name_within_block(analysis.nodes[number].path), name]
        + [f"{analysis.probabilities[step][number][index]:.0%}" for step in steps]
        for number in numbers
        for index, name in enumerate(choice_plots.alternatives(analysis.nodes[number]))
    ]
    return html_page.table(f"{block}: probabilities of the alternatives", columns, rows)


def _certainty(analysis):
    columns = [
        *(Column("choice"), Column("taken"), Column("probability", True)),
        *(Column("entropy (nats)", True), Column("of")),
    ]
    rows = [
        [
            html_page.path(node.path),
            node.choices[node.index] if node.reached else "(not reached)",
            f"{node.probability:.1%}",
            f"{node.entropy:.2f}",
            " | ".join(node.choices),
        ]
        for node in analysis.nodes
        if len(node.choices) > 1
    ]
    return html_page.table("Choices, and the most probable alternative of each", columns, rows)


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
        yield html_page.paragraph(words)
        line = command_line("examples.nas_search", *command)
        yield html_page.preformatted(f"Command: {command[0]}", line)


def _settings(analysis):
    rows = []
    for name, value in sorted(analysis.settings.items()):
        shown = value if isinstance(value, str) else json.dumps(value)
        rows.append([name, html_page.code(shown)])
    columns = [Column("setting"), Column("value")]
    return html_page.table("Settings of the search, from params.json", columns, rows)
