"""Batches that wait on the devices are trained as those that come when a step begins."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
import selection
from bodies import matching
from replicate.reports import transfers

pytestmark = pytest.mark.conformance

DEVICES = ["/cpu:0", "/cpu:1", "/cpu:2"]
SGD = tf.train.GradientDescentOptimizer
RANDOM = np.random.RandomState(1)
FRAMES = RANDOM.normal(size=[17, 3])
CLASSES = RANDOM.randint(0, 5, size=17).astype(np.int32)
WORDS = np.array([b"a", b"bcd", b""] * 5 + [b"ef", b"g"])
TARGETS = FRAMES @ [[1.0], [2.0], [3.0]]


def of_all_kinds(batch=7, epochs=2, rows=17):
    """Returns an `input_fn` of batches whose last one is uneven, in an order of its own."""

    def input_fn():
        columns = {"frames": FRAMES, "classes": CLASSES, "words": WORDS}
        columns = {name: column[:rows] for name, column in columns.items()}
        dataset = tf.data.Dataset.from_tensor_slices((columns, TARGETS[:rows]))
        return dataset.shuffle(5, seed=3).batch(batch).repeat(epochs)

    return input_fn


def known(epochs=2):
    """Returns an `input_fn` of batches of six rows, as their shapes say."""

    def input_fn():
        columns = {"frames": FRAMES, "classes": CLASSES, "words": WORDS}
        dataset = tf.data.Dataset.from_tensor_slices((columns, TARGETS))
        return dataset.batch(6, drop_remainder=True).repeat(epochs)

    return input_fn


def composite():
    """Returns batches of a sparse and a ragged tensor, made of a batch of lengths."""

    def parts(lengths, targets):
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(tf.reduce_sum(lengths)), lengths)
        return {"sparse": tf.cast(ragged, tf.float64).to_sparse(), "ragged": ragged}, targets

    lengths = np.array([1, 3, 2, 5, 1, 1, 2, 4, 3, 2, 1], np.int64)
    dataset = tf.data.Dataset.from_tensor_slices((lengths, np.linspace(0, 1, 11)[:, None]))
    return dataset.batch(4).map(parts)


def model_fn(features, labels, mode):
    kernel = tf.get_variable("kernel", [3, 1], tf.float64, tf.zeros_initializer())
    table = tf.get_variable("table", [5], tf.float64, tf.zeros_initializer())
    lengths = tf.cast(tf.strings.length(features["words"]), tf.float64)
    outputs = (
        features["frames"] @ kernel + (tf.gather(table, features["classes"]) + lengths)[:, None]
    )
    loss = tf.reduce_mean(tf.square(labels - outputs), name="loss")
    train_op = replicate.TowerOptimizer(SGD(0.1)).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def composite_fn(features, labels, mode):
    scale = tf.get_variable("scale", [], tf.float64, tf.ones_initializer())
    total = tf.sparse.reduce_sum(features["sparse"], axis=1) * scale
    total += tf.cast(tf.reduce_max(features["ragged"], axis=1), tf.float64) * scale
    loss = tf.reduce_mean(tf.square(labels - 0.01 * total[:, None]))
    train_op = replicate.TowerOptimizer(SGD(0.1)).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Weights(tf.train.SessionRunHook):
    """Keeps the weights after each step."""

    def __init__(self):
        self.steps = []

    def after_run(self, run_context, run_values):
        self.steps.append(run_context.session.run(tf.get_collection("weights")))

    def begin(self):
        for variable in tf.trainable_variables():
            tf.add_to_collection("weights", variable.read_value())


def estimator_of(model, model_dir=None, devices=DEVICES, **kwargs):
    config = tf.estimator.RunConfig(
        tf_random_seed=1, session_config=replicate.session_config(DEVICES), model_dir=model_dir
    )
    if devices:
        kwargs.setdefault("prefetch_to_devices", True)
        model = replicate.replicate_model_fn(model, devices=devices, **kwargs)
    return tf.estimator.Estimator(model, config=config)


def trained(input_fn, model=model_fn, hooks=(), steps=None, **kwargs):
    """Returns the weights after each step."""
    weights = Weights()
    estimator_of(model, **kwargs).train(input_fn, hooks=[weights, *hooks], steps=steps)
    return weights.steps


def assert_same(steps, others):
    assert len(steps) == len(others) > 1
    for step, (own, other) in enumerate(zip(steps, others)):
        for a, b in zip(own, other):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=f"step {step}")


# `test_with_every_placement` trains dynamic batches, and others train known ones.
@pytest.mark.parametrize(
    "kind",
    [
        selection.cell(kind, is_quick=kind in ("composite", "small"))
        for kind in ("dynamic", "known", "composite", "small")
    ],
)
def test_it_trains_as_one_device(kind):
    input_fn, model = {
        "dynamic": (of_all_kinds(), model_fn),
        "known": (known(), model_fn),
        "composite": (composite, composite_fn),
        "small": (of_all_kinds(batch=16, rows=17), model_fn),  # Ends with one row for three towers.
    }[kind]
    assert_same(trained(input_fn, model), trained(input_fn, model, devices=None))


@pytest.mark.parametrize("steps", [2, selection.cell(None, is_quick=False)])
def test_training_goes_on_as_on_one_device(steps, tmp_path):
    """The input begins again, the weights do not; a checkpoint may come from either."""
    found = []
    for devices, later in ((DEVICES, None), (DEVICES, DEVICES), (None, None)):
        directory = str(tmp_path / str(len(found)))
        first = trained(of_all_kinds(), steps=steps, devices=devices, model_dir=directory)
        again = trained(of_all_kinds(), steps=steps, devices=later, model_dir=directory)
        found.append(first + again)
        names = {name for name, _ in tf.train.list_variables(directory)}
        assert names == {"global_step", "kernel", "table"}
    assert_same(found[0], found[-1])
    assert_same(found[1], found[-1])


class Preempted(tf.train.SessionRunHook):
    """Loses the session, once."""

    def __init__(self):
        self.steps = 0

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps == 2:
            raise tf.errors.AbortedError(None, None, "preempted")


def test_a_session_that_begins_anew_has_its_own_first_batch(tmp_path):
    directories = [str(tmp_path / name) for name in "ab"]
    assert_same(
        trained(of_all_kinds(), hooks=[Preempted()], model_dir=directories[0]),
        trained(of_all_kinds(), hooks=[Preempted()], model_dir=directories[1], devices=None),
    )


def test_no_rows_cross_devices_but_those_of_the_next_step():
    for prefetch_to_devices in (False, True):
        with tf.Graph().as_default():
            tf.train.get_or_create_global_step()
            features, labels = tf.data.make_initializable_iterator(known()()).get_next()
            replicated = replicate.replicate_model_fn(
                model_fn, devices=DEVICES, prefetch_to_devices=prefetch_to_devices
            )
            spec = replicated(features, labels, tf.estimator.ModeKeys.TRAIN)
            kinds = collections.defaultdict(list)
            for transfer in transfers.crossing([spec.train_op, spec.loss]):
                # Not of what TensorFlow places, beside the iterator.
                if transfer.source and transfer.destination:
                    kinds[transfer.kind].append(transfer)
            # Three features and labels, of two towers that are not on the host's first device.
            assert len(kinds["batch"]) == (0 if prefetch_to_devices else 8)
            assert len(kinds["prefetched"]) == (8 if prefetch_to_devices else 0)
            staged = [transfer.taker.type for transfer in kinds["prefetched"]]
            assert set(staged) <= {"AssignVariableOp"}
            # Nor does the loss wait for shards to be made.
            names = [op.name for op in replicate.graphs.ancestors([spec.loss])]
            waits = any(name.startswith("replicate/shard/") for name in names)
            assert waits is not prefetch_to_devices


def test_the_report_tells_of_it():
    trained(known(), steps=1)
    report = replicate.tower_report()
    assert report.kinds["batch"].number == 0
    assert report.kinds["prefetched"].number >= 8
    assert "prefetched" in str(report)


def test_what_is_constant_is_known_when_the_model_is_built():
    def input_fn():
        features, labels = by_iterator()
        return {**features, "width": tf.constant(3)}, labels

    def reshaping(features, labels, mode):
        frames = tf.reshape(features["frames"], [-1, features["width"]])
        assert frames.shape.as_list()[1] == 3
        return model_fn({**features, "frames": frames}, labels, mode)

    assert_same(trained(input_fn, reshaping), trained(input_fn, reshaping, devices=None))


class Sizes(tf.train.SessionRunHook):
    """Keeps the rows of each step, by the name that hooks know."""

    def __init__(self):
        self.found = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs("replicate/shard/batch_size:0")

    def after_run(self, run_context, run_values):
        self.found.append(int(run_values.results))


def test_hooks_see_how_many_rows_the_step_trains():
    sizes = Sizes()
    trained(of_all_kinds(), hooks=[sizes])
    assert sizes.found == [7, 7, 3, 7, 7, 3]


def test_an_input_without_batches_trains_nothing():
    assert trained(of_all_kinds(epochs=0)) == []


def test_two_iterators_end_with_the_shorter_one():
    def input_fn():
        long, short = of_all_kinds(epochs=2)(), of_all_kinds(epochs=1)()
        iterators = [tf.data.make_initializable_iterator(dataset) for dataset in (long, short)]
        for iterator in iterators:
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        (features, _), (_, labels) = (iterator.get_next() for iterator in iterators)
        return features, labels

    steps = trained(input_fn)
    assert len(steps) == 3
    assert_same(steps, trained(input_fn, devices=None))


def test_a_user_s_own_local_init_op_does_not_leave_it_out():
    def with_scaffold(features, labels, mode):
        spec = model_fn(features, labels, mode)
        return spec._replace(scaffold=tf.train.Scaffold(local_init_op=tf.tables_initializer()))

    assert_same(trained(known(), with_scaffold), trained(known(), with_scaffold, devices=None))


def test_all_who_hold_the_users_scaffold_see_the_one_of_the_session():
    class Scaffold(tf.train.Scaffold):
        """One of a codebase."""

    seen = []

    def with_scaffold(features, labels, mode):
        scaffold = Scaffold(init_fn=lambda own, session: seen.append((own, own.saver)))
        return model_fn(features, labels, mode)._replace(scaffold=scaffold)

    trained(known(), with_scaffold)
    ((scaffold, saver),) = seen
    assert isinstance(scaffold, Scaffold)
    assert isinstance(saver, tf.train.Saver)


@pytest.mark.parametrize("per_tower", [False, True])
@pytest.mark.parametrize("placement", ["replicated", "round_robin", "auto"])
def test_with_every_placement(placement, per_tower, as_gpus):
    steps = trained(of_all_kinds(), variable_placement=placement, per_tower=per_tower)
    assert_same(steps, trained(of_all_kinds(), devices=None))


def test_one_device_and_evaluation_ignore_it():
    estimator = estimator_of(model_fn)
    estimator.train(known(), steps=2)
    own = estimator.evaluate(known())["loss"]
    config = tf.estimator.RunConfig(session_config=replicate.session_config(DEVICES))
    replicated = replicate.replicate_model_fn(
        model_fn, devices=DEVICES[:1], prefetch_to_devices=True
    )
    alone = tf.estimator.Estimator(replicated, config=config)
    alone.train(known(), steps=2)
    np.testing.assert_allclose(alone.evaluate(known())["loss"], own, rtol=1e-6)


def test_variables_on_gpus_hold_the_bits_of_what_gpus_have_no_variables_of(fresh_graph):
    tf.train.get_or_create_global_step()
    features, labels = tf.data.make_initializable_iterator(known()()).get_next()
    prefetched = replicate.batch.prefetching.Prefetched((features, labels))
    shards = replicate.batch.sharding.shard(*prefetched.batch, 2, need_row=True)
    staged, _ = prefetched.stage(shards, ["/device:GPU:0", "/device:GPU:1"], "", is_whole=False)
    by_place = collections.Counter(
        (variable.device, variable.dtype.base_dtype) for variable in prefetched.variables
    )
    floats = {"/device:GPU:0": 1, "/device:GPU:1": 1}
    for place in floats:
        assert by_place[place, tf.float32] == 1  # The classes, of int32.
        assert by_place[place, tf.float64] == 2
    assert by_place["/device:CPU:0", tf.string] == 2
    assert staged.features[1]["classes"].dtype == tf.int32
    assert staged.features[1]["classes"].shape.as_list() == [3]


def by_queue():
    return tf.estimator.inputs.numpy_input_fn(
        {"frames": FRAMES, "classes": CLASSES, "words": WORDS}, TARGETS, batch_size=4, shuffle=False
    )()


def by_constants():
    return {"frames": FRAMES, "classes": CLASSES, "words": WORDS}, tf.constant(TARGETS)


def with_a_summary():
    features, labels = by_iterator()
    tf.summary.scalar("mean", tf.reduce_mean(labels))
    return features, labels


def by_iterator():
    iterator = tf.data.make_initializable_iterator(known()())
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator.get_next()


def with_a_saveable():
    iterator = tf.data.make_initializable_iterator(known()())
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)
    return iterator.get_next()


NO_DATASET = (
    "With `prefetch_to_devices`, features and labels must come from the iterator of a "
    "`tf.data.Dataset`, which tells when it ends, but they "
)
TAKEN = (
    "an iterator's batch goes to the model's features and labels alone, since it is the next "
    "step's, but {}…test_prefetching.py…uses it, too. Move it into `model_fn`"
)
SAVED = (
    "With `prefetch_to_devices`, an iterator is one batch past the model, so it must not be saved, "
    "but …Leave out one of the two."
)
OTHERWISE = "`prefetch_to_devices` must be True or False, but is {}. One batch waits on the devices"
ON_TPUS = "TPU cores have queues for the batches of next steps, but `prefetch_to_devices` is True."


@pytest.mark.parametrize(
    "input_fn, rule",
    [
        (by_queue, f"{NO_DATASET}come from …, a QueueDequeue…Let `input_fn` return a dataset"),
        (by_constants, f"{NO_DATASET}do not. Let `input_fn` return a dataset"),
        (with_a_summary, TAKEN.format("mean_1")),
        (with_a_saveable, SAVED),
    ],
)
def test_what_cannot_be_staged_is_an_error(input_fn, rule):
    with pytest.raises(ValueError, match=matching(rule)):
        trained(input_fn)


NOT_PLAIN = (
    "`input_fn` must process an iterator's batch by plain operations, without loops, conditions, "
    "functions, variables and other batches, but …, a …test_prefetching.py…is not plain"
)


def with_a_loop():
    """Only a batch of a known size is one for the counter of a loop, which would not end."""
    features, labels = by_iterator()
    frames = tf.map_fn(lambda row: row + 1.0, features["frames"])
    return {**features, "frames": frames}, labels


def with_a_condition():
    features, labels = by_iterator()
    twice = tf.cond(tf.random.uniform([]) < 0.5, lambda: labels * 2.0, lambda: labels)
    return features, twice


def with_a_variable():
    features, labels = by_iterator()
    step = tf.cast(tf.train.get_global_step(), tf.float64)
    return features, labels * step


def one_after_another():
    features, labels = by_iterator()
    with tf.control_dependencies([labels]):
        _, others = by_iterator()
    return features, others


@pytest.mark.parametrize(
    "input_fn", [with_a_loop, with_a_condition, with_a_variable, one_after_another]
)
def test_what_is_made_of_a_batch_is_made_by_plain_operations(input_fn):
    with pytest.raises(ValueError, match=matching(NOT_PLAIN)):
        trained(input_fn)


class Beside(tf.train.SessionRunHook):
    """Runs something of a session by itself before or after each step."""

    def __init__(self, make, when="before_run"):
        self._make, self._when = make, when

    def begin(self):
        self._fetched = self._make()

    def before_run(self, run_context):
        if self._when == "before_run":
            run_context.session.run(self._fetched)

    def after_run(self, run_context, run_values):
        if self._when == "after_run":
            run_context.session.run(self._fetched)


def initializer():
    operations = tf.get_default_graph().get_operations()
    return [op for op in operations if op.type == "MakeIterator"]


@pytest.mark.parametrize(
    ("make", "when", "state"),
    [
        (lambda: "loss:0", "before_run", 2),  # On one device, that takes a batch of its own.
        (initializer, "after_run", 0),
        (tf.local_variables_initializer, "after_run", 0),
    ],
)
def test_no_batch_is_trained_twice_nor_left_out_in_silence(make, when, state):
    rule = "each run of a session that takes a batch must run the train operation"
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{rule}.*The state is.*{state}"):
        trained(of_all_kinds(), hooks=[Beside(make, when)])


@pytest.mark.parametrize("name", ["IteratorGetNext:3", "labels:0"])
def test_hooks_do_not_see_the_next_batch(name):
    def input_fn():
        features, labels = by_iterator()
        return features, tf.identity(labels, name="labels")

    class Fetching(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(name)

    with pytest.raises(ValueError, match="has been marked as not fetchable"):
        trained(input_fn, hooks=[Fetching()])


@pytest.mark.parametrize("by_hook", [False, True])
def test_what_takes_the_iterators_own_output_is_an_error(by_hook):
    def take():
        return tf.identity(tf.get_default_graph().get_tensor_by_name("IteratorGetNext:3"), "taker")

    def takes_it(features, labels, mode):
        take()
        return model_fn(features, labels, mode)

    hooks = [Beside(take)] if by_hook else []
    with pytest.raises(ValueError, match=matching(TAKEN.format("taker"))):
        trained(by_iterator, model_fn if by_hook else takes_it, hooks=hooks)


def test_constants_of_a_batch_are_rows_as_others():
    def input_fn():
        features, labels = by_iterator()
        with tf.control_dependencies([labels]):
            classes = tf.constant([1, 2, 3, 4, 0, 1])
        return {**features, "classes": classes}, labels

    assert_same(trained(input_fn), trained(input_fn, devices=None))


class Saving(tf.train.SessionRunHook):
    """Saves iterators, as TensorFlow's hook does, which is gone with the Estimator since 2.16."""

    def __init__(self, estimator):
        pass

    def begin(self):
        for iterator in tf.get_collection("iterators"):
            tf.raw_ops.SerializeIterator(resource_handle=iterator)


