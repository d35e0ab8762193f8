"""Complete programs in the styles of libraries and papers, as the documentation lists them.

A row names the file of `conformance/` that has it, which is imported where a test trains it: some
need what an old TensorFlow lacks.
"""

from contract.models.row import Model

# Other rows show the properties of those that are `thorough`: of canned Estimators, `TELLING` of
# `test_conformance.py`, with `wide_deep_sparse`, `canned_v2_sums` and `canned_v1_unwrapped`; of
# heads, `multi_head` and `head_optimizer`; of recurrent networks, `keras_rnn`; of Keras' models,
# the others.
PROGRAMS = {
    "layers_cnn": "exported",
    "keras_batch_norm": "",
    "keras_functional": "thorough",
    "keras_subclassed": "",
    "keras_optimizer": "unwrapped not_in_1",
    "keras_get_updates": "thorough not_in_1",
    "canned_dnn": "thorough",
    "canned_linear": "thorough",
    "canned_wide_deep": "thorough",
    "canned_dnn_regressor": "thorough",
    "canned_linear_regressor": "thorough",
    "bert_adamw": "",
    "gan_hooks": "own",
    "hook_statistics": "own",
    "train_and_evaluate": "own not_in_1",
    "rnn_while_loop": "thorough coarser_in_1",
    "keras_rnn": "",
    "multi_head": "exported resources",
    "head_api": "thorough",
    "wide_deep_sparse": "unwrapped",
    "functions": "",
    "partitioned": "",
    "warm_start": "own",
    "init_from_checkpoint": "own",
    "gradient_accumulation": "",
    "loss_scale": "",
    "moving_average": "exported",
    "ema_restore": "",
    "unused_variables": "",
    "canned_v2_wide_deep": "thorough exported",
    "canned_v2_sums": "",
    "canned_v2_dnn": "thorough",
    "canned_v2_baseline": "thorough",
    "canned_v1_unwrapped": "",
    "rnn_canned": "thorough",
    "head_optimizer": "resources",
    "keras_estimator": "exported resources",
    "keras_estimator_v1": "thorough",
    "slim_train_op": "",
    "distributions": "",
    "modules": "thorough resources",
    "keras_averaging": "resources",
}
"""The marks of each, by the name of its file."""
ROWS = {
    name: Model(None, f"program {marks}", program=f"conformance.{name}")
    for name, marks in PROGRAMS.items()
}
