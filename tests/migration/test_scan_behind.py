"""`scan` follows names, attributes and functions, also into other files."""

import os

import pytest

from planted import expected, plain
from replicate.migration.scan import scan

HEAD = """\
import tensorflow.compat.v1 as tf
import functools
import replicate
Estimator = replicate.estimator.Estimator
"""


@pytest.fixture
def scanned(tmp_path):
    """Returns a function that writes files, and returns what is found, by file."""

    def of(files):
        for name, text in files.items():
            os.makedirs(tmp_path / os.path.dirname(name), exist_ok=True)
            (tmp_path / name).write_text(plain(text))
        made = {name: [] for name in files}
        for one in scan([str(tmp_path)]).findings:
            made[os.path.relpath(one.path, tmp_path)].append((one.line, one.rule))
        return {name: sorted(found) for name, found in made.items()}

    return of


NORM = "tf.layers.batch_normalization(x, fused={})  #! fused-batch-norm\n"
UNTOLD = NORM.partition("  #")[0] + "\n"
FUSED = {
    "a constant of the file": f"FUSED = True\n{NORM.format('FUSED')}",
    "a constant with a type": f"FUSED: bool = True\n{NORM.format('FUSED')}",
    "one that is False": f"FUSED = False\n{UNTOLD.format('FUSED')}",
    "a constant of a function": f"def f(x):\n  fused = True\n  {NORM.format('fused')}",
    "a name of a name": f"A = True\nB = A\n{NORM.format('B')}",
    "either": f"def f(a):\n  {NORM.format('True if a else False')}",
    "a circle": f"A = B\nB = A\n{UNTOLD.format('A')}",
    "a default": f"def f(x, fused=True):\n  {NORM.format('fused')}",
    "a default by keyword": f"def f(x, *, fused=True):\n  {NORM.format('fused')}",
    "a default of another": f"def f(x, fused=True, a=None):\n  {UNTOLD.format('a')}",
    "an argument": f"""\
def f(x, is_fused):
  {UNTOLD.format("is_fused")}
f(1, True)  #! fused-batch-norm
f(1, is_fused=True)  #! fused-batch-norm
f(True, False)
""",
    "an argument of a function's argument": f"""\
def f(x, is_fused):
  {UNTOLD.format("is_fused")}
def g(x, how):
  return f(x, how)
g(1, how=True)  #! fused-batch-norm
""",
    "arguments by keyword": """\
def f(x, **more):
  tf.layers.batch_normalization(x, **more)
f(1, fused=True)  #! fused-batch-norm
f(1, other=True)
""",
    "functools.partial": f"""\
norm = functools.partial(tf.layers.batch_normalization, fused=True)  #! fused-batch-norm
def f(a, x, fused):
  {UNTOLD.format("fused")}
functools.partial(f, 1, 1, True)  #! fused-batch-norm
""",
    "methods": f"""\
class Model:
  def norm(self, x, fused):
    {UNTOLD.format("fused")}
  def build(self, x):
    self.norm(x, True)  #! fused-batch-norm
    self.norm(True, x)
""",
    "attributes, one by one": f"""\
class Model:
  also = True
  def __init__(self, x, fused):
    self.x = True
    self.fused = fused
    self.never = False
    x.never = True
  def build(self, x):
    {NORM.format("self.also")}
    {UNTOLD.format("self.fused")}
    {UNTOLD.format("self.never")}
    {NORM.format("self.x")}
Model(1, True)  #! fused-batch-norm
{NORM.format("Model.also")}
""",
    "a dict": """\
FUSED = True
params = {"fused": FUSED}  #! fused-batch-norm
tf.layers.batch_normalization(1, **params)
more = dict(fused=FUSED)  #! fused-batch-norm
tf.layers.batch_normalization(1, **more)
""",
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_is_found_behind(scanned, name):
    text = HEAD + FUSED[name]
    assert scanned({"a.py": text})["a.py"] == expected(text)


LAYERS = HEAD + "def norm(x, how):\n  " + UNTOLD.format("how")
ACROSS = {
    "a function": {
        "layers.py": LAYERS,
        "a.py": "NEAR\nlayers.norm(1, True)  #! fused-batch-norm\n",
    },
    "False": {"layers.py": LAYERS, "a.py": "NEAR\nlayers.norm(True, False)\n"},
    "a relative import": {
        "pkg/layers.py": LAYERS,
        "pkg/sub/a.py": HEAD
        + "from ..layers import norm\nHOW = True\nnorm(1, how=HOW)  #! fused-batch-norm\n",
    },
    "one of another name": {
        "layers.py": LAYERS,
        "other/a.py": HEAD + "from lib.layers import norm\nnorm(1, True)\n",
    },
    "several files": {
        "layers.py": LAYERS,
        "blocks.py": HEAD
        + "import layers\ndef block(x, fused=False):\n  return layers.norm(x, how=fused)\n",
        "a.py": HEAD + "from blocks import block\nblock(1, fused=True)  #! fused-batch-norm\n",
    },
    "a class": {
        "layers.py": HEAD
        + "class Norm:\n  def __init__(self, fused):\n    self.fused = fused\n"
        + f"  def __call__(self, x):\n    {UNTOLD.format('self.fused')}",
        "a.py": HEAD + "import layers\nlayers.Norm(True)  #! fused-batch-norm\n",
    },
    "a constant": {
        "config.py": "FUSED = True\nOTHER = False\nclass Of:\n  IT: bool = True\n",
        "a.py": HEAD
        + "import config\nfrom config import FUSED\n"
        + NORM.format("config.FUSED")
        + NORM.format("FUSED")
        + NORM.format("config.Of.IT")
        + UNTOLD.format("config.OTHER"),
    },
    "a constant for a function": {
        "config.py": "FUSED = True\n",
        "layers.py": LAYERS,
        "a.py": HEAD
        + "import config, layers\nlayers.norm(1, config.FUSED)  #! fused-batch-norm\n"
        + "layers.norm(config.FUSED, config.NONE)\n",
    },
}


@pytest.mark.parametrize("name", ACROSS)
def test_fused_is_found_in_other_files(scanned, name):
    near = HEAD + "import layers"
    files = {path: text.replace("NEAR", near) for path, text in ACROSS[name].items()}
    assert scanned(files) == {path: expected(text) for path, text in files.items()}
