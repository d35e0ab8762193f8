"""Runs a search: an Estimator trains `model_fn.model_fn` and can be stopped and resumed."""

import io

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.nas_search.search import (
    model_fn,
    run_facts,
    search_costs,
    search_input,
    search_settings,
    strategies,
)
from examples.nas_search.search.search_progress import SearchProgress
from examples.nas_search.search.strategies import evaluating, history
from examples.nas_search.spaces import space_files
from examples.runs import checkpoints, cluster, engines
from examples.runs.errors import UserError
from examples.runs.stop_on_signal import StopOnSignal


def run(params):
    """Searches to the end, or until it is told to stop; a rerun resumes.

    Leaves params.json, model_spec.json, run_facts.json, checkpoints and event files in
    `params['checkpoint_dir']`; of a space of a file a copy; and without a controller the history of
    evaluated networks. In a cluster, only the chief writes.

    Args:
        params: Dict of settings, as `search_settings.resolve` returns it.

    Returns:
        Whether the search is at its end; of a worker, whether it was not told to stop.

    Raises:
        UserError: If it was begun with other settings, an image cannot be decoded, the loss is no
            longer a number, or in a cluster the strategy has no controller.
    """
    search_settings.check_same(params)
    has_controller = strategies.has_controller(params)
    if not has_controller:
        cluster.refuse(f"A search with --strategy {params['strategy']}")
    searching = engines.make_estimator(model_fn.model_fn, params, per_tower=True)
    writes = cluster.writes(searching.config)
    if writes:
        search_settings.save(params)
        space_files.keep(params["ssd"], params["checkpoint_dir"])
    data = data_lib.open_data(params)
    end = strategies.training_steps(params)
    start = checkpoints.latest_step(params["checkpoint_dir"])
    if writes and start < end:
        run_facts.save(params, data.sizes, start)

    def input_fn(params, config):
        return search_input.input_fn(data, params, start, config)

    if not has_controller and start < end:
        # A history that is there was left by a search that has no checkpoint any more.
        history.start(params["checkpoint_dir"], [])

    costs = search_costs.load(params, writes) if params["enable_cost_model"] else []
    targets = {
        f"estimated_cost{suffix}": cost.target
        for suffix, cost in zip(search_costs.suffixes(costs), costs)
    }
    progress = SearchProgress(end, targets, None if writes else io.StringIO())
    stop = StopOnSignal()
    try:
        with data_lib.naming_broken_images(data), progress, stop:
            cluster.train(searching, input_fn, end, [progress, stop])
    except tf.train.NanLossDuringTrainingError as error:
        raise UserError(
            f"The loss is no longer a number, near step {progress.step}. Lower "
            "--model_learning_rate, and name a new --checkpoint_dir."
        ) from error
    if not writes:
        return not stop.is_stopped
    is_trained = checkpoints.latest_step(params["checkpoint_dir"]) >= end
    if has_controller or not is_trained or stop.is_stopped:
        return has_controller and is_trained
    with data_lib.naming_broken_images(data), stop:
        return evaluating.evaluate(params, stop)
