"""Annotations of the public surface: that all of it has them, and that a type checker reads them.

Public is what `replicate.__all__` names, what its public modules define, and, again and again, the
library's own classes that annotations of these name: whatever a user can be handed.
"""

import importlib
import importlib.util
import inspect
import operator
import os
import pathlib
import re
import subprocess
import sys
import typing

import pytest

import replicate

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULES = (
    "__main__",
    "compat",
    "cross_tower",
    "devices",
    "hooks",
    "loss_scale",
    "metrics",
    "model_fn",
    "normalization",
    "tower_optimizer",
)
CALLED = ("__init__", "__call__")  # Methods that are public under such a name.


def _is_own(value):
    is_one = inspect.isclass(value) or inspect.isfunction(value)
    return is_one and value.__module__.split(".")[0] == "replicate"


def _roots():
    """Yields the functions and classes that are public by their name."""
    modules = [importlib.import_module(f"replicate.{name}") for name in MODULES]
    listed = [getattr(replicate, name) for name in replicate.__all__]
    # The Estimator is not the library's own.
    modules += [v for v in listed if inspect.ismodule(v) and v is not replicate.estimator]
    for value in [*listed, *(value for module in modules for value in _defined(module))]:
        if _is_own(value):
            yield value


def _defined(module):
    """Returns what a module offers: what it lists, else what it defines under a public name."""
    if hasattr(module, "__all__"):
        return [getattr(module, name) for name in module.__all__]
    found = [value for name, value in vars(module).items() if not name.startswith("_")]
    return [value for value in found if getattr(value, "__module__", "") == module.__name__]


def _functions(value):
    """Yields what annotations belong to, with its name: a function, or methods of a class."""
    if inspect.isfunction(value):
        yield value.__qualname__, value
        return
    for cls in value.__mro__:
        for name, found in vars(cls).items() if _is_own(cls) else ():
            found = getattr(found, "__func__", found)
            found = found.fget if isinstance(found, property) else found
            is_public = not name.startswith("_") or name in CALLED
            if is_public and inspect.isfunction(found) and _is_own(found):
                yield f"{value.__name__}.{name}", found


def _named_in(annotation, module):
    """Yields the library's own classes that the text of an annotation names."""
    for name in re.findall(r"[A-Za-z_][\w.]*", str(annotation)):
        try:
            found = operator.attrgetter(name)(sys.modules[module])
        except AttributeError:
            continue
        if inspect.isclass(found) and _is_own(found):
            yield found


def _surface():
    """Returns the functions and methods of the surface by name, and the classes."""
    functions, classes, pending = {}, set(), list(_roots())
    seen = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        annotations = []
        if inspect.isclass(value):
            classes.add(value)
            annotations += [(text, value.__module__) for text in _fields(value).values()]
        for name, function in _functions(value):
            functions[name] = function
            annotations += [(t, function.__module__) for t in function.__annotations__.values()]
        for annotation in annotations:
            pending.extend(_named_in(*annotation))
    return functions, classes


def _fields(cls):
    fields = getattr(cls, "__annotations__", {})
    # Before Python 3.14, those of named tuples are evaluated as far as `typing.ForwardRef`.
    return {name: getattr(text, "__forward_arg__", text) for name, text in fields.items()}


FUNCTIONS, CLASSES = _surface()


def test_the_walk_finds_what_users_are_handed():
    assert {"merge_call", "TowerOptimizer.__init__", "Comparison.equal", "main"} <= set(FUNCTIONS)
    assert {"LossScale.from_config", "Reduction.of", "fall_back", "install"} <= set(FUNCTIONS)
    assert "TowerOptimizer.has_been_used" in FUNCTIONS  # Which is inherited.
    assert {"Deviation", "Explanation", "StepLoss", "TowerReport", "Crossing"} <= {
        cls.__name__ for cls in CLASSES
    }


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_everything_public_is_annotated(name):
    signature = inspect.signature(inspect.unwrap(FUNCTIONS[name]))
    first = 1 if "." in name and next(iter(signature.parameters), "") in ("self", "cls") else 0
    for parameter in list(signature.parameters.values())[first:]:
        assert parameter.annotation is not parameter.empty, parameter.name
    assert signature.return_annotation is not signature.empty


def test_modules_that_must_be_annotated_exist():
    config = (ROOT / "pyproject.toml").read_text()
    names = re.findall(r'^    "(replicate[\w.]*)",$', config, re.MULTILINE)
    assert {"replicate", "replicate.model_fn", "replicate.tower_optimizer"} <= set(names)
    assert [name for name in names if importlib.util.find_spec(name) is None] == []


