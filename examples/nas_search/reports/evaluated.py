"""The networks that a search without controller evaluated, as parts of its page."""

from examples.nas_search.reports import html_page
from examples.nas_search.reports.html_page import Column
from examples.nas_search.search import search_costs

_MOST = 20  # networks of the table


def headline(analysis):
    """Yields the most important figures of an `Analysis` with evaluations: name, value and note."""
    best = _best_first(analysis.evaluations)[0]
    number = len(analysis.evaluations)
    yield "reward", f"{best.reward:.4g}", f"the best of {number:,} networks evaluated"
    yield "validation accuracy", f"{best.accuracy:.1%}", "of the network found, with shared weights"
    seconds = sum(evaluation.seconds for evaluation in analysis.evaluations)
    yield "time", f"{seconds:,.0f} s", "of the processor, to evaluate networks"


def section(analysis):
    """Yields a table of the best networks that were evaluated."""
    rows = _best_first(analysis.evaluations)[:_MOST]
    yield html_page.paragraph(
        f"The search has evaluated {len(analysis.evaluations):,} networks by the strategy "
        f"{analysis.settings['strategy']}, with the weights that they share. The network found is "
        "the first one here.",
        "quiet",
    )
    suffixes = search_costs.suffixes(analysis.costs)
    names = [f"cost{suffix.replace('/', ' ')}" for suffix in suffixes if analysis.costs]
    columns = [Column("network"), Column("reward", True), Column("accuracy", True)]
    columns += [Column(name, True) for name in (*names, "step")]
    cells = [
        [
            html_page.code(":".join(map(str, each.indices))),
            *(f"{each.reward:.4g}", f"{each.accuracy:.1%}"),
            *(f"{cost:.4g}" for cost in each.costs),
            f"{each.step:,}",
        ]
        for each in rows
    ]
    yield html_page.table(f"The best {len(rows)} of the networks evaluated", columns, cells)


def _best_first(evaluations):
    return sorted(evaluations, key=lambda evaluation: -evaluation.reward)
