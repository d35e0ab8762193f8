"""Rules for the source text of the examples: who may import whom, and files of one concept.

A *member* of a package is a package or a module in it.
"""

import ast
import pathlib
import re

import pytest

from each import of_each
from imports import check_one_way, imported

ROOT = pathlib.Path(__file__).parents[1]

# The members of the examples and of their packages, from the ground up: imports run down alone, and
# members of one floor do not know each other.
FLOORS = {
    "examples": (
        ("__init__", "comparison", "runs"),
        ("data", "digits"),
        ("classifiers", "cluster", "mixed_precision"),
        ("nas_search", "revnet"),
    ),
    "examples.runs": (
        ("__init__", "arguments", "errors", "figures", "native_log", "progress_display")
        + ("record_lengths", "stop_on_signal", "summaries"),
        ("checkpoints", "command_line", "export_dir", "flags", "json_file"),
        ("cluster", "settings_file", "tpu_cluster", "training_flags"),
        ("engines",),
    ),
    "examples.data": (
        ("errors", "preprocessing", "shuffling", "splits", "tpu"),
        ("dataset_metadata",),
        ("serving",),
        ("sources",),
        ("datasets",),
        ("__init__",),
    ),
    "examples.classifiers": (("__init__", "evaluation"), ("settings", "training"), ("commands",)),
    "examples.cluster": (("__init__", "flags"), ("local", "train"), ("slurm",)),
    # Modules that TuNAS has too are at the same place as there; the rest is in packages.
    "examples.nas_search": (
        ("__init__", "custom_layers", "depthwise_initializers", "mobile_model_archive"),
        ("rewards", "schema", "tpu_optimizer_ops"),
        ("schema_io",),
        ("basic_specs",),
        ("analyze_mobile_search_lib", "controller", "search_space_utils"),
        ("mobile_specs",),
        ("mobile_search_space_v3", "rematlib"),
        ("spaces",),
        ("costs", "mobile_classifier_factory"),
        ("mobile_cost_model",),
        ("cost_model_lib", "latency"),
        ("search",),
        ("reports",),
        ("training",),
        ("fronts", "serving"),
        ("commands",),
        ("__main__", "demo"),
    ),
    "examples.revnet": (
        ("__init__", "network"),  # `__init__` imports from it late.
        ("profiling", "training"),
        ("export",),
        ("commands",),
        ("__main__",),
    ),
}


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted((ROOT / "examples").rglob("*.py"))
MODULES = {name_of(path): ast.parse(path.read_text()) for path in FILES}


def member_of(module, package):
    """Returns the member of a package that a module is or is in, None if it is in none."""
    if module == package:
        return "__init__"
    inside = module.startswith(f"{package}.")
    return module[len(package) + 1 :].split(".")[0] if inside else None


def own(module):
    """Returns the examples' modules that a module imports, without packages that are but ways."""
    used = {name for name in imported(MODULES[module]) if name in MODULES}
    # Of `from a import b`, where `b` is a module, `a` is but the way to it.
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.ImportFrom) and all(
            f"{node.module}.{alias.name}" in MODULES for alias in node.names
        ):
            used.discard(node.module)
    return used


@pytest.mark.parametrize("package", FLOORS)
def test_every_module_is_in_a_member(package):
    members = [member for floor in FLOORS[package] for member in floor]
    assert sorted(members) == sorted({member_of(module, package) for module in MODULES} - {None})


@pytest.mark.parametrize("package", FLOORS)
def test_imports_run_down(package):
    floor_of = {
        member: floor for floor, members in enumerate(FLOORS[package]) for member in members
    }
    for module in MODULES:
        member = member_of(module, package)
        if member is None:
            continue
        for used in own(module):
            other = member_of(used, package)
            if other not in (None, member):
                assert floor_of[other] < floor_of[member], f"{module} imports {used}"


def test_the_rule_of_floors_finds_what_runs_up(monkeypatch):
    upward = ast.parse("from examples.nas_search.commands import PROGRAM")
    monkeypatch.setitem(MODULES, "examples.nas_search.reports.report", upward)
    with pytest.raises(AssertionError, match=r"report imports examples\.nas_search\.commands"):
        test_imports_run_down("examples.nas_search")


def test_imports_run_one_way():
    check_one_way({module: own(module) for module in MODULES})


@pytest.mark.parametrize("package", ["classifiers", "data", "runs"])
def test_what_examples_have_in_common_does_not_name_them(package):
    programs = [child.parent.name for child in ROOT.glob("examples/*/__main__.py")]
    assert "nas_search" in programs
    for path in ROOT.glob(f"examples/{package}/**/*.py"):
        assert [name for name in programs if name in path.read_text()] == [], path.name


@of_each(FILES, name_of)
def test_a_file_holds_one_concept(path):
    assert len(path.read_text().splitlines()) <= 300
    assert ast.get_docstring(ast.parse(path.read_text())), "its docstring names it"


@of_each(FILES, name_of)
def test_no_path_of_a_machine(path):
    found = re.findall(
        r"[\"'`( ](/(?:home|root|work|tmp|usr|Users|opt)/[^\s\"']*)", path.read_text()
    )
    assert found == []


def test_python_3_7_can_read_it():
    for path in FILES:
        ast.parse(path.read_text(), feature_version=(3, 7))
