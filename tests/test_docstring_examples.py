"""The code in docstrings that the reference shows runs; sessions in them are doctests."""

import functools
import inspect
import re
import textwrap

import pytest

import pages
import replicate

# By name whose docstring has code: the code that a reader would have before it, and after it. Code
# that uses `loss` is trained as a part of a `model_fn`.
WRAPPED = "optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(1e-3), loss_scale=8.0)\n"
PLAIN = "optimizer = tf.train.AdamOptimizer(1e-3)\n"
MINIMIZE = "train_op = optimizer.minimize(loss, tf.train.get_global_step())\n"
SYNC = "optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(1e-3), 1, 1)\n"
SYNC += "optimizer = replicate.TowerOptimizer(optimizer)\n" + MINIMIZE
MODEL = """devices = ["/cpu:0", "/cpu:1"]
run_config = estimator.RunConfig("model", session_config=replicate.session_config(devices))
towers = replicate.replicate_model_fn(model_fn, devices=devices)
estimator = estimator.Estimator(towers, config=run_config)
"""
FEW = "of_readme = input_fn\ninput_fn = lambda: of_readme().take(2)\n"
EXAMPLES = {
    "Reduction": (PLAIN, MINIMIZE),
    "TowerOptimizer": ("", ""),
    "TowerOptimizer.make_session_run_hook": (
        SYNC + "EstimatorSpec = estimator.EstimatorSpec\n",
        "",
    ),
    "TowerOptimizer.scale_loss": (
        WRAPPED,
        "train_op = tf.group(train_op, tf.train.get_global_step().assign_add(1))\n",
    ),
    "compare": (
        "of_readme, params = model_fn, {}\n"
        "def model_fn(features, labels, mode, params):\n"
        "    return of_readme(features, labels, mode)\n",
        "",
    ),
    "compat.install": ("", ""),
    "hooks.PreemptionHook": (MODEL + FEW, ""),
    "hooks.ProgressHook": (MODEL, ""),
    "hooks.TowerMonitorHook": (MODEL, ""),
    "hooks.StallHook": ("run_config = estimator.RunConfig('model')\n", ""),
    "merge_call": (
        "reward = labels\nbaseline = tf.get_variable('baseline', [], trainable=False)\n",
        PLAIN + "loss += 0 * baseline_now\n" + MINIMIZE,
    ),
    "metrics.declare_merge": ("", PLAIN + MINIMIZE),
    "replicate_model_fn": ("", ""),
    "session_config": ("", "estimator.Estimator(model_fn, config=config)\n"),
    "tower_report": (MODEL, "assert 'gradients' in str(report)\n"),
}

NOT_CODE = "tensorflow.compat.v1.estimator "  # How a table of `compat.install` begins.


@pytest.fixture
def fresh_graph():
    """Instead of the one of `conftest.py`: what trains does not begin in a graph."""
    yield


def shown():
    """Yields the names whose docstrings the reference shows, and their texts."""
    text = "\n".join(path.read_text() for path in (pages.ROOT / "docs/reference").glob("*.md"))
    for name in re.findall(r"^::: replicate\.([\w.]+)$", text, re.MULTILINE):
        value = functools.reduce(getattr, name.split("."), replicate)
        yield name, inspect.getdoc(value)
        for method, function in vars(value).items() if inspect.isclass(value) else ():
            # Some are the same under another name.
            if inspect.isfunction(function) and function.__name__ == method:
                yield f"{name}.{method}", inspect.getdoc(function) or ""


def code_of(text):
    """Returns the code of a docstring, before its sections."""
    body = re.split(r"^(?:Args|Returns|Raises):$", text, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"^```python\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
    body = re.sub(r"^```.*?^```", "", body, flags=re.MULTILINE | re.DOTALL)
    found += re.findall(r"(?<=\n\n)((?:    .*(?:\n|\Z)|\n(?=    ))+)", body)
    return [textwrap.dedent(code) for code in found if NOT_CODE not in code and ">>> " not in code]


CODE = {name: code_of(text) for name, text in shown()}


def test_every_example_has_its_start():
    assert sorted(name for name, code in CODE.items() if code) == sorted(EXAMPLES)


@pytest.mark.filterwarnings("ignore")  # TensorFlow's warnings are no matter here.
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_code_of_a_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    before, after = EXAMPLES[name]
    (code,) = CODE[name]
    if "\nreturn " in f"\n{code}":
        code = f"def made():\n{textwrap.indent(code, '    ')}\nhooks = made().training_hooks\n"
    code = compile(f"{before}\n{code}\n{after}", name, "exec")
    start = {}
    exec(pages.definitions(), start)
    names = dict(start)  # The readers' `estimator` may be another one than that of `model_fn`.
    if "loss" in code.co_names and name != "compare":
        pages.train(code, names)
    else:
        exec(code, names)


def test_code_is_found_in_docstrings():
    text = "First.\n\n    a = 1\n\n    b = 2\n\nMore.\n\n```python\nc = 3\n```\n\n"
    text += "Args:\n    x: No code."
    assert code_of(text) == ["c = 3\n", "a = 1\n\nb = 2\n"]
