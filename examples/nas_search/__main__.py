"""The one door to the example: `python -m examples.nas_search {search,analyze,train,...}`."""

import argparse
import importlib
import logging
import os
import sys

from examples.nas_search.errors import UserError

COMMANDS = {
    "search": "search for a network that is accurate at a given cost",
    "analyze": "tell what a search found, what it costs, and how sure the controller is",
    "train": "train a network alone, and measure how accurate it is",
    "evaluate": "measure a network that was trained alone",
    "export": "make a SavedModel of a network that was trained alone",
    "fit-cost": "measure the latency of random networks here, and fit a cost model to it",
    "sample": "draw random networks in a window of cost",
}
_PROGRAM = "python -m examples.nas_search"
_BAD_INPUT = 2  # exit status; `argparse` has the same
_INTERRUPTED = 130


def main(argv=None):
    """Runs a command.

    Args:
        argv: Arguments of the command line; None takes those of the process.

    Returns:
        Exit status.
    """
    quiet_tensorflow()
    argv = sys.argv[1:] if argv is None else list(argv)
    name = _parser().parse_args(argv[:1]).command
    # Only this one, because importing TensorFlow takes seconds.
    command = importlib.import_module(f"examples.nas_search.commands.{name.replace('-', '_')}")
    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} {name}",
        usage=f"{_PROGRAM} {name} [--help] [--flag VALUE ...]",  # of all flags it is a page
        description=f"{COMMANDS[name].capitalize()}.",
        allow_abbrev=False,
    )
    command.add_flags(parser)
    args = parser.parse_args(argv[1:])
    try:
        return command.main(args)
    except UserError as error:
        print(f"{_PROGRAM} {name}: error: {error}", file=sys.stderr)
        return _BAD_INPUT
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return _INTERRUPTED


def quiet_tensorflow():
    """Keeps from the log what TensorFlow, once imported, says to every user of Estimators."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what it misses of CUDA
    logging.getLogger("tensorflow").addFilter(_is_news)


def _is_news(record):
    return "is deprecated and will be removed" not in record.getMessage()


def _parser():
    """Returns the parser of the first argument."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, what in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Weight-sharing architecture search on towers. Commands:\n\n"
        + "\n".join(lines),
        epilog=f"Each command has flags of its own: {_PROGRAM} search --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="command", help="one of the above")
    return parser


if __name__ == "__main__":
    sys.exit(main())
