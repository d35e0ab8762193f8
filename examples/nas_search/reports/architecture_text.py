"""Writes a network of the search space as lines of text for people.

A *layer* is an entry of a block's `layers`. Open choices are written as alternatives: `3|5|7`.
"""

from examples.nas_search import basic_specs, schema
from examples.nas_search import mobile_search_space_v3 as space


def describe(model_spec, layer_costs=()):
    """Returns a description of a network.

    Args:
        model_spec: A `ConvTowerSpec`. Choices that are pruned to one alternative read like that
            alternative.
        layer_costs: The `LayerCost`s of `network_cost.network_cost`, if they are to be shown.

    Returns:
        List of strings: for each block a headline with its width, then one indented line per layer,
        with the size of its output, its multiply-adds and its parameters if it has any.
    """
    costs = {layer.path: layer for layer in layer_costs}
    rows = []
    for number, block in enumerate(model_spec.blocks):
        rows.append((f"block {number}, width {text(block.filters)}", "", "", ""))
        for index, layer in enumerate(block.layers):
            rows.append((f"  {text(layer)}", *_cost(costs.get(f"blocks/{number}/layers/{index}"))))
    if "classifier" in costs:
        rows.append(("classifier", *_cost(costs["classifier"])))
    return aligned(rows, "<<>>")


def aligned(rows, directions):
    """Returns the rows of a table as lines.

    Args:
        rows: List of tuples of strings, each with C columns.
        directions: String of length C: `<` for columns that start one below another, `>` for
            columns that end so.

    Returns:
        List of strings.
    """
    formats = [f"{way}{max(map(len, cells))}" for way, cells in zip(directions, zip(*rows))]
    return ["  ".join(map(format, row, formats)).rstrip() for row in rows]


def _cost(layer):
    """Returns the columns of a layer's cost; blank if it costs nothing."""
    if layer is None or not layer.params:
        return "", "", ""
    shape = "×".join(map(str, layer.output_shape))
    return shape, f"{layer.madds:,} MAdds", f"{layer.params:,} parameters"


def text(spec):
    """Returns a layer, a choice or a value in words, e.g. `bottleneck 5×5, expansion ×6, relu`."""
    if isinstance(spec, schema.OneOf):
        return _alternatives(spec)
    writer = _WRITERS.get(type(spec))
    return writer(spec) if writer else str(spec)


def brief(spec):
    """Like `text`, but leaves out the settings of a layer in which some are still to be chosen."""
    open_inside = []
    schema.map_oneofs(open_inside.append, spec)
    words = text(spec)
    return words.split(" ")[0] if open_inside else words


def _alternatives(oneof):
    texts = [text(choice) for choice in oneof.choices]
    if len(texts) == 1:
        return texts[0]
    return "|".join(f"({each})" if " " in each else each for each in texts)


def kernel(kernel_size):
    """Returns the size of a kernel in words: `5×5` for 5 and for (5, 5), `3×5` for (3, 5)."""
    if isinstance(kernel_size, schema.OneOf):
        texts = [kernel(choice) for choice in kernel_size.choices]
        return "|".join(texts)
    if isinstance(kernel_size, (list, tuple)):
        return _pair(kernel_size)
    return f"{kernel_size}×{kernel_size}"


def _pair(sides):
    return "×".join(map(str, sides))


def _stride(strides):
    """Returns a phrase with a comma before it, empty for stride 1."""
    rows, columns = strides if isinstance(strides, (list, tuple)) else (strides, strides)
    if rows == columns:
        return f", stride {rows}" if rows != 1 else ""
    return f", stride {rows}×{columns}"


def _convolution(spec):
    norm = ", batch norm" if spec.use_batch_norm else ", bias"
    return f"convolution {kernel(spec.kernel_size)}{_stride(spec.strides)}{norm}"


def _separable(spec):
    size, stride = kernel(spec.kernel_size), _stride(spec.strides)
    return f"separable convolution {size}{stride}, {text(spec.activation)}"


def _bottleneck(spec):
    expansion, squeeze = text(spec.expansion_filters), text(spec.use_squeeze_and_excite)
    squeeze = {"False": "", "True": ", squeeze-and-excite"}.get(
        squeeze, f", squeeze-and-excite {squeeze}"
    )
    size, stride = kernel(spec.kernel_size), _stride(spec.strides)
    return f"bottleneck {size}, expansion {expansion}{stride}{squeeze}, {text(spec.activation)}"


def _pool(spec):
    return f"{spec.kind} pool {kernel(spec.pool_size)}{_stride(spec.strides)}"


def _residual(spec):
    inner = text(spec.layer)
    # The sum of the input and of zeros is the input.
    return "skipped" if inner == "skip" else f"{inner}, residual"


# By class: namedtuples without fields are all equal.
_WRITERS = {
    basic_specs.ZeroSpec: lambda spec: "skip",
    basic_specs.FilterMultiplier: lambda spec: f"×{spec.scale:g}",
    space.ActivationSpec: lambda spec: spec.name,
    space.ConvSpec: _convolution,
    space.SeparableConvSpec: _separable,
    space.DepthwiseBottleneckSpec: _bottleneck,
    space.PoolSpec: _pool,
    space.GlobalAveragePoolSpec: lambda spec: "global average pool",
    space.ResidualSpec: _residual,
    space.DetectionEndpointSpec: lambda spec: "endpoint for detection",
    # Pairs (vertical, horizontal), which are options of a kernel's size.
    list: _pair,
    tuple: _pair,
}
