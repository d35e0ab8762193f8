"""Where a run computes: on towers of this host, on a TPU, or as an Estimator does by itself.

The setting `engine` says which:

    towers      an Estimator whose `model_fn` is replicated, one tower on each of `devices`
    tpu         a TPUEstimator: on the cores of a TPU, or without the setting `tpu` on this host
    any other   none of both; of `estimator`, `make_estimator` makes a plain Estimator

Programs that have no such setting run on towers, or with the setting `tpu` on a TPU.
"""

import functools

import tensorflow.compat.v1 as tf

import replicate
from examples.runs import tpu_cluster
from examples.runs.flags import SettingsError
from replicate import devices as devices_lib
from replicate import estimator

_TOWERS_ON_CPU = 2  # where there is no GPU: enough to see that towers work together
_PLACES = {"towers": ("devices", "num_towers"), "tpu": ("tpu",)}  # the flags of an engine


def resolve(params):
    """Returns the settings `devices`, `num_towers` and `use_tpu`.

    Args:
        params: Dict with `devices` (list of names), `num_towers` and `tpu`, of which at most one
            is set; otherwise towers are on every GPU, or two logical devices of the CPU.
            It may have `engine`, see above.

    Returns:
        Dict of the three. Without towers there are no `devices`, and `num_towers` is None.

    Raises:
        SettingsError: If more than one does, the engine has no use for it, or a device does not
            exist.
    """
    given = [name for name in ("devices", "num_towers", "tpu") if params[name]]
    if len(given) > 1:
        raise SettingsError(
            f"--devices, --num_towers and --tpu exclude each other, but got "
            f"{' and '.join(f'--{name}' for name in given)}. Pass one of them."
        )
    engine = _engine(params)
    for name in given:
        if name not in _PLACES.get(engine, ()):
            needed = next(other for other, names in _PLACES.items() if name in names)
            raise SettingsError(
                f"--{name} is for the engine {needed}, but this run uses the engine {engine}. "
                f"Leave out --{name}, or train with --engine {needed}."
            )
    if engine != "towers":
        return {"devices": [], "num_towers": None, "use_tpu": bool(params["tpu"])}
    try:
        names = devices_lib.canonical_list(params["devices"] or _default(params["num_towers"]))
        replicate.session_config(names)
    except ValueError as error:
        raise SettingsError(f"--devices: {error}") from error
    return {"devices": names, "num_towers": len(names), "use_tpu": False}


def _engine(params):
    return params.get("engine") or ("tpu" if params["tpu"] else "towers")


def _default(num_towers):
    gpus = [
        name for name in devices_lib.local() if tf.DeviceSpec.from_string(name).device_type == "GPU"
    ]
    if not gpus:
        return [f"/device:CPU:{index}" for index in range(num_towers or _TOWERS_ON_CPU)]
    if num_towers is not None and num_towers > len(gpus):
        raise SettingsError(
            f"--num_towers must be at most the number of GPUs, which is {len(gpus)}, but is "
            f"{num_towers}. Pass fewer, or name --devices."
        )
    return gpus[:num_towers]


def make_estimator(model_fn, params, eval_batch_size=None, **replicated):
    """Returns an Estimator that runs `model_fn`, as towers or not, or a TPUEstimator.

    Args:
        model_fn: Function of `features, labels, mode, params`.
        params: Dict of resolved settings, which `model_fn` gets; from a TPUEstimator with
            `batch_size`, the rows for one core, or for this host, added. Without `engine`, see
            above, `use_tpu` tells TPUs from towers.
        eval_batch_size: Rows of a batch to evaluate, which TPUEstimators need to know.
        **replicated: More arguments of `replicate.replicate_model_fn`, for towers.

    Raises:
        SettingsError: If there is no such TPU.
    """
    towers = functools.partial(_towers, replicated=replicated)
    makers = {"estimator": _plain, "towers": towers, "tpu": _tpu}
    engine = params.get("engine") or ("tpu" if params["use_tpu"] else "towers")
    config = {
        "model_dir": params["checkpoint_dir"],
        "tf_random_seed": params["seed"],
        "save_summary_steps": params["tpu_iterations_per_loop"],
        "log_step_count_steps": None,  # the progress bar tells the speed
    }
    return makers[engine](model_fn, params, config, eval_batch_size)


def _plain(model_fn, params, config, eval_batch_size):
    return estimator.Estimator(model_fn, config=estimator.RunConfig(**config), params=params)


def _towers(model_fn, params, config, eval_batch_size, replicated):
    devices = params["devices"]
    return estimator.Estimator(
        replicate.replicate_model_fn(model_fn, devices=devices, **replicated),
        config=estimator.RunConfig(
            # With the graph optimizer: much of what runs here is evaluation, which it fuses.
            session_config=replicate.session_config(devices, graph_options=tf.GraphOptions()),
            experimental_max_worker_delay_secs=0,  # In a cluster, no worker starts later.
            **config,
        ),
        params=params,
    )


def _tpu(model_fn, params, config, eval_batch_size):
    return estimator.tpu.TPUEstimator(
        model_fn,
        use_tpu=params["use_tpu"],
        config=_tpu_run_config(params, config),
        params=params,
        train_batch_size=params["train_batch_size"],
        eval_batch_size=eval_batch_size,
    )


def _tpu_run_config(params, config):
    tpu_config = estimator.tpu.TPUConfig(
        iterations_per_loop=params["tpu_iterations_per_loop"],
        # A batch for each core: images have their rows last there, where no other way splits them.
        per_host_input_for_training=estimator.tpu.InputPipelineConfig.PER_HOST_V2,
    )
    if not params["use_tpu"]:
        return estimator.tpu.RunConfig(tpu_config=tpu_config, **config)
    cluster = tpu_cluster.resolve(params)
    return estimator.tpu.RunConfig(cluster=cluster, tpu_config=tpu_config, **config)
