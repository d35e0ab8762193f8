"""`rank`: orders networks by their accuracy with the weights that a search shares among them.

The networks are drawn at random, or named in a file. For networks that were trained alone as well,
it tells how well the shared weights predict the order of their accuracies.
"""

import sys
from typing import Any, Dict, List, Optional, Tuple

from examples.runs import flags, training_flags
from examples.runs.errors import UserError
from examples.runs.flags import ANY, POSITIVE, Flag, SettingsError

_NUM_NETWORKS = 40

FLAGS = (
    Flag("search_dir", str, None, "search whose weights are shared", required=True),
    Flag(
        "num_networks",
        int,
        None,
        f"random networks to draw (default: {_NUM_NETWORKS}, or none if --networks or --trained "
        "names some)",
        POSITIVE,
    ),
    Flag(
        "window",
        float,
        None,
        "draw networks whose cost is that of the search, give or take this share of it (default: "
        "of any cost)",
        (0, ANY),
    ),
    Flag(
        "networks",
        str,
        None,
        "file of networks: JSON as `sample` prints it, or an object with indices in each line",
    ),
    Flag(
        "trained",
        str,
        None,
        "networks that were trained alone: a file of JSON lines with indices and the accuracy "
        "test, validation or accuracy, or a directory of trainings by `train`",
    ),
    Flag("output", str, None, "JSON file to write as well"),
    Flag(
        "split",
        str,
        "validation",
        "images to evaluate on",
        choices=("train", "validation", "test"),
    ),
    Flag("checkpoint", str, None, "path of the checkpoint (default: the latest one)"),
    Flag(
        "batch_size",
        int,
        None,
        "images by which networks normalize (default: as many as a tower of the search takes)",
        POSITIVE,
    ),
    Flag("seed", int, 0, "number that the random networks depend on", (0, 2**31 - 1)),
    *(flag for flag in training_flags.ENGINE if flag.name in ("devices", "num_towers")),
)


def add_flags(parser: Any) -> None:
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, FLAGS, {"all": {}})


def main(args: Any) -> int:
    """Evaluates networks and prints them, the best first; returns the exit status, 0.

    Args:
        args: Namespace with what `add_flags` adds.

    Raises:
        UserError: If the directory holds no search with a checkpoint, a file cannot be read, a
            network is of another space, or fewer than three networks were trained.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.nas_search.reports import ranking
    from examples.nas_search.search import network_rewards
    from examples.nas_search.search.shared_weights import SharedWeights, check_networks
    from examples.nas_search.spaces import search_spaces
    from examples.runs import checkpoints

    given = flags.with_defaults(vars(args), FLAGS, {})
    params = _settings(given["search_dir"])
    checkpoints.find(given["search_dir"], given["checkpoint"])  # before anything is drawn
    space = search_spaces.get_search_space_spec(params["ssd"])
    trained = ranking.read_trained(given["trained"]) if given["trained"] else {}
    costs = network_rewards.costs_of_search(params)
    networks = list(dict.fromkeys([*trained, *_listed(given), *_drawn(given, costs, space)]))
    check_networks(space, networks)
    with SharedWeights(
        params, given["split"], given["checkpoint"], given["batch_size"], _devices(given)
    ) as shared:
        estimates = network_rewards.estimate(costs[:1], params["ssd"], networks)
        accuracies = _evaluated(shared, networks)
        ranked = ranking.rank(networks, accuracies, estimates[0] if costs else None, trained)
        facts = {
            "search_dir": given["search_dir"],
            "ssd": params["ssd"],
            "global_step": shared.global_step,
            "split": given["split"],
            "num_images": shared.num_images,
            "cost_unit": costs[0].model.unit if costs else None,
        }
    result = {**facts, **ranked}
    print("\n".join(ranking.in_words(result)))
    if given["output"]:
        ranking.write(given["output"], result)
    return 0


def _settings(directory: str) -> Dict[str, Any]:
    """Returns the settings of a search, with the directory in which it is now."""
    from examples.nas_search.reports import search_files
    from examples.nas_search.search import search_flags
    from examples.nas_search.spaces import search_spaces, space_files

    try:
        params = search_files.read_settings(directory)
        space_files.read_kept(params["ssd"], directory)
        search_spaces.get_search_space_spec(params["ssd"])
    except ValueError as error:
        raise UserError(f"--search_dir must name a search, but {directory}: {error}") from error
    needed = ("train_batch_size", "rl_batch_size_multiplier", "devices", "use_tpu", "dataset")
    needed += ("num_towers", "seed", "validation_fraction", "test_fraction")
    missing = [name for name in needed if name not in params]
    if missing:
        raise UserError(
            f"--search_dir must name a search, but params.json in {directory} lacks "
            f"{', '.join(missing)}. Name the --checkpoint_dir of `search`."
        )
    own = [flag for flag in search_flags.FLAGS if flag.name in needed]
    flags.check({**params, "devices": params["devices"] or None}, own)
    return {**params, "checkpoint_dir": directory}


def _listed(given: Dict[str, Any]) -> List[Tuple[int, ...]]:
    """Returns the networks of --networks."""
    from examples.nas_search.reports import ranking

    return ranking.read_networks(given["networks"]) if given["networks"] else []


def _drawn(given: Dict[str, Any], costs: List[Any], space: Any) -> List[Tuple[int, ...]]:
    """Returns random networks that differ from each other, as many as are asked for."""
    import numpy as np

    from examples.nas_search.costs import network_batch

    number = given["num_networks"]
    if number is None:
        number = 0 if given["networks"] or given["trained"] else _NUM_NETWORKS
    if not number:
        return []
    if given["window"] is None:
        random = np.random.RandomState(given["seed"])
        drawn = network_batch.random_index_lists(space, 4 * number, random).tolist()
    else:
        drawn = _in_window(given, costs, 4 * number)
    return list(dict.fromkeys(map(tuple, drawn)))[:number]


def _in_window(given: Dict[str, Any], costs: List[Any], number: int) -> List[List[int]]:
    """Returns random networks that cost what the search aims at, give or take a share."""
    from examples.nas_search.fronts import random_networks

    if not costs:
        raise SettingsError(
            f"--window is about cost, which did not count in the search in {given['search_dir']}. "
            "Leave it out."
        )
    model, target = costs[0].model, costs[0].target
    least, most = ((1 + sign * given["window"]) * target for sign in (-1, 1))
    drawn = random_networks.sample_networks(
        model.ssd, least, most, number, seed=given["seed"], cost_model=model
    )
    return [[int(index) for index in one["indices"].split(":")] for one in drawn]


def _devices(given: Dict[str, Any]) -> Optional[List[str]]:
    """Returns the devices that flags name, None if they name none."""
    from examples.runs import engines

    if not given["devices"] and not given["num_towers"]:
        return None
    return engines.resolve({**given, "tpu": ""})["devices"]


def _evaluated(shared: Any, networks: List[Tuple[int, ...]]) -> Any:
    """Returns the accuracies of networks; shows on stderr how it goes."""
    import numpy as np

    from examples.runs.progress_display import Display

    display = Display("rank", "network", 0, len(networks), sys.stderr)
    accuracies: List[float] = []
    try:
        for some in shared.in_turn(networks):
            accuracies.extend(some)
            display.show(len(accuracies))
    finally:
        display.close()
    return np.array(accuracies)
