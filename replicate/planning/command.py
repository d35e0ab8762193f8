"""`python -m replicate plan`: shows which parts of a model would run in towers."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Sequence

from replicate.arguments import named
from replicate.planning import page, plan


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m replicate plan",
        epilog=named.EPILOG,
        description="Builds the training step of a model_fn without training, and shows which "
        "parts run in towers, which run once on the rows of all, and where values of towers are "
        "combined. Exits with 0, or with 2 if an argument is wrong.",
    )
    made.add_argument("model_fn", help="module:name or file.py:name of the plain model_fn")
    made.add_argument(
        "input_fn",
        nargs="?",
        help="module:name or file.py:name of the input_fn of the whole batch (default: input_fn "
        "beside the model_fn)",
    )
    made.add_argument(
        "--depth", type=_depth, default=2, help="levels of scopes in the report (default 2)"
    )
    named.add_flags(made)
    made.add_argument("--html", metavar="FILE", help="also write a page with a drawing")
    return made


def main(argv: Sequence[str]) -> int:
    """Shows the plan that the command line `argv` asks for; returns the exit status."""
    of_flags = parser()
    own, of_program = named.split(argv)
    args = of_flags.parse_args(own)
    with named.printing(args):
        try:
            named.prepare(args, of_program)
            input_fn = args.input_fn or f"{args.model_fn.rpartition(':')[0]}:input_fn"
            model = named.find("model_fn", args.model_fn), named.find("input_fn", input_fn)
            named.check_files(args.model_fn, input_fn)
            named.read_flags(of_program)
            params = named.params(args.params)
            config = named.made("--config", args.config) if args.config else None
            options = named.as_json("--options", args.options) if args.options else {}
            plan.replicated(model[0], args.devices, options)
            if args.html:
                named.check_file("--html", args.html)
        except (TypeError, ValueError) as error:
            of_flags.error(str(error))
        try:
            found = plan.make_plan(*model, params, config, args.devices, **options)
        except plan.NoPlanError as error:
            of_flags.error(str(error))
    if args.html:
        pathlib.Path(args.html).write_text(page.render(found, args.model_fn), encoding="utf-8")
    print(json.dumps(found.as_dict()) if args.json else found.text(args.depth), flush=True)
    return 0


def _depth(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or more, but is {text!r}")
    return int(text)
