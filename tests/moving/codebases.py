"""The programs of `styles/`, run on every TensorFlow that is here, and what they leave behind.

Each is a small codebase as people wrote them for TensorFlow 1.4 to 1.14. On 1.15 it trains on one
device as it is, without this library; all else is launched by `launch.py`. A run begins with the
checkpoint of one, from TensorFlow 1.15 if it is here.
"""

import concurrent.futures
import json
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import environments

FOLDER = pathlib.Path(__file__).resolve().parent
# `make test` compares these and the running one; other environments can only test the contract.
WANTED = ("1.15", "2.15", "2.21")
VERSIONS = [v for v in environments.PYTHONS if v in WANTED or v == environments.HERE]
OLDEST = "1.15" if "1.15" in environments.PYTHONS else environments.HERE
# TensorFlow 2 shuffles in another order.
_OF_TPU = ["--hparams=hidden_sizes=[12,6]", "--shuffle_buffer=1"]
# Tags of events that report times.
OF_TIME = ("global_step/sec", "examples/sec", "checkpoint_path")


class Codebase(NamedTuple):
    """A program, and the ways in which it is run.

    Attributes:
        file: The file of `styles/` that Python gets.
        steps_flag: Its flag that says after which step training ends.
        ways: By name, further flags.
        differs_on_towers: Ways in which towers are to differ from one device, as the contract says.
        is_quick: Whether CI runs it; `make test-thorough` runs the others.
    """

    file: str
    steps_flag: str = "max_steps"
    ways: dict = {"": []}  # noqa: RUF012  # Not changed by anyone.
    differs_on_towers: tuple = ()
    is_quick: bool = False


CODEBASES = {
    "mnist": Codebase("mnist.py", is_quick=True),
    "captions": Codebase("train.py"),
    "ssd": Codebase(
        "train_ssd_network.py",
        "max_number_of_steps",
        {"": [], "frozen": ["--freeze_batch_norm"]},
        differs_on_towers=("",),  # Each tower normalises by its own rows.
    ),
    "tpu": Codebase("run_tpu.py", "train_steps", {"": _OF_TPU}),
}
DEVICES = {"one": [], "towers": ["--num_gpus=2"]}


def program(name):
    """Returns the path of a codebase's file that Python gets."""
    return FOLDER / "styles" / name / CODEBASES[name].file


def folder(root, version, name, way, devices):
    """Returns where a run trains."""
    return root / version / "-".join(filter(None, [name, way, devices]))


def planned(root, version, name, way, devices, flags, start=None, is_moved=True):
    """Returns an entry for `runs.py`."""
    model_dir = folder(root, version, name, way, devices)
    return {
        "program": str(program(name)),
        "flags": [f"--model_dir={model_dir}", f"--output={model_dir}.npz", *flags],
        "is_moved": is_moved,
        "from": str(start) if start else None,
        "model_dir": str(model_dir),
        "log": f"{model_dir}.log",
    }


def of_version(root, version, name):
    """Returns how a codebase is to be run on one TensorFlow: on one device, and over towers."""
    found = []
    for way, flags in CODEBASES[name].ways.items():
        start = folder(root, OLDEST, name, "", "start")
        if name == "ssd":  # It restores as its users do: by a function of its scaffold.
            flags, start = [*flags, f"--checkpoint_path={start}"], None
        for devices, more in DEVICES.items():
            is_moved = version != "1.15" or devices == "towers"
            found.append(planned(root, version, name, way, devices, flags + more, start, is_moved))
    return found


def first_step(root, name):
    """Returns what is to be run first: one step of a codebase, for the others to begin with."""
    flags = [f"--{CODEBASES[name].steps_flag}=1", *CODEBASES[name].ways[""]]
    return planned(root, OLDEST, name, "", "start", flags, is_moved=OLDEST != "1.15")


def run(root, version, plan):
    """Runs a plan in a process; raises if it could not, or was not of that TensorFlow."""
    (root / version).mkdir(exist_ok=True)
    path = root / f"{version}.json"
    path.write_text(json.dumps(plan))
    done = environments.run(version, "-W", "ignore", FOLDER / "runs.py", path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith(version + "."), done.stdout
    assert len(done.stdout.split()) == 1 + len(plan), "a program has ended the process"


def run_everywhere(root, name):
    """Runs a codebase on all TensorFlows; what it leaves behind is in `root`."""
    run(root, OLDEST, [first_step(root, name), *of_version(root, OLDEST, name)])
    others = [version for version in VERSIONS if version != OLDEST]
    with concurrent.futures.ThreadPoolExecutor(2) as processes:
        list(processes.map(lambda v: run(root, v, of_version(root, v, name)), others))


def events(directory):
    """Returns the scalars in the events of a folder, by tag and step."""
    found = {}
    for path in sorted(directory.glob("events*")) if directory.exists() else ():
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                number = value.simple_value
                if value.HasField("tensor"):  # Summaries of the second kind.
                    number = tf.make_ndarray(value.tensor)
                    if number.dtype.kind not in "fi" or number.ndim:
                        continue
                elif not value.HasField("simple_value"):
                    continue
                if value.tag not in OF_TIME:
                    found[f"{value.tag} {event.step}"] = np.float64(number)
    return found


def weights(model_dir):
    """Returns all that is in the last checkpoint of a folder, arrays by name."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(model_dir)))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


def found(root, version, name, way, devices):
    """Returns what a run left behind: arrays by kind and name.

    Kinds are `training`, the scalars that it wrote at each step, its loss among them; `evaluation`;
    `weights`, all of its last checkpoint, slots included; and `predictions`.
    """
    model_dir = folder(root, version, name, way, devices)
    log = pathlib.Path(f"{model_dir}.log")
    output = pathlib.Path(f"{model_dir}.npz")
    assert output.exists(), log.read_text()[-3000:]
    of_host = {f"host/{key}": value for key, value in events(model_dir / "host").items()}
    return {
        "training": {**events(model_dir), **of_host},
        "evaluation": events(model_dir / "eval"),
        "weights": weights(model_dir),
        "predictions": dict(np.load(str(output))),
    }
