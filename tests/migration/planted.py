"""Codebases in people's styles: what is planted in them; `innocent` only looks like it.

A line that ends with `#! rule` has one finding of that rule; no other has any.
"""

import collections
import re

Place = collections.namedtuple("Place", "name kind target package advice")
CONTRIB = {
    "layers.xavier_initializer": ("alias", "tf.glorot_uniform_initializer"),
    "rnn.LSTMCell": ("alias", "tf.nn.rnn_cell.LSTMCell"),
    "data.prefetch_to_device": ("alias", "tf.data.experimental.prefetch_to_device"),
    "tpu.TPUEstimator": ("alias", "tf.estimator.tpu.TPUEstimator"),
    "tpu.TPUEstimatorSpec": ("alias", "tf.estimator.tpu.TPUEstimatorSpec"),
    "training.HParams": ("own", "replicate.migration.contrib.hparams.HParams"),
    "estimator.TowerOptimizer": ("own", "replicate.TowerOptimizer"),
    "estimator.replicate_model_fn": ("own", "replicate.replicate_model_fn"),
}
HEAD = "import tensorflow.compat.v1 as tf\nimport replicate\nreplicate.compat.install()\n"
SPEC = "    return tf.estimator.EstimatorSpec(mode, loss=loss)\n"


def find(name):
    """Stands in for `replicate.migration.contrib.find`, of which the scan needs this."""
    kind, target = CONTRIB.get(name, ("none", ""))
    if name.split(".")[0] == "slim":
        return Place(name, "package", f"tf_{name}", "tf-slim", "")
    return Place(name, kind, target, "", "" if target else "Write it by hand.")


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
    "imported late": """\
def load():
    global tf
    import tensorflow as tf  #! tensorflow-1
def layer():
    return tf.layers.dense(1, 2)
def maker():
    nn = None
    def load():
        nonlocal nn
        from tensorflow import examples as nn  #! removed-name
    return nn
""",
    "all names": "from tensorflow import *  #! star-import\nplaceholder(float32)\n",
    "gone": """\
import tensorflow.compat.v1 as tf
tf.config.experimental_list_devices()  #! removed-name
""",
    "examples": """\
import tensorflow as tf
import tensorflow.examples  #! removed-name
import tensorflow.examples.tutorials.mnist.input_data as data  #! removed-name
from tensorflow.examples.tutorials.mnist import input_data  #! removed-name
def f():
    from tensorflow.examples import tutorials  #! removed-name
    return data.read_data_sets, input_data.read_data_sets
try:
    from tensorflow.examples.tutorials import mnist
except ImportError:
    mnist = None
""",
    "examples that nothing imports": """\
import tensorflow.compat.v1 as tf
tf.examples.tutorials.mnist.input_data.read_data_sets("x")  #! removed-name
""",
    "mixed precision that Keras had": """\
import tensorflow as tf
import keras
import tensorflow.keras.mixed_precision.experimental as k  #! removed-name
from tensorflow.keras.mixed_precision import experimental  #! removed-name
from tensorflow.keras.mixed_precision.experimental import Policy  #! removed-name
def model_fn(optimizer):
    experimental.set_policy(k.Policy("mixed_float16")), Policy
    tf.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, "dynamic")  #! removed-name
    tf.compat.v1.keras.mixed_precision.experimental.set_policy("x")  #! removed-name
    keras.mixed_precision.experimental.set_policy("x")  #! removed-name
    tf.keras.mixed_precision.Policy("mixed_float16")
    tf.keras.mixed_precision.LossScaleOptimizer
    tf.compat.v1.mixed_precision.DynamicLossScale()
""",
    "the state of towers' graphs": """\
import tensorflow as tf
import replicate
replicate.compat.install(tensorflow_1=True)
optimizer = tf.contrib.estimator.TowerOptimizer
tf.get_collection(optimizer.COLLECTION_FOR_GRAPH_STATES)[0]  #! removed-name
tf.contrib.estimator.TowerOptimizer.COLLECTION_FOR_GRAPH_STATES  #! removed-name
replicate.TowerOptimizer.COLLECTION_FOR_GRAPH_STATES  #! removed-name
replicate.TowerOptimizer._graph_state().is_the_last_tower
optimizer._graph_state().is_the_last_tower
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
    "sums over cores": in_model(
        "loss = tf.tpu.cross_replica_sum(x)  #! cross-replica",
        "optimizer = tf.tpu.CrossShardOptimizer(optimizer)  #! cross-replica",
        "tf.tpu.batch_parallel(x)",
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
