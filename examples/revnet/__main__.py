"""The one door to the example: `python -m examples.revnet {train,evaluate,export,memory}`."""

import sys

from examples.revnet.commands import PROGRAM

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
