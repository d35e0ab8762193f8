"""Proof that the controller finds good networks: REINFORCE on rewards whose optimum is known.

A step runs the functions of a search, `independent_sample`, `apply_adam`, a baseline by
`update_exponential_moving_average` and, where there are costs, the `abs` reward, with one draw per
tower and step. Only the networks are missing: the reward is a function of the choices,

    quality  Σ unary(choice) + Σ pair(choice, next choice)
    reward   quality − 0.1·|cost/target − 1|

Pairs couple neighbours only, so that the best of 10⁴⁰ members is found by dynamic programming.
Quality is scaled such that the mean member has 0.4 and the best one 0.8. "Within 1 % of the
optimum" thus means: at most 2 % of what the best member is ahead of the mean one is lost.

Settings are the published ones (β1 = 0, β2 = 0.999, ε = 1e-8, baseline momentum 0.95, a learning
rate that grows tenfold), save for the learning rate itself: 0.015 in place of the published
search's 0.0048, which has 27,000 steps of 32 draws where these have 1,500 to 3,000 steps of 2. With
0.0048, as many steps reach 99.2 % of the optimum or more, but miss costs by up to 3 %; of 10⁴⁰
members, 4,000 steps meet the target.

A distribution of independent choices may settle in a local optimum, the sooner the faster it
learns. Where pairs weigh as much as what choices do by themselves, a rate of 0.015 does so in one
search of ten, 4 % below the best one; a third of that, with 4,000 steps, in none.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from examples.nas_search import controller
from examples.nas_search.basic_specs import OP_TAG
from examples.nas_search.custom_layers import update_exponential_moving_average
from examples.nas_search.schema import OneOf
from examples.nas_search.tpu_optimizer_ops import apply_adam

LEARNING_RATE, SLOW_LEARNING_RATE, GROWTH = 0.015, 0.005, 10.0
NUM_TOWERS = 2
EXPONENT = -0.1  # of the `abs` reward, the published default
# One of them shows what the others make sure of.
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 5))]

SMALL = (2,) * 20  # 2^20 = 1e6 members
LARGE = tuple(itertools.islice(itertools.cycle([3, 6, 7]), 58))  # 3^20·6^19·7^19 = 2e40
WIDEST = 7


def test_sizes():
    assert round(np.log10(np.prod(SMALL))) == 6
    assert np.log10(np.array(LARGE)).sum() > 40


class Problem(NamedTuple):
    """A reward on C choices, with entries up to `WIDEST` options, of which some do not exist."""

    sizes: tuple
    unary: np.ndarray  # [C, WIDEST]
    pair: np.ndarray  # [C - 1, WIDEST, WIDEST]
    cost: np.ndarray  # [C, WIDEST]

    @classmethod
    def random(cls, sizes, seed, pairs=0.0):
        """Makes a problem whose pairs have `pairs` times the standard deviation of unary terms."""
        random = np.random.RandomState(seed)
        shape = len(sizes), WIDEST
        pair = pairs * random.normal(size=(len(sizes) - 1, WIDEST, WIDEST))
        return cls(sizes, random.normal(size=shape), pair, np.zeros(shape))

    @classmethod
    def with_costs(cls, sizes, seed):
        """Makes one in which the last option of a choice costs twice the first one.

        Costlier options are better as a rule, at a falling rate: 0.3 is the noise of that.
        """
        random = np.random.RandomState(seed)
        last = np.array(sizes)[:, None] - 1
        cost = random.uniform(0.5, 1.5, size=(len(sizes), 1)) * (1 + np.arange(WIDEST) / last)
        unary = random.uniform(0.5, 1.5, size=(len(sizes), 1)) * np.sqrt(cost)
        unary += 0.3 * random.normal(size=unary.shape)
        return cls(sizes, unary, np.zeros([len(sizes) - 1, WIDEST, WIDEST]), cost)

    def scaled(self, factor):
        return self._replace(unary=factor * self.unary, pair=factor * self.pair)

    def quality(self, indices):
        rows = np.arange(len(indices))
        pairs = self.pair[rows[:-1], indices[:-1], indices[1:]]
        return self.unary[rows, indices].sum() + pairs.sum()

    def total_cost(self, indices):
        return self.cost[np.arange(len(indices)), indices].sum()

    def means(self):
        """Returns mean quality and mean cost of all members."""
        sizes = self.sizes
        quality = sum(row[:size].mean() for row, size in zip(self.unary, sizes))
        for block, size, following in zip(self.pair, sizes, sizes[1:]):
            quality += block[:size, :following].mean()
        return quality, sum(row[:size].mean() for row, size in zip(self.cost, sizes))

    def best(self, price=0.0):
        """Returns the member with the largest quality − price·cost, by dynamic programming."""
        exists = np.arange(WIDEST) < np.array(self.sizes)[:, None]
        gain = np.where(exists, self.unary - price * self.cost, -np.inf)
        total, pointers = gain[0], []
        for pair, own in zip(self.pair, gain[1:]):
            paths = total[:, None] + pair
            pointers.append(paths.argmax(axis=0))
            total = paths.max(axis=0) + own
        indices = [int(total.argmax())]
        for pointer in reversed(pointers):
            indices.append(int(pointer[indices[-1]]))
        return np.array(indices[::-1])

    def price_of(self, target):
        """Returns the price at which the best member costs no more than the target."""
        low, high = 0.0, 1e3
        for _ in range(60):
            middle = (low + high) / 2
            is_dear = self.total_cost(self.best(middle)) > target
            low, high = (middle, high) if is_dear else (low, middle)
        return high


def test_the_best_member_by_enumeration():
    problem = Problem.random((2, 3, 2, 4), seed=1, pairs=1.0)
    members = [np.array(m) for m in itertools.product(*map(range, problem.sizes))]
    qualities = [problem.quality(member) for member in members]
    np.testing.assert_array_equal(problem.best(), members[int(np.argmax(qualities))])
    np.testing.assert_allclose(problem.means()[0], np.mean(qualities))


class Search:
    """The graph of a search over C choices on towers, for any problem with these sizes."""

    def __init__(self, sizes):
        self.sizes = sizes
        self.graph = tf.Graph()
        with self.graph.as_default():
            count = sum(sizes)
            shapes = {"unary": [count], "pair": [count, count], "cost": [count]}
            shapes.update({name: [] for name in ["offset", "target", "steps", "rate"]})
            zeros = tf.zeros_initializer()
            self.problem = {
                name: tf.get_variable(name, shape, initializer=zeros, trainable=False)
                for name, shape in shapes.items()
            }
            self.seed = tf.get_variable("seed", [], tf.int32, initializer=zeros, trainable=False)
            model_fn = functools.partial(_model_fn, sizes, self.problem, self.seed)
            replicated = contract.replicated(model_fn, NUM_TOWERS, per_tower=True)
            spec = replicated(tf.zeros([NUM_TOWERS, 1]), None, contract.ModeKeys.TRAIN)
            self.logits = tf.trainable_variables()
            self.initializer = tf.global_variables_initializer()
            config = replicate.session_config(contract.device_names(NUM_TOWERS))
            self.session = tf.Session(config=config)
            self.step = self.session.make_callable(spec.train_op)

    def run(self, problem, steps, seed, offset=0.0, target=1.0, rate=LEARNING_RATE):
        """Returns the most probable member after a search."""
        starts = np.cumsum([0, *self.sizes])
        pair = np.zeros([starts[-1]] * 2)
        for number, block in enumerate(problem.pair):
            own, following = slice(*starts[number : number + 2]), slice(*starts[number + 1 :][:2])
            pair[own, following] = block[: self.sizes[number], : self.sizes[number + 1]]
        exists = np.arange(WIDEST) < np.array(self.sizes)[:, None]
        values = {
            "unary": problem.unary[exists],
            "pair": pair,
            "cost": problem.cost[exists],
            "offset": offset,
            "target": target,
            "steps": steps,
            "rate": rate,
        }
        with self.graph.as_default():
            self.session.run(self.initializer)
            for name, value in values.items():
                self.problem[name].load(np.float32(value), self.session)
            self.seed.load(seed, self.session)
            for _ in range(steps):
                self.step()
            logits = self.session.run(self.logits)
        assert np.isfinite(np.concatenate(logits)).all()
        return np.array([int(np.argmax(vector)) for vector in logits])


def _model_fn(sizes, problem, seed, features, labels, mode):
    step = tf.train.get_or_create_global_step()
    draw = tf.cast(step, tf.int32) * replicate.num_towers() + replicate.tower_index()
    space = [OneOf(list(range(size)), OP_TAG) for size in sizes]
    sampled, info = controller.independent_sample(space, seed=tf.stack([seed, draw]))
    member = tf.concat([oneof.mask for oneof in sampled], axis=0)

    pairs = tf.reduce_sum(member * tf.linalg.matvec(problem["pair"], member))
    quality = tf.reduce_sum(problem["unary"] * member) + pairs + problem["offset"]
    has_cost = tf.cast(tf.reduce_any(problem["cost"] > 0), tf.float32)
    cost = tf.reduce_sum(problem["cost"] * member) + (1 - has_cost) * problem["target"]
    ratio = cost / problem["target"]
    reward = quality + EXPONENT * tf.abs(ratio - 1)

    baseline = update_exponential_moving_average(replicate.cross_tower_mean(reward), 0.95)
    loss = -tf.stop_gradient(reward - baseline) * info["sample_log_prob"]
    progress = tf.cast(step, tf.float32) / problem["steps"]
    update = apply_adam(
        loss,
        global_step=step,
        var_list=tf.trainable_variables(),
        learning_rate=problem["rate"] * tf.pow(GROWTH, progress),
        beta1=0.0,
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)


@pytest.fixture(scope="module", name="search")
def make_search():
    """Returns the `Search` of given sizes, whose graph is built once."""
    made = {}

    def search(sizes):
        if sizes not in made:
            made[sizes] = Search(sizes)
        return made[sizes]

    yield search
    for each in made.values():
        each.session.close()


def small_and_large(steps, *marks):
    """Parametrizes a test by sizes and steps; `steps` and `marks` are those of the large space."""
    return pytest.mark.parametrize(
        "sizes, steps",
        [
            pytest.param(SMALL, 1500, id="1e6"),
            pytest.param(LARGE, steps, id="1e40", marks=[pytest.mark.slow, *marks]),
        ],
    )


def share_of_optimum(search, problem, steps, seed, rate=LEARNING_RATE):
    """Returns the reward of the member found, relative to that of the best one."""
    best = problem.best()
    mean, _ = problem.means()
    problem = problem.scaled(0.4 / (problem.quality(best) - mean))
    offset = 0.8 - problem.quality(best)
    found = search(problem.sizes).run(problem, steps, seed, offset, rate=rate)
    share = (problem.quality(found) + offset) / 0.8
    print(f"seed {seed}: {share:.2%} of the optimum")
    return share


@pytest.mark.parametrize("seed", SEEDS)
@small_and_large(2000)
def test_separable_reward(search, sizes, steps, seed):
    problem = Problem.random(sizes, seed)
    assert share_of_optimum(search, problem, steps, seed) >= 0.99


@pytest.mark.parametrize("seed", SEEDS)
@small_and_large(3000, pytest.mark.thorough)
def test_reward_with_pairwise_interactions(search, sizes, steps, seed):
    """Pairs have 0.3 of the standard deviation of what choices do by themselves."""
    problem = Problem.random(sizes, seed, pairs=0.3)
    assert share_of_optimum(search, problem, steps, seed) >= 0.99


@pytest.mark.parametrize("seed", SEEDS)
def test_reward_of_which_half_are_interactions(search, seed):
    problem = Problem.random(SMALL, seed, pairs=1.0)
    assert share_of_optimum(search, problem, 4000, seed, SLOW_LEARNING_RATE) >= 0.99


def search_with_costs(search, sizes, steps, seed, slope):
    """Searches for 0.9 of the mean cost; returns the cost found, relative to that.

    `slope` is what quality gains at the target per relative cost, d quality / d (cost/target).
    The `abs` reward peaks at the target exactly if `EXPONENT` outweighs it.
    """
    problem = Problem.with_costs(sizes, seed)
    _, mean_cost = problem.means()
    target = 0.9 * mean_cost
    assert problem.total_cost(problem.best()) > 1.15 * target  # It binds.
    price = problem.price_of(target)
    problem = problem.scaled(slope / (price * target))
    price = slope / target
    found = search(sizes).run(problem, steps, seed, target=target)
    ratio = problem.total_cost(found) / target
    # No member has more reward than this, the dual of the problem: at its price, it may even miss
    # the target for nothing.
    best = problem.best(price)
    bound = problem.quality(best) + price * (target - problem.total_cost(best))
    lost = bound - (problem.quality(found) + EXPONENT * abs(ratio - 1))
    print(f"seed {seed}: cost ratio {ratio:.4f}, reward {lost:.5f} below the bound")
    return ratio, lost


@pytest.mark.parametrize("seed", SEEDS)
@small_and_large(2000, pytest.mark.thorough)
def test_the_cost_target_is_met(search, sizes, steps, seed):
    """The exponent is three times what quality gains per relative cost."""
    ratio, lost = search_with_costs(search, sizes, steps, seed, slope=-EXPONENT / 3)
    assert abs(ratio - 1) <= 0.02
    assert lost <= 0.01 * 0.8


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_weak_exponent_does_not_reach_the_target(search, seed):
    """Where quality gains more per cost than the exponent takes, a dearer network is better."""
    ratio, _ = search_with_costs(search, SMALL, 1500, seed, slope=-EXPONENT * 3)
    assert ratio > 1.05
