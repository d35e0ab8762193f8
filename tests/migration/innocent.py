"""Codebases in people's styles that have nothing to find in them, though it looks like it."""

from planted import in_model

INNOCENT = {
    "annotations that nobody looks up": """\
from __future__ import annotations
import tensorflow.compat.v1 as tf
def model_fn(features, labels, mode) -> tf.estimator.EstimatorSpec:
    batch_size: tf.contrib.x[f(batch_size)] = None
    return EstimatorSpec(mode, replicate_model_fn)
""",
    "nothing of TensorFlow": "tf = {}\ntf['contrib'] = 1\nprint(tf)\n",
    "another tf": "import transforms as tf\ntf.contrib.layers.x\ntf.placeholder(1)\n# tensorflow\n",
    "an argument": "import tensorflow\ndef f(tf):\n    return tf.contrib.x, tf.placeholder\n",
    "a variable": "import tensorflow as tf\nfor tf in []:\n    tf.placeholder\n",
    "a text": "import tensorflow as tf\n'tf.contrib.layers'  # tf.placeholder\ntf.function\n",
    "assigned from a function": """\
import tensorflow as tf
def wrap():
    global tf
    tf = object()
def layer():
    return tf.placeholder
""",
    "shadowed": """\
import tensorflow as tf
def f():
    tf = object()
    return tf.placeholder, [tf.contrib for tf in []]
class tf_like:
    tf = 1
""",
    "version 2": """\
import tensorflow as tf
class Model(tf.keras.Model):
    @tf.function
    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.losses.mean_squared_error(data, self(data)))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.v), self.v))
        return tf.keras.optimizers.Adam(), data.shape[0], data.get_shape().as_list()[0]
""",
    "a condition of versions": """\
import tensorflow as tf
if tf.__version__ < "2":
    placeholder = tf.placeholder
    layers = tf.contrib.layers
else:
    placeholder = tf.compat.v1.placeholder
if hasattr(tf, "Session"):
    tf.Session
""",
    "what may be missing": """\
try:
    import tensorflow.compat.v1 as tf
except ImportError:
    import tensorflow as tf
try:
    from tensorflow.contrib import slim
except ImportError:
    slim = None
tf.placeholder, tf.Session
""",
    "none": """\
try:
    import tensorflow as tf
except ImportError:
    tf = None
tf.function
""",
    "version 1, said": "import tensorflow as tf\ntf = tf.compat.v1\ntf.placeholder(tf.float32)\n",
    "version 1, spelled": "import tensorflow as tf\ntf.compat.v1.placeholder(tf.float32)\n",
    "what means in towers what it means on one device": in_model(
        "a = tf.zeros([params['batch_size'], x.shape[0]])",
        "b = tf.reduce_mean(tf.boolean_mask(x, labels > 0))",
        "loss = tf.reduce_sum(x) / params['batch_size'] + b",
        "c = tf.assign(tf.get_variable('last', [3]), x[-1])",
        "pairs = optimizer.compute_gradients(loss)",
        "tf.cond(p, lambda: optimizer.apply_gradients(pairs), tf.no_op)",
        "tf.cond(p, lambda: optimizer.minimize(loss), tf.no_op)",
    ),
    "sizes and sums behind attributes": """\
import tensorflow.compat.v1 as tf
import replicate
class Model:
    def __init__(self, features, params):
        self.x = features["x"]
        self.batch_size = params["batch_size"]
    def loss(self):
        state = tf.fill([self.batch_size], 0.0)
        rows = tf.zeros([self.x.shape[0]])
        return tf.losses.compute_weighted_loss(self.x, reduction=tf.losses.Reduction.SUM)
def model_fn(features, labels, mode, params):
    model = Model(features, params)
    model.loss()
    loss = tf.losses.get_total_loss() / params["batch_size"]
    tf.summary.scalar("loss", loss)
    average = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([average.apply([loss])]):
        train_op = tf.train.AdamOptimizer().minimize(loss, tf.train.get_global_step())
    metrics = {"mean": tf.metrics.mean(loss)}
    return replicate.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
replicate.replicate_model_fn(model_fn)
""",
    "a Keras model beside an Estimator": """\
import tensorflow as tf
import replicate
def trained(model, data):
    model.compile(tf.keras.optimizers.Adam())
    model.fit(data)
def towers(estimator=replicate.estimator.Estimator, to=replicate.replicate_model_fn):
    pass
""",
    "a tape beside an Estimator": """\
import tensorflow as tf
import replicate
def step(loss, made=tf.keras.optimizers.Adam(), estimator=replicate.estimator.Estimator):
    with tf.GradientTape() as tape:
        loss()
""",
    "batch norm of the whole batch": """\
import tensorflow.compat.v1 as tf
import replicate
def model_fn(features, labels, mode):
    tf.layers.batch_normalization(1, fused=True)
    return replicate.estimator.EstimatorSpec(mode)
replicate.replicate_model_fn(model_fn, batch_norm="batch")
""",
    "minima of other libraries": """\
import tensorflow.compat.v1 as tf
def model_fn(features, labels, mode):
    scipy.optimize.minimize(f, 0)
    return replicate_model_fn, EstimatorSpec(mode)
""",
    "a session of its own": """\
import tensorflow.compat.v1 as tf
def evaluate(graph):
    with tf.Graph().as_default(), tf.Session(graph=graph) as session:
        session.run("x")
if __name__ == "__main__":
    evaluate(None)
""",
    "a replicated Estimator": """\
import tensorflow.compat.v1 as tf
import replicate
replicate.compat.install()
tf.estimator.Estimator(replicate.replicate_model_fn(model_fn))
tf.estimator.Estimator(model_fn)
""",
    "installed": """\
import tensorflow as tf
import replicate
replicate.compat.install(tensorflow_1=True)
tf.contrib.layers.xavier_initializer(), tf.contrib.training.HParams, tf.placeholder
def f(x):
    return x.shape[0].value
""",
    "private paths of what has moved": """\
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import ops
tf.placeholder, ops.get_default_graph(), tf.python.ops
""",
    "batch norm of all towers, and what is none": """\
import tensorflow.compat.v1 as tf
import tf_slim as slim
import replicate
replicate.compat.install()
def scope(given, estimator=tf.estimator.Estimator):
    params = {"fused": True}
    none = {"fused": None}
    off = dict(fused=False)
    own = {"fused": True}
    replicate.batch_normalization(1, **params)
    slim.conv2d(1, normalizer_fn=replicate.batch_normalization, normalizer_params=params)
    with slim.arg_scope([slim.batch_norm], **none), slim.arg_scope([slim.batch_norm], **off):
        pass
    with slim.arg_scope([slim.conv2d], fused=True), slim.arg_scope(given, fused=True):
        other(normalizer_params=own, **own)
    slim.batch_norm(1, **given)
    slim.batch_norm(1, **none[0])
""",
    "batch norm that the whole codebase takes of the batch": in_model(
        "y = tf.layers.batch_normalization(x, fused=True)",
        "replicate.replicate_model_fn(model_fn, batch_norm='batch')",
    ),
    "ignored": """\
import tensorflow.compat.v1 as tf
tf.contrib.eager.defun  # replicate: ignore
tf.contrib.eager.defun  # replicate: ignore[contrib-none]
f(
    tf.contrib.eager.defun,
    1,
)  # replicate: ignore
# replicate: ignore[star-import, contrib-none]
tf.contrib.eager.defun
""",
    "ignored everywhere": "# replicate: ignore-file\nimport tensorflow as tf\ntf.placeholder\n",
}
