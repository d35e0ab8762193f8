"""The controller: a trainable distribution over the networks of a space.

Each choice of a space has a vector of *logits*, and is drawn independently of the others. A drawn
choice has a *mask* over its options: one-hot as a rule. During warm-up, a choice may be *replaced*
by a mask that trains more of the shared weights: that of all operations at once, or of the largest
width. A choice is *active* if the network has it at all, i.e. if no other choice around it took
another branch. After TuNAS (Bender, Liu et al., CVPR 2020).

There are C choices with up to W options. They are drawn together, as rows of [C, W] matrices whose
rows are padded: a few large operations in place of dozens of small ones per choice.
"""

import collections
import numbers
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import basic_specs, schema

# The logit of an option that only fills up a row. Its probability is 0 exactly, and unlike with
# -inf, 0 times its logarithm is 0.
_NO_OPTION = -1e9
_ACTIVE = 1e-6  # A branch is part of the network if its mask entry is larger.


class _Choice(NamedTuple):
    """One choice of the space, in visiting order."""

    path: tuple
    oneof: Any  # schema.OneOf

    @property
    def name(self):
        return "/".join(map(str, self.path))

    @property
    def size(self):
        return len(self.oneof.choices)


def independent_sample(
    structure,
    increase_ops_probability=None,
    increase_filters_probability=None,
    hierarchical=True,
    name=None,
    temperature=1.0,
    seed=None,
    initial_logits=None,
    may_skip=None,
):
    """Draws a network, each choice by itself.

    The trainable variables `<name>/<path of the choice>` hold the logits; a choice with a single
    option has one, too.

    Args:
        structure: A space, see `schema`.
        increase_ops_probability: Probability, number or float32 scalar, with which a choice tagged
            `OP_TAG` is replaced by the mean over its N options, the mask [1/N, …]. None: never.
        increase_filters_probability: Likewise, with which a choice tagged `FILTERS_TAG` is replaced
            by its largest option. None: never.
        hierarchical: Whether only active choices count in entropy and log-probability. Otherwise
            all do.
        name: Scope of the variables. None: `independent_sample`.
        temperature: Positive number or float32 scalar by which logits are divided: above 1, draws
            are more uniform.
        seed: None draws again in every run, from the graph's generator. An integer tensor [2] makes
            the draw a function of it.
        initial_logits: For each choice, in visiting order, the logits at first, numbers [options].
            None: all are 0, so that all options are equally probable.
        may_skip: Bool scalar tensor; while it is false, no `ZeroSpec` is drawn where a choice has
            another option. None: it always may.

    Returns:
        Pair of the structure whose every `OneOf` has a mask, float32 [options], and a dictionary:
        `'entropy'`, float32 scalar: the sum of the choices' entropies, in nats;
        `'sample_log_prob'`, float32 scalar: the logarithm of the draw's probability, where a choice
            with replacement probability p counts log p if it was replaced, else log(1 − p) + log π;
        `'logits_by_path'`, ordered dictionary of float32 [options], divided by the temperature;
        `'logits_by_tag'`, the same logits under `<tag>_<number>`, numbered within each tag.

    Raises:
        ValueError: If a number is out of range, `seed` has another shape or type, or the widths of
            a choice cannot be compared.
    """
    _check_probability("increase_ops_probability", increase_ops_probability)
    _check_probability("increase_filters_probability", increase_filters_probability)
    if isinstance(temperature, numbers.Real) and not temperature > 0:
        raise ValueError(
            f"`temperature` must be positive, but is {temperature}. Near 0, the most probable "
            "option is always drawn."
        )
    with tf.variable_scope(name, "independent_sample"):
        choices, variables = _make_choices(structure, initial_logits)
        if not choices:
            return structure, _dist_info(tf.zeros([]), tf.zeros([]), [], [])
        # Read once, so that the whole step agrees on one distribution.
        logits = _padded([variable.read_value() for variable in variables], _NO_OPTION)
        logits /= temperature
        rows, width = logits.shape.as_list()
        uniform = _uniform([rows, 1 + width], seed)  # The first column is for replacements.

        options = logits if may_skip is None else _without_skips(logits, choices, may_skip)
        log_probs = tf.nn.log_softmax(options)
        # The largest sum of a logit and Gumbel noise is at option i with its probability π_i.
        drawn = tf.argmax(options - tf.log(-tf.log(uniform[:, 1:])), axis=1)
        masks = tf.one_hot(drawn, width)
        mask_log_probs = tf.reduce_sum(masks * log_probs, axis=1)
        entropies = -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=1)
        masks, mask_log_probs = _replace(
            choices,
            masks,
            mask_log_probs,
            uniform[:, 0],
            {
                basic_specs.OP_TAG: increase_ops_probability,
                basic_specs.FILTERS_TAG: increase_filters_probability,
            },
        )
        if hierarchical:
            active = _active(choices, masks)
            mask_log_probs = tf.where(active, mask_log_probs, tf.zeros_like(mask_log_probs))
            entropies = tf.where(active, entropies, tf.zeros_like(entropies))
        entropy = tf.reduce_sum(entropies)
        sample_log_prob = tf.reduce_sum(mask_log_probs)

        masks = iter(_unpadded(masks, choices))
        logits = _unpadded(logits, choices)

    def with_mask(oneof):
        return schema.OneOf(oneof.choices, oneof.tag, next(masks))

    sampled = schema.map_oneofs(with_mask, structure)
    return sampled, _dist_info(entropy, sample_log_prob, choices, logits)


