"""The options of `replicate.Reduction`: which devices sum gradients, and what crosses for it.

Tensors that cross are counted in the graph, and compared with those of TensorFlow's partitions.
"""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from bodies import matching
from contract.models import MODELS
from replicate.reduction import nccl, transport
from replicate.reports import transfers

ROUND_ROBIN = {"variable_placement": "round_robin"}
REPLICATED = {"variable_placement": "replicated"}
# By choice: arguments of `replicate_model_fn`, and `reduction`.
CHOICES = {
    "consolidation": ({}, "consolidation"),
    "unpacked": ({}, replicate.Reduction(pack_bytes=0)),
    "round_robin": (ROUND_ROBIN, "round_robin"),
    "unpacked_round_robin": (ROUND_ROBIN, replicate.Reduction("round_robin", pack_bytes=0)),
    "float16": ({}, replicate.Reduction(communication_dtype=tf.float16)),
    "replicated": (REPLICATED, "consolidation"),
    "replicated_in_turn": (REPLICATED, "round_robin"),
    "replicated_float16": (REPLICATED, replicate.Reduction(communication_dtype=tf.float16)),
    "bfloat16": (ROUND_ROBIN, replicate.Reduction("round_robin", communication_dtype="bfloat16")),
}
_EXACT = ("round_robin", "replicated", "replicated_in_turn")
LAYERS, WIDTH = 6, 32  # Kernels of 4 KB in float32, biases of 128 bytes.
KERNEL, BIAS = WIDTH * WIDTH * 4, WIDTH * 4


def dense_layers(reduction, **kwargs):
    """Returns a `model_fn` of layers that all have the same shape."""

    def model_fn(features, labels, mode):
        x = features
        for _ in range(LAYERS):
            x = tf.layers.dense(x, WIDTH, tf.nn.tanh, kernel_initializer=tf.orthogonal_initializer)
        loss = tf.reduce_mean(tf.squared_difference(x, labels))
        optimizer = replicate.TowerOptimizer(
            tf.train.MomentumOptimizer(0.1, 0.9), reduction=reduction, **kwargs
        )
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def built(choice, num_towers, **kwargs):
    """Builds those layers; returns the spec."""
    placed, reduction = CHOICES[choice]
    tf.train.get_or_create_global_step()
    rows = tf.random.stateless_normal([2 * num_towers, WIDTH], [1, 2])
    model_fn = contract.replicated(dense_layers(reduction, **kwargs), num_towers, **placed)
    return model_fn(rows, tf.sin(rows), mode="train")


def gradients_crossing(spec):
    """Returns the number of transfers of gradients, and their bytes, by link."""
    numbers, sizes = collections.Counter(), collections.Counter()
    for transfer in transfers.crossing([spec.train_op]):
        if transfer.kind == "gradients" and transfer.size > 4:  # Not weights and scales.
            numbers[transfer.source, transfer.destination] += 1
            sizes[transfer.source, transfer.destination] += transfer.size
    return numbers, sizes


ONE_OF = "`reduction` must be one of …, or a `replicate.Reduction`"
WAYS = "`where` of a reduction must be one of …"
BYTES = "must be a number of bytes, an integer of at least 0"
NARROWER = "`communication_dtype` must be tf.float16 or tf.bfloat16, which are narrower"
ORIGINAL_TYPE = "NCCL sums gradients in their original type, but `communication_dtype` is"
ALL_ON_ONE = "gradients are summed on their variables' devices, but all"
GPUS = "`reduction='nccl'` sums gradients over GPUs, and the consolidation device must be one of "
GPUS += "them"
WRONG = "NCCL must give exact sums of known numbers, but on"
ELSEWHERE = "which must be in this process, but are on "


def device(index):
    return f"/device:CPU:{index}"


ALL = LAYERS * (KERNEL + BIAS)


