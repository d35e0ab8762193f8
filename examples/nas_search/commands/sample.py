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
_BATCH = 1_000  # tries at a time

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
    print(json.dumps(sample_networks(**given, progress=sys.stderr), indent=2))
    return 0


def sample_networks(
    ssd,
    min_cost,
    max_cost,
    num_samples,
    *,
    seed=None,
    max_tries=_MAX_TRIES,
    progress=None,
    cost_model=None,
):
    """Draws random networks of a search space until enough of them cost what they should.

    Args:
        ssd: Name of the space; of one in a file, its identity, see `space_files.py`.
        min_cost: Least cost, as the cost model estimates it, in its unit.
        max_cost: Largest cost.
        num_samples: How many networks, >= 1. The same one may be drawn twice.
        seed: Int on which the draws depend, or None for others in each call.
        max_tries: After how many networks to give up.
        progress: Text stream that is told how it goes, or None.
        cost_model: A `CostModel` of the space. None: of multiply-adds, on the images and classes
            that the space is made for, ImageNet's if it does not say.

    Returns:
        List of dicts: `indices`, separated by colons, and `cost`, a float in the unit of the
        window.

    Raises:
        UserError: If there is no such space, a number is out of range, or too few of `max_tries`
            networks cost what they should.
    """
    import numpy as np

    from examples.nas_search import mobile_cost_model
    from examples.nas_search.costs import cost_features, network_batch

    if num_samples < 1:
        raise UserError(f"`num_samples` must be at least 1, but is {num_samples}.")
    if not min_cost <= max_cost:
        raise UserError(
            f"`max_cost` must not be less than `min_cost`, {min_cost:.6g}, but is {max_cost:.6g}. "
            "Swap or change them."
        )
    spec = _space(ssd)
    model = cost_model or mobile_cost_model.default_model(ssd)
    random = np.random.RandomState(seed)
    found, costs = [], []
    while len(found) < num_samples and len(costs) < max_tries:
        tries = min(_BATCH, max_tries - len(costs))
        index_lists = network_batch.random_index_lists(spec, tries, random)
        estimates = model.estimate(cost_features.feature_positions(spec, index_lists)[1])
        costs.extend(estimates)
        for indices, cost in zip(index_lists, estimates):
            if min_cost <= cost <= max_cost and len(found) < num_samples:
                found.append({"indices": ":".join(map(str, indices)), "cost": float(cost)})
        if progress is not None:
            print(f"{len(costs):,} tries: {len(found)} of {num_samples} found", file=progress)
    if len(found) < num_samples:
        low, middle, high = np.quantile(costs, [0, 0.5, 1])
        raise UserError(
            f"Only {len(found)} of {len(costs):,} random networks of {ssd} cost between "
            f"{min_cost:.6g} and {max_cost:.6g} {model.unit}, but {num_samples} are "
            f"wanted. They cost {low:.4g} to {high:.4g}, half of them less than {middle:.4g}. Move "
            "or widen the window (`--min_cost`, `--max_cost`), or allow more `--max_tries`."
        )
    return found


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
