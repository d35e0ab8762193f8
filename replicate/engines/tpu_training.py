"""Trains on the TPU cores of a host, with a plain Estimator.

R is the number of cores. `model_fn` is called once, in a *computation* that each core runs with a
shard of the batch, of n / R rows. Work that a TPU cannot do happens outside the computation, once
per step: the loss is reduced, and a host call and a scaffold are made. Variables are placed by the
Estimator. The computation reads them at its start and writes the new values of one core, because
the gradients are the same on all cores.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import losses_added_up, sharding
from replicate.compat import estimator
from replicate.compat import graph as graph_lib
from replicate.compat import tpu as tpu_lib
from replicate.graphs import descendants, state
from replicate.partition import specs

_SCAFFOLD_OPS = (
    "init_op",
    "ready_op",
    "ready_for_local_init_op",
    "local_init_op",
    "summary_op",
    "saver",
)


def whole_batch(features: Any, labels: Any, num_cores: int) -> Any:
    """Checks and returns a batch for TPU cores, which `tf.tpu.shard` will split.

    Args:
        features: As for `sharding.shard`.
        labels: As for `sharding.shard`.
        num_cores: R.

    Returns:
        `Shards` of one shard, the batch; `rows` holds the number of rows of each core.

    Raises:
        TypeError: If a tensor is sparse, ragged or of strings.
        ValueError: If a tensor's shape is not static, its number of rows is not a multiple of R,
            or `sharding.shard` raises it.
    """
    for path, leaf in graph_lib.flatten_with_paths({"features": features, "labels": labels}):
        composite = isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor))
        # Python values, such as flags in `features`, need not be converted.
        if not composite and not (hasattr(leaf, "dtype") and hasattr(leaf, "shape")):
            continue
        if composite or tf.as_dtype(leaf.dtype) == tf.string:
            raise TypeError(
                f"A TPU takes dense tensors of numbers, but {path} is {leaf!r}. Convert it in "
                "`input_fn`, e.g. with `tf.sparse.to_dense` or by a lookup in a vocabulary."
            )
        shape = tf.TensorShape(leaf.shape)
        if not shape.is_fully_defined():
            raise ValueError(
                f"Batches for TPUs must have a static shape, but {path} has {shape}. Batch with "
                "`drop_remainder=True`, and pad tensors of varying length to a fixed length."
            )
        if shape.rank and shape.as_list()[0] % num_cores:
            raise ValueError(
                "TPU cores take shards of equal size, so the rows of a batch must be a multiple of "
                f"{num_cores}, but {path} has {shape.as_list()[0]}. Choose another batch size, and "
                "batch with `drop_remainder=True`."
            )
    whole = sharding.shard(features, labels, 1, need_row=True, same_rows=True)
    return whole._replace(rows=[whole.total // num_cores])


def train(
    model: Callable[..., Any],
    shards: sharding.Shards,
    devices: Sequence[str],
    summed: bool,
    session_config: Any,
) -> Any:
    """Trains on TPU cores.

    Args:
        model: Function of features and labels that returns a spec; called once.
        shards: The result of `whole_batch`.
        devices: Device strings of the R cores.
        summed: Whether the replicas' losses are added up, instead of averaged.
        session_config: The `tf.ConfigProto` of the Estimator's sessions, or None.

    Returns:
        An `EstimatorSpec`, for training.

    Raises:
        TypeError: If `model` returns anything but a spec.
        ValueError: If the global step is not a resource variable, a variable is trained on one
            core's gradient, a tensor of `host_call` is a scalar, or the spec has a scaffold whose
            operations are in the computation.
    """
    _check_global_step()
    graph = tf.get_default_graph()
    batch = {"features": shards.features[0], "labels": shards.labels[0]}
    computation = Computation(model, batch, summed)
    losses, *host_tensors = tf.tpu.shard(computation, rows_of(batch), len(devices))
    if len(devices) > 1:
        _check_reduced(graph)
    unseen = tpu_lib.take_out_summaries(graph)
    if unseen:
        tf.logging.warning(
            "replicate: a TPU makes no summaries, so %s will not be written. Make them in the "
            "`host_call` of a `TPUEstimatorSpec`.",
            ", ".join(unseen),
        )
    with tf.device("/device:CPU:0"), tf.name_scope("replicate/tpu/"):
        loss = (tf.reduce_sum if summed else tf.reduce_mean)(losses)
        train_op = tf.group(losses)
    tf.logging.info(
        "replicate: global batch %d, %d TPU cores from %s on, %d rows per core; losses of cores "
        "are %s.",
        shards.total,
        len(devices),
        devices[0],
        shards.rows[0],
        "added up" if summed else "averaged",
    )
    spec = computation.spec
    changes = {"loss": loss, "train_op": train_op, "predictions": None, "export_outputs": None}
    if estimator.is_tpu_estimator_spec(spec):
        host_call = spec.host_call and (spec.host_call[0], _pack(spec.host_call[1], host_tensors))
        spec = specs.as_estimator_spec(
            spec._replace(**changes, host_call=host_call, eval_metrics=None)
        )
    else:
        spec = spec._replace(**changes)
    job = tf.DeviceSpec.from_string(devices[0]).job
    return spec._replace(training_hooks=(SystemHook(job, session_config), *spec.training_hooks))


def call_in_replica(model: Callable[[], Any], summed: bool) -> Any:
    """Calls `model()` in a TPU replica, whose losses are summed or averaged over replicas."""
    with losses_added_up(summed):
        return model()


class Computation:
    """The function that every core runs with its rows.

    Attributes:
        spec: The spec that `model_fn` returned; None until this is called.
    """

    def __init__(self, model: Callable[..., Any], batch: dict[str, Any], summed: bool) -> None:
        self.spec: Any = None
        self._model = model
        self._batch = batch
        self._summed = summed

    def __call__(self, *rows: Any) -> list[Any]:
        """Builds the model.

        Args:
            *rows: The core's shard of each tensor in `rows_of(batch)`.

        Returns:
            List of the loss, of shape [1], the tensors of the host call, and the train operation.
        """
        shards = iter(rows)
        batch = tf.nest.map_structure(
            lambda leaf: next(shards) if sharding.has_rows(leaf) else leaf, self._batch
        )
        self.spec = call_in_replica(functools.partial(self._model, **batch), self._summed)
        host_tensors = _check_spec(self.spec)
        train_op = tf.group(self.spec.train_op)
        with tf.control_dependencies([train_op]):  # As in TPUEstimator.
            host_tensors = [tf.identity(tensor) for tensor in host_tensors]
        return [tf.reshape(self.spec.loss, [1]), *host_tensors, train_op]


class SystemHook(tf.train.SessionRunHook):
    """Starts the TPUs when there is a session, and shuts them down at the end."""

    def __init__(self, job: str | None, session_config: Any) -> None:
        self._job = job
        self._session_config = session_config

    def begin(self) -> None:
        """Makes the operation that shuts the TPUs down, before the graph is finalized."""
        self._shut_down = tf.tpu.shutdown_system(job=self._job)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Starts the TPUs. Variables, which are on the host, have their values already."""
        # The session's graph is finalized, so the operation is made and run in another one.
        with tf.Graph().as_default():
            start = tf.tpu.initialize_system(job=self._job)
            with tf.Session(session.sess_str, config=self._session_config) as start_session:
                start_session.run(start)

    def end(self, session: Any) -> None:
        """Shuts the TPUs down."""
        session.run(self._shut_down)


