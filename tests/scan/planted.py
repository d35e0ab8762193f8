"""Codebases in people's styles: what is planted in them, and what only looks like it.

A line that ends with `#! rule` has one finding of that rule; no other has any.
"""

import re

CONTRIB = {
    "layers.xavier_initializer": ("alias", "tf.glorot_uniform_initializer"),
    "rnn.LSTMCell": ("alias", "tf.nn.rnn_cell.LSTMCell"),
    "data.prefetch_to_device": ("alias", "tf.data.experimental.prefetch_to_device"),
    "tpu.TPUEstimator": ("alias", "tf.estimator.tpu.TPUEstimator"),
    "tpu.TPUEstimatorSpec": ("alias", "tf.estimator.tpu.TPUEstimatorSpec"),
    "training.HParams": ("own", "replicate.compat.contrib.hparams.HParams"),
    "estimator.replicate_model_fn": ("own", "replicate.replicate_model_fn"),
}
HEAD = "import tensorflow.compat.v1 as tf\nimport replicate\nreplicate.compat.install()\n"
SPEC = "    return tf.estimator.EstimatorSpec(mode, loss=loss)\n"


def in_model(*lines, head=HEAD, arguments="features, labels, mode, params"):
    """Returns a file with a `model_fn` of some lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"{head}\n\ndef model_fn({arguments}):\n    x = features['x']\n{body}{SPEC}"


def expected(text):
    """Returns what is planted in a text, pairs of a line and a rule."""
    lines = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    found = [(number, rule) for number, line in lines for rule in re.findall(r"#! ([\w-]+)", line)]
    return sorted(found)


def plain(text):
    """Returns a text without its marks."""
    return re.sub(r"[ \t]*#! [\w-]+", "", text)


TRAPS = {
    "contrib": """\
import tensorflow as tf
tf.contrib.layers.xavier_initializer()  #! contrib-name
tf.contrib.training.HParams.from_proto()  #! contrib-name
tf.contrib.slim.nets.resnet_v1.resnet_v1_50  #! contrib-package
tf.contrib.eager.defun  #! contrib-none
""",
    "aliases of contrib": """\
import tensorflow.contrib.slim as slim
from tensorflow.contrib import layers as L, rnn
from tensorflow.contrib.training import HParams  #! contrib-name
from tensorflow.contrib.layers import *  #! star-import
from tensorflow.contrib import nothing_is_taken_of_it  #! contrib-none
def f():
    from tensorflow import contrib
    tfc = contrib
    HParams(a=1)
    return tfc.rnn.LSTMCell, [slim.conv2d, L.xavier_initializer()]  \
#! contrib-name #! contrib-package #! contrib-name
class A:
    cell = rnn.LSTMCell  #! contrib-name
    L = None
    def method(self):
        return L.xavier_initializer  #! contrib-name
""",
    "a module by itself": "import tensorflow as tf\nslim = tf.contrib.slim  #! contrib-package\n",
    "version 1": """\
import tensorflow as tf  #! tensorflow-1
FLAGS = tf.app.flags.FLAGS
x = tf.placeholder(tf.float32)
""",
    "flags": "import tensorflow as tf  #! tensorflow-1\ntf.flags.DEFINE_string('a', '', '')\n",
    "arguments": "import tensorflow as tf  #! tensorflow-1\ntf.nn.dropout(1, keep_prob=0.5)\n",
    "dims": "import tensorflow as tf  #! tensorflow-1\ntf.reduce_sum(1, keep_dims=True)\n",
    "iterators": """\
import tensorflow as tf  #! tensorflow-1
tf.data.Dataset.range(3).make_one_shot_iterator()
""",
    "names of version 1": """\
from tensorflow import layers, nn  #! tensorflow-1
layers.dense(1, 2)
""",
    "without an alias": "import tensorflow  #! tensorflow-1\ntensorflow.layers.dense(1, 2)\n",
    "all names": "from tensorflow import *  #! star-import\nplaceholder(float32)\n",
    "gone": """\
