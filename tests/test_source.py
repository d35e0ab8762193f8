"""What must hold of the source text; it is parsed, so that strings and comments do not count."""

import ast
import pathlib
import re

import pytest

import replicate
from bodies import source_files

ROOT = pathlib.Path(replicate.__file__).parent
MODULES = {
    ".".join(["replicate", *path.relative_to(ROOT).with_suffix("").parts]): ast.parse(
        path.read_text()
    )
    for path in source_files()
}
PUBLIC = [name for name in MODULES if not name.startswith("replicate.compat")]

# Modules that know nothing of their callers, and what of the library they may import.
FOUNDATIONS = {
    "replicate.cluster": set(),
    "replicate.devices": {"replicate.cluster"},
    "replicate.version": set(),
    "replicate.ancestor": {"replicate.by_graph"},
    "replicate.batch_entries": set(),
    "replicate.arguments": {
        "replicate.batch_entries",
        "replicate.devices",
        "replicate.summaries",
    },
    "replicate.summaries": {
        "replicate.compat.copying",
        "replicate.compat.graph",
        "replicate.compat.summaries",
        "replicate.state",
    },
    "replicate.boundary": {"replicate.compat.graph"},
    "replicate.row_shapes": set(),
    "replicate.row_axes": {"replicate.row_shapes"},
    "replicate.splitting": set(),
    "replicate.sharding": {
        "replicate.batch_entries",
        "replicate.compat.graph",
        "replicate.splitting",
    },
    "replicate.variables": {"replicate.compat.graph"},
    "replicate.replicas": {
        "replicate.compat.graph",
        "replicate.compat.repetition",
        "replicate.functions",
        "replicate.gradients",
        "replicate.state",
        "replicate.updates",
    },
    "replicate.updates": {"replicate.sharding"},
    "replicate.gather": set(),
    "replicate.packing": set(),
    "replicate.nccl": set(),
    "replicate.wires": {"replicate.gather", "replicate.nccl"},
    "replicate.engine": set(),
    "replicate.rendezvous": {"replicate.functions"},
    "replicate.state": set(),
    "replicate.rows": {"replicate.compat.graph", "replicate.state"},
    "replicate.copies": {
        "replicate.compat.copying",
        "replicate.compat.graph",
        "replicate.functions",
        "replicate.rows",
        "replicate.state",
    },
    "replicate.extents": {
        "replicate.row_axes",
        "replicate.extent_kinds",
        "replicate.row_shapes",
        "replicate.gradients",
        "replicate.static_values",
        "replicate.compat.copying",
        "replicate.compat.graph",
    },
    "replicate.extent_kinds": set(),
    "replicate.whole_loss": {
        "replicate.compat.copying",
        "replicate.compat.graph",
        "replicate.extent_kinds",
        "replicate.functions",
        "replicate.loss_operations",
        "replicate.state",
    },
    "replicate.loss_operations": {
        "replicate.compat.graph",
        "replicate.extent_kinds",
        "replicate.row_shapes",
        "replicate.state",
    },
    "replicate.own_state": {
        "replicate.compat.graph",
        "replicate.functions",
        "replicate.state",
        "replicate.updates",
    },
    "replicate.merged_updates": {
        "replicate.own_training",
        "replicate.declared_merges",
        "replicate.compat.copying",
        "replicate.compat.graph",
        "replicate.extents",
        "replicate.functions",
        "replicate.own_state",
        "replicate.state",
    },
    "replicate.tower_index": set(),
    "replicate.whole_gradients": {
        "replicate.tower_gathering",
        "replicate.compat.graph",
        "replicate.compat.interception",
        "replicate.extent_kinds",
        "replicate.extents",
        "replicate.functions",
        "replicate.gradients",
        "replicate.towers",
        "replicate.weights",
        "replicate.whole_loss",
    },
    "replicate.tower_engine": {
        "replicate.tower_gathering",
        "replicate.compat.graph",
        "replicate.engine",
        "replicate.functions",
        "replicate.rendezvous",
        "replicate.tower_accumulation",
        "replicate.tower_index",
        "replicate.whole_gradients",
    },
    "replicate.metrics": {"replicate.towers"},
    "replicate.functions": set(),
    "replicate.conditional": {"replicate.compat.graph"},
    "replicate.accumulation": {"replicate.conditional", "replicate.gradients"},
    "replicate.tower_accumulation": {
        "replicate.accumulation",
        "replicate.compat.saving",
        "replicate.conditional",
        "replicate.weights",
    },
    "replicate.replica_gradients": {
        "replicate.compat.distribute",
        "replicate.engine",
        "replicate.functions",
        "replicate.gradients",
    },
    "replicate.replica_steps": {
        "replicate.accumulation",
        "replicate.compat.distribute",
        "replicate.replica_gradients",
    },
    "replicate.tpu": {
        "replicate.compat.tpu",
        "replicate.engine",
        "replicate.gradients",
        "replicate.weights",
    },
    "replicate.distributed": {
        "replicate.compat.distribute",
        "replicate.compat.graph",
        "replicate.engine",
        "replicate.functions",
        "replicate.gradients",
        "replicate.rendezvous",
        "replicate.replica_gradients",
        "replicate.replica_steps",
    },
    "replicate.weights": set(),
    "replicate.tower_params": {"replicate.functions"},
    "replicate.compat.tpu": set(),
    "replicate.compat.distribute": {"replicate.compat.environment"},
    "replicate.compat.copying": {"replicate.compat.graph"},
    "replicate.compat.repetition": {"replicate.compat.graph"},
    "replicate.compat.interception": set(),
    "replicate.towers": {
        "replicate.tower_index",
        "replicate.gathered",
        "replicate.boundary",
        "replicate.compat.copying",
        "replicate.compat.graph",
        "replicate.compat.seeds",
        "replicate.copies",
        "replicate.engine",
        "replicate.extents",
        "replicate.functions",
        "replicate.gather",
        "replicate.own_state",
        "replicate.rows",
        "replicate.state",
        "replicate.updates",
        "replicate.weights",
    },
    "replicate.gradients": {
        "replicate.gather",
        "replicate.nccl",
        "replicate.packing",
        "replicate.wires",
    },
    "replicate.compat.graph": {"replicate.compat.keras"},
    "replicate.compat.keras": {"replicate.compat.environment"},
    "replicate.checkpoints": set(),
    "replicate.finite_check": {"replicate.conditional"},
    "replicate.finite": {"replicate.context"},
    "replicate.loss_scale": {
        "replicate.by_graph",
        "replicate.compat.saving",
        "replicate.context",
        "replicate.finite",
        "replicate.loss_scale_hook",
        "replicate.scaling",
    },
    "replicate.scaling": {"replicate.context", "replicate.finite"},
    "replicate.normalization": {"replicate.compat.keras", "replicate.cross_tower"},
    "replicate.comparing.deviations": set(),
    "replicate.comparing.batches": set(),
    "replicate.comparing.statistics": {
        "replicate.compat.graph",
        "replicate.extents",
        "replicate.state",
    },
    "replicate.comparing.comparison": {
        "replicate.comparing.deviations",
        "replicate.comparing.explanations",
    },
}
# What the examples have in common, and what of the examples it may import.
EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
IN_COMMON = {
    "data": ("examples", "examples.data", "examples.runs"),
    "runs": ("examples", "examples.runs"),
    "classifiers": ("examples", "examples.classifiers", "examples.data", "examples.runs"),
}
COMMON_FILES = [
    pytest.param(package, path, id=f"{package}/{path.name}")
    for package in IN_COMMON
    for path in sorted((EXAMPLES / package).rglob("*.py"))
]
FLOW = {"replicate.model_fn", "replicate.specs", "replicate.tower_optimizer", "replicate"}


