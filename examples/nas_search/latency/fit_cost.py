"""`fit-cost`: checks its settings, measures networks, fits a cost model and writes it."""

import contextlib
import datetime
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_classifier_factory, mobile_cost_model
from examples.nas_search.costs import cost_fit, cost_model_io
from examples.nas_search.latency import device_info, latency_fit, measurement_log, timing
from examples.nas_search.spaces import search_spaces, space_files
from examples.runs.flags import SettingsError
from examples.runs.progress_display import Display
from replicate import devices as devices_lib

LATENCY = "latency"
_NETWORKS = 300  # that are measured unless told otherwise
_DRAWS = 40_000
_FEWEST = 20  # that tell anything
_FEWEST_TRIED = 2  # R² of one says nothing


def resolve(params, preset_ssd=None):
    """Returns complete settings.

    Args:
        params: Dict of the values of all flags of `fit-cost`.
        preset_ssd: Name of the space whose images and classes are those of a space of a file,
            unless they are given. None: those of the spaces for ImageNet.

    Returns:
        The same with `input_shape` in place of `image_size`, and what was None filled in.

    Raises:
        SettingsError: If there is no such space, objective or device, or `output` is a directory.
    """
    params = dict(params)
    if tf.io.gfile.isdir(params["output"]):
        raise SettingsError(
            f"--output must be a file, but {params['output']} is a directory. Name a file in it, "
            "like cost.json."
        )
    try:
        search_spaces.get_search_space_spec(params["ssd"])
    except ValueError as error:
        raise SettingsError(f"--ssd: {error}") from error
    of_file = space_files.is_file(params["ssd"])
    params["ssd"] = space_files.resolve(params["ssd"])["ssd"]
    objectives = [LATENCY, *sorted(cost_fit.OBJECTIVES)]
    if params["objective"] not in objectives:
        raise SettingsError(
            f"--objective must be one of {objectives}, but is {params['objective']!r}. A new one "
            "gets its entry in `cost_fit.OBJECTIVES`."
        )
    input_shape, num_classes = mobile_cost_model.inputs_of(preset_ssd if of_file else params["ssd"])
    size = params.pop("image_size")
    params["input_shape"] = (size, size, input_shape[-1]) if size else input_shape
    params["num_classes"] = params["num_classes"] or num_classes
    space_files.check_builds(params["ssd"], params["input_shape"], params["num_classes"])
    if params["objective"] == LATENCY:
        params["num_networks"] = params["num_networks"] or _NETWORKS
        params["device"] = _device(params["device"])
        params["threads"] = params["threads"] or _cores()
    return params


def run(params, say, stream=None):
    """Fits a cost model and writes it to `params["output"]`.

    Args:
        params: Dict by `resolve`.
        say: Function of a line of text, by which it tells what it does.
        stream: Where progress is shown; None is `sys.stderr`.

    Returns:
        The `CostModel`.

    Raises:
        SettingsError: If there are too few different networks, or too few of them are held out or
            are not.
        UserError: If earlier measurements had other settings, or cannot be written.
    """
    if params["objective"] == LATENCY:
        model = _measured_model(params, say, sys.stderr if stream is None else stream)
    else:
        num_draws = params["num_networks"] or _DRAWS
        networks = cost_fit.random_networks(params["ssd"], params["seed"], num_draws)
        _check_held_out(params["num_held_out"], len(networks.index_lists))
        model = cost_fit.fit(
            params["ssd"],
            params["objective"],
            params["num_classes"],
            params["input_shape"],
            params["seed"],
            num_draws,
            params["num_held_out"],
        )
    measurement_log.write(params["output"], cost_model_io.to_json(model) + "\n")
    return model


def _check_held_out(num_held_out, count):
    """Checks that of `count` networks enough are held out, and enough are not."""
    if num_held_out > 1 and num_held_out != int(num_held_out):
        raise SettingsError(
            f"--num_held_out must be a whole number of networks, or a share below 1, but is "
            f"{num_held_out:g}. Pass e.g. {round(num_held_out)}."
        )
    number = int(cost_fit.is_held_out(count, num_held_out).sum())
    if min(number, count - number) < _FEWEST_TRIED:
        raise SettingsError(
            f"--num_held_out must leave {_FEWEST_TRIED} networks or more to fit the model to, and "
            f"as many to try it on, but is {num_held_out:g}, which is {number:,} of {count:,} "
            "different ones. Pass e.g. --num_held_out 0.2, or more --num_networks."
        )


def _device(name):
    available = devices_lib.local()
    try:
        name = devices_lib.canonical(name or devices_lib.default(available)[0])
        devices_lib.check_exist([name])
    except ValueError as error:
        raise SettingsError(f"--device: {error}") from error
    return name


