"""Rules for the source text; it is parsed, so that strings and comments do not count.

Rules for the examples are in `test_source_examples.py`.
"""

import ast
import importlib
import pathlib
import re

import pytest

import replicate
from bodies import source_files
from each import of_each
from imports import check_one_way, imported

ROOT = pathlib.Path(replicate.__file__).parent
MODULES = {
    ".".join(["replicate", *path.relative_to(ROOT).with_suffix("").parts]): ast.parse(
        path.read_text()
    )
    for path in source_files()
}
PUBLIC = [name for name in MODULES if not name.startswith("replicate.compat")]

# The packages of the library and its public modules, from the ground up: imports run down alone.
FLOORS = (
    ("compat", "version"),
    ("clusters", "graphs", "layouts", "reduction"),
    ("batch", "devices", "faults", "partition"),
    ("arguments", "engines", "metrics", "reports"),
    ("cross_tower", "hooks", "loss_scale", "optimizer"),
    ("model_fn", "normalization", "tower_optimizer"),
    ("bench", "comparing", "migration", "planning"),
    ("checking",),
    ("__init__", "__main__"),
)
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
TESTS = pathlib.Path(__file__).parent
# Folders of `tests` of no package: their tests are of several, or of none.
NO_PACKAGES = {
    "towers",
    "benchmarks",
    "chaos",
    "conformance",
    "contract",
    "examples",
    "moving",
    "mutations",
    "properties",
    "soak",
    "upgrades",
}
# Paths that programs may still import by; nothing here does.
FORMER = {"replicate.compat.contrib": "replicate.migration.contrib"}
# Modules that start `migration`, which is apart from the modules that train.
STARTS_MIGRATION = {"replicate.__init__", "replicate.__main__", *FORMER}


def own(tree):
    """Returns the library's modules that `tree` imports."""
    return {name for name in imported(tree) if name in MODULES and name != "replicate"}


def private_uses(tree):
    """Yields where `tree` imports `tensorflow.python`, or reaches for it or a private attribute."""
    aliases = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None)
            for alias in node.names:
                full = f"{module}.{alias.name}" if module else alias.name
                if re.match(r"(tensorflow|keras|tensorflow_estimator)(\.|$)", full):
                    aliases.add((alias.asname or alias.name).split(".")[0])
                    if re.search(r"\.(python|src|_\w+)(\.|$)", full):
                        yield f"line {node.lineno}: {full}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            root, _, rest = text.partition(".")
            if root in aliases and re.search(r"(^|\.)(python|__internal__|_[a-z]\w*)(\.|$)", rest):
                yield f"line {node.lineno}: {text}"


def private_attributes(tree):
    """Yields where `tree` takes a private attribute that it does not define, such as `op._id`."""
    defined = {"_replace", "_fields", "_asdict", "_getframe", "_exit"}  # These are public.
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls"):
            defined.add(node.attr)
        elif isinstance(node, ast.Assign):
            defined.update(target.id for target in node.targets if isinstance(target, ast.Name))
    for node in ast.walk(tree):
        is_private = isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr)
        if is_private and node.attr not in defined:
            yield f"line {node.lineno}: {ast.unparse(node)}"


@of_each(PUBLIC)
def test_private_attributes_of_others_are_touched_in_compat_alone(module):
    assert list(private_attributes(MODULES[module])) == [], "move this to replicate/compat"


def test_the_search_for_private_attributes_finds_them_alone():
    text = "def f(op):\n  return op._id, spec._replace(a=1), self._own, other._own, op.name"
    assert list(private_attributes(ast.parse(text))) == ["line 2: op._id"]


@of_each(PUBLIC)
def test_private_tensorflow_is_touched_in_compat_alone(module):
    assert list(private_uses(MODULES[module])) == [], "move this to replicate/compat"


@pytest.mark.parametrize(
    "line",
    [
        "from tensorflow.python.ops import variable_scope",
        "from tensorflow.python import ops",
        "from tensorflow import python",
        "import tensorflow.python.ops as ops",
        "import tensorflow.compat.v1 as tf\ntf.python.ops",
        "import tensorflow as tf\nf(tf.__internal__.monitoring)",
        "import tensorflow.compat.v1 as tf\ntf._api",
        "import keras.src.backend",
    ],
)
def test_the_search_for_private_names_finds_them(line):
    assert list(private_uses(ast.parse(line)))


def test_the_search_for_private_names_finds_nothing_else():
    text = "import tensorflow.compat.v1 as tf\n'tf.python'  # tensorflow.python\ntf.nest.flatten(x)"
    assert not list(private_uses(ast.parse(text)))


def early_uses(tree, module):
    """Yields where importing `tree` alone takes an attribute of `module`: outside functions."""
    waiting = list(ast.iter_child_nodes(tree))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == module:
            yield f"line {node.lineno}: {ast.unparse(node)}"
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


@of_each(PUBLIC)
def test_importing_the_library_does_not_import_the_estimator(module):
    # An attribute of `compat.estimator` does. Programs look whether it works before they need it.
    found = list(early_uses(MODULES[module], "estimator"))
    assert found == [], "ask for it in a function"


def test_the_search_for_early_uses_finds_them_alone():
    text = "A = {estimator.ModeKeys: 1}\nclass B:\n  C = estimator.D\n  def e(s): estimator.F"
    assert sorted(early_uses(ast.parse(text), "estimator")) == [
        "line 1: estimator.ModeKeys",
        "line 3: estimator.D",
    ]


@of_each(PUBLIC)
def test_versions_are_asked_for_in_compat_alone(module):
    asked = [
        node.lineno
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.Compare)
        and re.search(r"__version__|version_info", ast.unparse(node))
    ]
    assert asked == [], "move this to replicate/compat"


