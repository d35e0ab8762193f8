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
    Flag("ssd", str, None, "search space, or JSON file of one (default: proxylessnas_search)"),
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
    Flag(
        "image_shape",
        int,
        None,
        "height, width and channels of an image (default: what the space is for)",
        POSITIVE,
        nargs="+",
    ),
    Flag("num_classes", int, None, "classes (default: what the space is for)", POSITIVE),
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
    image_shape, num_classes = given.pop("image_shape"), given.pop("num_classes")
    if directory is None:
        given["ssd"] = _own(given["ssd"] or "proxylessnas_search")
        _space(given["ssd"])
        given["cost_model"] = _model(given["ssd"], image_shape, num_classes)
        target = mobile_cost_model.target_of(given["cost_model"])
    elif image_shape or num_classes:
        raise UserError(
            "The search tells images and classes: leave out --image_shape and --num_classes, or "
            "--search_dir."
        )
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
    from examples.nas_search.spaces import space_files
    from examples.runs import settings_file

    params = settings_file.read(directory)
    space_files.read_kept(params.get("ssd"), directory)
    ssd = ssd and _own(ssd)
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


def _own(ssd):
    """Returns the identity of a space of a file; of others the name."""
    from examples.nas_search.spaces import space_files

    return space_files.resolve(ssd)["ssd"]


def _model(ssd, image_shape, num_classes):
    """Returns the `CostModel` of the multiply-adds of a space, for some images."""
    from examples.nas_search import mobile_cost_model
    from examples.nas_search.costs import cost_fit
    from examples.nas_search.spaces import space_files

    if space_files.has_identity(ssd) and not (image_shape and num_classes):
        raise UserError(
            "A space of a file is for images of any kind: pass --image_shape HEIGHT WIDTH CHANNELS "
            "and --num_classes, or the --search_dir of a search."
        )
    if image_shape and len(image_shape) != 3:
        raise UserError(
            "--image_shape must be height, width and channels, but is "
            f"{' '.join(map(str, image_shape))}. Pass three numbers."
        )
    shape, classes = mobile_cost_model.inputs_of(ssd)
    shape, classes = tuple(image_shape or shape), num_classes or classes
    space_files.check_builds(ssd, shape, classes)
    return cost_fit.fit(ssd, "madds", input_shape=shape, num_classes=classes)


def _space(ssd):
    from examples.nas_search.spaces import search_spaces

    try:
        return search_spaces.get_search_space_spec(ssd)
    except ValueError as error:
        raise UserError(str(error)) from error
