"""Output of `analyze`: lines for people, CSV or JSON."""

import csv
import json

from examples.nas_search.reports import architecture_text

# The first four columns are those of the published tool.
_COLUMNS = (
    *("indices", "global_step", "directory", "cost_model"),
    *("ssd", "cost_target", "madds", "params", "probability", "entropy", "initial_entropy"),
)


def _write_lines(analyses, written, compared, stream):
    for analysis in analyses:
        # The first four as the published tool has them.
        lines = [
            f"directory = {analysis.directory}",
            f"global_step = {analysis.global_step}",
            f"indices = {':'.join(map(str, analysis.indices))}",
        ]
        if analysis.cost_model is not None:
            lines.append(f"cost_model = {analysis.cost_model:.6f}")
        if analysis.cost_target is not None:
            lines.append(f"cost_target = {analysis.cost_target:.6f}")
        lines += [f"cost {cost.label} = {_in_words(cost)}" for cost in analysis.costs]
        lines += [
            f"ssd = {analysis.ssd}",
            f"madds = {analysis.madds}",
            f"params = {analysis.params}",
            *_of_strategy(analysis),
        ]
        for path in written[analysis.directory]:
            lines.append(f"{'page' if path.endswith('.html') else 'plot'} = {path}")
        lines += ["", *analysis.layers, ""]
        if analysis.evaluations is None:
            lines += [*_certainty(analysis.nodes), ""]
        print("\n".join(lines), file=stream)
    if compared:
        print(f"comparison = {compared}", file=stream)


def _of_strategy(analysis):
    """Yields lines about the controller, or about the networks that were evaluated."""
    if analysis.evaluations is None:
        yield f"probability = {analysis.probability:.4g}"
        yield f"entropy = {analysis.entropy:.4g}"
        yield f"initial_entropy = {analysis.initial_entropy:.4g}"
    else:
        yield f"strategy = {analysis.settings['strategy']}"
        yield f"evaluations = {len(analysis.evaluations)}"
        yield f"reward = {max(each.reward for each in analysis.evaluations):.4g}"


def _write_csv(analyses, written, compared, stream):
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for analysis in analyses:
        cost = analysis.cost_model
        cost = "" if cost is None else f"{cost:.6f}"
        writer.writerow({**_record(analysis), "cost_model": cost})


def _write_json(analyses, written, compared, stream):
    records = [
        {
            **_record(analysis),
            "layers": analysis.layers,
            "costs": [cost._asdict() for cost in analysis.costs],
            "nodes": [node._asdict() for node in analysis.nodes],
            "files": written[analysis.directory],
            "comparison": compared,
        }
        for analysis in analyses
    ]
    json.dump(records, stream, indent=2)
    stream.write("\n")


WRITE = {"lines": _write_lines, "csv": _write_csv, "json": _write_json}
"""Writes searches to a stream, by the name of the format.

Args:
    analyses: List of `Analysis`es.
    written: Dict of the paths of the files that were written of each, by its directory.
    compared: Path of the page that compares them, None without.
    stream: A text stream.
"""


def _record(analysis):
    """Returns the numbers of an `Analysis` by column; None where the search had no cost model."""
    record = {name: getattr(analysis, name) for name in _COLUMNS}
    return {**record, "indices": ":".join(map(str, analysis.indices))}


def _in_words(cost):
    """Returns a description of a `search_analysis.Cost`."""
    share = f"{cost.estimate / cost.target:.1%} of the target {cost.target:.4g}"
    return f"{cost.estimate:.4g} {cost.unit_and_device}; {share}; weight {cost.weight:.3g}"


def _certainty(nodes):
    """Returns a table of the nodes with more than one alternative as lines."""
    rows = [("choice", "taken", "probability", "entropy", "of")]
    for node in nodes:
        if len(node.choices) == 1:
            continue
        taken = node.choices[node.index] if node.reached else "(not reached)"
        rows.append(
            (
                node.path,
                taken,
                f"{node.probability:.1%}",
                f"{node.entropy:.2f}",
                " ".join(node.choices),
            )
        )
    return architecture_text.aligned(rows, "<<>><")
