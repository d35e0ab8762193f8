"""`sample`: draws random networks whose cost lies in a window, as JSON.

Networks are drawn as an untrained controller would, every alternative of a choice with the same
probability, until enough of them cost what they should. An optional layer is thus skipped in half
of all networks. Random networks are what a search is to be compared with.
"""

import json
import sys

from examples.runs import flags
from examples.runs.errors import UserError
from examples.runs.flags import ANY, POSITIVE, Flag

_MAX_TRIES = 100_000

FLAGS = (
    Flag("ssd", str, None, "search space (default: proxylessnas_search)"),
    Flag(
        "search_dir",
        str,
        None,
        "search to take space, images, cost model and target from; of several the first",
    ),
    Flag(
        "min_cost",
        float,
        None,
        "least cost, in millions or the unit of the search (default: 1 % below the target)",
        (0, ANY),
    ),
    Flag(
        "max_cost",
        float,
        None,
        "largest cost, likewise (default: 1 % above the target)",
        (0, ANY),
    ),
    Flag("num_samples", int, 1, "how many networks", POSITIVE),
    Flag("seed", int, None, "the same one draws the same networks (default: others each time)"),
    Flag("max_tries", int, _MAX_TRIES, "networks after which to give up", POSITIVE),
)


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, FLAGS, {"all": {}})


def main(args):
    """Prints random networks as a JSON list of {indices, cost}; returns the exit status, 0."""
    # Here, because it imports TensorFlow: flags are checked without.
    from examples.nas_search import mobile_cost_model
    from examples.nas_search.fronts import random_networks

    given = flags.with_defaults(vars(args), FLAGS, {})
    directory = given.pop("search_dir")
    if directory is None:
        given["ssd"] = given["ssd"] or "proxylessnas_search"
        _space(given["ssd"])
        target = mobile_cost_model.target_cost(given["ssd"])
    else:
        given["ssd"], target, given["cost_model"] = _of_search(directory, given["ssd"])
    for name, share in (("min_cost", 0.99), ("max_cost", 1.01)):
        if given[name] is None:
            given[name] = share * target
    networks = random_networks.sample_networks(**given, progress=sys.stderr)
    print(json.dumps(networks, indent=2))
    return 0


def _of_search(directory, ssd):
    """Returns space, target and cost model of the search in a directory, of several the first."""
    from examples.nas_search.search import search_costs
    from examples.runs import settings_file

    params = settings_file.read(directory)
    if not params.get("rl_cost_model_target"):
        raise UserError(
            f"--search_dir must name a search in which cost counts, but {directory} is none. Leave "
            "it out, and pass --ssd, --min_cost and --max_cost."
        )
    if not isinstance(params.get("ssd"), str):
        raise UserError(
            f"--search_dir must name a search, but params.json in {directory} names no space. "
            "Name another one."
        )
    if ssd not in (None, params["ssd"]):
        raise UserError(
            f"--ssd must be that of the search, but is {ssd!r}, and {directory} searched "
            f"{params['ssd']!r}. Leave out one of the two."
        )
    _space(params["ssd"])
    try:
        # The directory may have moved.
        cost = search_costs.load({**params, "checkpoint_dir": directory}, keep=False)[0]
    except ValueError as error:
        raise UserError(f"--search_dir {directory}: {error}") from error
    return params["ssd"], cost.target, cost.model


def _space(ssd):
    from examples.nas_search.spaces import search_spaces

    try:
        return search_spaces.get_search_space_spec(ssd)
    except ValueError as error:
        raise UserError(str(error)) from error
