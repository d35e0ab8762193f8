"""Draws what `nas_quality.py` printed: accuracy by cost and by rank, and entropy by step.

python -m benchmarks.nas_quality --preset mnist5k > mnist5k.jsonl
python -m benchmarks.nas_pictures mnist5k.jsonl docs/nas_mnist5k.svg
"""

import argparse
import json
import pathlib

KINDS = {
    "random": {"color": "0.6", "marker": "o", "s": 18, "label": "random"},
    "reference": {"color": "tab:blue", "marker": "s", "s": 30, "label": "published shapes"},
    "search": {"color": "tab:red", "marker": "*", "s": 90, "label": "found by searches"},
}


def main(argv=None):
    """Draws the file that the command line `argv` names; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lines", type=pathlib.Path, help="what nas_quality printed")
    parser.add_argument("picture", type=pathlib.Path, help="file to write, .svg or .png")
    args = parser.parse_args(argv)
    networks, comparison = read(args.lines.read_text(encoding="utf-8"))
    import matplotlib

    # The same figures are the same file.
    undated = {"Date": None} if args.picture.suffix == ".svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": "nas_quality"}):
        figure = draw(networks, comparison)
        figure.savefig(args.picture, bbox_inches="tight", metadata=undated)


def read(text):
    """Reads what `nas_quality.py` printed.

    Args:
        text: Its lines; those that are not JSON are passed over.

    Returns:
        Networks, a dict from kind, a key of `KINDS`, to a dict of the printed ones by name; and
        the comparison, a dict.

    Raises:
        ValueError: If there is no comparison in it, which is printed last.
    """
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    networks = {kind: {} for kind in KINDS}
    comparison = None
    for line in lines:
        kind, _, name = line.get("network", "").partition(" ")
        if kind in networks:
            networks[kind][name] = line
        elif "welch_p" in line:
            comparison = line
    if comparison is None:
        raise ValueError(
            "The last line that `nas_quality` prints compares, but of these "
            f"{len(lines)} lines none does. Run it again with the same --out: it goes on where it "
            "stopped."
        )
    return networks, comparison


def draw(networks, comparison):
    """Returns a matplotlib `Figure` of what `read` returns."""
    from matplotlib.figure import Figure

    searches = [line for line in networks["search"].values() if "entropy" in line]
    figure = Figure(figsize=(13.5 if searches else 9, 4))
    # Files that were printed by older versions have no entropy.
    by_cost, ranked, *by_step = figure.subplots(1, 3 if searches else 2)
    ranked.sharey(by_cost)
    for kind, style in KINDS.items():
        lines = networks[kind].values()
        if lines:
            accuracies = [100 * line["test"] for line in lines]
            by_cost.scatter([line["madds"] / 1e3 for line in lines], accuracies, **style)
    # In a column, one below the other, as some are alike.
    references = sorted(networks["reference"].items(), key=lambda item: -item[1]["test"])
    for place, (name, line) in enumerate(references):
        by_cost.annotate(
            name.replace("_", " "),
            (line["madds"] / 1e3, 100 * line["test"]),
            xytext=(0.62, 0.5 - 0.07 * place),
            textcoords="axes fraction",
            fontsize=7,
            color=KINDS["reference"]["color"],
            arrowprops={"arrowstyle": "-", "color": "tab:blue", "linewidth": 0.4},
        )
    by_cost.axvline(comparison["target_madds"] / 1e3, color="0.8", linewidth=1, zorder=0)
    by_cost.set_xlabel("thousand multiply-adds")
    by_cost.set_ylabel("accuracy on test images, %")

    everything = sorted(
        ((line["test"], kind) for kind in KINDS for line in networks[kind].values()), reverse=True
    )
    for kind, style in KINDS.items():
        places = [place for place, (_, each) in enumerate(everything, 1) if each == kind]
        accuracies = [100 * accuracy for accuracy, each in everything if each == kind]
        ranked.scatter(places, accuracies, **style)
    ranked.axhline(100 * comparison["best_of_k"], color="0.4", linestyle="--", linewidth=1)
    ranked.annotate(
        f"best of {comparison['affordable']:.0f} random ones, by validation",
        (1.0, 100 * comparison["best_of_k"]),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 3),
        textcoords="offset points",
        ha="right",
        fontsize=7,
    )
    ranked.set_xlabel("rank among all networks")
    ranked.legend(*by_cost.get_legend_handles_labels(), fontsize=8, loc="lower left")
    for axes in by_step:
        _draw_entropy(axes, searches)
    figure.tight_layout()
    return figure


def _draw_entropy(axes, searches):
    """Draws how controllers decided: the better the network found, the darker its line."""
    import matplotlib
    import matplotlib.ticker

    accuracies = [100 * line["test"] for line in searches]
    colors = matplotlib.cm.ScalarMappable(
        matplotlib.colors.Normalize(min(accuracies) - 1, max(accuracies)), "Reds"
    )
    for line, accuracy in zip(searches, accuracies):
        steps = sorted(line["entropy"], key=int)
        nats = [line["entropy"][step] for step in steps]
        axes.plot(list(map(int, steps)), nats, color=colors.to_rgba(accuracy))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))  # Counts of steps are wide.
    axes.set_xlabel("step of the search")
    axes.set_ylabel("entropy of the controller, nats")
    axes.figure.colorbar(colors, ax=axes, label="accuracy of the network found, %")


if __name__ == "__main__":
    main()
