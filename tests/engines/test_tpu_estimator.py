"""TPUEstimator on TPUs, with a replicated `model_fn`: its training graph, built without a TPU."""

import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from engines import tpu_graphs, tpu_models

pytestmark = [
    pytest.mark.conformance,
    # TPUEstimator's own.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CORES = 8
BATCH = 16


@pytest.fixture
def cores(monkeypatch):
    """A host that says it has TPU cores."""
    tpu_graphs.pretend_cores(monkeypatch, CORES)


def input_fn(params):
    data = tpu_models.input_fn(params, size=params["batch_size"]).repeat()
    # Feeds for TPUs take no float64.
    return data.map(lambda *batch: tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), batch))


def build(model_fn, directory):
    """Returns the graph that TPUEstimator builds to train `model_fn`."""
    keep = tpu_graphs.Keep()
    estimator = tf.estimator.tpu.TPUEstimator(
        model_fn,
        str(directory),
        tf.estimator.tpu.RunConfig(tpu_config=tf.estimator.tpu.TPUConfig(iterations_per_loop=2)),
        {},
        train_batch_size=BATCH,
    )
    with pytest.raises(tpu_graphs.BuiltError):
        estimator.train(input_fn, steps=4, hooks=[keep])
    return keep.graph


def replicated(model_fn):
    """Returns `model_fn` replicated over this host, as TPUEstimator is to get it."""
    return replicate.replicate_model_fn(model_fn)


def test_a_replicated_model_trains_on_the_cores_of_tpu_estimator(cores, tmp_path):
    seen = {}

    def model_fn(features, labels, mode, params, config):
        seen["towers"] = replicate.num_towers()
        seen["rows"] = features["x"].shape.as_list()[0], params["batch_size"]
        mean = replicate.cross_tower_mean(tf.reduce_mean(features["x"], axis=0))
        features = {"x": features["x"] - mean}
        return tpu_models.make_model_fn(seen=[])(features, labels, mode, params)

    graph = build(replicated(model_fn), tmp_path)
    rows = BATCH // CORES
    assert seen == {"towers": CORES, "rows": (rows, rows)}
    ops = tpu_graphs.by_type(graph)
    (metadata,) = ops["TPUReplicateMetadata"]
    assert metadata.get_attr("num_replicas") == CORES
    # Weights and bias, and the mean in the model.
    sums = sorted(
        list(op.inputs[0].shape) for op in tpu_graphs.everywhere("CrossReplicaSum", graph)
    )
    assert sums == [[1], [3], [3, 1]]
    # The host call gets step and probabilities from every core.
    assert len(ops["OutfeedDequeueTuple"]) == CORES
    for op in ops["OutfeedDequeueTuple"]:
        assert [list(t.shape) for t in op.outputs] == [[1], [rows, 1]]
    assert [list(t.shape) for t in ops["PyFunc"][0].inputs] == [[CORES], [BATCH, 1]]
    for op in tpu_graphs.everywhere(None, graph):
        if tpu_graphs.is_inside(op):
            assert not tpu_graphs.is_for_hosts(op), op


def test_what_is_wrapped_is_the_same_graph(cores, tmp_path):
    def types_of(fn, directory):
        def model_fn(features, labels, mode, params, config):
            return tpu_models.make_model_fn()(features, labels, mode, params)

        graph = build(fn(model_fn), directory)
        return sorted(op.type for op in tpu_graphs.everywhere(None, graph))

    got = types_of(replicated, tmp_path / "wrapped")
    assert got == types_of(lambda model_fn: model_fn, tmp_path / "plain")
    assert len(got) > 100


def test_without_tpus_the_same_code_trains_as_towers(tmp_path):
    seen = []

    def model_fn(features, labels, mode, params):
        seen.append((replicate.num_towers(), params["batch_size"]))
        return tpu_models.make_model_fn()(features, labels, mode, params)

    fn = contract.replicated(model_fn, 2, per_tower_batch_size=False)
    estimator = tpu_models.make_estimator("TPUEstimator", fn, tmp_path, 2)
    estimator.train(tpu_models.input_fn, steps=1)
    assert seen == [(1, 7)]  # Called once, with the whole batch.