@pytest.mark.parametrize("num_towers", [2, selection.cell(4, is_quick=False), 8])
@pytest.mark.parametrize(
    ("choice", "number", "size"),
    [
        ("consolidation", 1, ALL),
        ("unpacked", 2 * LAYERS, ALL),
        ("float16", 1, ALL // 2),
    ],
)
def test_one_device_receives_all_gradients(choice, number, size, num_towers):
    numbers, sizes = gradients_crossing(built(choice, num_towers))
    links = {(device(index), device(0)) for index in range(1, num_towers)}
    assert set(numbers) == links
    assert set(numbers.values()) == {number}
    assert set(sizes.values()) == {size}


@pytest.mark.parametrize("num_towers", [2, selection.cell(4, is_quick=False), 8])
@pytest.mark.parametrize(
    ("choice", "packed", "share"),
    [("round_robin", True, 1), ("unpacked_round_robin", False, 1), ("bfloat16", True, 2)],
)
def test_each_device_receives_the_gradients_of_its_variables(choice, packed, share, num_towers):
    spec = built(choice, num_towers)
    numbers, sizes = gradients_crossing(spec)
    on, held = collections.Counter(), collections.Counter()
    for variable in tf.trainable_variables():
        on[variable.device] += 1
        held[variable.device] += variable.shape.num_elements() * 4
    assert len(on) == min(num_towers, 2 * LAYERS) and set(on) <= set(map(device, range(num_towers)))
    links = [(i, j) for i in on for j in map(device, range(num_towers)) if i != j]
    assert dict(numbers) == {(j, i): 1 if packed else on[i] for i, j in links}
    assert dict(sizes) == {(j, i): held[i] // share for i, j in links}


@pytest.mark.parametrize("num_towers", [2, selection.cell(4, is_quick=False), 8])
def test_replicas_in_turn_share_the_sums_and_get_all_of_them(num_towers):
    spec = built("replicated_in_turn", num_towers)
    numbers, sizes = collections.Counter(), collections.Counter()
    for transfer in transfers.crossing([spec.train_op]):
        if transfer.kind in ("gradients", "sums") and transfer.size > 4:
            numbers[transfer.kind, transfer.source, transfer.destination] += 1
            sizes[transfer.kind] += transfer.size
    # A sum comes in one pack from each other device.
    devices = list(map(device, range(num_towers)))
    links = [(i, j) for i in devices for j in devices if i != j]
    assert {key[1:] for key in numbers if key[0] == "sums"} == set(links)
    assert {key: n for key, n in numbers.items() if key[0] == "gradients"} == {
        ("gradients", *link): 1 for link in links
    }
    assert sizes == dict.fromkeys(("gradients", "sums"), (num_towers - 1) * ALL)


@pytest.mark.parametrize("choice", CHOICES)
def test_what_is_counted_is_what_tensorflow_sends(choice):
    """The graph is run as it is, without what a session makes of it before."""
    spec = built(choice, 2)
    counted, constants = collections.Counter(), collections.Counter()
    for transfer in transfers.crossing([spec.train_op]):
        if transfer.source:
            counted[transfer.source, transfer.destination] += 1
            # Newer ones copy small constants to the devices, instead of sending them.
            is_constant = transfer.tensor.op.type == "Const"
            constants[transfer.source, transfer.destination] += is_constant
    config = contract.session_config(2)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        metadata = tf.RunMetadata()
        options = tf.RunOptions(output_partition_graphs=True)
        session.run(spec.train_op, options=options, run_metadata=metadata)
    sent = collections.Counter()
    for graph in metadata.partition_graphs:
        signals = {node.name for node in graph.node if _is_empty(node)}
        for node in graph.node:
            # TensorFlow also sends signals to operations that wait for others.
            if node.op in ("_Send", "_HostSend") and node.input[0] not in signals:
                ends = [node.attr[f"{end}_device"].s.decode() for end in ("send", "recv")]
                sent[tuple(end[end.index("/device") :] for end in ends)] += 1
    assert set(sent) == set(counted)
    for link, number in counted.items():
        assert number - constants[link] <= sent[link] <= number


def _is_empty(node):
    """Whether a node is a constant without elements."""
    return node.op == "Const" and tf.make_ndarray(node.attr["value"].tensor).size == 0


@pytest.mark.parametrize(
    ("model", "choice"),
    [
        # A sixth of the models with each choice, another sixth with the next one. `contract/`
        # trains all models, with variables on one device and in turn.
        selection.cell(model, choice, id=f"{model}-{choice}", is_quick=(i + j) % 6 == 0)
        for i, model in enumerate(MODELS)
        for j, choice in enumerate(_EXACT)
        # It is refused, see `test_replicas.py`.
        if model != "sync_replicas" or choice == "round_robin"
    ],
)
def test_towers_train_as_one_device(model, choice):
    placed, reduction = CHOICES[choice]
    optimizer = ("momentum", "adam")[len(model) % 2]
    want = contract.record_one_device(MODELS[model], contract.UNEVEN, optimizer)
    got = contract.record_towers(
        MODELS[model], contract.UNEVEN, 3, optimizer, wrapped={"reduction": reduction}, **placed
    )
    contract.assert_same_run(got, want, 1e-5 if model == "float32" else 1e-9)


@pytest.mark.parametrize("communication_dtype", [tf.float16, tf.bfloat16])
def test_what_crosses_in_half_precision_is_summed_in_float32(communication_dtype):
    """1 + 2^-12 is 1 in half precision: what is not on the sum's device loses its last digits."""
    fine, coarse = 1.0 + 2.0**-12, 1.0
    got = reduced(
        [fine, 3 * fine, fine], replicate.Reduction(communication_dtype=communication_dtype)
    )
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.full(3, fine + 3 * coarse + coarse, np.float32))


def test_rows_cross_in_half_precision_and_their_indices_as_they_are():
    fine, coarse = 1.0 + 2.0**-12, 1.0
    rows = replicate.Reduction(communication_dtype=tf.bfloat16)
    indices, values = reduced([fine, fine, fine], rows, rows=[4, 2**30, 4])
    np.testing.assert_array_equal(indices, [4, 2**30, 4])
    np.testing.assert_array_equal(values.ravel(), [fine, coarse, coarse])


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize(("scale", "expected"), [(None, 1e-9), (2.0**15, 3e-9)])
def test_in_float16_gradients_cross_multiplied_by_the_loss_scale(scale, expected, by_hand):
    """Without, those below 6e-8 are lost."""
    got = reduced(
        [1e-9] * 3, replicate.Reduction(communication_dtype=tf.float16), scale, by_hand=by_hand
    )
    np.testing.assert_allclose(got, expected, rtol=0.02)


def reduced(values, reduction, scale=None, rows=None, by_hand=True):
    """Sums gradients of three towers, filled with `values`, by an optimizer; returns the sum.

    They are made `by_hand`, or those of a loss.
    """
    applied = []

    class Keep(tf.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            applied.extend(grads_and_vars)
            return super().apply_gradients(applied, *args, **kwargs)

    def model_fn(features, labels, mode):
        value = tf.gather(tf.constant(values, tf.float32), replicate.tower_index())
        if rows is None:
            variable = tf.get_variable("w", [3])
            gradient = tf.fill([3], value)
        else:
            variable = tf.get_variable("w", [8, 1])
            row = tf.gather(tf.constant(rows), tf.reshape(replicate.tower_index(), [1]))
            gradient = tf.IndexedSlices(tf.fill([1, 1], value), row, tf.constant([8, 1]))
        optimizer = replicate.TowerOptimizer(Keep(1.0), reduction=reduction, loss_scale=scale)
        if by_hand:
            train_op = optimizer.apply_gradients([(gradient, variable)])
        else:
            train_op = optimizer.minimize(value * tf.reduce_sum(variable))
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features), train_op=train_op)

    contract.replicated(model_fn, 3, contract.SUM, per_tower=True)(
        tf.ones([3]), tf.ones([3]), mode="train"
    )
    with tf.Session(config=contract.session_config(3)) as session:
        session.run(tf.global_variables_initializer())
        gradient = applied[0][0]
        if rows is not None:
            return session.run([gradient.indices, gradient.values])
        return session.run(gradient)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, f"{ONE_OF}…but is None"),
        (["consolidation"], f"{ONE_OF}…but is ['consolidation']"),
        ("packed", f"{WAYS}, but `reduction` has 'packed'"),
        (replicate.Reduction("ring"), f"{WAYS}, but `reduction` has 'ring'"),
        (replicate.Reduction(small_bytes=-1), f"`small_bytes` {BYTES}, but is -1"),
        (replicate.Reduction(pack_bytes=1e6), f"`pack_bytes` {BYTES}, but is 1000000.0"),
        (replicate.Reduction(pack_bytes=True), f"`pack_bytes` {BYTES}, but is True"),
        (
            replicate.Reduction(communication_dtype=tf.float32),
            f"{NARROWER}…but is {tf.float32!r}",
        ),
        (
            replicate.Reduction("nccl", communication_dtype="bfloat16"),
            f"{ORIGINAL_TYPE} 'bfloat16'. Leave it or",
        ),
        (replicate.Reduction(communication_dtype="half"), None),
        (replicate.Reduction(communication_dtype="nonsense"), f"{NARROWER}…but is 'nonsense'"),
    ],
)
def test_invalid_reductions(given, text):
    if text is None:
        assert replicate.TowerOptimizer(tf.train.AdamOptimizer(), reduction=given)
        return
    with pytest.raises((TypeError, ValueError), match=matching(text)):
        replicate.TowerOptimizer(tf.train.AdamOptimizer(), reduction=given)


