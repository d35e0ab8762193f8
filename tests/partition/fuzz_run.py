"""Runs a program on one device and in towers, and compares what comes out."""

from __future__ import annotations

import contextlib
import itertools
import logging
import traceback
import warnings
import zlib
from typing import Any, Counter, Dict, Iterator, List, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from partition.fuzz_program import PROBES, Feature, Program, is_fixed, model
from replicate.batch import sharding
from replicate.compat import graph as graph_lib
from replicate.layouts import SIZE, Source
from replicate.partition import Partitioned, Placement, Rows, partition, splits
from replicate.partition import model as model_lib
from replicate.reduction import Reduction

# Relative tolerances of programs, by the coarsest type in which they compute.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-1}
# Relative changes of inputs, to see their influence.
_NUDGES = {"float64": 1e-13, "float32": 1e-7, "float16": 1e-3, "bfloat16": 1e-2}

OK, FAILED, DISCARDED, INVALID = "ok", "failed", "discarded", "invalid"


class Coverage(NamedTuple):
    """How much of a graph ran in towers.

    Attributes:
        in_towers: The number of operations that do.
        of_rows: The number of operations that something of the batch enters.
        whole: By type: how many operations run once that take what towers have.
    """

    in_towers: int
    of_rows: int
    whole: Counter[str]


class Outcome(NamedTuple):
    """The outcome of a program.

    Attributes:
        kind: `'ok'`, `'failed'`, `'discarded'` (it cannot be compared) or `'invalid'` (it does not
            run on one device).
        message: What is wrong.
        coverage: The `Coverage`, None where it was not partitioned.
    """

    kind: str
    message: str = ""
    coverage: Coverage | None = None


class _Built(NamedTuple):
    """A program as a graph.

    Attributes:
        graph: The graph.
        operations: Those of the model.
        sources: The tensors of the batch.
        placeholders: What is fed, by feature's name; none if a dataset gives it.
        fetches: Tensors that are asked for whole.
        named: Tensors that are fetched by their names.
        train: Operations.
        reads: By names of variables: tensors that hold their values.
        starts: Operations that initialize them, in this order.
        gradients: What optimizers apply.
    """

    graph: Any
    operations: list[Any]
    sources: list[Source]
    placeholders: dict[str, Any]
    fetches: list[Any]
    named: list[Any]
    train: list[Any]
    reads: dict[str, Any]
    starts: list[Any]
    gradients: list[Any]


