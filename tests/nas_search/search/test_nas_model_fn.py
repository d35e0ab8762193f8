"""The search step: N towers against one device that evaluates the same N networks, step by step."""

import functools
import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from examples.nas_search import controller, cost_model_lib, mobile_classifier_factory, schema_io
from examples.nas_search.search import model_fn, search_costs, search_settings
from graph_walks import behind

TRAIN = tf.estimator.ModeKeys.TRAIN
STEPS = 5
ROWS = {"train": 12, "validation": 24}


def make_params(directory, **changes):
    """The settings of a short search: warm-up for 2 steps, the controller learns from step 2 on."""
    given = {
        "preset": "digits",
        "train_batch_size": ROWS["train"],
        "rl_batch_size_multiplier": 2.0,
        "max_global_step": STEPS,
        "rl_delay_steps_fraction": 0.4,
        "increase_ops_warmup_steps_fraction": 0.4,
        "increase_filters_warmup_steps_fraction": 0.4,
        "skip_delay_steps_fraction": 0.8,
        "model_learning_rate": 0.5,
        "model_weight_decay": 1e-2,
        "rl_learning_rate": 1.0,
        "rl_entropy_regularization": 0.1,
        "rl_cost_model_target": 0.012,
        "num_towers": 2,
        "seed": 3,
        "checkpoint_dir": str(directory),
        **changes,
    }
    return search_settings.resolve(**given)


def make_batches(seed=0):
    """Returns a batch per step: `{part: images}` and `{part: one-hot labels}`."""
    random = np.random.RandomState(seed)
    return [
        (
            {part: random.rand(rows, 8, 8, 1).astype(np.float32) for part, rows in ROWS.items()},
            {
                part: np.eye(10, dtype=np.float32)[random.randint(10, size=rows)]
                for part, rows in ROWS.items()
            },
        )
        for _ in range(STEPS)
    ]


class Search:
    """The search step of `params` in a graph and session of its own."""

    def __init__(self, params, num_towers):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(1)
            self.feeds = placeholders()
            build = model_fn.model_fn
            if num_towers > 1:
                devices = contract.device_names(num_towers)
                build = replicate.replicate_model_fn(build, devices=devices, per_tower=True)
            self.spec = build(
                features=self.feeds[0], labels=self.feeds[1], mode=TRAIN, params=params
            )
            self.variables = {variable.op.name: variable for variable in tf.global_variables()}
            config = replicate.session_config(contract.device_names(num_towers))
            self.session = tf.Session(config=config)
            self.session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])

    def step(self, batch):
        """Trains on a batch; returns the loss and the variables after it."""
        loss, _ = self.session.run([self.spec.loss, self.spec.train_op], feed(self.feeds, batch))
        return loss, self.state()

    def state(self):
        """Returns the values of all variables by name."""
        return self.session.run(self.variables)


def placeholders(rows=None):
    """Returns features and labels to be fed."""
    rows = rows or ROWS
    return (
        {part: tf.placeholder(tf.float32, [count, 8, 8, 1]) for part, count in rows.items()},
        {part: tf.placeholder(tf.float32, [count, 10]) for part, count in rows.items()},
    )


def feed(feeds, batch):
    """Returns the `feed_dict` of a batch."""
    return dict(zip(tf.nest.flatten(feeds), tf.nest.flatten(batch)))


