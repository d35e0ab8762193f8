"""The controller: draws, their probability, warm-up, seeds and towers."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from examples.nas_search import controller, schema
from examples.nas_search.basic_specs import FILTERS_TAG, OP_TAG, FilterMultiplier, ZeroSpec
from examples.nas_search.schema import OneOf
from examples.nas_search.spaces import search_spaces
from nas_search import nas_steps

SPACE = {
    "skip": OneOf(
        [{"kernel": OneOf([3, 5, 7], OP_TAG), "width": OneOf([8, 4], FILTERS_TAG)}, 0], OP_TAG
    ),
    "only": OneOf(["x"], OP_TAG),
    "other": OneOf([1.0, 2.0, 3.0, 4.0], "other"),
}
# In visiting order: sorted keys, children before parents.
PATHS = ["only", "other", "skip/choices/0/kernel", "skip/choices/0/width", "skip"]
SIZES = [1, 4, 3, 2, 2]
LOGITS = [[2.0], [0.0, 1.0, -1.0, 0.5], [1.0, 0.0, 0.3], [-0.2, 0.4], [0.1, 0.6]]
DRAWS = 3000


def softmax(logits):
    exp = np.exp(np.array(logits) - np.max(logits))
    return exp / exp.sum()


def masks_of(structure):
    """Returns the masks of a drawn structure, in visiting order."""
    masks = []
    schema.map_oneofs(lambda oneof: masks.append(oneof.mask), structure)
    return masks


Draw = collections.namedtuple("Draw", ["masks", "entropy", "log_prob"])


def draw(count=1, logits=LOGITS, space=None, num_towers=1, **kwargs):
    """Returns `count` `Draw`s of a controller with `logits`."""
    structure, info = controller.independent_sample(SPACE if space is None else space, **kwargs)
    fetches = Draw(masks_of(structure), info["entropy"], info["sample_log_prob"])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable, value in zip(tf.trainable_variables(), logits):
            variable.load(value, session)
        run = session.make_callable(tf.nest.flatten(fetches))
        return [Draw(values[:-2], *values[-2:]) for values in (run() for _ in range(count))]


def frequencies(draws, choice):
    return np.mean([each.masks[choice] for each in draws], axis=0)


def assert_close_to(frequency, probability):
    """Within five standard deviations of a frequency in `DRAWS` draws."""
    probability = np.array(probability)
    deviation = np.sqrt(probability * (1 - probability) / DRAWS)
    np.testing.assert_array_less(np.abs(frequency - probability), 5 * deviation + 1e-6)


def test_logits_are_variables_named_by_path():
    structure, info = controller.independent_sample(SPACE, name="policy")
    assert [v.op.name for v in tf.trainable_variables()] == [f"policy/{path}" for path in PATHS]
    assert [v.shape.as_list() for v in tf.trainable_variables()] == [[size] for size in SIZES]
    assert list(info["logits_by_path"]) == PATHS
    # Numbered within the tag, in visiting order.
    tags = [f"{OP_TAG}_0", "other_0", f"{OP_TAG}_1", f"{FILTERS_TAG}_0", f"{OP_TAG}_2"]
    assert list(info["logits_by_tag"]) == tags
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        by_path, by_tag = session.run([info["logits_by_path"], info["logits_by_tag"]])
    for path, tag, size in zip(PATHS, tags, SIZES):
        np.testing.assert_array_equal(by_path[path], np.zeros(size))
        np.testing.assert_array_equal(by_tag[tag], np.zeros(size))
    assert isinstance(structure["skip"], OneOf) and structure["skip"].tag == OP_TAG
    assert structure["skip"].choices[1] == 0 and structure["other"].choices == [1.0, 2.0, 3.0, 4.0]


def test_a_space_that_is_a_choice():
    structure, info = controller.independent_sample(OneOf([1, 2], OP_TAG))
    assert structure.mask.shape == [2] and list(info["logits_by_path"]) == [""]
    assert tf.trainable_variables()[0].op.name == "independent_sample/root"


def test_a_space_without_choices():
    structure, info = controller.independent_sample({"kernel": 3})
    assert structure == {"kernel": 3} and not tf.trainable_variables()
    with tf.Session() as session:
        assert session.run([info["entropy"], info["sample_log_prob"]]) == [0.0, 0.0]


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_draws_follow_the_softmax_of_the_logits(temperature):
    draws = draw(DRAWS, temperature=temperature)
    for choice, logits in enumerate(LOGITS):
        masks = np.array([each.masks[choice] for each in draws])
        np.testing.assert_array_equal(np.sort(masks, axis=1)[:, -1], 1.0)
        np.testing.assert_array_equal(masks.sum(axis=1), 1.0)
        assert_close_to(masks.mean(axis=0), softmax(np.array(logits) / temperature))


def test_choices_are_independent():
    draws = draw(DRAWS)
    for choice, other in [(1, 2), (1, 4), (2, 4), (3, 4)]:
        joint = np.mean([np.outer(d.masks[choice], d.masks[other]) for d in draws], axis=0)
        assert_close_to(joint, np.outer(softmax(LOGITS[choice]), softmax(LOGITS[other])))


def by_hand(masks, logits=LOGITS, hierarchical=True):
    """Returns entropy and log-probability of one-hot masks."""
    is_skipped = masks[4][1] == 1
    entropy = log_prob = 0.0
    for choice, (mask, vector) in enumerate(zip(masks, logits)):
        if hierarchical and is_skipped and choice in (2, 3):
            continue
        probabilities = softmax(vector)
        entropy -= probabilities @ np.log(probabilities)
        log_prob += np.log(probabilities[np.argmax(mask)])
    return entropy, log_prob


@pytest.mark.parametrize("hierarchical", [True, False])
def test_probability_and_entropy_of_a_draw(hierarchical):
    draws = draw(40, hierarchical=hierarchical)
    assert len({each.masks[4].tobytes() for each in draws}) == 2  # skipped and not
    for each in draws:
        entropy, log_prob = by_hand(each.masks, hierarchical=hierarchical)
        np.testing.assert_allclose(each.entropy, entropy, rtol=1e-5)
        np.testing.assert_allclose(each.log_prob, log_prob, rtol=1e-5)


def test_temperature_counts_in_probability_and_logits():
    structure, info = controller.independent_sample(OneOf([1, 2], OP_TAG), temperature=2.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.trainable_variables()[0].load([2.0, 0.0], session)
        mask, log_prob, logits = session.run(
            [structure.mask, info["sample_log_prob"], info["logits_by_path"][""]]
        )
    np.testing.assert_allclose(logits, [1.0, 0.0])
    np.testing.assert_allclose(log_prob, np.log(softmax([1.0, 0.0]))[np.argmax(mask)], rtol=1e-6)


def test_a_temperature_is_a_lower_rate_of_adam():
    def learned(temperature, rate):
        def body(rows):
            _, info = controller.independent_sample(SPACE, temperature=temperature)
            logits = tf.concat(list(info["logits_by_path"].values()), axis=0)
            # No gradient is 0: Adam would divide rounding errors by themselves.
            loss = tf.reduce_sum((logits - np.arange(1, 13)) ** 2)
            train = tf.train.AdamOptimizer(rate, beta1=0, epsilon=1e-8).minimize(loss)
            return train, {"logits": logits}

        steps = nas_steps.run(body, [[0.0]] * 6, num_towers=1)
        (seen,) = steps[-1][0]
        return seen["logits"]  # Read in step 6, before its update.

    cold = learned(1.0, 0.05)
    assert np.abs(cold).max() > 0.1
    np.testing.assert_allclose(learned(4.0, 0.2), cold, rtol=1e-4, atol=1e-6)
    assert np.abs(learned(4.0, 0.05) - cold).max() > 0.1


@pytest.mark.parametrize("probability", [None, 0.0, 0.5, 1.0])
def test_gradients(probability):
    """The gradient of log π(i) is one-hot(i) − π; nothing where inactive or replaced, never NaN."""
    structure, info = controller.independent_sample(
        SPACE, probability, None if probability is None else tf.constant(probability)
    )
    grads = tf.gradients(info["sample_log_prob"], tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable, value in zip(tf.trainable_variables(), LOGITS):
            variable.load(value, session)
        for _ in range(20):
            masks, got = session.run([masks_of(structure), grads])
            for choice, (mask, logits) in enumerate(zip(masks, LOGITS)):
                is_inactive = choice in (2, 3) and masks[4][0] == 0
                is_replaced = probability == 1.0 and choice != 1
                # A replaced width is one-hot as well: it cannot be told from a drawn one.
                is_unknown = probability == 0.5 and (choice == 3 or mask.max() < 1)
                want = np.zeros(len(logits))
                if not (is_inactive or is_replaced or is_unknown):
                    want = mask - softmax(logits)
                assert np.isfinite(got[choice]).all()
                if not is_unknown:
                    np.testing.assert_allclose(got[choice], want, atol=1e-6)


def test_entropy_has_gradients():
    _, info = controller.independent_sample({"a": OneOf([1, 2], OP_TAG), "b": OneOf([1], OP_TAG)})
    grads = tf.gradients(info["entropy"], tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.trainable_variables()[0].load([1.0, 0.0], session)
        got = session.run(grads)
    # dH/dxᵢ = −πᵢ·(log πᵢ + H)
    p = softmax([1.0, 0.0])
    np.testing.assert_allclose(got[0], -p * (np.log(p) - p @ np.log(p)), rtol=1e-5)
    np.testing.assert_allclose(got[1], [0.0], atol=1e-7)


def test_certain_logits_give_finite_numbers():
    logits = [[2.0], [0.0, 200.0, 0.0, 0.0], [0.0, 0.0, 300.0], [500.0, 0.0], [400.0, 0.0]]
    (got,) = draw(logits=logits)
    assert [int(np.argmax(mask)) for mask in got.masks] == [0, 1, 2, 0, 0]
    np.testing.assert_allclose([got.entropy, got.log_prob], 0.0, atol=1e-6)


# All operations at once, and the larger of the widths 8 and 4.
REPLACED = {0: [1.0], 2: [1 / 3] * 3, 3: [1.0, 0.0], 4: [0.5, 0.5]}


@pytest.mark.parametrize("ops, filters", [(1.0, 1.0), (1.0, None), (None, 1.0), (1.0, 0.0)])
def test_warm_up_replaces_by_tag(ops, filters):
    draws = draw(20, increase_ops_probability=ops, increase_filters_probability=filters)
    for choice, tag in enumerate([OP_TAG, "other", OP_TAG, FILTERS_TAG, OP_TAG]):
        masks = [each.masks[choice] for each in draws]
        if {OP_TAG: ops, FILTERS_TAG: filters}.get(tag):
            np.testing.assert_allclose(masks, [REPLACED[choice]] * len(draws), rtol=1e-6)
        else:
            assert SIZES[choice] == 1 or len({mask.tobytes() for mask in masks}) > 1
            np.testing.assert_array_equal(np.max(masks, axis=1), 1.0)


def test_what_is_certain_has_log_probability_0():
    space = [OneOf([1, 2, 3], OP_TAG), OneOf([4, 8], FILTERS_TAG)]
    (got,) = draw(
        space=space,
        logits=[],
        increase_ops_probability=1.0,
        increase_filters_probability=tf.constant(1.0),
    )
    assert got.log_prob == 0.0
    np.testing.assert_allclose(got.entropy, np.log(3) + np.log(2), rtol=1e-6)


def test_probability_0_draws_as_ever():
    for each in draw(20, increase_ops_probability=0.0, increase_filters_probability=0.0):
        np.testing.assert_allclose([each.entropy, each.log_prob], by_hand(each.masks), rtol=1e-5)


def test_each_choice_is_replaced_by_itself():
    """Two choices of operations: log p where replaced, log(1 − p) + log π where not."""
    space = [OneOf([1, 2], OP_TAG), OneOf([1, 2], OP_TAG)]
    p = 0.25
    draws = draw(DRAWS, logits=[], space=space, increase_ops_probability=tf.constant(p))
    is_replaced = np.array([[mask.max() < 1 for mask in each.masks] for each in draws])
    assert_close_to(is_replaced.mean(axis=0), [p, p])
    assert_close_to(np.mean(is_replaced.all(axis=1)), p**2)
    want = np.where(is_replaced, np.log(p), np.log(1 - p) + np.log(0.5)).sum(axis=1)
    np.testing.assert_allclose([each.log_prob for each in draws], want, rtol=1e-5)
    # Whether a choice is replaced has nothing to do with what would be drawn.
    kept = np.array([each.masks for each in draws])[~is_replaced]
    np.testing.assert_allclose(kept.mean(axis=0), [0.5, 0.5], atol=0.04)  # 4500 draws: ±0.0075


def test_the_largest_multiplier_replaces():
    space = OneOf([FilterMultiplier(3), FilterMultiplier(6), FilterMultiplier(1)], FILTERS_TAG)
    (got,) = draw(logits=[], space=space, increase_filters_probability=1.0)
    np.testing.assert_array_equal(got.masks, [[0.0, 1.0, 0.0]])


def test_a_choice_inside_a_replaced_one_is_active():
    """The mean over all operations has every branch, so choices inside of it count."""
    space = OneOf([OneOf([1, 2, 3], "inner"), OneOf([1, 2], "inner"), 0], OP_TAG)
    (got,) = draw(logits=[], space=space, increase_ops_probability=1.0)
    np.testing.assert_allclose(got.entropy, np.log(3) + np.log(2) + np.log(3), rtol=1e-6)
    np.testing.assert_allclose(got.log_prob, -np.log(3) - np.log(2), rtol=1e-6)


@pytest.mark.parametrize("outer, inner", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_all_choices_around_must_be_active(outer, inner):
    """A choice two levels down, in branch 1 of branch 1."""
    space = OneOf([0, [OneOf([0, OneOf([1, 2, 3], "c")], "b")]], "a")
    logits = [[0.0] * 3, [0.0, 99.0 if inner else -99.0], [0.0, 99.0 if outer else -99.0]]
    (got,) = draw(logits=logits, space=space)
    want = np.log(3) if outer and inner else 0.0
    np.testing.assert_allclose([got.entropy, got.log_prob], [want, -want], atol=1e-6)


OPTIONAL = {"layer": OneOf([OneOf([3, 5, 7], OP_TAG), ZeroSpec()], OP_TAG)}
OPTIONAL_LOGITS = [[1.0, 0.0, 0.3], [-3.0, 2.0]]


def test_no_layer_is_skipped_before_it_may_be():
    space = {**OPTIONAL, "no": OneOf([ZeroSpec()], OP_TAG)}  # In "no", nothing else can be drawn.
    logits = [*OPTIONAL_LOGITS, [0.7]]
    for each in draw(100, logits, space, may_skip=tf.constant(False)):
        kernel, layer, no = each.masks
        np.testing.assert_array_equal(layer, [1, 0])
        np.testing.assert_array_equal(no, [1])
        log_probs = np.log(softmax(logits[0]))
        np.testing.assert_allclose(each.log_prob, kernel @ log_probs, rtol=1e-5)
        np.testing.assert_allclose(each.entropy, -softmax(logits[0]) @ log_probs, rtol=1e-5)


def test_controllers_learn_nothing_about_skips_before_they_are_drawn():
    _, info = controller.independent_sample(OPTIONAL, may_skip=tf.constant(False))
    kernel, layer = tf.gradients(info["sample_log_prob"], tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert np.all(session.run(kernel) != 0)
        np.testing.assert_array_equal(session.run(layer), [0, 0])


def test_layers_that_may_be_skipped_are_drawn_as_ever():
    for seed in range(5):
        with tf.Graph().as_default():
            (want,) = draw(1, OPTIONAL_LOGITS, OPTIONAL, seed=[seed, 1])
        with tf.Graph().as_default():
            (got,) = draw(1, OPTIONAL_LOGITS, OPTIONAL, seed=[seed, 1], may_skip=tf.constant(True))
        tf.nest.map_structure(np.testing.assert_array_equal, got, want)


def test_logits_are_told_without_the_delay():
    _, info = controller.independent_sample(OPTIONAL, may_skip=tf.constant(False))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert all(np.all(row == 0) for row in session.run(info["logits_by_path"]).values())


def test_a_seed_makes_the_draw():
    seed = tf.placeholder(tf.int32, [2])
    structure, info = controller.independent_sample(SPACE, 0.5, seed=seed)
    masks = masks_of(structure)

    def run(*value):
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return np.concatenate(session.run(masks, {seed: value})).tobytes()

    assert run(3, 4) == run(3, 4)
    # There are over 100 outcomes; that ten draws are the same has a probability below 1e-9.
    assert len({run(0, number) for number in range(10)}) > 1
    assert len({run(number, 0) for number in range(10)}) > 1
    assert "sample_log_prob" in info


def test_seeded_draws_follow_the_softmax():
    """Seeds that count up, as those of steps and towers do, must not be correlated."""
    number = tf.placeholder(tf.int32, [])
    structure, _ = controller.independent_sample(SPACE["other"], seed=tf.stack([7, number]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.trainable_variables()[0].load(LOGITS[1], session)
        run = session.make_callable(structure.mask, [number])
        masks = np.array([run(i) for i in range(DRAWS)])
    assert_close_to(masks.mean(axis=0), softmax(LOGITS[1]))
    pairs = np.mean(masks[:-1, :, None] * masks[1:, None, :], axis=0)
    assert_close_to(pairs, np.outer(softmax(LOGITS[1]), softmax(LOGITS[1])))


@pytest.mark.parametrize("num_towers", [2, 3])
def test_towers_draw_networks_of_their_own_from_one_distribution(num_towers):
    space = [OneOf([1, 2], OP_TAG) for _ in range(40)]

    def body(rows):
        structure, info = controller.independent_sample(space)
        return tf.no_op(), {"masks": tf.stack(masks_of(structure)), "entropy": info["entropy"]}

    batches = [np.zeros([num_towers, 1])] * 2
    steps = nas_steps.run(body, batches, num_towers)
    draws = [tower["masks"].tobytes() for seen, _ in steps for tower in seen]
    assert len(set(draws)) == 2 * num_towers  # New ones in every tower and step.
    # The choices' variables and the global step, once.
    assert all(len(variables) == len(space) + 1 for _, variables in steps)


@pytest.mark.parametrize(
    "ssd, num_choices",
    [
        ("proxylessnas_search", 73),
        ("proxylessnas_enlarged_search", 73),
        ("mobilenet_v3_like_search", 86),
        ("digits_search", 14),
        ("cifar10_search", 73),
        ("mobilenet_v3_large", 22),
    ],
)
def test_spaces(ssd, num_choices):
    space = search_spaces.get_search_space_spec(ssd)
    structure, info = controller.independent_sample(space, 0.5, 0.5)
    sizes = []
    schema.map_oneofs(lambda oneof: sizes.append(len(oneof.choices)), space)
    masks = masks_of(structure)
    assert len(masks) == len(info["logits_by_path"]) == num_choices
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run(masks)
    assert [len(value) for value in values] == sizes
    np.testing.assert_allclose([value.sum() for value in values], 1.0, rtol=1e-6)


def test_the_graph_grows_little_with_the_space():
    """Choices are drawn as rows of one matrix: only their variables and masks are single."""
    sizes = []
    for count in [10, 20]:
        with tf.Graph().as_default() as graph:
            controller.independent_sample([OneOf([1, 2], OP_TAG)] * count, 0.5)
            sizes.append(len(graph.get_operations()))
    assert (sizes[1] - sizes[0]) / 10 < 30


@pytest.mark.parametrize(
    "kwargs, message",
    [
        (
            {"increase_ops_probability": 1.5},
            "`increase_ops_probability` must lie in [0, 1]…1.5…None",
        ),
        (
            {"increase_filters_probability": -1},
            "`increase_filters_probability` must lie in [0, 1]…-1…None",
        ),
        ({"temperature": 0}, "`temperature` must be positive, but is 0…most probable"),
        ({"seed": [1, 2, 3]}, "`seed` must be an integer tensor of shape [2]…int32…(3,)…Stack"),
        ({"seed": [1.0, 2.0]}, "`seed` must be an integer tensor…float32…Stack a seed"),
        (
            {
                "structure": [OneOf([8, FilterMultiplier(2)], FILTERS_TAG)],
                "increase_filters_probability": 0.5,
            },
            "widths of a choice must be comparable…those of 0 are…pass None",
        ),
    ],
)
def test_misuse(kwargs, message):
    with pytest.raises(ValueError, match=matching(message)):
        controller.independent_sample(**{"structure": SPACE, **kwargs})
