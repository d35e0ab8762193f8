"""The command line of a program that has several commands, such as `train` and `evaluate`.

Importing this imports no TensorFlow, so that the command line answers at once.
"""

import argparse
import importlib
import logging
import os
import re
import shlex
import sys
from typing import Mapping, NamedTuple

from examples.runs import native_log
from examples.runs.errors import UserError

BAD_INPUT = 2  # exit status; `argparse` has the same
OLDEST_TENSORFLOW = (2, 12)
INTERRUPTED = 130  # exit status of what Ctrl-C ended


class Program(NamedTuple):
    """A package that is run by `python -m PACKAGE COMMAND [--flag VALUE ...]`.

    A command like `fit-cost` is the module `PACKAGE.commands.fit_cost`. It has `add_flags(parser)`,
    which adds its flags to an `argparse` parser, and `main(args)`, which does it and returns the
    exit status. To answer `--help` at once, it imports TensorFlow in `main` only.
    """

    package: str  # its full name
    description: str  # of what it does, for its help
    commands: Mapping[str, str]  # what each does, by name

    def main(self, argv=None):
        """Runs a command.

        Args:
            argv: Arguments of the command line; None takes those of the process.

        Returns:
            Exit status.
        """
        quiet_tensorflow()
        argv = sys.argv[1:] if argv is None else list(argv)
        if not argv:
            self._parser().exit(BAD_INPUT, self._parser().format_help())
        name = self._parser().parse_args(argv[:1]).command
        # Only this one, because importing TensorFlow takes seconds.
        command = importlib.import_module(f"{self.package}.commands.{name.replace('-', '_')}")
        program = f"python -m {self.package} {name}"
        parser = argparse.ArgumentParser(
            prog=program,
            usage=f"{program} [--help] [--flag VALUE ...]",  # of all flags it is a page
            description=f"{self.commands[name].capitalize()}.",
            allow_abbrev=False,
        )
        command.add_flags(parser)
        args = parser.parse_args(argv[1:])
        try:
            check_tensorflow(self.package)
            with native_log.kept_back():
                # It imports TensorFlow, and its error names a package that is missing.
                importlib.import_module("replicate")
            return command.main(args)
        except UserError as error:
            print(f"{program}: error: {error}", file=sys.stderr)
            return BAD_INPUT
        except KeyboardInterrupt:
            print("\nInterrupted.", file=sys.stderr)
            return INTERRUPTED

    def command_line(self, *arguments):
        """Returns the line that runs a command of this program, quoted for the shell."""
        return command_line(self.package, *arguments)

    def _parser(self):
        """Returns the parser of the first argument."""
        width = max(map(len, self.commands))
        lines = [f"  {name:<{width}}  {what}" for name, what in self.commands.items()]
        first = next(iter(self.commands))
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.package}",
            description=f"{self.description} Commands:\n\n" + "\n".join(lines),
            epilog=f"Each command has flags of its own: python -m {self.package} {first} --help",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument(
            "command", choices=self.commands, metavar="command", help="one of the above"
        )
        return parser


def command_line(package, *arguments):
    """Returns the line that runs a package with arguments, quoted for the shell."""
    return " ".join(map(shlex.quote, ("python", "-m", package, *arguments)))


def say(line):
    """Tells the user how it goes: results alone are on standard output."""
    print(line, file=sys.stderr, flush=True)


def check_tensorflow(package, found=None):
    """Raises a UserError if TensorFlow is older than what the examples are tested on.

    Args:
        package: Name of the example, for the message.
        found: TensorFlow's version. None: that of what is installed, which is not imported.
    """
    found = found or _installed_tensorflow()
    numbers = [int(part) for part in (found or "").split(".")[:2] if part.isdigit()]
    if len(numbers) == 2 and tuple(numbers) < OLDEST_TENSORFLOW:
        oldest = ".".join(map(str, OLDEST_TENSORFLOW))
        raise UserError(
            f"{package} needs TensorFlow {oldest} or newer, but {found} is installed. `replicate` "
            "itself works with it, as does `python -m examples.digits`."
        )


def _installed_tensorflow():
    try:
        from importlib import metadata
    except ImportError:  # Python 3.7
        import importlib_metadata as metadata  # which TensorFlow brings
    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-macos"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return None


def quiet_tensorflow():
    """Keeps from the log what TensorFlow, once imported, says to every user of Estimators."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what it misses of CUDA
    logging.getLogger("tensorflow").addFilter(_is_news)


def _is_news(record):
    message = record.getMessage()
    return not re.search(r"is deprecated(\. Please use| and will be removed)", message)
