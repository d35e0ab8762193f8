"""Every TensorFlow name that the library uses exists in TensorFlow 1.15, which cannot run here.

The names are read from the library's source and looked up in `tf-1.15-names.txt`. That listing
was made from the wheels of TensorFlow 1.15, and is made again whenever the library uses a name that
it did not use before; the listing itself says how. It has neither arguments nor behaviour.
"""

import argparse
import ast
import functools
import importlib
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]
LISTING = ROOT / "tests" / "tf-1.15-names.txt"
ESTIMATOR = "replicate.compat.estimator"

HEADER = """\
# The TensorFlow names that `replicate` uses, as far as TensorFlow 1.15 has them; `tf` is
# tensorflow.compat.v1. Found in the wheels tensorflow-cpu 1.15.0 and tensorflow-estimator 1.15.1 by
# `tests/test_api_names.py`, which checks the library against this. To update it:
#   pip download -d DIRECTORY --no-deps --only-binary=:all: --implementation cp --abi cp37m \\
#       --python-version 37 --platform manylinux2010_x86_64 \\
#       tensorflow-cpu==1.15.0 tensorflow-estimator==1.15.1
#   for wheel in DIRECTORY/*.whl; do unzip -q "$wheel" '*.py' -d DIRECTORY; done
#   python tests/test_api_names.py --update DIRECTORY
"""

# Names that TensorFlow 1.15 lacks and the library uses all the same, each with what keeps it from
# being asked for there.
ABSENT = {
    "tensorflow.compat.v2.keras.mixed_precision.LossScaleOptimizer": "`install` puts nothing there",
    "tensorflow.python.eager.record": "`tensorflow.python.eager.tape` is taken where it is missing",
}


def names_in(source, module):
    """Yields `(name, line)` for each TensorFlow name in the source text of a module.

    Names begin with `tf.` if they are those of `tensorflow.compat.v1`, the Estimator's included,
    and with `tensorflow.` otherwise.
    """
    tree = ast.parse(source)
    full_names = {}
    for alias, name, line in _imports(tree):
        full_names[alias] = name
        if _public(name) not in (None, "tf"):
            yield api_name(_public(name)), line
    if module == ESTIMATOR:
        full_names["api"] = f"{ESTIMATOR}.api"
    pending = [tree]
    while pending:
        node = pending.pop()
        # An assigned name need not exist before.
        is_use = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        name = _public(_full_name(node, full_names)) if is_use else None
        if name:
            yield api_name(name), node.lineno
        else:
            pending.extend(ast.iter_child_nodes(node))


def _imports(tree):
    """Yields `(alias, name, line)`: the name that an import binds, and the full name it is for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}", node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds `a`.
                name = alias.name if alias.asname else alias.name.split(".")[0]
                yield alias.asname or name, name, node.lineno


def _full_name(node, full_names):
    """Returns the full name of an expression such as `tf.losses.Reduction`, None of any other."""
    if isinstance(node, ast.Name):
        return full_names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _full_name(node.value, full_names)
        return owner and f"{owner}.{node.attr}"
    if isinstance(node, ast.Call) and _full_name(node.func, full_names) == f"{ESTIMATOR}.api":
        return ESTIMATOR
    return None


def _public(name):
    """Returns a full name as the listing has it; None if it is not one of TensorFlow."""
    if name and f"{name}.".startswith(f"{ESTIMATOR}."):
        parts = name[len(ESTIMATOR) + 1 :].split(".")
        # An import of the module itself, or one of its own functions.
        if parts[0] in ("", *_functions_of_estimator()):
            return None
        return ".".join(["tf", "estimator", *parts])
    if name and f"{name}.".startswith("tensorflow.compat.v1."):
        return "tf" + name[len("tensorflow.compat.v1") :]
    # Of `import tensorflow` the chains say more.
    if name and name.split(".")[0] in ("tensorflow", "tensorflow_estimator") and "." in name:
        return name
    return None


@functools.lru_cache(maxsize=None)
def _functions_of_estimator():
    tree = ast.parse(ROOT.joinpath(*ESTIMATOR.split(".")).with_suffix(".py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def api_name(name):
    """Returns as much of `name` as names a part of the API: of `tf.float32.name`, `tf.float32`."""
    parts = name.split(".")
    for end in range(1, len(parts)):
        owner = ".".join(parts[:end])
        value = _value(owner)
        # Not the name of something here: 1.15 may have it all the same, and has the last word.
        if value is None or isinstance(value, types.ModuleType):
            continue
        # Every class has `__mro__` and the like.
        if not isinstance(value, type) or parts[end].startswith("__"):
            return owner
    return name


@functools.lru_cache(maxsize=None)
def _value(name):
    """Returns what `name` is in the TensorFlow that runs here; None if it has no such name."""
    full = f"tensorflow.compat.v1{name[2:]}" if name.split(".")[0] == "tf" else name
    try:
        return importlib.import_module(full)
    except ImportError:
        owner, _, last = name.rpartition(".")
        return getattr(_value(owner), last, None) if owner else None


def uses():
    """Returns the places, `file:line`, where the library uses each TensorFlow name."""
    places = {}
    for path in sorted((ROOT / "replicate").rglob("*.py")):
        file = path.relative_to(ROOT)
        module = ".".join(file.with_suffix("").parts)
        for name, line in names_in(path.read_text(), module):
            places.setdefault(name, []).append(f"{file.as_posix()}:{line}")
    return places


def listed():
    """Returns the names in the listing, in its order."""
    lines = LISTING.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_name_that_is_used_exists():
    known = {*listed(), *ABSENT}
    unknown = [
        f"{name}  {', '.join(places)}" for name, places in uses().items() if name not in known
    ]
    assert not unknown, f"not known to be in TensorFlow 1.15, see the head of {LISTING.name}"


def test_the_listing_holds_names_in_use_alone():
    assert listed() == sorted({*listed()} & {*uses()}), f"see the head of {LISTING.name}"


def test_no_exception_is_left_over():
    assert not {*ABSENT} - {*uses()}, "no longer used"
    assert not {*ABSENT} & {*listed()}, "TensorFlow 1.15 has them"


def test_names_are_found_in_source():
    source = """
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import variable_scope as vs
from replicate.compat import estimator
tf.nest.map_structure(tf.identity, value)[0].shape
tf.Graph().as_default(), tf.float32.name, vars(tf.Tensor.__mro__[0]), tf.gone.Name
@tf.RegisterGradient("x")
def function(spec: tf.train.Scaffold = vs._VARSTORE_KEY):
    tf.given = None
    return estimator.source(), estimator.ModeKeys.TRAIN, estimator.api().export.ExportOutput
