"""`--engine tpu --tpu`: what TPUEstimator builds for 8 cores, without one of them."""

import pytest
import tensorflow.compat.v1 as tf

from engines import tpu_graphs
from examples.classifiers import training as classifiers
from examples.revnet.training import train_eval
from graph_walks import behind
from revnet.revnet_runs import (
    fresh_graph,  # noqa: F401
    settings,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TPUEstimator's own
CORES, ROWS = 8, 4


class Cluster(tf.distribute.cluster_resolver.SimpleClusterResolver):
    """This process as the TPU's host."""

    def __init__(self, tpu, zone, project):
        super().__init__(tf.train.ClusterSpec({}))

    def get_master(self):
        return ""


class Hook(tpu_graphs.Keep):
    """Takes the place of a hook that is a context."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """The graph that training builds, and that of its loop's body."""
    keep = Hook()
    with pytest.MonkeyPatch.context() as patch:
        tpu_graphs.pretend_cores(patch, CORES)
        patch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", Cluster)
        patch.setattr(classifiers, "StopOnSignal", lambda: keep)
        params = settings(
            tmp_path_factory.mktemp("tpu"),
            engine="tpu",
            tpu="my-tpu",
            train_batch_size=ROWS * CORES,
        )
        with pytest.raises(tpu_graphs.BuiltError):
            train_eval.train(params)
    functions = [each.signature.name for each in keep.graph.as_graph_def().library.function]
    bodies = [keep.graph._get_function(name).graph for name in functions]
    (body,) = [body for body in bodies if "CrossReplicaSum" in tpu_graphs.by_type(body)]
    return keep.graph, body


def test_the_cores_compute_nothing_of_the_host(graphs):
    graph, body = graphs
    ops = [op for op in body.get_operations() if op.type != "Placeholder"]  # arguments
    assert len(ops) > 100
    for op in ops:
        assert not tpu_graphs.is_for_hosts(op), op
    (infeed,) = tpu_graphs.by_type(body)["InfeedDequeueTuple"]
    # Rows last, a batch for each core.
    assert [each.shape.as_list() for each in infeed.outputs] == [[8, 8, 1, ROWS], [ROWS, 10]]
    (metadata,) = tpu_graphs.by_type(graph)["TPUReplicateMetadata"]
    assert metadata.get_attr("num_replicas") == CORES


def test_gradients_and_batch_norm_are_summed_over_the_cores(graphs):
    _, body = graphs
    ops = tpu_graphs.by_type(body)
    sums = set(ops["CrossReplicaSum"])
    updates = ops["ResourceApplyMomentum"]
    # Those of the stem, of F and G in two units, and of the head.
    assert len(updates) == 3 + 2 * 2 * 4 + 4
    for op in updates:
        gradient = op.inputs[3].op
        assert sums & {gradient, *behind(gradient)}, op
    # Mean and variance of each layer, over the rows of all cores.
    moving = [op for op in ops["AssignSubVariableOp"] if "moving" in op.inputs[0].name]
    assert len(moving) == 2 * (1 + 2 * 2 + 1)
    assert all(sums & behind(op.inputs[1].op) for op in moving)


def test_the_host_writes_the_scalars(graphs):
    graph, _ = graphs
    outside = tpu_graphs.by_type(graph)
    assert len(outside["OutfeedDequeueTuple"]) == CORES
    assert len(tpu_graphs.everywhere("WriteSummary", graph)) == 3
