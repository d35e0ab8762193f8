"""The contract: any small model_fn trains over N towers as on one device, elementwise in float64.

A model is drawn layer by layer, with its penalties, its loss, its optimizer, and the way to its
gradients. Both graphs are run step by step in sessions of their own. Every variable starts at
numbers that are its own, so that no two networks agree by chance.
"""

import itertools
from typing import NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf
from hypothesis import strategies as st

import contract
import replicate
from contract import MEAN, SUM
from properties import random_examples
from properties.random_examples import holds

RTOL = 1e-10
# Beyond it, training diverges, and the next step multiplies rounding errors, too.
_DIVERGED = 10.0
L2 = tf.keras.regularizers.l2
ACTIVATIONS = {
    "none": tf.identity,
    "tanh": tf.tanh,
    "sine": tf.sin,
    # Bounded: squares of squares would multiply rounding errors beyond any tolerance.
    "square": lambda x: tf.square(x) / (1.0 + tf.square(x)),
}
OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
}
LOSSES = {
    "squares": lambda labels, outputs: (outputs - labels) ** 2,
    "logistic": lambda labels, outputs: tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(labels > 0, tf.float64), logits=outputs
    ),
    "cosine": lambda labels, outputs: 2.0 - tf.cos(outputs - labels),
}


class Layer(NamedTuple):
    """A dense layer, or one of its relatives."""

    kind: str  # 'get_variable', 'tf_variable', 'tf_layers', 'embedding', 'shared' or 'cond'
    width: int
    activation: str
    penalty: Optional[float]

    def __call__(self, x, features, number):
        width = x.shape[1]
        if self.kind == "embedding":
            table = self._variable(f"table{number}", [5, int(width)])
            return x + tf.reduce_sum(tf.nn.embedding_lookup(table, features["ids"]), axis=1)
        activation = ACTIVATIONS[self.activation]
        if self.kind == "tf_layers":
            return tf.layers.dense(
                x,
                self.width,
                activation,
                kernel_initializer=starting_at([int(width), self.width]),
                kernel_regularizer=self._penalty(),
            )
        kernel = self._variable(f"kernel{number}", [int(width), self.width])
        if self.kind == "shared":
            return activation(x @ kernel) + 0.5 * tf.sin(x @ kernel)
        if self.kind == "cond":
            even = tf.equal(tf.train.get_or_create_global_step() % 2, 0)
            return tf.cond(even, lambda: activation(x @ kernel), lambda: -(x @ kernel))
        bias = self._variable(f"bias{number}", [self.width])
        return activation(x @ kernel + bias)

    def _variable(self, name, shape):
        if self.kind == "tf_variable":
            return tf.Variable(numbers(shape), name=name)
        return tf.get_variable(
            name, shape, tf.float64, starting_at(shape), regularizer=self._penalty()
        )

    def _penalty(self):
        return None if self.penalty is None else L2(self.penalty)


def numbers(shape):
    return np.sin(np.arange(1.0, 1.0 + np.prod(shape, dtype=int))).reshape(shape)


def starting_at(shape):
    return tf.constant_initializer(numbers(shape))