def rows_of(batch: Any) -> list[Any]:
    """Returns the list of tensors with rows in a nested structure."""
    return [leaf for leaf in tf.nest.flatten(batch) if sharding.has_rows(leaf)]


def _pack(structure: Any, tensors: Iterable[Any]) -> Any:
    """Returns `tensors` in the structure of a host call's tensors, a list or dictionary."""
    return dict(zip(structure, tensors)) if isinstance(structure, dict) else list(tensors)


def _check_global_step() -> None:
    step = tf.train.get_global_step()
    if step is not None and not hasattr(step, "handle"):
        raise ValueError(
            f"Variables of a model on TPUs must be resource variables, but {step.name} is {step!r}."
            " Call `tf.enable_resource_variables()` when the program starts."
        )


def _check_reduced(graph: Any) -> None:
    """Raises if a variable is updated from the rows of one core alone."""
    one_core = _made_from("TPUReplicatedInput", graph) - _made_from("CrossReplicaSum", graph)
    for variable in tf.trainable_variables():
        for op in variable.op.outputs[0].consumers():
            if state.assigns(op) and tpu_lib.is_inside(op) and op in one_core:
                raise ValueError(
                    "Every optimizer in a `model_fn` that runs on several TPU cores must be "
                    f"wrapped, so that gradients are summed over the cores, but {op.name} updates "
                    f"'{variable.name}' on each core by itself. Write `optimizer = "
                    "replicate.TowerOptimizer(optimizer)`."
                )


def _made_from(kind: str, graph: Any) -> set[Any]:
    """Returns the set of operations that depend on the values of operations of type `kind`."""
    return descendants([op for op in graph.get_operations() if op.type == kind], waits=False)


def _check_spec(spec: Any) -> list[Any]:
    """Checks a spec that was made in a computation; returns the tensors of its host call."""
    if estimator.is_tpu_estimator_spec(spec):
        tensors = specs.by_key(spec.host_call[1]) if spec.host_call else {}
        for key, tensor in tensors.items():
            specs.check_has_rows("host_call", key, tensor)
        return list(tensors.values())
    if not estimator.is_estimator_spec(spec):
        raise TypeError(
            "On TPUs `model_fn` must return an `EstimatorSpec` or a `TPUEstimatorSpec`, but "
            f"returned {spec!r}."
        )
    made = [name for name in _SCAFFOLD_OPS if getattr(spec.scaffold, name) is not None]
    if made:
        raise ValueError(
            "The operations of a scaffold must be made outside the computation that TPUs run, but "
            f"the `EstimatorSpec` has one with {', '.join(made)}. Return a `TPUEstimatorSpec` with "
            "a `scaffold_fn`, which is called outside."
        )
    return []
