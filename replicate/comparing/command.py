"""`python -m replicate compare`: checks that a model trains over towers as on one device."""

from __future__ import annotations

import argparse
import json
from typing import Sequence

import tensorflow.compat.v1 as tf

from replicate.arguments import named
from replicate.comparing import flow, task

_REDUCTIONS = ("SUM", "MEAN", "SUM_BY_NONZERO_WEIGHTS", "SUM_OVER_BATCH_SIZE")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m replicate compare",
        epilog=named.EPILOG,
        description="Trains a model_fn on one device and over towers, from the same start on the "
        "same batches, compares the two, and lists operations that can explain a difference. Exits "
        "with 0 if they are equal, 1 if not or if a run fails, 2 if an argument is wrong.",
    )
    made.add_argument("model_fn", help="module:name or file.py:name of the plain model_fn")
    made.add_argument("input_fn", help="likewise, of the input_fn of the whole batch")
    made.add_argument("--steps", type=int, default=5, help="to train (default 5)")
    made.add_argument("--eval_input_fn", help="module:name (default: the batches of input_fn)")
    made.add_argument("--original", help="module:name of the model_fn that one device runs instead")
    made.add_argument("--checkpoint_path", help="to start from, a checkpoint or a directory")
    made.add_argument("--tolerance", type=float, help="default: by the types of the model")
    made.add_argument(
        "--loss_reduction", choices=_REDUCTIONS, help="as replicate_model_fn takes it"
    )
    named.add_flags(made)
    return made


def main(argv: Sequence[str]) -> int:
    """Makes the comparison that the command line `argv` describes; returns the exit status."""
    of_flags = parser()
    own, of_program = named.split(argv)
    args = of_flags.parse_args(own)
    with named.printing(args):
        try:
            asked = _task(args, of_program)
        except (TypeError, ValueError) as error:
            of_flags.error(str(error))
        made = flow.run(asked)
    print(json.dumps(made.as_dict()) if args.json else made, flush=True)
    return 0 if made.equal else 1


def _task(args: argparse.Namespace, of_program: Sequence[str]) -> task.Task:
    """Returns the `Task` that the arguments describe; `of_program` are those of the user's files.

    Raises:
        TypeError: As `replicate.compare` does.
        ValueError: Likewise, or if a name or JSON cannot be read.
    """
    named.prepare(args, of_program)
    options = named.as_json("--options", args.options) if args.options else {}
    if args.loss_reduction:
        options["loss_reduction"] = getattr(tf.losses.Reduction, args.loss_reduction)
    model_fn, input_fn = (
        named.find("model_fn", args.model_fn),
        named.find("input_fn", args.input_fn),
    )
    evaluated = named.find("--eval_input_fn", args.eval_input_fn) if args.eval_input_fn else None
    original = named.find("--original", args.original) if args.original else None
    named.check_files(args.model_fn, args.input_fn, args.eval_input_fn, args.original)
    named.read_flags(of_program)
    return task.make_task(
        model_fn,
        input_fn,
        named.params(args.params),
        named.made("--config", args.config) if args.config else None,
        args.devices,
        args.steps,
        evaluated,
        original,
        args.checkpoint_path,
        None,
        args.tolerance,
        options,
    )
