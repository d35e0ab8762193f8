"""Objects that `tf.contrib` took from TensorFlow, which still has them without a public name.

These are the same objects that `tf.contrib` had, and functions that its replacements call. If they
moved, the older module is named second.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

_CHECKPOINT = (
    "tensorflow.python.trackable.data_structures "
    "tensorflow.python.training.tracking.data_structures"
)
_BASE = "tensorflow.python.trackable.base tensorflow.python.training.tracking.base"
_DISTRIBUTIONS = "tensorflow.python.ops.distributions."
_ESTIMATOR = "tensorflow_estimator.python.estimator."
# Modules, and the names in them; `new=old` if `tf.contrib` had a different name.
_MODULES = {
    _CHECKPOINT: "List Mapping NoDependency",
    _BASE: "CheckpointableBase=Trackable",
    "tensorflow.python.eager.backprop": "gradients_function implicit_gradients=implicit_grad "
    "implicit_value_and_gradients=implicit_val_and_grad "
    "value_and_gradients_function=val_and_grad_function",
    "tensorflow.python.eager.context": "async_clear_error async_wait execution_mode num_gpus "
    "set_execution_mode",
    "tensorflow.python.framework.meta_graph": "ops_used_by_graph_def stripped_op_list_for_graph",
    "tensorflow.python.framework.ops": "prepend_name_scope strip_name_scope "
    "get_graph_from_inputs=_get_graph_from_inputs",
    "tensorflow.python.framework.smart_cond": "smart_case smart_cond smart_constant_value",
    "tensorflow.python.framework.tensor_spec": "BoundedTensorSpec",
    "tensorflow.python.ops.data_flow_ops": "RecordInput StagingArea",
    _DISTRIBUTIONS + "beta": "BetaWithSoftplusConcentration",
    _DISTRIBUTIONS + "exponential": "ExponentialWithSoftplusRate",
    _DISTRIBUTIONS + "gamma": "GammaWithSoftplusConcentrationRate",
    _DISTRIBUTIONS + "laplace": "LaplaceWithSoftplusScale",
    _DISTRIBUTIONS + "normal": "NormalWithSoftplusScale",
    _DISTRIBUTIONS + "student_t": "StudentTWithAbsDfSoftplusScale",
    _DISTRIBUTIONS + "util": "fill_triangular fill_triangular_inverse matrix_diag_transform "
    "reduce_weighted_logsumexp softplus_inverse tridiag",
    "tensorflow.python.ops.gen_tpu_ops": "infeed_enqueue infeed_enqueue_tuple outfeed_dequeue "
    "outfeed_dequeue_tuple outfeed_enqueue outfeed_enqueue_tuple",
    "tensorflow.python.ops.init_ops": "convolutional_delta_orthogonal=ConvolutionDeltaOrthogonal "
    "convolutional_orthogonal_1d=ConvolutionOrthogonal1D "
    "convolutional_orthogonal_2d=ConvolutionOrthogonal2D "
    "convolutional_orthogonal_3d=ConvolutionOrthogonal3D",
    "tensorflow.python.ops.logging_ops": "audio_summary histogram_summary image_summary "
    "merge_all_summaries merge_summary scalar_summary",
    "tensorflow.python.ops.lookup_ops": "FastHashSpec HasherSpec IdTableWithHashBuckets "
    "InitializableLookupTableBase LookupInterface MutableHashTable StrongHashSpec "
    "TableInitializerBase TextFileIdTableInitializer TextFileStringTableInitializer "
    "index_table_from_file index_table_from_tensor index_to_string_table_from_file "
    "index_to_string_table_from_tensor",
    "tensorflow.python.ops.nn_ops": "nth_element",
    "tensorflow.python.ops.rnn": "best_effort_input_batch_size=_best_effort_input_batch_size "
    "transpose_batch_time=_transpose_batch_time",
    "tensorflow.python.ops.summary_ops_v2": "SummaryWriter always_record_summaries audio "
    "create_file_writer create_summary_file_writer eval_dir flush generic histogram image "
    "import_event never_record_summaries record_summaries_every_n_global_steps scalar "
    "should_record_summaries summary_writer_initializer_op",
    "tensorflow.python.ops.template": "make_template=make_template_internal",
    "tensorflow.python.ops.variable_scope": "EagerVariableStore",
    "tensorflow.python.tpu.ops.tpu_ops": "infeed_dequeue infeed_dequeue_tuple",
    "tensorflow.python.tpu.topology": "Topology",
    "tensorflow.python.tpu.training_loop": "repeat while_loop",
    "tensorflow.python.training.checkpoint_ops": "load_and_remap_matrix_initializer="
    "_load_and_remap_matrix_initializer load_embedding_initializer=_load_embedding_initializer",
    "tensorflow.python.training.evaluation": "StopAfterNEvalsHook=_StopAfterNEvalsHook "
    "evaluate_once=_evaluate_once get_or_create_eval_step=_get_or_create_eval_step",
    "tensorflow.python.util.deprecation": "deprecated deprecated_arg_values deprecated_args",
    "tensorflow.python.util.nest": ".nest",
    _ESTIMATOR + "canned.head": "assert_range=_assert_range regression_head=_regression_head "
    "binary_head=_binary_logistic_head_with_sigmoid_cross_entropy_loss "
    "multi_class_head=_multi_class_head_with_softmax_cross_entropy_loss",
    _ESTIMATOR + "canned.saved_model_estimator": "SavedModelEstimator",
    _ESTIMATOR + "export.export": "build_supervised_input_receiver_fn_from_input_fn",
    _ESTIMATOR + "inputs.queues.feeding_queue_runner": "FeedingQueueRunner=_FeedingQueueRunner",
    _ESTIMATOR + "tpu.tpu_estimator": "export_estimator_savedmodel",
}


def __getattr__(name: str) -> Any:
    """Imports a name at its first use."""
    for modules, names in _MODULES.items():
        for one in names.split():
            new, _, old = one.partition("=")
            if new == name:
                return globals().setdefault(name, getattr(_imported(modules), old or new))
            if new == f".{name}":  # The name of the module itself.
                return _imported(modules)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _imported(modules: str) -> types.ModuleType:
    """Returns the first of several modules, separated by spaces, that this TensorFlow has."""
    *others, last = modules.split()
    for module in others:
        try:
            return importlib.import_module(module)
        except ImportError:
            pass
    return importlib.import_module(last)
