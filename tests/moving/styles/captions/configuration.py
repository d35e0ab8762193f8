"""Image-to-text model and training configurations."""

import tensorflow as tf


class ModelConfig(object):
    """Wrapper class for model hyperparameters."""

    def __init__(self):
        self.num_regions = 5
        self.region_size = 6
        # Word 0 is padding, 1 begins a caption and 2 ends it.
        self.vocab_size = 13
        self.embedding_size = 7
        self.num_lstm_units = 8
        self.initializer_scale = 0.2
        self.dtype = tf.float64


class TrainingConfig(object):
    """Wrapper class for training hyperparameters."""

    def __init__(self):
        self.optimizer = "Adam"
        self.initial_learning_rate = 0.02
        self.clip_gradients = 0.5
        self.weight_decay = 1e-3
        self.lstm_dropout_keep_prob = 1.0
