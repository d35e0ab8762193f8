"""`python -m replicate compare`: whether a model trains over towers as on one device, for a CI."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Sequence

import tensorflow.compat.v1 as tf

from replicate import compat
from replicate.arguments import named
from replicate.comparing import flow, task

_REDUCTIONS = ("SUM", "MEAN", "SUM_BY_NONZERO_WEIGHTS", "SUM_OVER_BATCH_SIZE")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m replicate compare",
        description="Trains a model_fn on one device and over towers, from one start on the same "
        "batches, compares the two, and says what in the graph can explain a difference. Exits "
        "with 0 if they are equal, 1 if not or if a run fails, 2 if an argument is wrong.",
    )
    made.add_argument("model_fn", help="module:name of the model_fn, not replicated")
    made.add_argument("input_fn", help="module:name of the input_fn of the global batch")
    made.add_argument("--params", help="JSON, or module:name of them or of a function for them")
    made.add_argument("--config", help="module:name of a RunConfig, or of a function for one")
    made.add_argument(
        "--devices", nargs="+", help="default: every GPU, or /cpu:0 /cpu:1 if there are not two"
    )
    made.add_argument("--steps", type=int, default=5, help="to train (default 5)")
    made.add_argument("--eval_input_fn", help="module:name (default: the batches of input_fn)")
    made.add_argument("--original", help="module:name of what one device runs instead")
    made.add_argument("--checkpoint_path", help="to start from, a checkpoint or a directory")
    made.add_argument("--tolerance", type=float, help="default: by the types of the model")
    made.add_argument(
        "--loss_reduction", choices=_REDUCTIONS, help="as replicate_model_fn takes it"
    )
    made.add_argument("--options", help="JSON of more arguments of replicate_model_fn")
    made.add_argument(
        "--tensorflow_1",
        nargs="*",
        metavar="PACKAGE",
        help="your files mean version 1 by `tensorflow`, `tf.contrib` included; and installed "
        "packages that do",
    )
    made.add_argument("--json", action="store_true", help="print one line of JSON, no report")
    return made


def main(argv: Sequence[str]) -> int:
    """Makes the comparison that the command line `argv` describes; returns the exit status."""
    of_flags = parser()
    args = of_flags.parse_args(argv)
    try:
        asked = _task(args)
    except (TypeError, ValueError) as error:
        of_flags.error(str(error))
    made = flow.run(asked)
    print(json.dumps(made.as_dict()) if args.json else made, flush=True)
    return 0 if made.equal else 1


def _task(args: argparse.Namespace) -> task.Task:
    """Returns the `Task` that the arguments describe.

    Raises:
        TypeError: As `replicate.compare` does.
        ValueError: Likewise, or if a name or JSON cannot be read.
    """
    sys.path.insert(0, os.getcwd())
    if args.tensorflow_1 is not None:
        compat.install(replace_ancestor=True, tensorflow_1=args.tensorflow_1 or True)
    options = named.as_json("--options", args.options) if args.options else {}
    if args.loss_reduction:
        options["loss_reduction"] = getattr(tf.losses.Reduction, args.loss_reduction)
    params = None
    if args.params:
        is_json = args.params.lstrip().startswith("{")
        params = (
            named.as_json("--params", args.params)
            if is_json
            else named.made("--params", args.params)
        )
    return task.of(
        named.find("model_fn", args.model_fn),
        named.find("input_fn", args.input_fn),
        params,
        named.made("--config", args.config) if args.config else None,
        args.devices,
        args.steps,
        named.find("--eval_input_fn", args.eval_input_fn) if args.eval_input_fn else None,
        named.find("--original", args.original) if args.original else None,
        args.checkpoint_path,
        None,
        args.tolerance,
        options,
    )
