"""In random programs of reads and writes, all towers keep each order that one device has.

The order is read from the graph: what follows what by inputs and control inputs. Nothing runs.
"""

import random

import pytest
import tensorflow.compat.v1 as tf

import contract
from bodies import control_flow
from replicate.graphs import ancestors, state

READS = ("ReadVariableOp", "ResourceGather", "LookupTableFindV2")
WRITES = ("AssignAddVariableOp", "AssignVariableOp", "LookupTableInsertV2")
PER_NIGHT = 400


class Program:
    """A `model_fn` of random operations on rows, numbers, sizes and state."""

    def __init__(self, seed):
        self._seed = seed

    def __call__(self, features, labels, mode):
        self._draw = random.Random(self._seed)
        self._ids, rows = features["ids"], features["rows"]
        self._w = tf.get_variable("w", [3, 3], use_resource=True)
        self._v = tf.get_variable("v", [5, 3], use_resource=True, trainable=False)
        self._c = tf.get_variable("c", [], use_resource=True, trainable=False)
        self._k = tf.get_variable("k", [], tf.int32, tf.zeros_initializer(), use_resource=True)
        self._table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32)
        self._rows, self._numbers = [rows], [tf.reduce_mean(rows)]
        self._sizes, self._all, self._writes = [tf.shape(rows)[0]], [], []
        kinds = [self._change, self._reduce, self._size, self._branch, self._loop, self._write]
        for _ in range(self._draw.randint(5, 12)):
            some = self._draw.sample(self._all, min(len(self._all), self._draw.randint(0, 2)))
            with tf.control_dependencies(some):
                self._all.append(self._draw.choice(kinds)())
        chosen = self._draw.sample(self._rows, min(3, len(self._rows)))
        loss = tf.add_n([tf.reduce_mean(one) for one in chosen])
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(loss, *self._writes))

    def _of(self, given):
        """Returns one of these tensors, mostly a late one."""
        return self._draw.choice(given[-4:] if self._draw.random() < 0.6 else given)

    def _changed(self, rows, kind):
        if kind == "product":
            return tf.tanh(tf.matmul(rows, self._w))
        if kind == "gather":
            return rows * tf.gather(self._v, self._ids)
        if kind == "table":
            found = tf.raw_ops.LookupTableFindV2(
                table_handle=self._table, keys=self._ids, default_value=1.0
            )
            return rows * found[:, None]
        return rows * self._c.read_value()

    def _kind(self):
        return self._draw.choice(["product", "gather", "table", "number"])

    def _change(self):
        self._rows.append(self._changed(self._of(self._rows), self._kind()))
        return self._rows[-1]

    def _reduce(self):
        reduce = self._draw.choice([tf.reduce_mean, tf.reduce_sum, tf.reduce_max])
        self._numbers.append(reduce(self._of(self._rows)))
        return self._numbers[-1]

    def _size(self):
        rows = self._of(self._rows)
        if self._draw.random() < 0.3:  # It is known only in the step.
            rows = tf.boolean_mask(rows, rows[:, 0] > 0)
        self._sizes.append(tf.shape(rows)[0])
        return self._sizes[-1]

    def _predicate(self):
        if self._draw.random() < 0.5:
            return self._of(self._numbers) > 1.0
        return self._of(self._sizes) > 3

    def _branch(self):
        rows, first, second = self._of(self._rows), self._kind(), self._kind()
        self._rows.append(
            tf.cond(
                self._predicate(),
                lambda: self._changed(rows, first),
                lambda: self._changed(rows, second),
            )
        )
        return self._rows[-1]

    def _loop(self):
        rows, kind = self._of(self._rows), self._kind()
        size, by_variable = self._of(self._sizes), self._draw.random() < 0.3
        i, rows = tf.while_loop(
            lambda i, _: i < (self._k.read_value() if by_variable else size),
            lambda i, rows: (i + 1, self._changed(rows, kind)),
            (0, rows),
        )
        self._rows.append(rows)
        self._sizes.append(i)
        return rows

    def _write(self):
        number, size = self._of(self._numbers), self._of(self._sizes)
        if self._draw.random() < 0.4:
            number = tf.cast(size, tf.float32)
        to = self._draw.choice(["v", "c", "k", "table"])
        if to == "v":
            made = self._v.assign_add(number * tf.ones([5, 3]), read_value=False)
        elif to == "c":
            made = self._c.assign_add(number, read_value=False)
        elif to == "k":
            made = self._k.assign(size, read_value=False)
        else:
            made = tf.raw_ops.LookupTableInsertV2(
                table_handle=self._table,
                keys=tf.range(5, dtype=tf.int64),
                values=number * tf.ones([5]),
            )
        self._writes.append(made)
        return made


def orders(seed, num_towers, rows):
    """Returns, by name, what uses state with the name of that, its type, and what is before it."""
    with tf.Graph().as_default():
        tf.train.create_global_step()
        features = {
            "rows": tf.placeholder(tf.float32, [rows, 3]),
            "ids": tf.placeholder(tf.int64, [rows]),
        }
        spec = contract.replicated(Program(seed), num_towers)(features, None, mode="train")
        using = [op for op in ancestors([spec.loss, spec.train_op]) if op.type in (*READS, *WRITES)]
        return {
            op.name: (
                state.source(next(t for t in op.inputs if t.dtype == tf.resource)).name,
                op.type,
                {one.name for one in ancestors([op])},
            )
            for op in using
        }


def check(seed):
    rows = 7 if seed % 3 == 0 else None
    one, towers = orders(seed, 1, rows), orders(seed, 3, rows)

    def copies(name):
        copied = [f"tower_{index}/{name}" for index in range(3)]
        return [each for each in (name, *copied) if each in towers]

    late = [
        (earlier, later)
        for name, (of, kind, _) in one.items()
        for other, (of_other, kind_of_other, before) in one.items()
        if of == of_other and name != other and name in before
        if kind in WRITES or kind_of_other in WRITES
        for earlier in copies(name)
        for later in copies(other)
        if earlier not in towers[later][2]
    ]
    assert not late, f"seed {seed}: these orders of one device are not kept: {late}"


@pytest.mark.parametrize("version", [1, 2])  # Of control flow.
@pytest.mark.parametrize("seed", range(0, 8))
def test_orders_are_those_of_one_device(seed, version):
    with control_flow(version):
        check(seed)


@pytest.mark.nightly
def test_orders_of_many_programs_are_those_of_one_device():
    first = random.randrange(10**6)
    for seed in range(first, first + PER_NIGHT):
        with control_flow(1 + seed % 2):
            check(seed)