def packages_used(module):
    """Yields what `module` imports of other packages: the package, whether past its `__init__`."""
    for node in ast.walk(MODULES[module]):
        source = getattr(node, "module", None) or ""
        if not isinstance(node, ast.ImportFrom) or source.split(".")[0] != "replicate":
            continue
        for alias in node.names:
            _, package, *rest = f"{source}.{alias.name}".split(".")
            # As the library calls it.
            package = "compat" if package == "estimator" else package
            if package != module.split(".")[1]:
                yield package, package in PACKAGES and len(source.split(".")) > 2, ".".join(rest)


def test_every_module_is_in_a_package():
    assert {module.split(".")[1] for module in MODULES} == set(FLOOR_OF)


def folders(directory):
    """Returns the names of the folders in a directory of tests, and asserts that each has tests."""
    found = sorted({path.relative_to(directory).parts[0] for path in directory.glob("*/**/*.py")})
    assert [name for name in found if not list((directory / name).rglob("test_*.py"))] == []
    return found


def packages(directory):
    return {path.parent.name for path in directory.glob("*/__init__.py")}


def test_the_tests_mirror_the_packages():
    examples = TESTS.parent / "examples"
    found = {*folders(TESTS)} - NO_PACKAGES
    assert found >= {*PACKAGES}, "every package of the library has tests"
    assert found <= {*PACKAGES, *packages(examples)}
    for name in found - {*PACKAGES}:
        assert {*folders(TESTS / name)} <= packages(examples / name), name


def test_tests_have_names_of_their_own():
    """By which pytest imports them, from whichever folder."""
    names = [path.name for path in _test_files()]
    assert sorted(names) == sorted({*names})


def imported_tests_of(tree):
    """Returns which test files `tree` imports, or what of them."""
    return {name for name in imported(tree) if re.search(r"(^|\.)test_", name)}


def test_no_test_file_imports_another():
    """Shared code lies in modules whose names do not begin with `test_`."""
    found = {path.name: imported_tests_of(ast.parse(path.read_text())) for path in _test_files()}
    assert {name: others for name, others in found.items() if others} == {}


def _test_files():
    return sorted(TESTS.rglob("test_*.py"))


@pytest.mark.parametrize(
    "line",
    ["import test_a", "from test_a import b", "from a import test_b", "import a.test_b"],
)
def test_the_search_for_imported_tests_finds_them(line):
    assert imported_tests_of(ast.parse(line))


def test_the_search_for_imported_tests_finds_nothing_else():
    assert not imported_tests_of(
        ast.parse("import contest_a\nfrom tests import b\n'import test_c'")
    )


def test_there_are_nine_floors_at_most():
    assert len(FLOORS) <= 9, "look for what one package must not know of another"


def test_the_drawing_shows_every_floor():
    page = (ROOT.parent / "docs" / "architecture.md").read_text()
    drawn = re.findall(r"^(\d+) {2,3}(\w.*)$", page, flags=re.MULTILINE)
    assert [int(number) for number, _ in drawn] == list(range(len(FLOORS), 0, -1))
    assert [tuple(names.split()) for _, names in reversed(drawn)] == list(FLOORS)


@of_each(MODULES)
def test_imports_run_down(module):
    own_floor = FLOOR_OF[module.split(".")[1]]
    used = [package for package, _, _ in packages_used(module) if module not in FORMER]
    assert [package for package in used if FLOOR_OF[package] >= own_floor] == []


@of_each(MODULES)
def test_packages_are_imported_by_their_init(module):
    # Modules of `compat` have little in common but TensorFlow's versions.
    others = [use for use in packages_used(module) if use[0] != "compat"]
    assert [use for use in others if use[1]] == []
    for package, _, name in others:
        # `__main__` imports modules late.
        if name and package in PACKAGES and module != "replicate.__main__":
            assert name in importlib.import_module(f"replicate.{package}").__all__


@of_each(MODULES)
def test_nothing_imports_the_flow_but_what_starts_it(module):
    # Comparisons of towers with one device, and benchmarks, run both.
    importers = {
        "replicate.__init__",
        "replicate.bench.engines",
        "replicate.comparing.task",
        "replicate.planning.plan",
    }
    if "replicate.model_fn" in own(MODULES[module]):
        assert module in importers
    if module.startswith("replicate.compat") and module not in FORMER:
        assert all(name.startswith("replicate.compat") for name in own(MODULES[module]))


@of_each(MODULES)
def test_migration_stands_apart(module):
    used = {name for name in imported(MODULES[module]) if name.split(".")[0] == "replicate"}
    if module.startswith("replicate.migration"):
        others = [name for name in used if not re.match(r"replicate\.(migration|compat)\b", name)]
        assert others == []
    elif module not in STARTS_MIGRATION:
        assert [name for name in used if name.startswith("replicate.migration")] == []


def test_former_paths_have_what_the_new_ones_offer():
    for former, new in FORMER.items():
        assert [module for module, tree in MODULES.items() if former in imported(tree)] == []
        old, now = importlib.import_module(former), importlib.import_module(new)
        assert {name: getattr(old, name) for name in old.__all__} == {
            name: getattr(now, name) for name in now.__all__
        }


def test_imports_run_one_way():
    check_one_way({module: own(tree) for module, tree in MODULES.items()})


@of_each(source_files())
def test_a_file_holds_one_concept(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 300
    assert ast.get_docstring(ast.parse(path.read_text())), "its docstring names it"


@of_each(source_files())
def test_no_path_of_a_machine(path):
    found = re.findall(
        r"[\"'`( ](/(?:home|root|work|tmp|usr|Users|opt)/[^\s\"']*)", path.read_text()
    )
    assert found == []


def test_python_3_7_can_read_it():
    for path in source_files():
        ast.parse(path.read_text(), feature_version=(3, 7))
