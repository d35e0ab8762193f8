"""An LSTM that looks at the regions of an image before each word."""

import tensorflow as tf


class AttentionCell(tf.contrib.rnn.RNNCell):
    """Wraps a cell: what it reads is a word and the regions that its state asks for."""

    def __init__(self, cell, regions, initializer):
        super(AttentionCell, self).__init__(_reuse=None)
        self._cell = cell
        self._regions = regions
        self._init = initializer

    @property
    def state_size(self):
        return self._cell.state_size

    @property
    def output_size(self):
        return self._cell.output_size

    def call(self, inputs, state):
        with tf.variable_scope("attention"):
            size = self._regions.get_shape()[2].value
            query = tf.get_variable(
                "query", [self.output_size, size], inputs.dtype, self._init, trainable=True
            )
            asked = tf.expand_dims(tf.matmul(state[-1].h, query), 2)
            scores = tf.squeeze(tf.matmul(self._regions, asked), [2])
            alpha = tf.nn.softmax(scores)
            context = tf.reduce_sum(self._regions * tf.expand_dims(alpha, 2), 1)
        return self._cell(tf.concat([inputs, context], 1), state)