def test_variables_in_other_processes_are_no_choice():
    with tf.device("/job:ps/task:0/cpu:0"):
        variables = [tf.get_variable(name, [2]) for name in "ab"]
    text = f"{ELSEWHERE}/job:ps/task:0/device:CPU:0. A worker sends one gradient"
    with pytest.raises(ValueError, match=matching(text)):
        transport.check(
            replicate.Reduction("round_robin"),
            variables,
            ["/device:CPU:0", "/device:CPU:1"],
            "/device:CPU:0",
            False,
        )


def test_variables_that_are_all_in_one_place_are_no_choice():
    text = (
        f"{ALL_ON_ONE} {2 * LAYERS} variables are on /device:CPU:0…variable_placement='round_robin'"
    )
    model_fn = contract.replicated(dense_layers("round_robin"), 2)
    with pytest.raises(ValueError, match=matching(text)):
        model_fn(tf.ones([2, WIDTH]), tf.ones([2, WIDTH]), mode="train")


def test_trained_variables_may_come_to_one_place_in_turn():
    def model_fn(features, labels, mode):
        names = ["a", "not_trained", "b"]
        a, _, b = (tf.get_variable(one, [WIDTH], trainable=one in "ab") for one in names)
        assert a.device == b.device
        optimizer = replicate.TowerOptimizer(
            tf.train.GradientDescentOptimizer(0.1), reduction="round_robin"
        )
        loss = tf.reduce_mean(features * a * b - labels)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    model_fn = contract.replicated(model_fn, 2, **ROUND_ROBIN)
    model_fn(tf.ones([2, WIDTH]), tf.ones([2, WIDTH]), mode="train")