def check(program: Program) -> Outcome:
    """Returns what comes of a program on one device and in towers."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with tf.Graph().as_default(), _control_flow(program.setting.new_flow):
            return _check(program)


def _check(program: Program) -> Outcome:
    try:
        built = _build(program)
        definition = built.graph.as_graph_def()
        one = _run_one(program, built, definition)
    except Exception as error:  # Whatever goes wrong on one device is no defect.
        return Outcome(
            INVALID, f"{_line_of(program, error)}: {type(error).__name__}: {error}"[:1000]
        )
    try:
        with _logged() as records:
            partitioned = _partition(program, built)
            fetches = [partitioned.whole(tensor).name for tensor in built.fetches]
            replicas = _replicas(built)
            towers = _run(program, built, built.graph, fetches, replicas=replicas)
    except Exception:
        return Outcome(FAILED, traceback.format_exc(limit=-8))
    coverage = _coverage(built, partitioned)
    if records:
        return Outcome(FAILED, f"logged: {records}", coverage)
    for values in one:
        values.update({f"replica {read}": values[name] for read, (name, _) in replicas.items()})
    differ = _difference(one, towers, _tolerances(program, one, []))
    if differ is None:
        return Outcome(OK, "", coverage)
    nudged = [_run_one(program, built, definition, nudge) for nudge in (0, 1, 2, 3)]
    differ = _difference(one, towers, _tolerances(program, one, nudged))
    if differ is None:
        return Outcome(DISCARDED, "ill-conditioned", coverage)
    finite = all(np.all(np.isfinite(value)) for step in one for value in step.values())
    if not finite and not program.setting.has_nan:
        return Outcome(DISCARDED, f"not finite on one device: {differ}", coverage)
    if program.setting.optimize:  # It leaves out what acts behind what is only asked for its shape.
        plain = program._replace(setting=program.setting._replace(optimize=False))
        values = _run_one(plain, built, definition)
        seen = [{name: step[name] for name in other} for step, other in zip(one, values)]
        if _difference(seen, values, _tolerances(program, seen, nudged)):
            return Outcome(DISCARDED, "TensorFlow's optimizer makes a difference", coverage)
    return Outcome(FAILED, differ, coverage)


def _line_of(program: Program, error: Exception) -> str:
    """Returns the line of a program that raised an error."""
    lines = model(program).splitlines()
    numbers = [
        entry.lineno or 0
        for entry in traceback.extract_tb(error.__traceback__)
        if entry.filename == "<string>"
    ]
    return lines[numbers[0] - 1].strip() if numbers else "at run time"


# Graphs


@contextlib.contextmanager
def _control_flow(is_new: bool) -> Iterator[None]:
    was_new = tf.control_flow_v2_enabled()
    change = tf.enable_control_flow_v2 if is_new else tf.disable_control_flow_v2
    change()
    try:
        yield
    finally:
        (tf.enable_control_flow_v2 if was_new else tf.disable_control_flow_v2)()


_VARIABLES = "VarHandleOp", "VariableV2", "Variable"
_HARMLESS = (
    "Placeholder",
    "Iterator",
    "Random",
    "Truncated",
    "PyFunc",
    "ReadVariableOp",
    "ResourceGather",
)


def _others(program: Program, operations: Sequence[Any]) -> list[Any]:
    """Returns some tensors to fetch by their names, whose computation changes nothing.

    Names decide which: while a program is made smaller, it is rather the same ones.
    """
    acting = set()
    found = []
    trained = set(program.variables)  # All others may change while these tensors are computed.
    for operation in operations:
        references = any(t.dtype != t.dtype.base_dtype for t in operation.inputs)
        acts = operation.op_def.is_stateful and not operation.type.startswith(_HARMLESS)
        if operation.type in _VARIABLES:
            acts = operation.name not in trained
        acts = acts or (references and operation.type != "Identity") or operation.type == "Switch"
        before = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        if acts or not acting.isdisjoint(before) or graph_lib.is_in_control_flow(operation):
            acting.add(operation)
            continue
        for tensor in operation.outputs:
            drawn = zlib.crc32(f"{program.setting.seed} {tensor.name}".encode()) % 100
            fits = tensor.dtype in _DTYPES.values() and tensor.graph.is_fetchable(tensor)
            if fits and drawn < program.setting.others:
                found.append(tensor)
    return found


_DTYPES = {"float": tf.float64, "int": tf.int64, "bool": tf.bool}


def _build(program: Program) -> _Built:
    tf.set_random_seed(program.setting.seed)
    features = _features(program)
    names: dict[str, Any] = {"tf": tf, "np": np, "resources": program.setting.resources}
    names.update(features)
    consolidation = _placement(program).consolidation
    with tf.device(consolidation):
        exec(model(program), names)
    graph = tf.get_default_graph()
    operations = graph.get_operations()
    sources = [
        Source(features[feature.value.name], feature.axis, _per_row(program, feature))
        for feature in program.features
        if feature.axis is not None
    ]
    variables = tf.global_variables() + tf.local_variables()
    with tf.device(consolidation):
        reads = {variable.op.name: tf.identity(variable) for variable in variables}
        averages = [v for v in variables if "ExponentialMovingAverage" in v.op.name]
        others = [v for v in variables if "ExponentialMovingAverage" not in v.op.name]
        # Averages begin with the values of others.
        starts = [tf.group([v.initializer for v in some]) for some in (others, averages)]
    placeholders = {
        name: tensor
        for name, tensor in features.items()
        if tensor.op.type in ("Placeholder", "PlaceholderWithDefault")
    }
    return _Built(
        graph,
        operations,
        sources,
        placeholders,
        names["fetches"] + names["updates"],
        names["named"] + _others(program, operations),
        names["train"],
        reads,
        starts,
        names["gradients"],
    )


def _features(program: Program) -> dict[str, Any]:
    setting, made = program.setting, {}
    of_dataset = {}
    if setting.source == "dataset":
        of_dataset = _of_dataset(program)
    for feature in program.features:
        name = feature.value.name
        shape = [None if s is None else s for s in _static_shape(program, feature)]
        dtype = _DTYPES[feature.value.dtype]
        if name in of_dataset:
            made[name] = of_dataset[name]
        elif setting.source == "default":
            first = tf.constant(value_of(program, feature, 0))
            made[name] = tf.placeholder_with_default(first, shape, name=name)
        else:
            made[name] = tf.placeholder(dtype, shape, name=name)
    return made


def _static_shape(program: Program, feature: Feature) -> list[int | None]:
    setting = program.setting
    at = PROBES.index(setting.sizes[0])
    if setting.is_static:
        return [size[at] for size in feature.value.shape]
    return [
        size[at] if is_fixed(size) and not feature.is_hidden else None
        for size in feature.value.shape
    ]


def _per_row(program: Program, feature: Feature) -> int | None:
    is_known = program.setting.is_static or feature.per_row == 1 or not feature.is_hidden
    return feature.per_row if is_known else None


def _of_dataset(program: Program) -> dict[str, Any]:
    setting = program.setting
    steps = range(len(setting.sizes))
    data = {
        feature.value.name: np.concatenate([value_of(program, feature, step) for step in steps])
        for feature in program.features
        if feature.axis is not None
    }
    dataset = tf.data.Dataset.from_tensor_slices(data)
    dataset = dataset.batch(setting.sizes[0], drop_remainder=setting.is_static)
    # A step runs twice: for what is fetched, and to train.
    runs = 1 if program.train is None else 2
    dataset = dataset.flat_map(lambda batch: tf.data.Dataset.from_tensors(batch).repeat(runs))
    return dict(tf.data.make_one_shot_iterator(dataset).get_next())


def value_of(program: Program, feature: Feature, step: int, nudge: int | None = None) -> Any:
    """Returns what a feature holds in a step."""
    at = PROBES.index(program.setting.sizes[step])
    shape = [size[at] for size in feature.value.shape]
    draw = np.random.RandomState([program.setting.seed, step, ord(feature.value.name[0])])
    if feature.value.dtype == "int":
        return draw.randint(0, feature.value.high, shape)
    if feature.value.dtype == "bool":
        return draw.rand(*shape) < 0.5
    value = np.asarray(draw.randn(*shape))
    if nudge is not None:
        value *= 1 + _NUDGES[program.dtype] * np.random.RandomState([nudge, step]).randn(*shape)
    is_spoiled = program.setting.has_nan and not step and feature == _first_floats(program)
    if is_spoiled and value.size:
        value.flat[draw.randint(value.size)] = np.nan
    return value


def _first_floats(program: Program) -> Feature | None:
    """Returns the first feature of the batch that holds floats, None if there is none."""
    found = (f for f in program.features if f.value.dtype == "float" and f.axis is not None)
    return next(found, None)


# Partitioning


def _placement(program: Program) -> Placement:
    setting = program.setting
    first = int(setting.apart)
    devices = [f"/cpu:{first + index}" for index in range(len(setting.counts))]
    reduction = (
        Reduction(setting.where) if setting.packs else Reduction(setting.where, pack_bytes=0)
    )
    return Placement(tuple(devices), "/cpu:0", reduction=reduction, replicates=setting.replicates)


def _partition(program: Program, built: _Built) -> Partitioned:
    placement = _placement(program)
    rows, shards = _shards(program, built)
    exact = model_lib.Exact(random=program.setting.exact_random)
    return partition(
        built.sources,
        shards,
        rows,
        placement,
        built.operations,
        built.fetches,
        exact.runs_once,
        built.gradients,
    )


def _shards(program: Program, built: _Built) -> tuple[Rows, list[list[Any]]]:
    setting, towers = program.setting, len(program.setting.counts)
    if setting.by_sharding:
        leaves = {f"f{index}": source.tensor for index, source in enumerate(built.sources)}
        axes = {f"f{index}": source.axis for index, source in enumerate(built.sources)}
        made = sharding.shard(leaves, None, towers, need_row=True, batch_axis=axes)
        by_leaf = {id(one.leaf): one.shards for one in made.split}
        parts = [list(by_leaf[id(source.tensor)]) for source in built.sources]
        return Rows(made.rows, made.total, made.starts, made.held), parts
    if setting.is_static:
        rows = _rows_of(setting.counts, setting.sizes[0], min, max)
    else:
        index = next(i for i, source in enumerate(built.sources) if source.per_row == 1)
        total = tf.shape(built.sources[index].tensor)[built.sources[index].axis]
        counts = [(total + towers - 1 - i) // towers for i in range(towers)]
        rows = _rows_of(counts, total, tf.minimum, tf.maximum)
    return rows, [splits.split(source.tensor, source.axis, rows) for source in built.sources]


def _rows_of(counts: Sequence[Any], total: Any, low: Any, high: Any) -> Rows:
    """Returns the `Rows` of towers that may have none, which hold the last row then."""
    starts = [low(start, total - 1) for start in itertools.accumulate([0, *counts[:-1]])]
    return Rows(list(counts), total, starts, [high(count, 1) for count in counts])


def _coverage(built: _Built, partitioned: Partitioned) -> Coverage:
    """Returns how much of what is asked for runs in towers."""
    layouts = partitioned.plan.layouts
    entered = {source.tensor.op for source in built.sources}
    given = set(entered)
    in_towers = of_rows = 0
    for operation in built.operations:
        if operation in given or not any(tensor.op in entered for tensor in operation.inputs):
            continue
        sizes = [layouts.layout_of(tensor) == SIZE for tensor in operation.outputs]
        if sizes and all(sizes):
            continue
        entered.add(operation)
        of_rows += 1
        in_towers += operation in layouts.strategies
    return Coverage(in_towers, of_rows, layouts.kept_whole)


@contextlib.contextmanager
def _logged() -> Iterator[list[str]]:
    """Gathers what is logged."""
    records: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.getMessage()[:500])

    handler = Handler()
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _replicas(built: _Built) -> dict[str, tuple[str, str]]:
    """Returns replicas of variables: by what reads one, whose it is, and what initializes it."""
    made = {}
    by_name = {name: f"variable {read.name}" for name, read in built.reads.items()}
    for variable in tf.local_variables():
        scope, _, place = variable.op.name.partition("/tower_")
        if scope == "replicate" and place.partition("/")[2] in by_name:
            read = tf.identity(variable)
            made[read.name] = by_name[place.partition("/")[2]], variable.initializer.name
    return made


# Running

Values = List[Dict[str, Any]]  # For each step: values by name.


def _run_one(program: Program, built: _Built, definition: Any, nudge: int | None = None) -> Values:
    """Runs the program on one device."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        return _run(program, built, graph, [tensor.name for tensor in built.fetches], nudge)


