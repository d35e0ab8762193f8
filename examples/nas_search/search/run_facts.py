"""run_facts.json: facts of a run that its settings do not tell: its images, machines and versions.

They are beside its checkpoints and not in params.json, because a run may go on with other versions
or on another machine. Runs of older versions of this program have none. The file is a dict:

    images      number of images by part, `train`, `validation` and `test`
    machines    list of dicts of texts, see `device_info.describe`, with `replicate`, its version,
                and `devices`, which are used; a run that went on elsewhere has several
"""

import os

import tensorflow.compat.v1 as tf

import replicate
from examples.nas_search.latency import device_info
from examples.runs import json_file, settings_file

NAME = "run_facts.json"


def save(params, sizes, start, more=None):
    """Writes the facts of a run that begins or goes on.

    Args:
        params: Resolved settings. Those used are `checkpoint_dir`, `devices`, `use_tpu` and `tpu`.
        sizes: Dict of the number of images by part.
        start: Step from which it goes on; at 0, facts of a run before are dropped.
        more: Dict of other facts that can be written as JSON, or None.
    """
    directory = params["checkpoint_dir"]
    machines = machines_of(read(directory)) if start else []
    here = _machine(params)
    if here not in machines:
        machines.append(here)
    facts = {"images": dict(sizes), "machines": machines, **(more or {})}
    settings_file.write_json(facts, directory, NAME)


def read(directory):
    """Returns the facts of the run in a directory, a dict; empty if there are none to be read."""
    try:
        facts = json_file.read(os.path.join(directory, NAME))
    except (tf.errors.OpError, json_file.JsonError):
        return {}
    return facts if isinstance(facts, dict) else {}


def machines_of(facts):
    """Returns the list of machines of facts that may be from elsewhere, all dicts of texts."""
    machines = facts.get("machines")
    return list(filter(_has_texts, machines)) if isinstance(machines, list) else []


def _has_texts(machine):
    return isinstance(machine, dict) and all(isinstance(text, str) for text in machine.values())


def _machine(params):
    devices = params["devices"] or ["/device:CPU:0"]
    described = {**device_info.describe(devices[0]), "replicate": replicate.__version__}
    if params["use_tpu"]:  # This host only feeds it.
        return {**described, "device_model": "TPU", "devices": params["tpu"]}
    return {**described, "devices": " ".join(devices)}
