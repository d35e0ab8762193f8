"""`--tpu`: what TPUEstimator builds for 8 cores, without one of them."""

import functools
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from engines import tpu_graphs
from examples.classifiers import training as classifiers
from examples.nas_search import analyze_mobile_search_lib
from examples.nas_search.commands import PROGRAM
from examples.nas_search.search import search_loop, search_summaries
from graph_walks import behind

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TPUEstimator's own

CORES = 8
ROWS = 16  # of a core's training batch; its validation batch has twice as many
NETWORK = "0:1:1:0:1:1:2:0:0:1:0:0:1:0"
# The 14 choices of digits_search have 28 options: two have one, two have three, ten have two.
CHOICES, OPTIONS = 14, 28


@pytest.fixture(scope="module")
def patch():
    """TPUEstimator finds a TPU of 8 cores."""
    with pytest.MonkeyPatch.context() as patch:
        tpu_graphs.pretend_cores(patch, CORES)
        patch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", Cluster)
        yield patch


class Cluster(tf.distribute.cluster_resolver.SimpleClusterResolver):
    """This process as the TPU's host."""

    def __init__(self, tpu, zone, project):
        assert (tpu, zone, project) == ("my-tpu", "here", "mine")
        super().__init__(tf.train.ClusterSpec({}))

    def get_master(self):
        return ""


def build(keep, command, directory, *flags):
    """Returns the graph that a command builds, by the hook `keep`, and its training loop's body."""
    with pytest.raises(tpu_graphs.BuiltError):
        PROGRAM.main(
            [command, "--preset=digits", f"--checkpoint_dir={directory}"]
            + ["--tpu=my-tpu", "--tpu_zone=here", "--gcp_project=mine"]
            + [f"--train_batch_size={ROWS * CORES}", "--max_global_step=20", *flags]
        )
    functions = [each.signature.name for each in keep.graph.as_graph_def().library.function]
    bodies = [keep.graph._get_function(name).graph for name in functions]
    (body,) = [body for body in bodies if "CrossReplicaSum" in tpu_graphs.by_type(body)]
    return keep.graph, body


@pytest.fixture(scope="module")
def searched(patch, tmp_path_factory):
    """A function of flags, from which it builds a search."""
    keep = Hook()
    patch.setattr(search_loop, "SearchProgress", lambda *_: keep)
    return functools.lru_cache(maxsize=None)(
        lambda *flags: build(keep, "search", tmp_path_factory.mktemp("search"), *flags)
    )