def _run(
    program: Program,
    built: _Built,
    graph: Any,
    fetches: Sequence[str],
    nudge: int | None = None,
    replicas: dict[str, Any] | None = None,
) -> Values:
    by_label = {f"fetch {i}: {t.name}": f for i, (t, f) in enumerate(zip(built.fetches, fetches))}
    by_label.update({f"by name {tensor.name}": tensor.name for tensor in built.named})
    train = [operation.name for operation in built.train]
    reads = {f"variable {tensor.name}": tensor.name for tensor in built.reads.values()}
    steps = []
    with tf.Session(graph=graph, config=_config(program)) as session:
        for start in built.starts:
            session.run(start.name)
        for read, (_, start) in (replicas or {}).items():
            session.run(start)
            reads[f"replica {read}"] = read
        for step in range(len(program.setting.sizes)):
            feed = {
                built.placeholders[feature.value.name].name: value_of(program, feature, step, nudge)
                for feature in program.features
                if feature.value.name in built.placeholders
            }
            values = session.run(by_label, feed)
            if train:
                session.run(train, feed)
            values.update(session.run(reads))
            steps.append(values)
    return steps


def _config(program: Program) -> Any:
    config = tf.ConfigProto(
        device_count={"CPU": len(program.setting.counts) + 1},
        inter_op_parallelism_threads=1,
        intra_op_parallelism_threads=1,
        allow_soft_placement=True,
    )
    if not program.setting.optimize:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return config


