"""Modules of TensorFlow that moved are found under the names that they had."""

import programs

NO_SCALE = "`loss_scale` must be a number, 'dynamic', a `FixedLossScale`, or"
PROGRAM = """
import replicate
replicate.compat.install()
import tensorflow.compat.v1 as tf
import tensorflow_estimator.python.estimator.canned.dnn as moved
from tensorflow.keras.mixed_precision import experimental
from tensorflow.python.estimator import estimator as estimator_lib
from tensorflow.python.estimator import keras
from tensorflow.python.estimator.canned import dnn
from tensorflow_estimator.python.estimator import keras_lib

from replicate import loss_scale

assert dnn.DNNClassifier is moved.DNNClassifier
assert moved.__name__ == "tensorflow_estimator.python.estimator.canned.dnn"
assert keras.model_to_estimator is keras_lib.model_to_estimator
assert issubclass(tf.estimator.Estimator, estimator_lib.Estimator)
try:
    import tensorflow.python.estimator.nothing
except ModuleNotFoundError as error:
    print(error)

assert tf.keras.mixed_precision.experimental is experimental
experimental.set_policy(experimental.Policy("mixed_float16"))
print(experimental.global_policy().name)
experimental.set_policy("float32")
FIXED, DYNAMIC = loss_scale.FixedLossScale(8.0), loss_scale.DynamicLossScale(4.0, 7, 2.0)
for scale in ("dynamic", 4, FIXED, DYNAMIC):
    sgd = tf.keras.optimizers.SGD(0.1)
    made = experimental.LossScaleOptimizer(sgd, scale)
    print(made.dynamic, float(tf.keras.backend.get_value(made.initial_scale)))
for scale in (loss_scale.DynamicLossScale(4.0, 7, 3.0), "other"):
    try:
        experimental.LossScaleOptimizer(sgd, scale)
    except ValueError as error:
        print(error)
"""


def test_modules_are_found_under_the_names_that_they_had(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    found = programs.run("-W", "ignore", str(file))
    assert found.returncode == 0, found.stderr[-2000:]
    lines = found.stdout.splitlines()
    assert "python.estimator.nothing" in lines[0]
    assert lines[1] == "mixed_float16"
    assert lines[2:6] == ["True 32768.0", "False 4.0", "False 8.0", "True 4.0"]
    assert len(lines) == 8
    for line in lines[6:]:
        assert line.startswith(NO_SCALE)
        assert "Or wrap an optimizer of `tf.train` in `replicate.TowerOptimizer" in line
