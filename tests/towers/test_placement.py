"""`variable_placement='auto'`: what is chosen, and that it changes nothing but the way.

Logical CPU devices count as GPUs, which have memory of their own.
"""

import contextlib
import functools

import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from contract.models import MODELS
from replicate.clusters import Cluster
from replicate.partition import placement
from replicate.reports import transfers

AUTO = {"variable_placement": "auto"}
GPUS = ("/device:GPU:0", "/device:GPU:1")
CPUS = ("/device:CPU:0", "/device:CPU:1")


@pytest.mark.parametrize(
    ("asked", "devices", "places", "replicates", "why"),
    [
        ("consolidation", GPUS, (), False, ""),
        ("round_robin", GPUS, GPUS, False, ""),
        ("replicated", CPUS, CPUS[:1], True, ""),
        ("auto", GPUS, (), True, "so that no weight crosses between GPUs"),
        ("auto", CPUS, (), False, f"since {CPUS[0]} has the host's m"),
        ("auto", [GPUS[0], CPUS[1]], (), False, f"since {CPUS[1]} has"),
    ],
)
def test_what_is_chosen(asked, devices, places, replicates, why):
    chosen = placement.Placement.from_argument(asked, devices, "/gpu:9", Cluster())
    assert (chosen.devices, chosen.consolidation) == (tuple(devices), "/gpu:9")
    assert (chosen.variables, chosen.replicates) == (places, replicates)
    assert chosen.why.startswith(why) and bool(chosen.why) == (asked == "auto")


@pytest.mark.parametrize("asked", ["consolidation", "auto"])
def test_parameter_servers_have_the_variables(asked):
    chosen = placement.Placement.from_argument(asked, GPUS, "/gpu:9", Cluster(has_ps=True))
    assert chosen.variables == ("/job:ps/device:CPU:0",) and not chosen.replicates
    assert chosen.why == ("since variables are on parameter servers" if asked == "auto" else "")


def dense_model(reduction):
    """Returns a `model_fn` of two layers, the second wherever `params` say."""

    def model_fn(features, labels, mode, params):
        x = features
        for name in ("first", "last"):
            place = tf.device(params[name]) if name in params else contextlib.nullcontext()
            with place:
                x = tf.layers.dense(x, 8, tf.nn.tanh, name=name)
        loss = tf.losses.mean_squared_error(labels, x)
        optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(), reduction=reduction)
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def built(reduction, num_towers=3, params=None, **placed):
    """Returns what crosses devices in a step, and the report."""
    with tf.Graph().as_default():
        tf.train.create_global_step()
        model_fn = contract.replicated(dense_model(reduction), num_towers, **placed)
        spec = model_fn(tf.ones([7, 8]), tf.ones([7, 8]), mode="train", params=params or {})
        crossing = transfers.crossing([spec.train_op, spec.loss])
        local = [variable.name for variable in tf.local_variables()]
        crossed = [(t.source, t.destination, t.tensor.name, t.size) for t in crossing]
        return crossed, local, replicate.tower_report()


def links(crossing):
    """Returns what crosses, without the names of tensors."""
    return sorted((source, destination, str(size)) for source, destination, _, size in crossing)


@pytest.mark.parametrize(
    ("reduction", "summed"),
    [("consolidation", "consolidation"), ("round_robin", "round_robin"), ("auto", "round_robin")],
)
def test_on_gpus_it_is_replicas_in_turn(reduction, summed, as_gpus, capsys):
    crossing, local, report = built(reduction, **AUTO)
    as_said, other_local, other = built(summed, variable_placement="replicated")
    # Variables have replicas later, whose operations have other names and places in the graph.
    assert links(crossing) == links(as_said)
    assert sorted(local) == sorted(other_local)
    assert report == other._replace(why="replicas, so that no weight crosses between GPUs")
    assert "placement  'auto': replicas, so that" in capsys.readouterr().out


@pytest.mark.parametrize("reduction", ["consolidation", "round_robin", "auto"])
def test_on_cpus_it_is_the_consolidation_device(reduction):
    crossing, local, report = built(reduction, **AUTO)
    as_said, other_local, other = built("consolidation")
    assert crossing == as_said and local == other_local
    assert report == other._replace(why="on one device, since /device:CPU:0 has the host's memory")


@pytest.mark.parametrize(
    ("where", "summed"), [("consolidation", "consolidation"), ("round_robin", "round_robin")]
)
def test_sums_are_where_variables_are_told_to_be(where, summed):
    assert (
        built("auto", variable_placement=where)[::2] == built(summed, variable_placement=where)[::2]
    )


def test_sums_of_variables_in_one_place_are_there():
    _, _, report = built(
        "auto", params={"first": "/cpu:1", "last": "/cpu:1"}, variable_placement="round_robin"
    )
    assert report.variable_devices == report.summed_on == ("/device:CPU:1",)


@pytest.mark.parametrize("params", [{"first": "/cpu:2"}, {"last": "/cpu:1"}])
def test_what_a_model_places_itself_has_no_replicas(params, as_gpus):
    _, local, _ = built("auto", params=params, **AUTO)
    ((layer, _),) = params.items()
    others = {"first", "last"} - {layer}
    assert {name.split("/")[2] for name in local} == others


MODES = ["consolidation", "auto"]


@pytest.mark.parametrize("reduction", MODES)
@pytest.mark.parametrize("model", ["get_variable", "embedding", "regularized_tf_layers"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_it_trains_as_one_device(model, reduction, optimizer, as_gpus):
    want = contract.record(
        MODELS[model],
        functools.partial(contract.dataset, contract.UNEVEN),
        contract.make_params(optimizer, wrap=replicate.TowerOptimizer),
    )
    wrapped = {"reduction": reduction}
    got = contract.record_towers(
        MODELS[model], contract.UNEVEN, 3, optimizer, wrapped=wrapped, **AUTO
    )
    contract.assert_same_run(got, want)