import tensorflow.compat.v1 as tf
tf.config.experimental_list_devices()  #! removed-name
""",
    "dimensions": """\
import tensorflow.compat.v1 as tf
def f(x):
    return x.get_shape()[1].value  #! version-2-behavior
def g(x):
    return x.shape[-1].value
""",
    "a session": """\
import tensorflow.compat.v1 as tf
x = tf.placeholder(tf.float32)
loss = x * tf.get_variable("w", [])
step = tf.train.AdamOptimizer().minimize(loss)
def main():
    with tf.Session() as session:  #! version-2-behavior #! session-loop
        session.run(step)
if __name__ == "__main__":
    main()
""",
    "a monitored session": """\
import tensorflow.compat.v1 as tf
def main(optimizer, loss):
    step = optimizer.minimize(loss)
    with tf.Graph().as_default(), tf.train.MonitoredTrainingSession() as s:  #! session-loop
        s.run(step)
""",
    "a supervisor": """\
import tensorflow.compat.v1 as tf
def main(optimizer, pairs):
    optimizer.apply_gradients(pairs)
    tf.train.Supervisor(logdir="x")  #! session-loop
""",
    "annotations that Python looks up": """\
import tensorflow.compat.v1 as tf
def f(x: tf.contrib.eager.defun):  #! contrib-none
    pass
""",
    "an Estimator": """\
import tensorflow.compat.v1 as tf
def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode)  #! compat-install
tf.estimator.Estimator(model_fn, "x")  #! replicate-model-fn
tf.estimator.Estimator(model_dir="x", model_fn=functools.partial(model_fn))  #! replicate-model-fn
""",
    "sizes": in_model(
        "a = tf.zeros([params['batch_size'], 3])  #! static-batch-size",
        "b = tf.ones((FLAGS.batch_size,))  #! static-batch-size",
        "c = cell.zero_state(params.batch_size, tf.float32)  #! static-batch-size",
        "d = tf.reshape(x, [BATCH_SIZE, -1])  #! static-batch-size",
        "e = tf.reshape(x, [128, 784])  #! static-batch-size",
        "f = tf.range(hparams.train_batch_size)  #! static-batch-size",
        "g = tf.fill([x.shape[0], 2], 0.0)  #! static-batch-size",
        "h = tf.tile(y, [x.get_shape()[0].value, 1])  #! static-batch-size #! version-2-behavior",
        "rows = x.get_shape().as_list()[0]  #! static-batch-size",
        "i = tf.zeros([rows, 2]) + tf.ones([rows, 2])",
        "count, width = x.shape.as_list()  #! static-batch-size",
        "j = tf.zeros([count, width])",
        "sizes = x.get_shape().as_list()",
        "k = tf.zeros([sizes[0], sizes[1]])  #! static-batch-size",
        "l = [row for row in range(params.get('batch_size'))]  #! static-batch-size",
        "m = tf.eye(int(x.shape[0]))  #! static-batch-size",
        "loss = tf.reduce_mean(x)",
        head=HEAD + "BATCH_SIZE = 32\nFLAGS = hparams = cell = y = None\n",
    ),
    "sizes of closures, methods and helpers": """\
import tensorflow.compat.v1 as tf
import replicate
replicate.compat.install()
def network(x, batch_size):
    return x + tf.zeros([batch_size, 3])
def make(batch_size):
    def model_fn(features, labels, mode):
        state = tf.zeros([batch_size, 3])  #! static-batch-size
        y = network(features, FLAGS.batch_size)  #! static-batch-size
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    return model_fn
class Model:
    def __init__(self, batch_size):
        self.batch_size = batch_size
    def _loss(self, x):
        return tf.zeros([self.batch_size, 3])  #! static-batch-size
    def model_fn(self, features, labels, mode):
        loss = self._loss(features)
        return tf.estimator.EstimatorSpec(mode, loss=loss)
