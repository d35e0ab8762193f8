"""Image-to-text model: an attending LSTM over word embeddings, in the style of Show and Tell."""

from __future__ import absolute_import, division, print_function

import tensorflow as tf
from attention import AttentionCell


class ShowAndTellModel(object):
    """Builds the graph of the captions of a batch."""

    def __init__(self, config, training_config, mode):
        assert mode in ("train", "eval", "infer")
        self.config = config
        self.training_config = training_config
        self.mode = mode
        self.initializer = tf.random_uniform_initializer(
            minval=-config.initializer_scale, maxval=config.initializer_scale, seed=5
        )
        self.total_loss = None
        self.logits = None

    def is_training(self):
        return self.mode == "train"

    def build_seq_embeddings(self, input_seqs):
        with tf.variable_scope("seq_embedding"), tf.device("/cpu:0"):
            embedding_map = tf.get_variable(
                name="map",
                shape=[self.config.vocab_size, self.config.embedding_size],
                dtype=self.config.dtype,
                initializer=tf.contrib.layers.xavier_initializer(seed=4, dtype=self.config.dtype),
            )
            return tf.nn.embedding_lookup(embedding_map, input_seqs)

    def build_cell(self, images):
        cells = []
        for _ in range(2):
            cell = tf.contrib.rnn.BasicLSTMCell(
                num_units=self.config.num_lstm_units, state_is_tuple=True
            )
            if self.is_training():
                keep_prob = self.training_config.lstm_dropout_keep_prob
                cell = tf.contrib.rnn.DropoutWrapper(
                    cell, input_keep_prob=keep_prob, output_keep_prob=keep_prob
                )
            cells.append(cell)
        return AttentionCell(tf.contrib.rnn.MultiRNNCell(cells), images, self.initializer)

    def build_model(self, features, targets):
        embeddings = self.build_seq_embeddings(features["input_seq"])
        lengths = features["length"]
        with tf.variable_scope("lstm", initializer=self.initializer) as lstm_scope:
            cell = self.build_cell(features["image"])
            zero_state = cell.zero_state(
                batch_size=tf.shape(features["image"])[0], dtype=self.config.dtype
            )
            outputs, _ = tf.nn.dynamic_rnn(
                cell=cell,
                inputs=embeddings,
                sequence_length=lengths,
                initial_state=zero_state,
                dtype=self.config.dtype,
                scope=lstm_scope,
            )
        flat = tf.reshape(outputs, [-1, cell.output_size])
        with tf.variable_scope("logits"):
            logits = tf.layers.dense(
                flat,
                self.config.vocab_size,
                kernel_initializer=self.initializer,
                kernel_regularizer=tf.contrib.layers.l2_regularizer(
                    self.training_config.weight_decay
                ),
                name="words",
            )
        shape = tf.shape(features["input_seq"])
        self.logits = tf.reshape(logits, [shape[0], shape[1], self.config.vocab_size])
        if targets is None:
            return

        weights = tf.sequence_mask(lengths, shape[1], dtype=self.config.dtype)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=self.logits)
        per_token = tf.div(
            tf.reduce_sum(tf.multiply(losses, weights), 1), tf.reduce_sum(weights, 1)
        )
        batch_loss = tf.reduce_mean(per_token, name="batch_loss")
        tf.losses.add_loss(batch_loss)
        self.total_loss = tf.losses.get_total_loss()
        tf.summary.scalar("losses/batch_loss", batch_loss)
        for var in tf.trainable_variables():
            tf.summary.histogram("parameters/" + var.op.name, var)
        self.target_cross_entropy_losses = losses
        self.target_weights = weights
