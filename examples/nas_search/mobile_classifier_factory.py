"""From the name of a search space to a spec, and from a spec to a network.

Function and argument names are those of TuNAS (Bender, Liu et al., CVPR 2020).
"""

from examples.nas_search import schema, search_space_utils
from examples.nas_search.basic_specs import FILTERS_TAG, OP_TAG, ConvTowerSpec
from examples.nas_search.mobile_search_space_v3 import ResidualSpec
from examples.nas_search.rematlib import mobile_model_v3
from examples.nas_search.schema import OneOf
from examples.nas_search.spaces import search_spaces
from examples.nas_search.spaces.search_spaces import ALL_SSDS  # noqa: F401  (users know it from here)


def get_model_spec(
    ssd,
    filters=None,
    op_indices=None,
    indices=None,
    filters_multipliers=1.0,
    path_dropout_rate=0.0,
    training=None,
):
    """Returns a space, or the rest of it once choices are made.

    Args:
        ssd: Name of the space, one of `search_spaces.ALL_SSDS`.
        filters: Widths of all `FILTERS_TAG` choices, by value, or None to leave them open.
        op_indices: Indices of all `OP_TAG` choices, or None to leave them open.
        indices: Indices of all choices in visiting order, which is what `analyze` prints; or None.
            Wins over the two before it. An empty list is as None, in all three.
        filters_multipliers: Number >= 0 to scale widths by, or list of them to choose from;
            applied to what was chosen.
        path_dropout_rate: Probability in [0, 1) with which a run leaves out a residual layer, in
            chosen networks and in reference networks alike; or a floating scalar tensor of it.
        training: Whether layers are left out, bool. None is refused with a positive rate.

    Returns:
        A `ConvTowerSpec`.

    Raises:
        ValueError: If there is no such space, the choices do not fit it, or the rate is out of
            range, lacks `training`, or comes with operations that are still to be chosen.
    """
    spec = search_spaces.get_search_space_spec(ssd)
    genotype = list(indices or [])
    if not genotype:
        by_tag = {FILTERS_TAG: list(filters or []), OP_TAG: list(op_indices or [])}
        genotype = {tag: chosen for tag, chosen in by_tag.items() if chosen}
    spec = search_space_utils.prune_model_spec(spec, genotype, prune_filters_by_value=True)
    spec = search_space_utils.scale_conv_tower_spec(spec, filters_multipliers)
    return _with_path_dropout(spec, path_dropout_rate, training)


def get_model_for_search(model_spec, **kwargs):
    """Returns the network of a spec for weight sharing, which always normalizes by its batch.

    Args:
        model_spec: A `ConvTowerSpec`; choices that are open have masks.
        **kwargs: As of `mobile_model_v3.get_model`.

    Returns:
        A `rematlib` layer from images to (logits, endpoints).
    """
    return mobile_model_v3.get_model(model_spec, force_stateless_batch_norm=True, **kwargs)


def get_standalone_model(model_spec, **kwargs):
    """Returns the network of a spec to be trained alone, with moving averages for evaluation.

    Args:
        model_spec: A `ConvTowerSpec` in which every choice has one element.
        **kwargs: As of `mobile_model_v3.get_model`.

    Returns:
        A `rematlib` layer from images to (logits, endpoints).
    """
    return mobile_model_v3.get_model(model_spec, force_stateless_batch_norm=False, **kwargs)


def _with_path_dropout(spec, rate, training):
    """Masks every residual layer that is not skipped; reference networks have no skips to choose.

    The published program pruned by a flat list or not at all and then demanded a dictionary, so
    that no rate but 0 worked.
    """
    search_space_utils.check_path_dropout(rate, training)
    if not search_space_utils.may_drop(rate):
        return spec
    # Not only in training: a setting must not be refused later, when the network is evaluated.
    schema.map_oneofs_with_paths(_check_is_chosen, spec)
    if not training:
        return spec

    def drop(layer):
        if not isinstance(layer, ResidualSpec):
            return layer
        choices = layer.layer.choices if isinstance(layer.layer, OneOf) else [layer.layer]
        if search_space_utils.is_zero(choices[0]):
            return layer
        mask = search_space_utils.path_dropout_mask(rate, training)
        return ResidualSpec(OneOf(choices, OP_TAG, mask))

    blocks = [
        block._replace(layers=[drop(layer) for layer in block.layers]) for block in spec.blocks
    ]
    return ConvTowerSpec(blocks, spec.filters_base)


def _check_is_chosen(path, oneof):
    if oneof.tag == OP_TAG and len(oneof.choices) > 1:
        raise ValueError(
            f"`path_dropout_rate` is for chosen networks, but {path} is still open. Choose by "
            "`indices`, or use a rate of 0."
        )
    return oneof
