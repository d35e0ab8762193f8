"""Selects activations to store: those that save most time for their memory.

Recomputing takes the same time for all units, because later stages have more channels and fewer
pixels. Storing does not take the same memory: half as much with each stage. Nor does it save the
same time: stored inputs of a unit's layers save its convolutions, while the tensors that these
convolve are computed from those inputs by a batch norm, or are equal to them in the first layer. So
the available memory goes to the inputs of as many units as possible, from the last unit of the last
stage on, and the rest to the tensors that their layers convolve.

`RevNetConfig.stored_units` says how much that is: as much as the activations of so many units of
each stage but the first. It does not grow with the units.
"""

import itertools
import operator

NOTHING, INPUTS, ALL = range(3)


def plan(config):
    """Returns which activations are stored of each unit.

    Args:
        config: A `RevNetConfig`.

    Returns:
        `NOTHING`, `INPUTS` of its layers, or `ALL`: a list of those of the units for each stage.
        The first unit of a stage, which cannot be inverted, and the first stage store nothing.
    """
    if not config.recompute:
        return [[ALL] * units for units in config.units]
    stored = [[NOTHING] * units for units in config.units]
    sizes = _sizes(config)
    left = sum(
        sum(sizes[stage]) * min(config.stored_units, units - 1)
        for stage, units in enumerate(config.units)
        if stage > 0
    )
    for level in (INPUTS, ALL):
        for stage in reversed(range(1, len(stored))):
            for unit in reversed(range(1, len(stored[stage]))):
                size = sizes[stage][level - 1]
                if size > left:
                    break
                stored[stage][unit] += 1
                left -= size
    return stored


def _sizes(config):
    """Returns the values of the inputs of a unit's layers, and of what else they convolve.

    A list of pairs, by stage, in units of their own.
    """
    strides = list(itertools.accumulate(config.strides, operator.mul))
    behind = 2 if config.bottleneck else 1  # layers behind the first
    made = []
    for width, filters, stride in zip(config.stage_widths, config.filters, strides):
        pixels = (strides[-1] // stride) ** 2
        between = behind * filters * pixels
        made.append((width * pixels + between, between))
    return made