"""
    assert sorted(names_in(source, "replicate.any")) == [
        ("tensorflow.python.ops.variable_scope", 3),
        ("tensorflow.python.ops.variable_scope._VARSTORE_KEY", 8),
        ("tf.Graph", 6),
        ("tf.RegisterGradient", 7),
        ("tf.Tensor", 6),
        ("tf.estimator.ModeKeys.TRAIN", 10),
        ("tf.estimator.export.ExportOutput", 10),
        ("tf.float32", 6),
        ("tf.gone.Name", 6),
        ("tf.identity", 5),
        ("tf.nest.map_structure", 5),
        ("tf.train.Scaffold", 8),
    ]


class Wheels:
    """Definitions in the unpacked wheels of TensorFlow 1.15, read from their source.

    A definition is `(module, node)`: the full name of the module that defines a name, and its
    syntax tree there.
    """

    def __init__(self, directory):
        self._directory = pathlib.Path(directory)
        self._trees = {}

    def find(self, name):
        """Returns what a name as `names_in` yields it stands for; None if there is no such name."""
        head, _, rest = name.partition(".")
        return self._find(f"tensorflow._api.v1.compat.v1.{rest}" if head == "tf" else name)

    def _find(self, name):
        if self._tree(name):
            return name, self._tree(name)
        owner, _, last = name.rpartition(".")
        return self._member(self._find(owner), last) if owner else None

    def _tree(self, module):
        if module not in self._trees:
            head, *rest = module.split(".")
            # The package `tensorflow` of the wheel forwards to this one.
            head = "tensorflow_core" if head == "tensorflow" else head
            path = self._directory.joinpath(head, *rest)
            files = [path / "__init__.py", path.with_name(path.name + ".py")]
            text = next((file.read_text("utf-8") for file in files if file.is_file()), None)
            self._trees[module] = None if text is None else ast.parse(text)
        return self._trees[module]

    def _member(self, owner, name):
        module, node = owner or (None, None)
        if not isinstance(node, (ast.Module, ast.ClassDef)):
            return None
        stars = []
        # The last binding is the one that lasts.
        for bound, statement, value in reversed(list(_bindings(node.body))):
            if bound == name:
                return self._followed(module, statement, value)
            if bound == "*":
                stars.append(self._find(value))
        bases = [self._evaluated(module, base) for base in getattr(node, "bases", ())]
        for other in (*stars, *bases):
            if self._member(other, name):
                return self._member(other, name)
        return None

    def _followed(self, module, statement, value):
        if isinstance(value, str):
            return self._find(value)
        # Only the name of a computed value is known.
        return self._evaluated(module, value) or (module, statement)

    def _evaluated(self, module, expression):
        if isinstance(expression, ast.Name):
            return self._member((module, self._tree(module)), expression.id)
        if isinstance(expression, ast.Attribute):
            return self._member(self._evaluated(module, expression.value), expression.attr)
        return None


def _bindings(body):
    """Yields `(name, statement, value)` for what statements bind.

    The value is an expression or, where something is imported, its full name. It is None where
    there is none.
    """
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name, node, None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias, name, _ in _imports(node):
                yield alias, node, node.module if alias == "*" else name
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        yield name.id, node, node.value if name is target else None
        elif isinstance(node, ast.Expr) and _is_call_of_setattr(node.value):
            # `setattr(_current_module, "name", value)`, in modules that make up the API.
            _, name, value = node.value.args
            # It often repeats what an import bound just before.
            if isinstance(name, ast.Constant) and getattr(value, "id", None) != name.value:
                yield name.value, node, value
        for inner in ("body", "handlers", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.ExceptHandler, ast.With)):
                yield from _bindings(getattr(node, inner, ()))


def _is_call_of_setattr(node):
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) == "setattr"


def update(directory):
    """Writes the listing from unpacked wheels; returns the names that they lack, and where used."""
    wheels = Wheels(directory)
    if not wheels.find("tf.Graph") or not wheels.find("tf.estimator.Estimator"):
        raise SystemExit(f"{directory} does not hold both wheels of TensorFlow 1.15, unpacked")
    places = uses()
    found = sorted(name for name in places if wheels.find(name))
    LISTING.parent.mkdir(exist_ok=True)
    LISTING.write_text(HEADER + "".join(f"{name}\n" for name in found))
    return {name: places[name] for name in places if name not in found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the listing of names.")
    parser.add_argument("--update", metavar="DIRECTORY", required=True, help="the unpacked wheels")
    lacking = update(parser.parse_args().update)
    for lacking_name, where in sorted(lacking.items()):
        reason = ABSENT.get(lacking_name, "TensorFlow 1.15 lacks it")
        print(f"{lacking_name}  {', '.join(where)}: {reason}")
    sys.exit(bool({*lacking} - {*ABSENT}))