def _check_probability(argument, value):
    if isinstance(value, numbers.Real) and not 0 <= value <= 1:
        raise ValueError(
            f"`{argument}` must lie in [0, 1], but is {value}. Pass None for no replacement."
        )


def _make_choices(structure, initial_logits):
    """Returns the `_Choice`s of a structure, in visiting order, and their variables."""
    choices, variables = [], []
    given = None if initial_logits is None else iter(initial_logits)

    def make(path, oneof):
        choice = _Choice(path, oneof)
        choices.append(choice)
        zeros = tf.zeros_initializer()
        variables.append(
            tf.get_variable(
                choice.name or "root",
                [choice.size],
                tf.float32,
                initializer=zeros if given is None else tf.constant_initializer(next(given)),
                use_resource=True,
            )
        )
        return oneof

    schema.map_oneofs_with_tuple_paths(make, structure)
    return choices, variables


def _padded(vectors, value):
    """Returns the matrix whose rows are `vectors`, filled up with `value`."""
    sizes = [vector.shape.num_elements() for vector in vectors]
    ends = np.cumsum(sizes)
    columns = np.arange(max(sizes))
    # Elements of one vector, of which the last is `value`, in place of operations for each row.
    places = np.where(
        columns < np.reshape(sizes, [-1, 1]), columns + (ends - sizes)[:, None], ends[-1]
    )
    # Reshaping makes the gradient of the gathered tensor dense, once for all vectors.
    elements = tf.reshape(tf.concat([*vectors, [value]], axis=0), [-1])
    return tf.gather(elements, places)


def _unpadded(matrix, choices):
    """Returns the rows of a matrix [C, W] as vectors, each with as many elements as options."""
    sizes = [choice.size for choice in choices]
    width = matrix.shape.as_list()[1]
    places = np.concatenate([row * width + np.arange(size) for row, size in enumerate(sizes)])
    return tf.split(tf.gather(tf.reshape(matrix, [-1]), places), sizes)


def _uniform(shape, seed):
    """Returns random numbers in (0, 1), float32 of `shape`."""
    tiny = 1e-30  # The logarithm of 0 would be infinite.
    if seed is None:
        return tf.random.uniform(shape, minval=tiny)
    seed = tf.convert_to_tensor(seed)
    if seed.shape.as_list() != [2] or not seed.dtype.is_integer:
        raise ValueError(
            f"`seed` must be an integer tensor of shape [2], but is {seed.dtype.name} of shape "
            f"{seed.shape}. Stack a seed and the number of the draw, or pass None."
        )
    return tf.random.stateless_uniform(shape, seed, minval=tiny)


