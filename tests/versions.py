"""What tests take from TensorFlow where its name depends on the version."""

import tensorflow.compat.v1 as tf

IS_1 = tf.__version__.startswith("1.")
IS_OLD = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 12)

# Files of tests of what TensorFlow 1.15 alone has.
ONLY_IN_1 = ["test_ancestor.py", "test_tf1.py"]
_REPLICAS = "replicas of tf.distribute meet on TensorFlow 2 only, which an error says"
_OPERATIONS = "its models differ in operations, whose number TensorFlow 1.15 takes for a seed"
_NAMES = "it asks for names that TensorFlow 1.15 does not have"
_SLOTS = "Keras' optimizers make slots for resource variables alone"
_CUSTOM = "`tf.custom_gradient` takes resource variables alone"
# Tests that TensorFlow 1.15 cannot pass: what their ids have in them, and why.
NOT_IN_1 = {
    "mirrored": _REPLICAS,
    "central_storage": _REPLICAS,
    "test_scaled_training.py::test_random_steps_in_replicas": _REPLICAS,
    "test_scaled_training.py::test_random_steps_at_once[replicas]": _REPLICAS,
    "test_accumulation.py::test_any_engine_goes_on_in_the_middle": _REPLICAS,
    "test_accumulation.py::test_tpu_replicas": "its TPU cores do not add up float64",
    "test_loss_scale.py::test_one_replica_is_alone": _REPLICAS,
    "test_loss_scale.py::test_replicas_of_a_function": _REPLICAS,
    "of_tensorflow[False-replicas]": _REPLICAS,
    "of_tensorflow[True-replicas]": _REPLICAS,
    "test_normalization.py::test_every_argument_means_what_it_does_in_tf_layers": _OPERATIONS,
    "test_normalization.py::test_losses_may_be_sums[images]": _OPERATIONS,
    "test_normalization.py::test_images_never_go_through_the_fused_kernel": _OPERATIONS,
    "test_whole_loss.py::test_a_penalty_of_what_each_tower_draws": _OPERATIONS,
    "_keras_momentum": _SLOTS,
    "legacy_keras": _SLOTS,
    "in_a_name_scope-0": _SLOTS,
    "test_an_exception_in_the_middle_of_something[gradient": _CUSTOM,
    "test_an_exception_in_the_middle_of_something[tape": _CUSTOM,
    "test_loss_scale.py::test_random_steps_at_once[_compiled]": _NAMES,
    "test_gather.py::test_nccl_is_for_gpus": _NAMES,
    "test_gather.py::test_nccl_reduces_a_pack_on_all_gpus": _NAMES,
    "test_scaled_training.py::test_what_scales_losses_answers_as_it_was_given": _NAMES,
    "test_scaled_training.py::test_the_counter_is_that_of_the_steps": _NAMES,
    "test_sharding.py::test_arrays_of_a_generator_are_not_overwritten[ragged]": _NAMES,
    "test_variables.py::test_towers_have_the_variables_of_one_device[Variable of Tens": _NAMES,
    "test_devices.py::test_the_cores_are_shared_in_estimators_too[devices-made]": _NAMES,
    "test_devices.py::test_listing_devices_does_not_start_them[listing]": _NAMES,
    "test_models_train_as_without_a_scale[callable_loss": _OPERATIONS,
    "test_compare.py::test_models_that_are_equal[summed-": "it compares more coarsely there",
    "test_compare.py::test_models_that_differ_and_why[count-": "it does not look into its loops",
    "test_whole_loss.py::test_a_mean_over_chosen_rows_is_said[where]": (
        "TensorFlow 1.15 itself warns of its gradients"
    ),
    "test_digits.py::test_agreement_is_within_the_tolerance[nan": "its NumPy warns of NaN",
    "test_towers.py::test_comparing_variables_costs_less": "comparing variables costs nothing",
    "test_nothing_left.py::test_an_estimator_leaves": "it names the threads of TensorFlow 2",
    "tests/test_sharding.py::test_tpu_cores": "its TPU cores are tested by `test_tpu_estimator.py`",
}
# Files whose tests train with TensorFlow 1.15's own variables there, which are references.
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
# Rows of the conformance table whose code asks for what TensorFlow 1.15 does not have.
ROWS_NOT_IN_1 = {
    "keras_optimizer": "`global_clipnorm` of Keras' optimizers",
    "train_and_evaluate": "`saving_listeners` of `EvalSpec` and `TrainSpec`",
}
# Rows that TensorFlow 1.15 makes look like ones of float32, which may deviate more.
COARSER_IN_1 = {
    "rnn_while_loop": "gradients of its loops add up numbers that tell the order of arrays alone"
}
# Rows that on one device depend on chance if what reads a variable and what updates it share its
# memory, or that cannot do without resource variables there.
ROWS_OF_RESOURCES = {
    "multi_head": "two optimizers update what gradients of one another are made from",
    "modules": "likewise",
    "head_optimizer": "Keras' optimizers make slots for resource variables alone",
    "keras_estimator": "likewise",
    "keras_averaging": "likewise",
}

# TensorFlow 2.4 gave it a name of its own.
mixed_precision = getattr(tf, "mixed_precision", tf.train.experimental)
# Optimizers of Keras 2, which TensorFlow 2.11 moved to make room for others.
legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
