"""The file that runs first, the only one that a moved codebase changes.

python launch.py PROGRAM FLAGS...
"""

import os
import runpy
import sys

import replicate

replicate.compat.install(replace_ancestor=True, tensorflow_1=True)

if __name__ == "__main__":
    del sys.argv[0]
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