def imported(tree):
    """Yields the full names of what `tree` imports; of `from a import b` both `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their package"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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


@pytest.mark.parametrize("module", PUBLIC)
def test_private_attributes_of_others_are_touched_in_compat_alone(module):
    assert list(private_attributes(MODULES[module])) == [], "move this to replicate/compat"


def test_the_search_for_private_attributes_finds_them_alone():
    text = "def f(op):\n  return op._id, spec._replace(a=1), self._own, other._own, op.name"
    assert list(private_attributes(ast.parse(text))) == ["line 2: op._id"]


@pytest.mark.parametrize("module", PUBLIC)
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


@pytest.mark.parametrize("module", PUBLIC)
def test_versions_are_asked_for_in_compat_alone(module):
    asked = [
        node.lineno
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.Compare)
        and re.search(r"__version__|version_info", ast.unparse(node))
    ]
    assert asked == [], "move this to replicate/compat"


@pytest.mark.parametrize("module", FOUNDATIONS)
def test_foundations_do_not_know_their_callers(module):
    below = {name for name in own(MODULES[module]) if name != "replicate.compat"}
    assert below <= FOUNDATIONS[module]


@pytest.mark.parametrize("module", MODULES)
def test_nothing_imports_the_flow_but_what_starts_it(module):
    # What compares towers with one device runs both.
    importers = {"replicate.__init__", "replicate.comparing.task"}
    importers |= {"replicate.__main__"} & {module}
    if "replicate.model_fn" in own(MODULES[module]):
        assert module in importers
    if module.startswith("replicate.compat"):
        assert all(name.startswith("replicate.compat") for name in own(MODULES[module]))


@pytest.mark.parametrize(("package", "path"), COMMON_FILES)
def test_what_examples_have_in_common_does_not_know_them(package, path):
    text = path.read_text()
    for name in imported(ast.parse(text)):
        if name.split(".")[0] == "examples":
            assert ".".join(name.split(".")[:2]) in IN_COMMON[package], name
    programs = [child.parent.name for child in EXAMPLES.glob("*/__main__.py")]
    assert "nas_search" in programs
    assert [name for name in programs if name in text] == []


def test_imports_run_one_way():
    """Each module can be put after all that it imports."""
    # A package's own name in `from replicate import x` is not a use of what it re-exports.
    remaining = {
        module: {name for name in own(tree) if name != module} for module, tree in MODULES.items()
    }
    while remaining:
        free = [module for module, needs in remaining.items() if not needs & set(remaining)]
        assert free, f"these import one another: {sorted(remaining)}"
        for module in free:
            del remaining[module]


@pytest.mark.parametrize("path", source_files(), ids=lambda path: path.name)
def test_a_file_holds_one_concept(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 300
    assert ast.get_docstring(ast.parse(path.read_text())), "its docstring names it"


@pytest.mark.parametrize("path", source_files(), ids=lambda path: path.name)
def test_no_path_of_a_machine(path):
    found = re.findall(
        r"[\"'`( ](/(?:home|root|work|tmp|usr|Users|opt)/[^\s\"']*)", path.read_text()
    )
    assert found == []


def test_python_3_7_can_read_it():
    for path in source_files():
        ast.parse(path.read_text(), feature_version=(3, 7))