class Hook(tpu_graphs.Keep):
    """Takes the place of hooks that are contexts."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def shapes_of(ops):
    return sorted(op.inputs[0].shape.as_list() for op in ops)


def test_a_search_runs_on_all_cores(searched, tmp_path):
    graph, body = searched()
    outside, inside = tpu_graphs.by_type(graph), tpu_graphs.by_type(body)
    (metadata,) = outside["TPUReplicateMetadata"]
    assert metadata.get_attr("num_replicas") == CORES
    # Each core gets a batch of its own, rows last.
    (infeed,) = inside["InfeedDequeueTuple"]
    assert [tensor.shape.as_list() for tensor in infeed.outputs] == [
        *([8, 8, 1, ROWS], [8, 8, 1, 2 * ROWS]),
        *([ROWS, 10], [2 * ROWS, 10]),
    ]
    # The host gets every scalar from every core, and writes their means.
    assert len(outside["OutfeedDequeueTuple"]) == CORES
    tags = tags_of(graph)
    assert len(tpu_graphs.everywhere("WriteSummary", graph)) == len(tags)
    logits = [tag for tag in tags if tag.startswith(("rlpathlogits/", "rltaglogits/"))]
    assert len(logits) == 2 * OPTIONS
    assert {"rlcontroller/reward", "rlcontroller/estimated_cost", "model/loss"} < tags
    for op in outside["OutfeedDequeueTuple"]:
        assert [tensor.shape.as_list() for tensor in op.outputs] == [[1], [1, len(tags)]]


def tags_of(graph):
    """Returns the tags of the scalars that the host writes."""
    tags = set()
    for op in tpu_graphs.everywhere("Const", graph):
        if op.get_attr("dtype") == tf.string:
            tags.update(tag.decode() for tag in op.get_attr("value").string_val)
    return {tag for tag in tags if tag.startswith(("rl", "model/", "increase_"))}


def test_the_host_writes_the_means_over_the_cores_now_and_then(tmp_path):
    params = {"use_tpu": True, "tpu_iterations_per_loop": 2, "checkpoint_dir": str(tmp_path)}
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        spec = search_summaries.make_spec(
            "train", tf.zeros([]), tf.no_op(), {"b": tf.zeros([]), "a": tf.zeros([])}, params
        )
        write, values = spec.host_call
        assert [value.shape.as_list() for value in values] == [[1], [1, 2]]
        step = tf.placeholder(tf.int64, [CORES])
        means = tf.range(CORES, dtype=tf.float32)
        writes = write(step, tf.stack([means, 10 * means], axis=1))
        session.run(tf.global_variables_initializer())
        (start,) = tpu_graphs.by_type(session.graph)["CreateSummaryFileWriter"]
        session.run(start)
        for at in (3, 4, 6):
            session.run(writes, {step: [at] * CORES})
        session.run(tf.raw_ops.FlushSummaryWriter(writer=start.inputs[0]))
    (file,) = analyze_mobile_search_lib.event_files(tmp_path)
    assert file.endswith(".v2")
    written = [value for event in tf.train.summary_iterator(file) for value in event.summary.value]
    # TensorBoard needs to be told in the first one.
    assert {value.metadata.plugin_data.plugin_name for value in written[:2]} == {"scalars"}
    scalars = analyze_mobile_search_lib.read_scalars(tmp_path)
    assert scalars == {"a": {4: 3.5, 6: 3.5}, "b": {4: 35.0, 6: 35.0}}


@pytest.mark.slow
def test_what_the_cores_compute_has_static_shapes_and_is_for_tpus(searched):
    graph, body = searched()
    ops = with_branches(body, graph)
    ops = [op for op in ops if op.type != "Placeholder"]  # a function's arguments
    assert len(ops) > 2000
    for op in ops:
        assert not tpu_graphs.is_for_hosts(op), op
        if not any(is_spare(tensor) for tensor in op.inputs):
            for tensor in op.outputs:
                assert is_spare(tensor) or tensor.shape.is_fully_defined(), tensor


def is_spare(tensor):
    """Whether a tensor is what batch norm keeps for gradients on GPUs, or zeros of its shape."""
    op = tensor.op
    if op.type in ("Shape", "Fill", "ZerosLike"):
        return is_spare(op.inputs[0])
    return op.type == "FusedBatchNormV3" and tensor.value_index == 5


def with_branches(body, graph):
    """Returns the operations of a function and of all branches in it."""
    ops = list(body.get_operations())
    for op in body.get_operations():
        if op.type in ("If", "StatelessIf"):
            for name in ("then_branch", "else_branch"):
                branch = graph._get_function(op.get_attr(name).name).graph
                ops += with_branches(branch, graph)
    return ops


def test_gradients_baseline_and_controller_are_reduced_over_the_cores(searched):
    _, body = searched()
    ops = tpu_graphs.by_type(body)
    # Every weight's update depends on its own sum.
    updates = ops["ResourceApplyRMSProp"]
    weights = [sum_behind(op.inputs[-1]) for op in updates]
    assert len(set(weights)) == len(updates) == 56
    # The controller's three: gradients, their squares, and those of the entropy; of all choices.
    others = [op for op in ops["CrossReplicaSum"] if op not in weights]
    assert [shape for shape in shapes_of(others) if shape == [OPTIONS]] == [[OPTIONS]] * 3
    assignments = [
        op
        for op in ops["AssignSubVariableOp"]
        if re.search(r"independent_sample/[^:]*[a-z0-9](?<!/[mv]):", op.inputs[0].name)
    ]
    assert len(assignments) == CHOICES
    wanted = {op for op in others if op.inputs[0].shape.as_list() == [OPTIONS]}
    assert all(wanted <= behind(op.inputs[1].op) for op in assignments)
    # One baseline: the moving average of the cores' mean reward.
    (average,) = [op for op in ops["AssignVariableOp"] if "numerator" in op.inputs[0].name]
    rewards = [op for op in others if op in behind(average.inputs[1].op)]
    # Their sum, and the cores' means side by side, which are handed to the update.
    assert shapes_of(rewards) == [[], [CORES]]


def sum_behind(tensor):
    """Returns the sum over cores that a gradient comes from, through operations of its shape."""
    op = tensor.op
    while op.type != "CrossReplicaSum":
        op = next(t.op for t in op.inputs if t.shape == tensor.shape)
    return op


def test_each_core_draws_a_network_of_its_own(searched):
    _, body = searched()
    (draw,) = tpu_graphs.by_type(body)["StatelessRandomUniformV2"]
    (core,) = {op for op in behind(draw) if op.type == "XlaReplicaId"}
    noise = [[evaluate(draw, core, index, step) for index in range(CORES)] for step in (0, 1)]
    distinct = {each.tobytes() for step in noise for each in step}
    assert len(distinct) == 2 * CORES
    # The same as those of 8 towers: the seed and step · 8 + index.
    with tf.Graph().as_default(), tf.Session() as session:
        want = tf.random.stateless_uniform(noise[1][3].shape, [0, CORES + 3])
        np.testing.assert_array_equal(noise[1][3], session.run(want))


def evaluate(draw, core, index, step):
    """Returns what a core draws in a step."""
    needed = {op.name for op in behind(draw)} | {draw.name}
    definition = tf.GraphDef()
    for node in draw.graph.as_graph_def().node:
        if node.name in needed:
            kept = definition.node.add()
            kept.CopyFrom(node)
            kept.attr.pop("_tpu_replicate", None)
            del kept.input[:]
            kept.input.extend(name for name in node.input if not name.startswith("^"))
    (steps,) = [op for op in behind(draw) if op.type == "ReadVariableOp"]
    with tf.Graph().as_default(), tf.Session() as session:
        values = {
            f"{core.name}:0": tf.constant(index),
            f"{steps.name}:0": tf.constant(step, "int64"),
        }
        (tensor,) = tf.import_graph_def(definition, values, [draw.outputs[0].name], name="")
        return session.run(tensor)


@pytest.mark.parametrize(
    ("flag", "dtype"),
    [("true", tf.bfloat16), pytest.param("auto", tf.float32, marks=pytest.mark.thorough)],
)
def test_bfloat16_is_for_the_network_alone(searched, flag, dtype):
    graph, body = searched(f"--use_bfloat16={flag}")
    convolutions = [
        op
        for kind in ("Conv2D", "DepthwiseConv2dNative")
        for op in tpu_graphs.everywhere(kind, graph)
    ]
    assert len(convolutions) > 20
    assert {op.outputs[0].dtype for op in convolutions} == {dtype}
    # The accuracy is that of logits as they are: nothing is cast before the largest is chosen.
    largest = {op.inputs[0].dtype for op in tpu_graphs.everywhere("ArgMax", graph)}
    assert dtype in largest <= {dtype, tf.float32}
    # Variables, losses, gradients that meet, and all of the controller stay as they are.
    handles = tpu_graphs.everywhere("VarHandleOp", graph)
    assert tf.bfloat16 not in {op.get_attr("dtype") for op in handles}
    assert {op.inputs[0].dtype for op in tpu_graphs.by_type(body)["CrossReplicaSum"]} == {
        tf.float32
    }


def test_training_alone_goes_through_tpu_estimator_too(patch, monkeypatch, tmp_path):
    keep = Hook()
    monkeypatch.setattr(classifiers, "StopOnSignal", lambda: keep)
    graph, body = build(keep, "train", tmp_path, f"--indices={NETWORK}")
    (metadata,) = tpu_graphs.by_type(graph)["TPUReplicateMetadata"]
    assert metadata.get_attr("num_replicas") == CORES
    ops = tpu_graphs.by_type(body)
    weights = [sum_behind(op.inputs[-1]) for op in ops["ResourceApplyRMSProp"]]
    assert len(set(weights)) == len(weights) > 20
    assert "model/learning_rate" in tags_of(graph)
