"""Facts of a stand-alone training for its model card: those of any run, and of the search before.

In run_facts.json, see `run_facts.py`, a training of a network that was found also has `search`, a
dict, so that the directory of the search may go:

    settings       its params.json
    global_step    the step at which its result was read
    indices        the network that it found, a text; the one that is trained may be another
    costs          list of dicts, see `search_analysis.Cost`: estimates for that network, targets
    facts          its run_facts.json, empty if it has none
"""

from examples.nas_search.reports import search_analysis
from examples.nas_search.search import run_facts
from examples.runs import checkpoints


def save(params, sizes):
    """Writes the facts of a training that begins or goes on.

    Args:
        params: Settings, as `train_settings.resolve` returns them.
        sizes: Dict of the number of images by part.
    """
    start = checkpoints.latest_step(params["checkpoint_dir"])
    # A search that went on meanwhile may have found another network.
    search = _kept(params["checkpoint_dir"]) if start else _of_search(params["search_dir"])
    run_facts.save(params, sizes, start, {"search": search} if search else None)


def _kept(directory):
    return run_facts.read(directory).get("search")


def _of_search(directory):
    """Returns the facts of the search in a directory, None if there is none to be read."""
    if not directory:
        return None
    try:
        found = search_analysis.analyze(directory)
    except search_analysis.UnreadableError:  # The network was told by its indices.
        return None
    return {
        "settings": found.settings,
        "global_step": found.global_step,
        "indices": ":".join(map(str, found.indices)),
        "costs": [cost._asdict() for cost in found.costs],
        "facts": run_facts.read(directory),
    }