""",
    "losses": in_model(
        "losses = tf.square(x)",
        "loss = tf.reduce_mean(tf.boolean_mask(losses, labels > 0))  #! loss-per-count",
        "chosen = tf.where(labels > 0)",
        "loss = tf.reduce_mean(tf.gather(losses, chosen))  #! loss-per-count",
        "count = tf.cast(tf.shape(chosen)[0], tf.float32)",
        "loss = tf.reduce_sum(losses) / count  #! loss-per-count",
        "loss = tf.div(tf.reduce_sum(losses), count)  #! loss-per-count",
        "loss = tf.reduce_sum(losses) / (2 * params['batch_size'])  #! loss-per-count",
        "loss = tf.cond(p, lambda: tf.reduce_sum(losses) / BATCH_SIZE, f)  #! loss-per-count",
        "loss = tf.reduce_sum(losses) / BATCH_SIZE  #! loss-by-batch-size",
        head=HEAD + "BATCH_SIZE = 32\n",
    ),
    "updates": in_model(
        "last = tf.get_variable('last', [3])",
        "a = tf.assign(last, x[-1])  #! update-from-rows",
        "b = last.assign_add(tf.reduce_prod(x, 0))  #! update-from-rows",
        "c = tf.assign(last, x)  #! update-from-rows",
        "mean = tf.reduce_mean(x, 0)",
        "d = tf.cond(p, lambda: tf.assign(last, mean), f)  #! update-from-rows",
        "loss = tf.reduce_mean(x)",
    ),
    "conditions": """\
import tensorflow.compat.v1 as tf
import replicate
def train(optimizer, loss, variables):
    def step():
        pairs = optimizer.compute_gradients(loss)
        return optimizer.apply_gradients(pairs)  #! gradients-in-condition
    tf.cond(p, step, tf.no_op)
    tf.cond(p, lambda: optimizer.minimize(loss), tf.no_op)  #! gradients-in-condition
    towers = replicate.TowerOptimizer(optimizer)
    pairs = towers.compute_gradients(loss)
    tf.cond(p, lambda: towers.apply_gradients(pairs), tf.no_op)  #! gradients-in-condition
    tf.cond(p, lambda: adam.apply_gradients(pairs), tf.no_op)  #! applied-in-condition
def model_fn(features, labels, mode):
    return replicate.estimator.EstimatorSpec(mode)
""",
    "Keras optimizers": """\
import tensorflow as tf
from tensorflow.keras.optimizers import Adam
import replicate
def model_fn(features, labels, mode):
    a = tf.keras.optimizers.SGD(0.1)  #! keras-optimizer
    b = tf.optimizers.Adam()  #! keras-optimizer
    c = Adam()  #! keras-optimizer
    d = tf.keras.optimizers.legacy.SGD(0.1)
    e = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 1)
    f = tf.compat.v1.keras.optimizers.SGD(0.1)
    return replicate.estimator.EstimatorSpec(mode)
""",
    "batch norm": in_model(
        "y = tf.layers.batch_normalization(x, fused=True)  #! fused-batch-norm",
        "y = tf.layers.batch_normalization(x, fused=False)",
        "y = replicate.batch_normalization(x, fused=True)",
        "loss = tf.reduce_mean(y)",
    ),
    "private paths": """\
import tensorflow as tf  #! tensorflow-1
from tensorflow.python.framework import ops  #! private-path
from tensorflow.python.ops.rnn_cell_impl import RNNCell, nothing  #! private-path #! private-path
import tensorflow.python.client.device_lib as devices  #! private-path
import tensorflow.python.util.nest  #! private-path
tf.placeholder, ops.get_default_graph(), ops.get_default_graph, ops.Graph, RNNCell
tf.python.framework.ops.Graph  #! private-path
try:
    from tensorflow.python.eager import tape
except ImportError:
    tape = None
from .python.framework import ops as others
from tensorflow_python import x
graph = ops.Graph
graph()
""",
    "batch norm of slim": """\