@pytest.mark.parametrize("theirs", [False, True])
def test_an_iterator_that_a_hook_saves_is_an_error(theirs, tmp_path):
    estimator = estimator_of(model_fn, str(tmp_path))
    name = "CheckpointInputPipelineHook"
    hook = getattr(tf.data.experimental, name, Saving)(estimator) if theirs else Saving(estimator)
    with pytest.raises(ValueError, match=matching(SAVED)):
        estimator.train(known(), hooks=[hook])


def test_a_model_that_takes_the_next_batch_is_an_error():
    def input_fn():
        features, labels = by_iterator()
        tf.identity(labels * 2, name="of_next")
        return features, labels

    def takes_it(features, labels, mode):
        other = tf.get_default_graph().get_tensor_by_name("of_next:0")
        tf.identity(other, name="taker")
        return model_fn(features, labels, mode)

    with pytest.raises(ValueError, match=matching(TAKEN.format("taker"))):
        trained(input_fn, takes_it)


class Hasty(tf.train.SessionRunHook):
    """Runs a step before there is a batch."""

    def after_create_session(self, session, coord):
        session.run("loss:0")


def test_a_step_before_there_is_a_batch_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="or a step was run before that"):
        trained(known(), hooks=[Hasty()])


def test_an_error_of_the_input_is_raised():
    def input_fn():
        def checked(features, labels):
            return features, tf.debugging.check_numerics(labels, "no label")

        labels = TARGETS.copy()
        labels[14] = np.nan
        columns = {"frames": FRAMES, "classes": CLASSES, "words": WORDS}
        return tf.data.Dataset.from_tensor_slices((columns, labels)).batch(7).map(checked)

    with pytest.raises(tf.errors.InvalidArgumentError, match="no label"):
        trained(input_fn)


@pytest.mark.parametrize("value", [2, None, "auto"])
def test_it_is_true_or_false(value):
    with pytest.raises(TypeError, match=matching(OTHERWISE.format(repr(value)))):
        replicate.replicate_model_fn(model_fn, prefetch_to_devices=value)


def test_tpus_have_queues(monkeypatch):
    monkeypatch.setattr(replicate.devices, "check_exist", lambda *args, **kwargs: None)
    with pytest.raises(ValueError, match=matching(ON_TPUS)):
        replicate.replicate_model_fn(model_fn, devices=["/tpu:0"], prefetch_to_devices=True)
