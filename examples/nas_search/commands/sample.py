"""`sample`: draws random networks whose cost lies in a window, as JSON.

Networks are drawn as an untrained controller would, every alternative of a choice with the same
probability, until enough of them cost what they should. An optional layer is thus skipped in half
of all networks. Random networks are what a search is to be compared with.
"""

import json
import sys

from examples.nas_search import flags
from examples.nas_search.errors import UserError
from examples.nas_search.flags import ANY, POSITIVE, Flag

_MAX_TRIES = 100_000
_BATCH = 1_000  # tries at a time

FLAGS = (
    Flag("ssd", str, "proxylessnas_search", "search space"),
    Flag(
        "min_cost",
        float,
        None,
        "least cost, in million multiply-adds (default: 1 % below the target of a search)",
        (0, ANY),
    ),
    Flag(
        "max_cost",
        float,
        None,
        "largest cost, in million multiply-adds (default: 1 % above the target of a search)",
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

    given = flags.with_defaults(vars(args), FLAGS, {})
    _space(given["ssd"])
    target = mobile_cost_model.target_cost(given["ssd"])
    for name, share in (("min_cost", 0.99), ("max_cost", 1.01)):
        if given[name] is None:
            given[name] = share * target
    print(json.dumps(sample_networks(**given, progress=sys.stderr), indent=2))
    return 0


def sample_networks(
    ssd, min_cost, max_cost, num_samples, *, seed=None, max_tries=_MAX_TRIES, progress=None
):
    """Draws random networks of a search space until enough of them cost what they should.

    Args:
        ssd: Name of the space.
        min_cost: Least cost, in millions of multiply-adds as the cost model estimates them.
        max_cost: Largest cost.
        num_samples: How many networks, >= 1. The same one may be drawn twice.
        seed: Int on which the draws depend, or None for others in each call.
        max_tries: After how many networks to give up.
        progress: Text stream that is told how it goes, or None.

    Returns:
        List of dicts: `indices`, separated by colons, and `cost`, a float in the unit of the
        window.

    Raises:
        UserError: If there is no such space, a number is out of range, or too few of `max_tries`
            networks cost what they should.
    """
    import numpy as np

    from examples.nas_search import cost_features, mobile_cost_model, network_batch

    if num_samples < 1:
        raise UserError(f"`num_samples` must be at least 1, but is {num_samples}.")
    if not min_cost <= max_cost:
        raise UserError(
            f"`max_cost` must not be less than `min_cost`, {min_cost:.6g}, but is {max_cost:.6g}. "
            "Swap or change them."
        )
    spec = _space(ssd)
    model = mobile_cost_model.default_model(ssd)
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
            f"{min_cost:.6g} and {max_cost:.6g} million multiply-adds, but {num_samples} are "
            f"wanted. They cost {low:.4g} to {high:.4g}, half of them less than {middle:.4g}. Move "
            "or widen the window (`--min_cost`, `--max_cost`), or allow more `--max_tries`."
        )
    return found


def _space(ssd):
    from examples.nas_search import search_spaces

    try:
        return search_spaces.get_search_space_spec(ssd)
    except ValueError as error:
        raise UserError(str(error)) from error