# Comparing


def _tolerances(program: Program, one: Values, nudged: Sequence[Values]) -> list[dict[str, float]]:
    """Returns how much values may deviate, more where a nudge changes them much."""
    relative = TOLERANCES[program.dtype]
    made = []
    for step, values in enumerate(one):
        own = {}
        for label, value in values.items():
            allowed = max(relative, TOLERANCES.get(_dtype_of(value), 0.0)) * _scale(value)
            for other in nudged:
                if label in other[step]:
                    allowed = max(allowed, 10 * _distance(value, other[step][label]))
            own[label] = allowed
        made.append(own)
    return made


def _dtype_of(value: Any) -> str:
    return str(getattr(value, "dtype", ""))


def _scale(value: Any) -> float:
    value = np.asarray(value, np.float64)
    finite = np.abs(value[np.isfinite(value)])
    return max(1.0, finite.max() if finite.size else 0.0)


def _distance(a: Any, b: Any) -> float:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        return np.inf
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    away = np.where(same, 0.0, np.abs(a - b))
    return float(np.where(np.isnan(away), np.inf, away).max()) if away.size else 0.0


def _difference(one: Values, towers: Values, tolerances: list[dict[str, float]]) -> str | None:
    """Returns the first difference, None if there is none."""
    for step, values in enumerate(one):
        for label, value in values.items():
            other = towers[step][label]
            if np.shape(value) != np.shape(other):
                shapes = f"{np.shape(value)} and {np.shape(other)}"
                return f"step {step}, {label}: shapes {shapes}"
            away = _distance(value, other)
            if away > tolerances[step][label]:
                texts = (np.array2string(np.asarray(v), threshold=20) for v in (value, other))
                return f"step {step}, {label}: " + " and in towers ".join(texts)
    return None
