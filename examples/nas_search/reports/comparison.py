"""Several searches of one space as one page: how they went, what they found, how they agree.

Searches have numbers, beginning with 1, in the order in which they were given. Like `search.html`,
the page needs nothing else, and does as the files of the searches say in nothing.
"""

from examples.nas_search.reports import agreement as agreements
from examples.nas_search.reports import comparison_plots, html_page, report
from examples.nas_search.reports.html_page import Column
from examples.nas_search.reports.search_plots import Series
from examples.nas_search.search import search_costs
from examples.runs import figures

PAGE = "comparison.html"


def page(analyses):
    """Returns the page that compares searches, HTML as a string.

    Args:
        analyses: List of at least two `Analysis`es of one space.
    """
    numbers = range(1, len(analyses) + 1)
    names = [f"search\N{NO-BREAK SPACE}{number}" for number in numbers]
    summary = html_page.paragraph("Several searches of one space, side by side.", "quiet")
    sections = [
        ("The searches", [_searches(analyses, names)]),
        ("Over time", _over_time(analyses, numbers, names)),
        ("What the networks cost", _costs(analyses, numbers, names)),
        ("What they found", _found(analyses, names)),
        ("How they agree", _agreement(analyses, names)),
    ]
    return html_page.page(f"{len(analyses)} searches of {analyses[0].ssd}", summary, sections)


def _searches(analyses, names):
    columns = [Column("search"), Column("folder")]
    columns += [
        Column(name, True)
        for name in (
            *("seed", "step", "validation accuracy of late", "multiply-adds", "parameters"),
            *("probability", "entropy (nats)"),
        )
    ]
    rows = []
    for name, each in zip(names, analyses):
        accuracy = report.late(each.history["accuracy"])
        rows.append(
            [name, html_page.code(each.directory), each.settings.get("seed", "")]
            + [f"{each.global_step:,}", "" if accuracy is None else f"{accuracy:.1%}"]
            + [f"{each.madds:,}", f"{each.params:,}"]
            + ["" if x is None else f"{x:.3g}" for x in (each.probability, each.entropy)]
        )
    return html_page.table("Searches, and the networks that they found", columns, rows)


def _panels(analyses):
    """Returns for each panel a list of `Series`, one per search; at least one has values."""
    panels = [
        [Series("reward", each.history["reward"]) for each in analyses],
        [
            Series("validation\naccuracy (%)", _percent(each.history["accuracy"], 1))
            for each in analyses
        ],
    ]
    for label in _labels(analyses):
        series = []
        for each in analyses:
            histories = {
                cost.label: _percent(each.history[f"cost{suffix}"], cost.target)
                for cost, suffix in zip(each.costs, search_costs.suffixes(each.costs))
            }
            series.append(Series(f"{label}\n(% of target)", histories.get(label, {}), 100.0))
        panels.append(series)
    name = "entropy of\ncontroller (nats)"
    panels.append([Series(name, each.history["entropy"], is_sampled=False) for each in analyses])
    return [panel for panel in panels if any(series.values for series in panel)]


def _percent(values, whole):
    return {step: 100 * value / whole for step, value in values.items()}


def _labels(analyses):
    """Returns the labels of all costs, in the order in which they come first."""
    return list(dict.fromkeys(cost.label for each in analyses for cost in each.costs))


def _over_time(analyses, numbers, names):
    panels = _panels(analyses)
    labels = [panel[0].label.replace("\n", " ") for panel in panels]
    words = f"Lines of {len(analyses)} searches over their steps: {', '.join(labels)}."
    picture = figures.svg(lambda: comparison_plots.draw_searches(panels, numbers), "over", words)
    yield html_page.scrolling("Plots of the searches over their steps", picture)
    for label, panel in zip(labels, panels):
        series = [each.values for each in panel]
        yield report.table_of_steps(label, names, series, f"{label}, as a table")


