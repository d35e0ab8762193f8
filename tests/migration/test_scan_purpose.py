"""`scan` names the purpose of a program: one that predicts or evaluates does not train."""

import pytest

from planted import expected, plain
from replicate.migration.scan import scan

ESTIMATOR = """\
import tensorflow.compat.v1 as tf
import replicate
def model_fn(features, labels, mode):
    return replicate.estimator.EstimatorSpec(mode)
"""
MADE = "estimator = replicate.estimator.Estimator(model_fn)\n"
PURPOSES = {
    "estimator.train(f)\nestimator.evaluate(f)\n": "train",
    "estimator.predict(f)\n": "predict",
    "estimator.evaluate(f)\n": "evaluate",
    "estimator.predict(f)\nestimator.evaluate(f)\n": "evaluate and predict",
    "estimator.predict(f)\nestimator.export_saved_model(f)\n": "predict",
    "estimator.export_saved_model(f)\n": None,
    "estimator.get_variable_names()\n": "run",
    "f(estimator)\nestimator.predict(f)\n": "run",
    "": "run",
}


@pytest.mark.parametrize("uses", PURPOSES)
@pytest.mark.parametrize("name", ["estimator", "self.estimator"])
def test_what_an_estimator_does_is_said(tmp_path, uses, name):
    text = ESTIMATOR + (MADE + uses).replace("estimator.", f"{name}.")
    text = text.replace(f"replicate.{name}.", "replicate.estimator.")
    text = text.replace("estimator = ", f"{name} = ").replace("f(estimator)", f"f({name})")
    (tmp_path / "a.py").write_text(text)
    said = [one.message for one in scan([str(tmp_path)]).findings]
    purpose = PURPOSES[uses]
    advice = f"Write `replicate.replicate_model_fn(model_fn)` here to {purpose} on all devices."
    assert said == ([] if purpose is None else [advice])


def test_an_estimator_without_a_name(tmp_path):
    text = ESTIMATOR + MADE.replace("estimator = ", "").replace("\n", ".predict(f)\n")
    (tmp_path / "a.py").write_text(text)
    (found,) = scan([str(tmp_path)]).findings
    assert "to predict on all devices" in found.message


HEAD = "import tensorflow.compat.v1 as tf\n"
STEP = "def step(loss):\n  return tf.train.AdamOptimizer().minimize(loss)\n"
CLASS = """\
class Model:
  def __init__(self, loss):
    self.train_op = tf.train.AdamOptimizer().minimize(loss)
    self.predictions = loss
"""
RUN = "def main(x, graph):\n  with tf.Session(graph=graph) as session:{}\n    session.run({})\n"
LOOP = "  #! session-loop"
SESSIONS = {
    "a step that is asked for": {"a.py": HEAD + STEP + RUN.format(LOOP, "step(x)")},
    "a step that is not": {"a.py": HEAD + STEP + RUN.format("", "x")},
    "a step in the session": {"a.py": HEAD + RUN.format(LOOP, "x.minimize(1)")},
    "an attribute": {"a.py": HEAD + CLASS + RUN.format(LOOP, "Model(x).train_op")},
    "an attribute that is not": {"a.py": HEAD + CLASS + RUN.format("", "Model(x).predictions")},
    "a step of another file": {
        "b.py": HEAD + STEP,
        "a.py": HEAD + "import b\n" + RUN.format(LOOP, "b.step(x)"),
    },
    "a step of a file between": {
        "b.py": HEAD + STEP,
        "c.py": HEAD + "import b\ndef inner(x):\n  made = b.step(x)\n  return made\n"
        "def outer(x):\n  return inner(x)\n",
        "a.py": HEAD + "from c import outer\n" + RUN.format(LOOP, "outer(x)"),
    },
    "a model of another file": {
        "b.py": HEAD + CLASS,
        "a.py": HEAD + "import b\nmodel = b.Model(1)\n" + RUN.format(LOOP, "model.train_op"),
    },
    "a model of another file that predicts": {
        "b.py": HEAD + CLASS,
        "a.py": HEAD + "import b\nmodel = b.Model(1)\n" + RUN.format("", "model.predictions"),
    },
}


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_that_train_are_told_from_those_that_predict(tmp_path, name):
    files = SESSIONS[name]
    for path, text in files.items():
        (tmp_path / path).write_text(plain(text))
    found = scan([str(tmp_path)]).findings
    for path, text in files.items():
        told = [(one.line, one.rule) for one in found if one.path.endswith(path)]
        assert told == expected(text)


OPTIMIZERS = """\
import tensorflow as tf
import replicate
ALL = {
    "adam": tf.keras.optimizers.Adam,  #! keras-optimizer
    "old": tf.keras.optimizers.legacy.Adam,
}
NONE = {"adam": tf.keras.optimizers.Adam}
def made(cls, rate, other=tf.keras.optimizers.SGD):  #! keras-optimizer
    return cls(rate), other(rate), ALL["x"](rate)
made(tf.keras.optimizers.RMSprop, 1)  #! keras-optimizer
made(tf.keras.optimizers.legacy.RMSprop, 1)
replicate.estimator.EstimatorSpec, replicate.replicate_model_fn
"""


def test_keras_optimizers_are_found_behind_functions(tmp_path):
    (tmp_path / "a.py").write_text(plain(OPTIMIZERS))
    found = scan([str(tmp_path)]).findings
    assert [(one.line, one.rule) for one in found] == expected(OPTIMIZERS)
    assert {one.name for one in found} >= {"tf.keras.optimizers.RMSprop"}