import tensorflow.compat.v1 as tf
import tf_slim as slim
from tf_slim import batch_norm as norm
import replicate
import replicate.compat
replicate.compat.install()
def scope(estimator=tf.estimator.Estimator):
    params = {
        "decay": 0.9,
        "fused": True,  #! fused-batch-norm
    }
    more = dict(decay=0.9, fused=True)  #! fused-batch-norm
    with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, normalizer_params=params):
        with slim.arg_scope([slim.batch_norm, slim.dropout], **params):
            pass
    with slim.arg_scope([norm], fused=True):  #! fused-batch-norm
        norm(1, fused=True)  #! fused-batch-norm
        slim.conv2d(1, normalizer_params=more)
        norm(1, **dict(fused=True))  #! fused-batch-norm
        norm(1, **{"fused": True, **more})  #! fused-batch-norm
""",
}

# What has nothing to find in it.
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
    "sizes that are none of rows": in_model(
        "batch_size = tf.shape(x)[0]",
        "a = tf.zeros([batch_size, 3])",
        "b = tf.zeros([x.shape[0] or tf.shape(x)[0], 3])",
        "w = tf.get_variable('w', [x.shape[1], 3])",
        "c = tf.zeros([w.shape[0], 3])",
        "h = tf.zeros([features.batch_size, 3])",
        "d = tf.reshape(x, [-1, 28, 28])",
        "e = tf.reshape(w, [3, 5])",
        "steps = params['num_examples'] // params['batch_size']",
        "rate = tf.train.exponential_decay(0.1, step, FLAGS.num / FLAGS.batch_size, 0.9)",
        "assert x.shape[0] == labels.shape[0]",
        "f = tf.reshape(x, [2, -1, 5])",
        "g = tf.zeros([tf.transpose(x, [1, 0]).shape[0], 3])",
        "tf.logging.info('rows %d', params['batch_size'])",
        "loss = tf.reduce_mean(x)",
    ),
    "a model for TPUs": """\
import tensorflow.compat.v1 as tf
import replicate
replicate.compat.install()
def model_fn(features, labels, mode, params):
    state = tf.zeros([params["batch_size"], 3])
    more = tf.zeros([params.batch_size, 3])
    return tf.estimator.tpu.TPUEstimatorSpec(mode, loss=loss)
""",
    "sizes outside of a model": """\
import tensorflow.compat.v1 as tf
def input_fn(params):
    return tf.zeros([params["batch_size"], 3])
def network(features, mode):
    return tf.zeros([FLAGS.batch_size, 3])
""",
    "losses that are exact": in_model(
        "losses = tf.square(x)",
        "mask = tf.cast(labels > 0, tf.float32)",
        "loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)",
        "loss = tf.reduce_sum(losses) / tf.maximum(tf.reduce_sum(mask), 1.0)",
        "loss = tf.reduce_sum(losses) / tf.cast(tf.shape(x)[0], tf.float32)",
        "loss = tf.reduce_sum(losses) / tf.cast(tf.count_nonzero(mask), tf.float32)",
        "loss = tf.losses.mean_squared_error(labels, x, reduction='weighted_sum') / 128",
        "accuracy = tf.reduce_mean(tf.boolean_mask(x, mask))",
        "loss = loss / 2",
    ),
    "updates that are exact": in_model(
        "mean = tf.get_variable('mean', [3])",
        "a = tf.assign(mean, 0.9 * mean + 0.1 * tf.reduce_mean(x, 0))",
        "b = tf.assign_add(step, 1)",
        "c = tf.scatter_update(mean, labels, x)",
        "d = tf.assign(mean, replicate.cross_tower_mean(x[-1]))",
        "e = tf.get_variable('e', [], aggregation=tf.VariableAggregation.MEAN)",
        "f = tf.assign(e, x[-1])",
        "table = frame.assign(a=1)",
        "loss = tf.reduce_mean(x)",
    ),
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
