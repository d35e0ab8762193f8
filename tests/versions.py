"""Names of TensorFlow that depend on its version, for tests."""

import tensorflow.compat.v1 as tf

IS_1 = tf.__version__.startswith("1.")
IS_OLD = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 12)

# Files of tests of what TensorFlow 1.15 alone has.
ONLY_IN_1 = [
    "benchmarks/test_ancestor.py",
    "migration/test_contrib_real.py",
    "migration/test_tf1.py",
]
_REPLICAS = "replicas of tf.distribute meet on TensorFlow 2 only, which an error says"
_OPERATIONS = "its models differ in operations, whose number TensorFlow 1.15 takes for a seed"
_NAMES = "it asks for names that TensorFlow 1.15 does not have"
# Tests that TensorFlow 1.15 cannot pass: what their ids have in them, and why.
NOT_IN_1 = {
    "mirrored": _REPLICAS,
    "central_storage": _REPLICAS,
    "test_loss_scale.py::test_random_steps_in_replicas": _REPLICAS,
    "test_scaled_training.py::test_random_steps_in_replicas": _REPLICAS,
    "test_scaled_training.py::test_random_steps_at_once[replicas]": _REPLICAS,
    "test_accumulation.py::test_any_engine_goes_on_in_the_middle": _REPLICAS,
    "test_accumulation.py::test_tpu_replicas": "its TPU cores do not add up float64",
    "test_loss_scale.py::test_one_replica_is_alone": _REPLICAS,
    "test_loss_scale.py::test_replicas_of_a_function": _REPLICAS,
    "of_tensorflow[False-replicas]": _REPLICAS,
    "of_tensorflow[True-replicas]": _REPLICAS,
    "_keras_momentum": _NAMES,
    "test_loss_scale.py::test_random_steps_at_once[_compiled]": _NAMES,
    "test_scaled_training.py::test_what_scales_losses_answers_as_it_was_given": _NAMES,
    "test_scaled_training.py::test_the_counter_is_that_of_the_steps": _NAMES,
    "test_models_train_as_without_a_scale[callable_loss": _OPERATIONS,
    "test_what_is_made_after_an_optimizer_starts_as_on_one_device[resource": _OPERATIONS,
    "test_compare.py::test_models_that_are_equal[summed-": "it compares more coarsely there",
    "test_compare.py::test_models_that_differ_and_why[count-": "it does not look into its loops",
    "test_towers.py::test_comparing_variables_costs_less": "comparing variables costs nothing",
    "test_an_embedding_that_a_loop_looks_up[2-True]": "nor has it that gradient on one device",
    "test_nothing_left.py::test_an_estimator_leaves": "it names the threads of TensorFlow 2",
}
# How paths of files end whose tests train with TensorFlow 1.15's own variables there, which are
# references.
OF_REFERENCES = [
    *ONLY_IN_1,
    "test_called_once.py",
    "test_conformance.py",
    "test_contract.py",
    "test_contract_estimator.py",
    "test_contract_graph.py",
    "test_export.py",
    "test_silent_defects.py",
]

# TensorFlow 2.4 gave it a name of its own.
mixed_precision = getattr(tf, "mixed_precision", tf.train.experimental)
# Optimizers of Keras 2, which TensorFlow 2.11 moved to make room for others.
legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
