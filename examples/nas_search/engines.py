"""Where a run computes: on towers of this host, or on a TPU."""

import tensorflow.compat.v1 as tf

import replicate
from examples.nas_search.config.flags import SettingsError
from replicate import devices as devices_lib
from replicate import estimator

_TOWERS_ON_CPU = 2  # where there is no GPU; a step compares the networks of several towers


def resolve(params):
    """Returns the settings `devices`, `num_towers` and `use_tpu`.

    Args:
        params: Dict with `devices` (list of names), `num_towers` and `tpu`, of which one at most
            says something; otherwise it is every GPU, or two logical devices of the CPU.

    Raises:
        SettingsError: If more than one does, or a device does not exist.
    """
    given = [name for name in ("devices", "num_towers", "tpu") if params[name]]
    if len(given) > 1:
        raise SettingsError(
            f"--devices, --num_towers and --tpu exclude each other, but got "
            f"{' and '.join(f'--{name}' for name in given)}. Pass one of them."
        )
    if params["tpu"]:
        return {"devices": [], "num_towers": None, "use_tpu": True}
    try:
        names = devices_lib.canonical_list(params["devices"] or _default(params["num_towers"]))
        replicate.session_config(names)
    except ValueError as error:
        raise SettingsError(f"--devices: {error}") from error
    return {"devices": names, "num_towers": len(names), "use_tpu": False}


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


def make_estimator(model_fn, params, eval_batch_size=None):
    """Returns an Estimator that runs `model_fn` as towers, or a TPUEstimator.

    Args:
        model_fn: Function of `features, labels, mode, params`.
        params: Dict of resolved settings, which `model_fn` gets; on TPUs with `batch_size`, the
            rows for one core, added.
        eval_batch_size: Rows of a batch to evaluate, which TPUs need to know.

    Raises:
        SettingsError: If there is no such TPU.
    """
    config = {
        "model_dir": params["checkpoint_dir"],
        "tf_random_seed": params["seed"],
        "save_summary_steps": params["tpu_iterations_per_loop"],
        "log_step_count_steps": None,  # the progress bar tells the speed
    }
    if not params["use_tpu"]:
        devices = params["devices"]
        return estimator.Estimator(
            replicate.replicate_model_fn(model_fn, devices=devices),
            config=estimator.RunConfig(session_config=replicate.session_config(devices), **config),
            params=params,
        )
    tpu_config = estimator.tpu.TPUConfig(
        iterations_per_loop=params["tpu_iterations_per_loop"],
        # A batch for each core: images have their rows last there, where no other way splits them.
        per_host_input_for_training=estimator.tpu.InputPipelineConfig.PER_HOST_V2,
    )
    try:
        cluster = tf.distribute.cluster_resolver.TPUClusterResolver(
            params["tpu"], zone=params["tpu_zone"], project=params["gcp_project"]
        )
        run_config = estimator.tpu.RunConfig(cluster=cluster, tpu_config=tpu_config, **config)
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingsError(
            "--tpu must be the name or address of a TPU that can be reached from here, or 'local' "
            f"on a TPU VM, but {params['tpu']!r} is not: {error}. Leave it out to run on towers."
        ) from error
    return estimator.tpu.TPUEstimator(
        model_fn,
        config=run_config,
        params=params,
        train_batch_size=params["train_batch_size"],
        eval_batch_size=eval_batch_size,
    )


def network_input(images, params):
    """Returns images as networks take them: [rows, height, width, channels], in their type.

    Args:
        images: Float [rows, height, width, channels]; for TPUs [height, width, channels, rows],
            which is how they take them fastest.
        params: Settings. Those used are `use_tpu` and `use_bfloat16`.
    """
    if params["use_tpu"]:
        images = tf.transpose(images, [3, 0, 1, 2])
    return tf.cast(images, tf.bfloat16) if params["use_bfloat16"] else images


def latest_step(checkpoint_dir):
    """Returns the global step of the latest checkpoint in a directory, 0 if there is none."""
    checkpoint = tf.train.latest_checkpoint(checkpoint_dir)
    return int(tf.train.load_variable(checkpoint, "global_step")) if checkpoint else 0