def test_nccl_is_for_gpus(monkeypatch):
    model_fn = contract.replicated(dense_layers("nccl"), 2)
    with pytest.raises(
        ValueError, match=matching(f"{GPUS}, but towers are on /device:CPU:0, /dev")
    ):
        model_fn(tf.ones([2, WIDTH]), tf.ones([2, WIDTH]), mode="train")
    see_gpus(monkeypatch, 2)
    model_fn = replicate.replicate_model_fn(
        dense_layers("nccl"), devices=["/gpu:0", "/gpu:1"], consolidation_device="/cpu:0"
    )
    with pytest.raises(ValueError, match=matching(f"{GPUS}…and it is /device:CPU:0. Leave")):
        model_fn(tf.ones([2, WIDTH]), tf.ones([2, WIDTH]), mode="train")


def see_gpus(monkeypatch, number):
    """Lets TensorFlow list GPUs that are not there."""
    make = collections.namedtuple("PhysicalDevice", ["name", "device_type"])
    devices = [make(f"/physical_device:GPU:{i}", "GPU") for i in range(number)]
    monkeypatch.setattr(tf.config.experimental, "list_physical_devices", lambda kind=None: devices)


def test_nccl_reduces_a_pack_on_all_gpus(monkeypatch, fresh_graph):
    see_gpus(monkeypatch, 3)
    model_fn = replicate.replicate_model_fn(dense_layers("nccl"))
    spec = model_fn(tf.ones([6, WIDTH]), tf.ones([6, WIDTH]), mode="train")
    reduced = [op for op in fresh_graph.get_operations() if op.type == "NcclAllReduce"]
    assert [op.device for op in reduced] == [f"/device:GPU:{index}" for index in range(3)]
    assert len({op.get_attr("shared_name") for op in reduced}) == 1
    running = transfers.ancestors([spec.train_op])
    assert set(reduced) <= running  # Each waits for all.
    assert "CheckHook" in [type(hook).__name__ for hook in spec.training_hooks]


@pytest.mark.parametrize("is_right", [True, False])
def test_nccl_is_checked_before_the_first_step(monkeypatch, is_right):
    """Where there are no GPUs, something else takes NCCL's part."""

    def all_reduce(tensors, devices, name):
        return [tf.add_n(tensors[: None if is_right else -1])] * len(devices)

    monkeypatch.setattr(nccl, "all_reduce", all_reduce)
    monkeypatch.setattr(nccl, "check_devices", lambda *devices: None)
    model, wrapped = MODELS["embedding"], {"reduction": "nccl"}
    if not is_right:
        with pytest.raises(RuntimeError, match=matching(f"{WRONG}…999 of 1000 sums are wrong")):
            contract.record_towers(model, contract.UNEVEN, 3, wrapped=wrapped)
        return
    got = contract.record_towers(model, contract.UNEVEN, 3, wrapped=wrapped)
    contract.assert_same_run(got, contract.record_one_device(model, contract.UNEVEN))
