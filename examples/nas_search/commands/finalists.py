"""`finalists`: trains the networks that a search puts first, and tells the best.

Each is trained alone, as `train` does; validation images tell the best, test images how good it is.
Writes finalists.json. A rerun goes on where it stopped.
"""

import os
import pathlib
import statistics

from examples.nas_search.commands import PROGRAM
from examples.nas_search.commands.train import tell_if_searching
from examples.runs import flags, training_flags
from examples.runs.command_line import INTERRUPTED, say
from examples.runs.flags import POSITIVE, Flag, SettingsError

RECORD = "finalists.json"

FLAGS = (
    Flag("search_dir", str, None, "search whose networks are trained", required=True),
    Flag("out", str, None, "directory for trainings (default: finalists in --search_dir)"),
    Flag(
        "networks",
        str,
        None,
        "file of networks in the order in which they are put, as `rank` writes it (default: those "
        "that the search puts first)",
    ),
    Flag("num_networks", int, 8, "how many of the first networks", POSITIVE),
    Flag("num_trainings", int, 1, "how often each is trained", POSITIVE),
    Flag(
        "epochs",
        int,
        None,
        "passes through the training images (default: those of the preset for a network alone)",
        POSITIVE,
    ),
    Flag("seed", int, 0, "of the first training of each network", (0, 2**31 - 1)),
    *(flag for flag in training_flags.ENGINE if flag.name in ("devices", "num_towers")),
)


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, FLAGS, {"all": {}})


def main(args):
    """Trains networks, prints them, the best first, and writes the record.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0, or `INTERRUPTED` if it was stopped before the end.

    Raises:
        UserError: If the directory holds no search that could be analysed, a file cannot be read,
            a network is of another space, or a training was begun with other settings.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.nas_search.reports import search_analysis
    from examples.runs import settings_file

    given = flags.with_defaults(vars(args), FLAGS, {})
    out = given["out"] or os.path.join(given["search_dir"], "finalists")
    if os.path.exists(out) and not os.path.isdir(out):
        raise SettingsError(f"--out must be a directory, but {out} is a file. Name another one.")
    analysis = search_analysis.analyze(given["search_dir"])
    tell_if_searching(given["search_dir"])
    networks = _networks(given, analysis)
    trained = []
    try:
        for place, network in enumerate(networks, start=1):
            say(f"Network {place} of {len(networks)}: {_text(network)}.")
            trained.append({"place": place, **_trained(given, out, _text(network))})
            say(f"    Accuracy on validation images: {trained[-1]['validation']:.2%}.")
    except KeyboardInterrupt:
        say("Stopped; all trainings so far are saved. Go on with")
        say(f"    {PROGRAM.command_line('finalists', *flags.given_arguments(args))}")
        return INTERRUPTED
    trained.sort(key=lambda network: -network["validation"])
    facts = {"search_dir": given["search_dir"], "ssd": analysis.ssd}
    record = {**facts, "global_step": analysis.global_step, "networks": trained}
    settings_file.write_json(record, out, RECORD)
    print("\n".join(_in_words(record)))
    say(f"Written: {os.path.join(out, RECORD)}")
    return 0


def _networks(given, analysis):
    """Returns the networks to train, in the order in which they are put."""
    from examples.nas_search.reports import finalists, ranking
    from examples.nas_search.search.shared_weights import check_networks
    from examples.nas_search.spaces import search_spaces

    if not given["networks"]:
        return finalists.finalists(analysis, given["num_networks"])
    networks = ranking.read_networks(given["networks"])
    check_networks(search_spaces.get_search_space_spec(analysis.ssd), networks)
    return finalists.different(analysis.ssd, networks)[: given["num_networks"]]


def _trained(given, out, indices):
    """Trains a network, or looks it up; returns its figures."""
    from examples.nas_search.fronts import alone

    devices = given["devices"]
    runs = alone.train(
        pathlib.Path(out),
        indices,
        given["num_trainings"],
        given["seed"],
        search_dir=given["search_dir"],
        epochs=given["epochs"],
        **({"devices": devices} if devices else {"num_towers": given["num_towers"] or 1}),
    )
    return {
        "indices": indices,
        **{name: statistics.mean(run[name] for run in runs) for name in ("validation", "test")},
        "madds": runs[0]["madds"],
        "checkpoint_dir": os.path.join(out, indices.replace(":", ""), str(given["seed"])),
        "trainings": runs,
    }


def _in_words(record):
    """Yields the lines that tell what the record holds."""
    networks = record["networks"]
    yield (
        f"The first {len(networks)} networks of {record['ssd']}, trained alone, by accuracy on "
        "validation images:"
    )
    yield f"{'validation':>10} {'test':>8} {'MAdds':>13} {'place':>6}  network"
    for network in networks:
        yield (
            f"{network['validation']:>10.2%} {network['test']:>8.2%} {network['madds']:>13,} "
            f"{network['place']:>6}  {network['indices']}"
        )
    best = networks[0]["checkpoint_dir"]
    yield f"The best is in {best}. Export it with"
    given = ("--checkpoint_dir", best, "--export_dir", f"{best}-exported")
    yield f"    {PROGRAM.command_line('export', *given)}"


def _text(network):
    return ":".join(map(str, network))
