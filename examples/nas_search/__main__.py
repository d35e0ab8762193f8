"""The one door to the example: `python -m examples.nas_search {search,analyze,train,...}`."""

import sys

from examples.nas_search.commands import PROGRAM

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