def _cores():
    """Returns how many cores this process may use."""
    can_tell = hasattr(os, "sched_getaffinity")  # on Linux
    return len(os.sched_getaffinity(0)) if can_tell else os.cpu_count()


def _measured_model(params, say, stream):
    networks = cost_fit.random_networks(params["ssd"], params["seed"], _DRAWS)
    if len(networks.index_lists) < _FEWEST:
        raise SettingsError(
            f"--ssd must be a space of at least {_FEWEST} networks, but {params['ssd']} has "
            f"{len(networks.index_lists)}. Pass the space that is to be searched."
        )
    networks = networks.of(slice(params["num_networks"]))
    _check_held_out(params["num_held_out"], len(networks.index_lists))
    reference_name, reference = _reference(params["ssd"], networks.index_lists[0])
    how = {
        **{name: params[name] for name in ("device", "batch_size", "threads")},
        "rounds": params["repeats"],
        "reference_network": reference_name,
        **device_info.describe(params["device"]),
    }
    what = {name: params[name] for name in ("ssd", "num_classes", "seed")}
    header = {**what, **how, "input_shape": list(params["input_shape"])}
    path = params["output"] + ".measured.jsonl"
    measured = measurement_log.read(path, header)
    wanted = [_text(indices) for indices in networks.index_lists]
    measurement_log.check_networks(path, measured, wanted)
    say(
        f"Measuring {len(wanted):,} networks of {params['ssd']}"
        + (f", {len(measured):,} of which are known" if measured else "")
        + f": latency on {how['device_model']}, batch {how['batch_size']}, {how['threads']} "
        f"thread{'' if how['threads'] == 1 else 's'}, TensorFlow {how['tensorflow']}."
    )
    measured += _measure(wanted[len(measured) :], len(measured), reference, params, path, stream)
    measured = measured[: len(wanted)]

    costs = timing.at_one_speed(
        np.array([each.ms for each in measured]), np.array([each.reference_ms for each in measured])
    )
    held_out = cost_fit.is_held_out(len(costs), params["num_held_out"])
    kernels = latency_fit.prior_kernels(params["ssd"], params["input_shape"], params["num_classes"])
    kernel, bias, chosen = latency_fit.fit(networks.of(~held_out), costs[~held_out], kernels)
    say(
        f"Follows {' and '.join(chosen['priors']) or 'nothing as a whole'}; the rest by ridge "
        f"regression of strength {chosen['strength']:.3g}."
    )
    return cost_model_io.CostModel(
        ssd=params["ssd"],
        objective=LATENCY,
        unit="ms",
        input_shape=params["input_shape"],
        num_classes=params["num_classes"],
        seed=params["seed"],
        kernel=kernel,
        bias=bias,
        statistics=cost_fit.statistics(networks, costs, held_out, kernel, bias),
        measurement={
            **how,
            "reference_latency": float(np.median([each.reference_ms for each in measured])),
            "date": datetime.date.today().isoformat(),
        },
    )


def _measure(wanted, num_known, reference, params, path, stream):
    """Measures networks, group by group, and appends each group to the file.

    Args:
        wanted: List of their indices as texts.
        num_known: How many others had been measured before.
        reference: `ConvTowerSpec` of the reference network.
        params: Settings.
        path: Name of the file.
        stream: Where progress is shown.

    Returns:
        List of `measurement_log.Measured`.
    """
    setting = timing.Setting(
        params["input_shape"],
        params["num_classes"],
        params["batch_size"],
        params["device"],
        params["threads"],
        params["repeats"],
    )
    total = num_known + len(wanted)
    display = Display("fit-cost", "network", num_known, total, stream)
    measured = []
    with contextlib.closing(display):
        for start in range(0, len(wanted), timing.GROUP):
            group = wanted[start : start + timing.GROUP]

            def on_round(done, before=num_known + start, group=group):
                display.show(before + len(group) * done // setting.rounds)

            latencies, reference_ms = timing.measure_group(
                [_spec(params["ssd"], indices) for indices in group],
                reference,
                setting,
                np.random.RandomState(num_known + start),  # of the order only
                on_round,
            )
            new = [
                measurement_log.Measured(indices, float(ms), reference_ms)
                for indices, ms in zip(group, latencies)
            ]
            measurement_log.append(path, new)
            measured += new
    return measured


def _reference(ssd, first_network):
    """Returns name and spec of the space's reference network, of the first one if it has none."""
    name = mobile_cost_model.reference_of(ssd)
    if name:
        return name, search_spaces.get_search_space_spec(name)
    return _text(first_network), _spec(ssd, _text(first_network))


def _spec(ssd, indices):
    return mobile_classifier_factory.get_model_spec(ssd, indices=[*map(int, indices.split(":"))])


def _text(indices):
    return ":".join(map(str, indices))