def _costs(analyses, numbers, names):
    """Yields what the networks found cost against the targets, as a picture and a table."""
    costs = [{cost.label: cost for cost in each.costs} for each in analyses]
    labels = _labels(analyses)
    if not labels:
        yield html_page.paragraph("Cost did not count in these searches.")
        return
    shares = {
        label: [
            100 * each[label].estimate / each[label].target if label in each else None
            for each in costs
        ]
        for label in labels
    }
    words = "Costs of the networks found, in per cent of the target: " + ", ".join(
        f"{name} {label} {share:.0f}"
        for label in labels
        for name, share in zip(names, shares[label])
        if share is not None
    )
    picture = figures.svg(lambda: comparison_plots.draw_costs(shares, numbers), "costs", words)
    yield html_page.scrolling("Plot of costs against targets", picture)
    columns = [Column("search"), Column("cost")]
    columns += [Column(name, True) for name in ("estimate", "target", "from the target")]
    rows = [
        [
            *(name, f"{cost.label}, {cost.unit_and_device}", f"{cost.estimate:.4g}"),
            *(f"{cost.target:.4g}", f"{cost.estimate / cost.target - 1:+.1%}"),
        ]
        for name, each in zip(names, analyses)
        for cost in each.costs
    ]
    yield html_page.table("Costs of the networks found, and targets", columns, rows)


def _found(analyses, names):
    """Yields the choices side by side, and each network."""
    rows = []
    for number, node in enumerate(analyses[0].nodes):
        nodes = [each.nodes[number] for each in analyses]
        if len(node.choices) > 1:
            taken = [f"{each.choices[each.index]}{_remarks(each)}" for each in nodes]
            rows.append([html_page.path(node.path), *taken, " | ".join(node.choices)])
    yield html_page.paragraph(
        "The most probable alternative of each choice, and its probability; without a controller, "
        "the alternative of the network with the largest reward. A choice is not reached where the "
        "network skips the layer that it belongs to."
    )
    columns = [Column(name) for name in ("choice", *names, "of")]
    yield html_page.table("Choices of the searches, side by side", columns, rows)
    for place, (name, each) in enumerate(zip(names, analyses)):
        contents = report.network(each, f"network{place}")
        yield html_page.unfolding(f"Network of {name}: {each.directory}", contents)


def _remarks(node):
    """Returns, in parentheses, how probable the alternative of a node is, and if it is reached."""
    remarks = [] if node.probability is None else [f"{node.probability:.0%}"]
    remarks += [] if node.reached else ["not reached"]
    return f" ({', '.join(remarks)})" if remarks else ""


def _agreement(analyses, names):
    """Yields how far the searches agree: in words, by choice, and by pair."""
    if all(len(node.choices) == 1 for node in analyses[0].nodes):
        yield html_page.paragraph("Every choice has one alternative.")
        return
    agreed = agreements.agreement(analyses)
    yield html_page.paragraph(in_words(agreed))
    yield html_page.paragraph(
        "A search takes the alternative that is the most probable one for its controller. The "
        "overlap of two searches in a choice is the probability that they share: 100% if both "
        "controllers give every alternative the same probability, 0% if they have none in common. "
        "A search without a controller takes its alternatives with probability 1. "
        "Choices that a network does not reach count like the others.",
        "quiet",
    )
    columns = [Column("choice"), Column("searches that take the same"), Column("overlap", True)]
    rows = [
        [
            html_page.path(analyses[0].nodes[choice.number].path),
            f"{choice.same} of {len(analyses)}",
            f"{choice.overlap:.0%}",
        ]
        for choice in agreed.choices
    ]
    yield html_page.table("Agreement by choice", columns, rows)
    columns = [Column("searches"), Column("choices taken alike"), Column("overlap", True)]
    rows = [
        [
            f"{names[pair.searches[0]]} and {pair.searches[1] + 1}",
            f"{pair.same} of {len(agreed.choices)}",
            f"{pair.overlap:.0%}",
        ]
        for pair in agreed.pairs
    ]
    yield html_page.table("Agreement by pair of searches", columns, rows)


def in_words(agreed):
    """Returns what an `Agreement` says, in a sentence."""
    return (
        f"Two of these searches take the same alternative in {agreed.same:.0%} of the choices on "
        f"average, where choosing at random would give {agreed.chance:.0%}, and their "
        f"probabilities overlap by {agreed.overlap:.0%}."
    )