def _without_skips(logits, choices, may_skip):
    """Returns the logits by which no layer is skipped while `may_skip` is false."""
    added = np.zeros(logits.shape.as_list(), np.float32)
    for row, choice in enumerate(choices):
        skips = [isinstance(option, basic_specs.ZeroSpec) for option in choice.oneof.choices]
        if not all(skips):
            added[row, : choice.size][skips] = _NO_OPTION
    return tf.where(may_skip, logits, logits + added)


def _replace(choices, masks, log_probs, uniform, probability_by_tag):
    """Replaces the masks of some choices, each with the probability of its tag.

    Args:
        choices: List of C `_Choice`s.
        masks: Float32 [C, W], drawn.
        log_probs: Float32 [C], their log-probabilities.
        uniform: Float32 [C], random numbers in (0, 1).
        probability_by_tag: Dict from tag to a probability, None for none.

    Returns:
        Masks and log-probabilities after replacement.
    """
    probability_by_tag = {tag: p for tag, p in probability_by_tag.items() if p is not None}
    if not probability_by_tag:
        return masks, log_probs
    never = tf.zeros([])
    probability = tf.stack(
        [tf.cast(probability_by_tag.get(c.oneof.tag, never), tf.float32) for c in choices]
    )
    replacement = _padded(
        [tf.constant(_replacement(c, c.oneof.tag in probability_by_tag)) for c in choices], 0.0
    )
    is_replaced = uniform < probability
    masks = tf.where(is_replaced, replacement, masks)  # whole rows
    # Only the case that happened: the other one may have probability 0.
    log_of_case = tf.log(tf.where(is_replaced, probability, 1.0 - probability))
    return masks, log_of_case + tf.where(is_replaced, tf.zeros_like(log_probs), log_probs)


def _replacement(choice, is_wanted):
    """Returns the mask that may replace the draw of a choice, a list of floats."""
    oneof = choice.oneof
    if is_wanted and oneof.tag == basic_specs.OP_TAG:
        return [1.0 / choice.size] * choice.size
    mask = [0.0] * choice.size
    if is_wanted:
        try:
            mask[oneof.choices.index(max(oneof.choices))] = 1.0
        except TypeError as error:
            raise ValueError(
                f"The widths of a choice must be comparable, all of them numbers or all of them "
                f"FilterMultiplier, but those of {choice.name} are {oneof.choices}. Make them so, "
                "or pass None for `increase_filters_probability`."
            ) from error
    return mask


def _active(choices, masks):
    """Returns a boolean [C]: whether every choice around this one has taken the branch it is in."""
    is_on = tf.abs(masks) > _ACTIVE
    width = masks.shape.as_list()[1]
    row_by_path = {choice.path: row for row, choice in enumerate(choices)}
    # Row 0 of the table is the branch that everything is in, the others are entries of `is_on`.
    table = tf.concat([[True], tf.reshape(is_on, [-1])], axis=0)
    branches = []
    for choice in choices:
        around = [
            1 + row_by_path[choice.path[:end]] * width + choice.path[end + 1]
            for end in range(len(choice.path))
            if choice.path[:end] in row_by_path
        ]
        branches.append(around)
    depth = max(1, max(map(len, branches)))
    padded = [around + [0] * (depth - len(around)) for around in branches]
    return tf.reduce_all(tf.gather(table, padded), axis=1)


def _dist_info(entropy, sample_log_prob, choices, logits):
    """Returns what a draw tells about itself, see `independent_sample`."""
    by_path, by_tag = collections.OrderedDict(), collections.OrderedDict()
    counts = collections.Counter()
    for choice, vector in zip(choices, logits):
        tag = choice.oneof.tag
        by_path[choice.name] = vector
        by_tag[f"{tag}_{counts[tag]}"] = vector
        counts[tag] += 1
    return {
        "entropy": entropy,
        "sample_log_prob": sample_log_prob,
        "logits_by_path": by_path,
        "logits_by_tag": by_tag,
    }