class Model(NamedTuple):
    """A `model_fn`, without the wrapper of its optimizer."""

    layers: tuple
    loss: str
    reduction: str
    total: str  # how penalties are counted: 'get_total_loss', 'added' or 'none'
    optimizer: str
    train: str
    placement: str

    def __call__(self, features, labels, mode, params):
        x = features["x"]
        for number, layer in enumerate(self.layers):
            x = layer(x, features, number)
        outputs = tf.reduce_sum(x, axis=1, keepdims=True)
        loss = self._loss(labels, outputs)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=self._train(loss, params))

    def _loss(self, labels, outputs):
        # Not those of `tf.losses`, which compute in float32.
        reduce = tf.reduce_sum if self.reduction == SUM else tf.reduce_mean
        loss = reduce(LOSSES[self.loss](labels, outputs))
        tf.losses.add_loss(loss)
        penalties = tf.losses.get_regularization_losses()
        if self.total == "get_total_loss":
            return tf.losses.get_total_loss()
        return tf.add_n([loss, *penalties]) if self.total == "added" and penalties else loss

    def _train(self, loss, params):
        make, step = OPTIMIZERS[self.optimizer], tf.train.get_or_create_global_step()
        wrap, variables = params["wrap"], tf.trainable_variables()
        if self.train == "clip_norm" and wrap is replicate.TowerOptimizer:
            return wrap(make(), clip_norm=0.3).minimize(loss, step)
        optimizer = wrap(make())
        if self.train == "minimize":
            return optimizer.minimize(loss, step)
        if self.train in ("pairs", "clip_norm"):
            pairs = optimizer.compute_gradients(loss)
            if self.train == "clip_norm":
                gradients, variables = zip(*pairs)
                # As TowerOptimizer has it: gradients of the same row are added up first.
                norm = tf.global_norm([tf.convert_to_tensor(each) for each in gradients])
                pairs = zip(tf.clip_by_global_norm(gradients, 0.3, norm)[0], variables)
            return optimizer.apply_gradients(pairs, step)
        if self.train == "halves":
            gradients = ([half, half] for half in tf.gradients(loss / 2.0, variables))
            pairs = ((tf.convert_to_tensor(a) + b, v) for (a, b), v in zip(gradients, variables))
            return optimizer.apply_gradients(pairs, step)
        return optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables), step)


def run(model_fn, wrap, batches, rows, num_towers):
    """Returns the loss and the variables after each step, and the gradients' effect with them."""
    with tf.Graph().as_default():
        tf.train.create_global_step()
        features = {
            "x": tf.placeholder(tf.float64, [rows, 3]),
            "ids": tf.placeholder(tf.int32, [rows, 2]),
        }
        labels = tf.placeholder(tf.float64, [rows, 1])
        spec = model_fn(features, labels, mode="train", params={"wrap": wrap})
        variables = {variable.name: variable for variable in tf.global_variables()}
        seen = []
        with random_examples.session(num_towers) as session:
            session.run(tf.global_variables_initializer())
            for x, ids, y in batches:
                fed = {features["x"]: x, features["ids"]: ids, labels: y}
                loss = session.run(spec.loss, fed)
                session.run(spec.train_op, fed)
                seen.append((loss, session.run(variables)))
    return seen


LAYERS = st.builds(
    Layer,
    st.sampled_from(["get_variable", "tf_variable", "tf_layers", "embedding", "shared", "cond"]),
    st.integers(1, 3),
    st.sampled_from(sorted(ACTIVATIONS)),
    st.sampled_from([None, 0.1]),
)
MODELS = st.builds(
    Model,
    st.lists(LAYERS, min_size=1, max_size=2).map(tuple),
    st.sampled_from(sorted(LOSSES)),
    st.sampled_from([MEAN, SUM]),
    st.sampled_from(["get_total_loss", "added", "none"]),
    st.sampled_from(sorted(OPTIMIZERS)),
    st.sampled_from(["minimize", "pairs", "zip", "halves", "clip_norm"]),
    st.sampled_from(["consolidation", "round_robin"]),
)


@holds(
    MODELS,
    st.lists(st.integers(0, 6), min_size=1, max_size=2),
    st.booleans(),
    st.sampled_from([2, 3, 4, 1]),
    st.integers(0, 99),
    share=0.08,
)
def test_towers_train_as_one_device(model, more_rows, is_static, num_towers, seed):
    random = np.random.RandomState(seed)
    more_rows = more_rows[:1] * len(more_rows) if is_static else more_rows
    batches = [
        (
            random.normal(size=(rows, 3)),
            random.randint(5, size=(rows, 2)),
            random.normal(size=(rows, 1)),
        )
        for rows in (num_towers + more for more in more_rows)
    ]
    rows = len(batches[0][0]) if is_static else None
    towers = contract.replicated(
        model, num_towers, model.reduction, variable_placement=model.placement
    )
    want = run(model, contract.plain, batches, rows, 1)
    got = run(towers, replicate.TowerOptimizer, batches, rows, num_towers)
    for step, (one, other) in enumerate(itertools.zip_longest(got, want)):
        contract.assert_close(one[0], other[0], RTOL, f"loss of step {step}")
        contract.assert_same_values(one[1], other[1], RTOL, step=step)
        if max(np.abs(value).max() for value in other[1].values()) > _DIVERGED:
            break
