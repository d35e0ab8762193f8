"""Helpers on search spaces: pruning, scaling, counting, and the reward of a network.

A *genotype* says what was chosen at each `OneOf`: by index, as a flat list in visiting order (see
`schema`) or as a dictionary from tag to the list of that tag. *Pruning* keeps only the chosen
branches; every `OneOf` stays in its place with one choice. Published names and formulas are those
of TuNAS (Bender, Liu et al., CVPR 2020).
"""

import tensorflow.compat.v1 as tf

from examples.nas_search import basic_specs, schema
from examples.nas_search.rewards import (  # noqa: F401  (this is where users know it from)
    RL_REWARD_ABS,
    RL_REWARD_MNAS,
    RL_REWARD_MNAS_HARD,
    RL_REWARDS,
    reward_for_cost_models,
    reward_for_single_cost_model,
)
from examples.nas_search.schema import OneOf


def normalize_strides(strides):
    """Returns strides as a pair.

    Args:
        strides: An int for both axes, or a sequence (vertical, horizontal).

    Returns:
        Tuple (vertical, horizontal).

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(strides, int):
        return (strides, strides)
    if isinstance(strides, (list, tuple)) and len(strides) == 2:
        return tuple(strides)
    raise ValueError(f"`strides` must be an int or a pair, but is {strides!r}.")


def scale_filters(filters, multiplier, base):
    """Scales a width to the nearest multiple of `base`, at least `base`; all are numbers."""
    return max(base, base * int(filters * multiplier / base + 0.5))


def tf_scale_filters(filters, multiplier, base):
    """Does as `scale_filters` on int32 and float32 tensors of any shapes; returns int32."""
    base = tf.convert_to_tensor(base, tf.int32)
    scaled = tf.cast(filters, tf.float32) * tf.cast(multiplier, tf.float32)
    scaled = tf.cast(scaled / tf.cast(base, tf.float32) + 0.5, tf.int32)
    return tf.maximum(base, base * scaled)


def make_divisible(value, divisor):
    """Rounds to a multiple of `divisor` that is at least `divisor` and at least 0.9·`value`.

    Args:
        value: Number >= 0.
        divisor: Int > 0.

    Returns:
        The nearest multiple, or the next one where that is too small, int.
    """
    rounded = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * value else rounded


def tf_make_divisible(value, divisor):
    """Does as `make_divisible` on tensors, ints or floats; the result has the type of `value`."""
    value = tf.convert_to_tensor(value)
    divisor = tf.cast(divisor, value.dtype)
    half = divisor // 2 if value.dtype.is_integer else divisor / 2
    rounded = tf.maximum(divisor, (value + half) // divisor * divisor)
    return tf.where(10 * rounded < 9 * value, rounded + divisor, rounded)


def prune_model_spec(
    model_spec, genotype, path_dropout_rate=0.0, training=None, prune_filters_by_value=False
):
    """Keeps only the chosen branch of each choice.

    Args:
        model_spec: A space.
        genotype: Dict from tag to the list of indices of that tag's choices in visiting order;
            choices of other tags stay open. Or the list of the indices of all choices.
        path_dropout_rate: Probability in [0, 1) with which a run drops an operation that could have
            been skipped, i.e. had a `ZeroSpec` to choose instead; a number, or a scalar tensor.
        training: Whether paths are dropped, bool. None is refused with a positive rate.
        prune_filters_by_value: Whether a dictionary's list for `FILTERS_TAG` has the widths
            themselves rather than their indices.

    Returns:
        The space, in which each pruned choice is a `OneOf` with one element. Its mask is None, or
        where it may be dropped, a float32 tensor [1] as of `path_dropout_mask`.

    Raises:
        ValueError: If the genotype does not fit the space, or the rate is out of range, lacks
            `training`, or comes with a dictionary that leaves operations open.
    """
    check_path_dropout(path_dropout_rate, training)
    queues = _queues_by_tag(model_spec, genotype)
    if may_drop(path_dropout_rate) and basic_specs.OP_TAG not in queues:
        raise ValueError(
            f"`path_dropout_rate` is {path_dropout_rate}, but `genotype` chooses no operation that "
            f"could be dropped, only {sorted(queues)}. Give it {basic_specs.OP_TAG!r} or use 0."
        )
    by_value = prune_filters_by_value and isinstance(genotype, dict)

    def prune(path, oneof):
        if oneof.tag not in queues:
            return oneof
        key = next(queues[oneof.tag])
        is_value = by_value and oneof.tag == basic_specs.FILTERS_TAG
        keys = list(oneof.choices if is_value else range(len(oneof.choices)))
        if key not in keys:
            raise ValueError(
                f"`genotype` must choose one of {keys} at {path}, but chooses {key!r}."
            )
        mask = None
        if oneof.tag == basic_specs.OP_TAG and any(map(is_zero, oneof.choices)):
            mask = path_dropout_mask(path_dropout_rate, training)
        return OneOf([oneof.choices[keys.index(key)]], oneof.tag, mask)

    return schema.map_oneofs_with_paths(prune, model_spec)


def is_zero(spec):
    """Whether a spec is the `ZeroSpec` that skips a layer."""
    return isinstance(spec, basic_specs.ZeroSpec)


def _queues_by_tag(model_spec, genotype):
    """Returns a dict from tag to an iterator over the genotype of its choices."""
    tags = []
    schema.map_oneofs(lambda oneof: tags.append(oneof.tag), model_spec)
    if not isinstance(genotype, dict):
        if len(genotype) != len(tags):
            raise ValueError(
                f"`genotype` must have an index for each of the {len(tags)} choices of the space, "
                f"but has {len(genotype)}. Is it from another space?"
            )
        return dict.fromkeys(tags, iter(genotype))
    for tag, values in genotype.items():
        if tag not in tags:
            raise ValueError(f"`genotype` has the tag {tag!r}, but the space {sorted(set(tags))}.")
        if len(values) != tags.count(tag):
            raise ValueError(
                f"`genotype[{tag!r}]` must have an index for each of the {tags.count(tag)} choices "
                f"with this tag, but has {len(values)}. Is it from another space?"
            )
    return {tag: iter(values) for tag, values in genotype.items()}


def check_path_dropout(path_dropout_rate, training):
    """Raises ValueError if paths cannot be dropped at this rate; see `prune_model_spec`."""
    rate = path_dropout_rate
    if tf.is_tensor(rate):
        if rate.shape.rank != 0 or not rate.dtype.is_floating:
            kinds = "a number or a floating scalar tensor"
            raise ValueError(f"`path_dropout_rate` must be {kinds}, but is {rate!r}.")
    elif not 0 <= path_dropout_rate < 1:
        raise ValueError(
            f"`path_dropout_rate` must lie in [0, 1), but is {path_dropout_rate}. At 1 no optional "
            "layer would ever be trained."
        )
    if may_drop(path_dropout_rate) and training is None:
        raise ValueError(
            f"`training` must be given with a `path_dropout_rate` of {path_dropout_rate}: True "
            "drops paths, False keeps them all."
        )


def may_drop(path_dropout_rate):
    """Whether a rate is positive, or a tensor, whose value is not known."""
    return tf.is_tensor(path_dropout_rate) or path_dropout_rate > 0


def path_dropout_mask(path_dropout_rate, training):
    """Makes the mask of an operation that is dropped now and then.

    Args:
        path_dropout_rate: Probability of being dropped, in [0, 1), or a floating scalar tensor.
        training: Whether anything is dropped, bool.

    Returns:
        None if nothing is dropped. Else a float32 tensor [1], drawn again in every run: 1 / keep
        with probability keep = 1 − rate and else 0, so that its mean is one.
    """
    if not (may_drop(path_dropout_rate) and training):
        return None
    drawn = tf.random.uniform([1])
    keep = tf.cast(1.0 - path_dropout_rate, tf.float32)
    return tf.cast(drawn < keep, tf.float32) / keep


def scale_conv_tower_spec(spec, multipliers, base=None):
    """Makes a network wider or narrower.

    Args:
        spec: A `ConvTowerSpec`.
        multipliers: Number >= 0 to scale widths by, or a list of them, each of which gives choices.
        base: What the new widths are multiples of, int; None keeps `spec.filters_base`.

    Returns:
        A `ConvTowerSpec`. Each choice of widths has the sorted widths from all multipliers, each
        once, and no mask. Every `FilterMultiplier` and all other choices are as before.

    Raises:
        ValueError: If there are no multipliers, or one is negative.
    """
    if not isinstance(multipliers, (list, tuple)):
        multipliers = [multipliers]
    if not multipliers or min(multipliers) < 0:
        raise ValueError(f"`multipliers` must be numbers >= 0, at least one, not {multipliers}.")
    base = spec.filters_base if base is None else base

    def scale(oneof):
        if oneof.tag != basic_specs.FILTERS_TAG:
            return oneof
        relative = [c for c in oneof.choices if isinstance(c, basic_specs.FilterMultiplier)]
        widths = [c for c in oneof.choices if not isinstance(c, basic_specs.FilterMultiplier)]
        scaled = {scale_filters(width, m, base) for width in widths for m in multipliers}
        return OneOf(sorted(scaled) + relative, oneof.tag)

    blocks = schema.map_oneofs(scale, spec.blocks)
    return basic_specs.ConvTowerSpec(blocks=blocks, filters_base=base)


def cardinality(spec):
    """Counts the networks of a space, exactly.

    The published sizes are the naive ones. A skipped layer has no settings, so that many of the
    networks counted there are the same.

    >>> skip = OneOf([{"kernel": OneOf([3, 5, 7], "k")}, basic_specs.ZeroSpec()], "skip")
    >>> cardinality(skip)  # 3 · 2 index lists, but 3 kernels or none
    (6, 4)

    Args:
        spec: A space.

    Returns:
        Pair of ints: naive, the product of the numbers of choices over every `OneOf`; and distinct,
        which counts the settings inside a branch only where that branch is chosen.
    """
    counts = [cardinality(child) for _, child in schema.children(spec)]
    naive, distinct = 1, 1
    for child_naive, child_distinct in counts:
        naive *= child_naive
        distinct *= child_distinct
    if isinstance(spec, OneOf):
        return naive * len(spec.choices), sum(child_distinct for _, child_distinct in counts)
    return naive, distinct


def tf_argmax_or_zero(oneof):
    """Returns the index of a choice's largest mask entry, int32 scalar; 0 for an only choice.

    Raises:
        ValueError: If there are several choices and no mask.
    """
    if oneof.mask is not None:
        return tf.argmax(oneof.mask, output_type=tf.int32)
    if len(oneof.choices) > 1:
        raise ValueError(
            f"Among several choices one must have been drawn, but {oneof!r} has no mask. Draw with "
            "`controller.independent_sample` or choose with `prune_model_spec`."
        )
    return tf.constant(0)


def tf_indices(spec):
    """Returns what was drawn at each choice as int32 [choices], in visiting order."""
    indices = []
    schema.map_oneofs(lambda oneof: indices.append(tf_argmax_or_zero(oneof)), spec)
    return tf.stack(indices) if indices else tf.zeros([0], tf.int32)


def parse_list(text, fn):
    """Returns the list of values that are separated by colons in a text.

    >>> parse_list("3:1:4", int)
    [3, 1, 4]

    Args:
        text: String; blank stands for no values.
        fn: Function from the string of one value to the value, such as `int`.

    Raises:
        ValueError: If `fn` refuses one of them.
    """
    if not text.strip():
        return []
    try:
        return [fn(value) for value in text.split(":")]
    except ValueError as error:
        raise ValueError(
            f"Expected values separated by colons, but got {text!r}: {error}."
        ) from error
