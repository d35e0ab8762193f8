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
    "Keras optimizers in what a model calls": """\
import re
import tensorflow.compat.v2 as tf
import replicate
FORM = re.compile("x")
def optimizer(rate, made=tf.keras.optimizers.Adam):
    return tf.keras.optimizers.RMSprop(rate)  #! keras-optimizer
def main(model_fn):
    replicate.estimator.Estimator(replicate.replicate_model_fn(model_fn), "x")
""",
    "Keras itself": """\
import keras
import replicate
def model_fn(features, labels, mode):
    keras.optimizers.Adam()  #! keras-optimizer
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
    "what means in towers what it means on one device": in_model(
        "a = tf.zeros([params['batch_size'], x.shape[0]])",
        "b = tf.reduce_mean(tf.boolean_mask(x, labels > 0))",
        "loss = tf.reduce_sum(x) / params['batch_size'] + b",
        "c = tf.assign(tf.get_variable('last', [3]), x[-1])",
        "pairs = optimizer.compute_gradients(loss)",
        "tf.cond(p, lambda: optimizer.apply_gradients(pairs), tf.no_op)",
        "tf.cond(p, lambda: optimizer.minimize(loss), tf.no_op)",
    ),
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