class Reference:
    """One network at a time on one device; all that joins networks and steps is in NumPy.

    The formulas are those of the facts: RMSProp and Adam are written out here.
    """

    def __init__(self, params, num_networks, state):
        self.params, self.num_networks = params, num_networks
        self.state = dict(state)
        rows = {part: count // num_networks for part, count in ROWS.items()}
        with tf.Graph().as_default():
            self.feeds = placeholders(rows)
            self.seed = tf.placeholder(tf.int32, [2])
            self.probability = tf.placeholder(tf.float32, [])
            self.may_skip = tf.placeholder(tf.bool, [])
            space = mobile_classifier_factory.get_model_spec(params["ssd"])
            with tf.variable_scope("rl_controller"):
                network, draw = controller.independent_sample(
                    space,
                    self.probability,
                    self.probability,
                    seed=self.seed,
                    may_skip=self.may_skip,
                )
            self.logits = tf.trainable_variables()
            self.cost = cost_model_lib.estimate_cost(
                cost_model_lib.coupled_tf_features(network), search_costs.load(params)[0].model
            )
            model = mobile_classifier_factory.get_model_for_search(
                network,
                kernel_regularizer=lambda w: (
                    params["model_weight_decay"] / 2 * tf.reduce_sum(w * w)
                ),
                num_classes=10,
            )
            with tf.variable_scope("model"):
                model.build([None, 8, 8, 1])
            self.weights = model.trainable_variables()
            images, labels = self.feeds
            outputs, _ = model.apply(images["train"], True)
            smooth = 0.9 * labels["train"] + 0.1 / 10
            losses = -tf.reduce_sum(smooth * tf.nn.log_softmax(outputs), axis=1)
            self.loss = tf.reduce_mean(losses) + model.regularization_loss()
            self.gradients = tf.gradients(self.loss, self.weights)
            outputs, _ = model.apply(images["validation"], False)
            hits = tf.equal(tf.argmax(outputs, 1), tf.argmax(labels["validation"], 1))
            self.accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))
            self.score = tf.gradients(draw["sample_log_prob"], self.logits)
            self.entropy_gradient = tf.gradients(draw["entropy"], self.logits)
            self.session = tf.Session()

    def run(self, fetches, step, network, batch):
        """Runs the part of a step that is about one network, with the weights as they are."""
        part = [np.split(array, self.num_networks)[network] for array in tf.nest.flatten(batch)]
        values = {v: self.state[v.op.name] for v in self.weights + self.logits}
        for variable, value in values.items():
            variable.load(value, self.session)
        feeds = dict(zip(tf.nest.flatten(self.feeds), part))
        feeds[self.seed] = [self.params["seed"], step * self.num_networks + network]
        warmup = self.params["increase_ops_warmup_steps"]
        feeds[self.may_skip] = step >= self.params["skip_delay_steps"]
        feeds[self.probability] = max(0.0, 1 - step / warmup) if warmup else 0.0
        return self.session.run(fetches, feeds)

    def step(self, step, batch):
        """Trains on a batch; returns the loss."""
        params, state, each = self.params, self.state, range(self.num_networks)
        runs = [self.run([self.loss, self.gradients], step, i, batch) for i in each]
        loss = np.mean([run[0] for run in runs])
        rate = params["model_learning_rate"] * (1 + math.cos(math.pi * step / STEPS)) / 2
        for variable, *gradients in zip(self.weights, *(run[1] for run in runs)):
            name = variable.op.name
            g = np.mean(gradients, axis=0)
            ms = 0.9 * state[name + "/RMSProp"] + 0.1 * g**2
            momentum = 0.9 * state[name + "/RMSProp_1"] + rate * g / np.sqrt(ms + 1.0)
            state.update({name + "/RMSProp": ms, name + "/RMSProp_1": momentum})
            state[name] = state[name] - momentum

        fetches = [self.accuracy, self.cost, self.score, self.entropy_gradient]
        runs = [self.run(fetches, step, i, batch) for i in each]
        rewards = [
            accuracy
            + params["rl_cost_model_exponent"] * abs(cost / params["rl_cost_model_target"][0] - 1)
            for accuracy, cost, _, _ in runs
        ]
        mean = "exponential_moving_average"
        numerator = 0.95 * state[mean + "/numerator"] + 0.05 * np.mean(rewards)
        denominator = 0.95 * state[mean + "/denominator"] + 0.05
        state.update({mean + "/numerator": numerator, mean + "/denominator": denominator})
        advantages = [reward - numerator / denominator for reward in rewards]

        # β1 is 0: m is the mean gradient, and its correction is 1.
        progress = (step - 2) / (STEPS - 2)
        rate = 0.0 if step < 2 else params["rl_learning_rate"] * 10**progress
        for index, variable in enumerate(self.logits):
            name = variable.op.name
            gradients = [-a * run[2][index] for a, run in zip(advantages, runs)]
            v = 0.999 * state[name + "/v"] + 0.001 * np.mean(np.square(gradients), axis=0)
            m = np.mean(gradients, axis=0)
            bias = math.sqrt(1 - 0.999 ** (step + 1))
            entropy = -0.1 * np.mean([run[3][index] for run in runs], axis=0)
            state.update({name + "/v": v, name + "/m": m})
            state[name] = state[name] - rate * (bias * m / (np.sqrt(v) + 1e-8) + entropy)
        state["global_step"] = step + 1
        state["apply_adam/t"] = step + 1
        return loss


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns a function that makes the search of some towers, and its reference, once."""

    @functools.lru_cache(maxsize=None)
    def make(num_towers):
        params = make_params(tmp_path_factory.mktemp("towers"), num_towers=num_towers)
        search = Search(params, num_towers)
        return search, Reference(params, num_towers, search.state()), search.state()

    make(2)
    return make


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The directory of a search on one device, and the search."""
    directory = tmp_path_factory.mktemp("alone")
    return directory, Search(make_params(directory, use_gradient_sync_barrier=True), 1)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A search on one device without a barrier, whose draws have no seed."""
    params = make_params(tmp_path_factory.mktemp("bare"), use_gradient_sync_barrier=False)
    return Search({**params, "seed": None}, 1)


@pytest.mark.parametrize("num_towers", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_towers_are_one_device_that_evaluates_the_same_networks(made, num_towers):
    search, reference, start = made(num_towers)
    for name, variable in search.variables.items():
        variable.load(start[name], search.session)
    reference.state = dict(start)
    for step, batch in enumerate(make_batches()):
        loss, state = search.step(batch)
        np.testing.assert_allclose(loss, reference.step(step, batch), rtol=1e-5)
        assert state.keys() == reference.state.keys()
        for name, value in state.items():
            want = reference.state[name]
            scale = max(np.max(np.abs(want)), 1e-3)
            np.testing.assert_allclose(value, want, rtol=0, atol=1e-4 * scale, err_msg=name)
    still = {name for name in start if np.all(start[name] == state[name])}
    # A choice with one option never moves, and one that was not active has not yet.
    assert all(name.startswith("rl_controller") for name in still)


@pytest.mark.thorough
def test_a_resumed_search_draws_what_the_uninterrupted_one_would(tmp_path):
    batches, params = make_batches(), make_params(tmp_path)
    whole, halves = Search(params, 2), [Search(params, 2), Search(params, 2)]
    for batch in batches:
        want = whole.step(batch)
    for batch in batches[:2]:
        _, state = halves[0].step(batch)
    for name, variable in halves[1].variables.items():
        variable.load(state[name], halves[1].session)
    for batch in batches[2:]:
        got = halves[1].step(batch)
    assert got[0] == want[0]
    for name, value in want[1].items():
        np.testing.assert_array_equal(got[1][name], value, err_msg=name)


@pytest.mark.parametrize("mode", [tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT])
def test_only_training_is_defined(tmp_path, mode):
    with pytest.raises(NotImplementedError, match=f"'{mode}'.*nas_search train"):
        model_fn.model_fn({}, {}, mode, {"checkpoint_dir": str(tmp_path)})


def test_the_space_is_written_beside_the_checkpoints(alone):
    space = mobile_classifier_factory.get_model_spec("digits_search")
    assert schema_io.load(str(alone[0]), "model_spec.json") == space


PUBLISHED_TAGS = {
    *("rlcontroller/increase_ops_prob", "rlcontroller/increase_filters_prob"),
    *("model/loss", "model/empirical_loss", "model/regularization_loss", "model/learning_rate"),
    *(f"rlcontroller/{name}" for name in ("empirical_loss", "entropy_loss", "entropy")),
    *(f"rlcontroller/{name}" for name in ("validation_accuracy", "reward", "step_baseline")),
    *(f"rlcontroller/{name}" for name in ("baseline", "advantage", "log_prob", "learning_rate")),
}
COST_TAGS = {f"rlcontroller/{name}" for name in ("estimated_cost", "cost_ratio", "cost_adjustment")}


@pytest.mark.parametrize("with_cost", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_the_published_scalars_are_reported(made, tmp_path, with_cost):
    if with_cost:
        search, _, _ = made(2)
    else:
        search = Search(make_params(tmp_path, enable_cost_model=False), 2)
    with search.graph.as_default():
        merged = tf.summary.merge_all()
        progress = [
            op.name
            for op in search.graph.get_operations()
            if op.name.startswith("search/progress/")
        ]
    batch = feed(search.feeds, make_batches()[0])
    summary = tf.Summary.FromString(search.session.run(merged, batch))
    values = {value.tag: value.simple_value for value in summary.value}
    logits = {tag for tag in values if tag.startswith(("rlpathlogits/", "rltaglogits/"))}
    # 14 choices: two widths with one option each, two with three, and ten with two.
    assert len(logits) == 2 * (1 + 3 + 3 + 1 + 10 * 2)
    assert {"rlpathlogits/blocks/0/filters/0", "rltaglogits/op_indices_0/1"} <= logits
    assert set(values) - logits == PUBLISHED_TAGS | (COST_TAGS if with_cost else set())
    assert {"search/progress/reward", "search/progress/entropy"} <= set(progress)
    assert ("search/progress/cost_ratio" in progress) == with_cost


def test_scalars_are_means_over_towers(made):
    search, reference, start = made(2)
    # After the warm-up, which at step 0 gives all towers the same network.
    step, batch = 3, make_batches()[0]
    reference.state = {**start, "global_step": step}
    for name, variable in search.variables.items():
        variable.load(reference.state[name], search.session)
    costs = [reference.run(reference.cost, step, network, batch) for network in range(2)]
    assert costs[0] != costs[1]
    with search.graph.as_default():
        cost = search.session.run("search/progress/estimated_cost:0", feed(search.feeds, batch))
    np.testing.assert_allclose(cost, np.mean(costs), rtol=1e-6)


@pytest.mark.parametrize("barrier", [True, False])
def test_the_barrier_lets_no_gradient_be_used_before_all_exist(alone, bare, barrier):
    search = alone[1] if barrier else bare
    updates = [op for op in search.graph.get_operations() if op.type == "ResourceApplyRMSProp"]
    gradients = [_sources(op.inputs[-1].op) for op in updates]
    assert len(updates) > 10
    every = set().union(*gradients)
    # A gradient alone takes less than all do.
    assert all(len(sources) > 0.9 * len(every) for sources in gradients) == barrier


def _sources(gradient):
    """Returns the operations outside of the optimizer that a gradient is made of."""
    return {op for op in behind(gradient) if "gradients" in op.name}


def channels(graph):
    """Returns the static numbers of channels that convolutions have."""
    kinds = ("Conv2D", "DepthwiseConv2dNative")
    return {op.outputs[0].shape.as_list()[3] for op in graph.get_operations() if op.type in kinds}


def test_only_drawn_channels_are_computed(alone, tmp_path):
    """Unless all are asked for; then the widest are known before a network is drawn."""
    assert None in channels(alone[1].graph)
    masked = Search(make_params(tmp_path, slice_widths=False), 1)
    assert None not in channels(masked.graph)


def test_without_seed_draws_are_the_graphs(bare):
    types = {op.type for op in bare.graph.get_operations()}
    assert "RandomUniform" in types
    assert not any(name.startswith("StatelessRandomUniform") for name in types)


@pytest.mark.parametrize("exponential", [True, False])
def test_the_controllers_rate(exponential):
    params = {
        "rl_delay_steps": 10,
        "max_global_step": 110,
        "rl_learning_rate": 0.5,
        "use_exponential_rl_learning_rate_schedule": exponential,
    }
    step = tf.placeholder(tf.int64, [])
    rate = model_fn._controller_learning_rate(step, params)
    with tf.Session() as session:
        got = [session.run(rate, {step: at}) for at in (0, 9, 10, 60, 110)]
    # ×10 over 100 steps is ×√10 over 50.
    want = [0, 0, 0.5, 0.5 * math.sqrt(10), 5.0] if exponential else [0, 0, 0.5, 0.5, 0.5]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_tpu_replicas(tmp_path):
    params = {**make_params(tmp_path), "use_tpu": True, "use_bfloat16": True}
    cores, host_calls = 2, []

    def computation(train, validation, train_labels, validation_labels):
        spec = model_fn.model_fn(
            {"train": train, "validation": validation},
            {"train": train_labels, "validation": validation_labels},
            TRAIN,
            params,
        )
        host_calls.append(spec.host_call)
        with tf.control_dependencies([spec.train_op]):
            return tf.identity(spec.loss)

    # On a TPU images have their rows last; each core has a batch of its own.
    inputs = [
        [tf.zeros([8, 8, 1, 4]), tf.zeros([8, 8, 1, 8]), tf.zeros([4, 10]), tf.zeros([8, 10])]
        for _ in range(cores)
    ]
    with tf.Graph().as_default() as graph:
        inputs = [[tf.zeros(tensor.shape) for tensor in core] for core in inputs]
        tf.tpu.replicate(computation, inputs)
        types = [op.type for op in graph.get_operations()]
        ((_, tensors),) = host_calls
        assert types.count("CrossReplicaSum") > 10
        assert not {"ScalarSummary", "PyFunc", "WriteFile"} & set(types)
        assert None not in channels(graph)
        logits = 2 * (1 + 3 + 3 + 1 + 10 * 2)
        scalars = len(PUBLISHED_TAGS) + len(COST_TAGS) + logits
        assert [tensor.shape.as_list() for tensor in tensors] == [[1], [1, scalars]]
