"""The public surface: its names, signatures and documentation."""

import doctest
import importlib
import inspect
import re
import textwrap

import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import source_files

SIGNATURES = {
    "replicate_model_fn": (
        "(model_fn, loss_reduction='weighted_sum_by_nonzero_weights', devices=None, *, "
        "consolidation_device=None, variable_placement='consolidation', "
        "per_tower_batch_size=None, unsplit_features=(), batch_axis=0, summaries='first', "
        "prefetch_to_devices=False, batch_norm='tower', random='tower', per_tower=False, "
        "read_step_first=False)"
    ),
    "TowerOptimizer": (
        "(optimizer_or_optimizer_fn, *, clip_norm=None, transform_gradients=None, loss_scale=None, "
        "accumulate_steps=1, accumulate_reduction=None, check_finite=False, "
        "reduction='consolidation')"
    ),
    "BatchNormalization": "(*args, **kwargs)",
    "batch_normalization": (
        "(inputs, axis=-1, momentum=0.99, epsilon=0.001, center=True, scale=True, "
        "beta_initializer='zeros', gamma_initializer='ones', moving_mean_initializer='zeros', "
        "moving_variance_initializer='ones', beta_regularizer=None, gamma_regularizer=None, "
        "beta_constraint=None, gamma_constraint=None, training=False, trainable=True, name=None, "
        "reuse=None, renorm=False, renorm_clipping=None, renorm_momentum=0.99, fused=None, "
        "virtual_batch_size=None, adjustment=None)"
    ),
    "merge_call": "(fn, *args)",
    "compare": (
        "(model_fn, input_fn, params=None, config=None, devices=None, steps=5, *, "
        "eval_input_fn=None, original=None, checkpoint_path=None, warm_start_from=None, "
        "tolerance=None, file=None, **options)"
    ),
    "cross_tower_sum": "(x)",
    "cross_tower_mean": "(x)",
    "num_towers": "()",
    "tower_index": "()",
    "tower_report": "()",
    "session_config": "(devices=None, base=None, **kwargs)",
}
OTHERS = {
    "Comparison",
    "PerTower",
    "Reduction",
    "__version__",
    "checkpoints",
    "compat",
    "estimator",
    "hooks",
    "loss_scale",
    "metrics",
}


def test_the_surface_is_what_the_page_says():
    assert set(replicate.__all__) == set(SIGNATURES) | OTHERS
    assert len(replicate.__all__) == len(set(replicate.__all__))
    for name in replicate.__all__:
        assert hasattr(replicate, name)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    signature = inspect.signature(getattr(replicate, name))
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    plain = signature.replace(parameters=plain, return_annotation=signature.empty)
    assert str(plain) == SIGNATURES[name]


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", replicate.__version__)


def _documented():
    """Yields every public name with the function, class or method that it names."""
    for module in (replicate, replicate.hooks, replicate.loss_scale, replicate.metrics):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            if not name.startswith("_") and getattr(value, "__module__", "").startswith(
                "replicate"
            ):
                yield name, value
                for method, function in vars(value).items() if inspect.isclass(value) else ():
                    if not method.startswith("_") and inspect.isfunction(function):
                        yield f"{name}.{method}", function


DOCUMENTED = dict(_documented())
HOOK_PROTOCOL = {"begin", "after_create_session", "before_run", "after_run", "end"}


def test_the_walk_finds_the_surface():
    assert set(SIGNATURES) <= set(DOCUMENTED)
    assert {"TowerOptimizer.minimize", "declare_merge", "ProgressHook"} <= set(DOCUMENTED)


@pytest.mark.parametrize("name", [n for n in DOCUMENTED if n.split(".")[-1] not in HOOK_PROTOCOL])
def test_docstrings(name):
    value = DOCUMENTED[name]
    # Its own: `inspect.getdoc` would take that of a base class, such as `tuple`.
    text = inspect.cleandoc(value.__doc__ or "")
    assert re.match(r"[A-Z`].*\.$", text.splitlines()[0]), "a sentence comes first"
    is_function = inspect.isfunction(value)
    source = inspect.unwrap(value) if is_function else value.__init__
    if source is object.__init__ or not hasattr(source, "__code__"):
        return
    arguments = [
        parameter
        for parameter in inspect.signature(source).parameters.values()
        if parameter.name != "self"
    ]
    own = [
        a for a in arguments if "." not in name or a.kind not in (a.VAR_KEYWORD, a.VAR_POSITIONAL)
    ]
    section = _section(text, "Args")
    if "." not in name and own:
        assert re.findall(r"^\*{0,2}(\w+):", section, re.MULTILINE) == [a.name for a in own]
    tree = textwrap.dedent(inspect.getsource(value))
    if is_function and re.search(r"^    return \S", tree, re.MULTILINE):
        assert "Returns" in text
    if re.search(r"^    +raise \w+Error", tree, re.MULTILINE) and "." not in name:
        assert _section(text, "Raises")


def _section(text, name):
    """Returns the body of a docstring's section, as far left as it goes; "" if there is none."""
    found = re.search(rf"^{name}:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    return textwrap.dedent(found.group(1)) if found else ""


WITH_EXAMPLES = [path for path in source_files() if ">>> " in path.read_text()]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_that_can_run_do(path):
    name = ".".join(path.with_suffix("").parts[path.parts.index("replicate") :])
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_line_of_the_docstring_works():
    """The example of `replicate_model_fn` is what a user copies first."""
    (line,) = re.findall(
        r"^ {4,}(\w+ += replicate\..*)$", replicate.replicate_model_fn.__doc__, re.M
    )
    names = {"replicate": replicate, "model_fn": lambda features, labels, mode: None}
    exec(line, names)
    assert callable(names["model_fn"])


def test_the_estimator_api():
    for name in ("Estimator", "EstimatorSpec", "RunConfig", "ModeKeys", "train_and_evaluate"):
        assert getattr(replicate.estimator, name) is getattr(tf.estimator, name)
        assert name in dir(replicate.estimator)
    with pytest.raises(AttributeError, match="NoSuchName"):
        replicate.estimator.NoSuchName  # noqa: B018


def test_the_estimator_finds_the_arguments_of_model_fn(tmp_path):
    def model_fn(features, labels, params):
        raise AssertionError

    replicated = replicate.replicate_model_fn(model_fn)
    assert str(inspect.signature(replicated)) == (
        "(features, labels, mode, params=None, config=None)"
    )
    assert replicated.__name__ == "model_fn"
    replicate.estimator.Estimator(replicated, str(tmp_path), params={})  # It checks the arguments.