def test_types_cost_nothing():
    """Annotations are not evaluated, so that Python 3.7 need not know what newer ones have."""
    assert replicate.replicate_model_fn.__annotations__["devices"] == "Iterable[str] | None"
    assert not typing.TYPE_CHECKING


PROGRAM = """\
from typing import Any

import replicate
from replicate import estimator


def model_fn(features: Any, labels: Any, mode: str) -> estimator.EstimatorSpec:
    optimizer = replicate.TowerOptimizer(Any, clip_norm=1, accumulate_steps=4, reduction="nccl")
    return estimator.EstimatorSpec(mode, train_op=optimizer.minimize(features))


towers = replicate.replicate_model_fn(model_fn, devices=["/cpu:0"], variable_placement="replicated")
spec: estimator.EstimatorSpec = towers({}, None, "train", params={})
made: replicate.Comparison = replicate.compare(model_fn, lambda: None, steps=3)
worst: float = max(one.value for one in made.variables)
hook = replicate.hooks.ProgressHook(1000, steps=None)
whole: str | None = replicate.checkpoints.fall_back("run")
scale = replicate.loss_scale.DynamicLossScale.from_config({})


def total(values: replicate.PerTower[float]) -> float:
    return sum(values)


def split(values: replicate.PerTower[float]) -> replicate.PerTower[float]:
    return values


reveal_type(made.equal)
reveal_type(replicate.num_towers())
reveal_type(replicate.tower_report().crossing.size)
reveal_type(replicate.merge_call(total, 1.0))
reveal_type(replicate.merge_call(split, 1.0))
reveal_type(scale)
"""
REVEALED = ["bool", "int", "int", "float", "float", "replicate.loss_scale.DynamicLossScale"]

# Wrong programs, each with a part of mypy's message.
WRONG = {
    "replicate.replicate_model_fn(3)": "[arg-type]",
    "replicate.replicate_model_fn(print, devices=3)": "[arg-type]",
    "replicate.replicate_model_fn(print, variable_placement='everywhere')": "[arg-type]",
    "replicate.replicate_model_fn(print, towers=2)": "[call-arg]",
    "replicate.TowerOptimizer(None, accumulate_steps='4')": "[arg-type]",
    "replicate.TowerOptimizer(None, reduction='ring')": "[arg-type]",
    # Old names work, but type checkers know the new ones alone.
    "replicate.TowerOptimizer(None, gather='nccl')": "[call-arg]",
    "replicate.Gather": "[attr-defined]",
    "replicate.TowerOptimizer(None, 1.0)": "Too many positional arguments",
    "replicate.compare(print, print).same": "[attr-defined]",
    "replicate.hooks.ProgressHook(total_steps='all')": "[arg-type]",
    "replicate.loss_scale.FixedLossScale('dynamic')": "[arg-type]",
    "replicate.merge_call(3)": "[call-overload]",
    "replicate.PerTower([1.0])[0].upper()": "[attr-defined]",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Returns mypy's messages for a user's program, and for each line of a wrong one."""
    pytest.importorskip("mypy", reason="one version is pinned, beside TensorFlow 2.15 alone")
    directory = tmp_path_factory.mktemp("user")
    (directory / "program.py").write_text(PROGRAM)
    (directory / "wrong.py").write_text("\n".join(["import replicate", *WRONG, ""]))
    # Installed: a package on the path of modules counts if it has `py.typed`, and else is `Any`.
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    environment.pop("MYPYPATH", None)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", "cache", "program.py", "wrong.py"],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 1, done.stdout
    return done.stdout


@pytest.mark.slow
def test_a_users_program_is_checked(checked):
    said = re.findall(r"^program\.py:\d+: (\w+): (.*)$", checked, re.MULTILINE)
    assert [kind for kind, _ in said] == ["note"] * len(REVEALED), checked
    for (_, text), name in zip(said, REVEALED):
        assert re.fullmatch(rf'Revealed type is "(builtins\.)?{re.escape(name)}"', text)


@pytest.mark.slow
@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_refused(checked, line):
    number = 2 + list(WRONG).index(line)
    said = re.findall(rf"^wrong\.py:{number}: error: (.*)$", checked, re.MULTILINE)
    assert any(WRONG[line] in text for text in said), checked
