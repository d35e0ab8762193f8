"""Forms of random programs: operations that move entries."""

from __future__ import annotations

from partition.fuzz_draft import Draft, Made, UnfitError, form, plus, replaced, times, without
from partition.fuzz_program import Size, fixed, is_fixed


def _list(entries: list[str], d: Draft) -> str:
    """Returns sizes as the argument of a shape."""
    text = ", ".join(entries)
    return f"tf.stack([{text}])" if d.chance(0.3) and "-1" not in text else f"[{text}]"


@form(3)
def merge(d: Draft) -> Made:
    """Makes one axis of two or more."""
    x = d.pick(least=2)
    first = int(d.draw.randint(x.rank - 1))
    last = int(d.draw.randint(first + 1, x.rank))
    merged = times(*x.shape[first : last + 1])
    shape = (*x.shape[:first], merged, *x.shape[last + 1 :])
    entries = [d.size(x, axis) for axis in range(x.rank)]
    middle = " * ".join(entries[first : last + 1])
    sizes = [*entries[:first], middle, *entries[last + 1 :]]
    if d.chance(0.5):
        sizes[d.draw.randint(len(sizes))] = "-1"
    return Made(f"tf.reshape({x.name}, {_list(sizes, d)})", shape)


@form(2)
def part(d: Draft) -> Made:
    """Makes two axes of one."""
    x = d.pick(least=1)
    axis = d.axis(x, lambda size: min(size) > 1 or not is_fixed(size))
    size = x.shape[axis]
    ways = [k for k in (1, 2, 3, 4, 5, 6) if all(entry % k == 0 for entry in size)]
    k = ways[d.draw.randint(len(ways))]
    rest = tuple(entry // k for entry in size)
    entries = [d.size(x, place) for place in range(x.rank)]
    if d.chance(0.5):
        shape = replaced(x.shape, axis, rest, fixed(k))
        entries[axis : axis + 1] = [d.one_of("-1", f"{entries[axis]} // {k}"), str(k)]
    else:
        shape = replaced(x.shape, axis, fixed(k), rest)
        entries[axis : axis + 1] = [str(k), d.one_of("-1", f"{entries[axis]} // {k}")]
    return Made(f"tf.reshape({x.name}, {_list(entries, d)})", shape)


@form(0.7)
def flat(d: Draft) -> Made:
    x = d.pick(least=1)
    if d.chance(0.4):
        if x.rank < 2:
            raise UnfitError
        shape = (x.shape[0], times(*x.shape[1:]))
        return Made(f"tf.reshape({x.name}, [tf.shape({x.name})[0], -1])", shape)
    return Made(f"tf.reshape({x.name}, [-1])", (times(*x.shape),))


@form(0.7)
def regrouped(d: Draft) -> Made:
    """Reshapes so that rows may be torn apart."""
    x = d.pick(least=2)
    order = list(d.draw.permutation(x.rank))
    entries = [d.size(x, axis) for axis in order]
    return Made(
        f"tf.reshape({x.name}, {_list(entries, d)})", tuple(x.shape[axis] for axis in order)
    )


@form(0.5)
def like_another(d: Draft) -> Made:
    x = d.pick(least=1)
    y = d.pick(where=lambda v: times(*v.shape) == times(*x.shape))
    return Made(f"tf.reshape({x.name}, tf.shape({y.name}))", y.shape)


@form(2.5)
def transpose(d: Draft) -> Made:
    x = d.pick(least=2)
    order = [int(axis) for axis in d.draw.permutation(x.rank)]
    text = f"tf.transpose({x.name}, {order})"
    if order == list(range(x.rank))[::-1] and d.chance(0.5):
        text = f"tf.transpose({x.name})"
    return Made(text, tuple(x.shape[axis] for axis in order))


@form(2)
def expand(d: Draft) -> Made:
    x = d.pick(where=lambda v: v.rank < 4)
    axis = int(d.draw.randint(x.rank + 1))
    shape = (*x.shape[:axis], fixed(1), *x.shape[axis:])
    if d.chance(0.4) and x.rank:
        colons = ", ".join([":"] * axis + ["None"])
        return Made(f"{x.name}[{colons}]", shape)
    return Made(f"tf.expand_dims({x.name}, {d.signed(axis, x.rank + 1)})", shape)


@form(1.5)
def squeeze(d: Draft) -> Made:
    x = d.pick(least=1, where=lambda v: fixed(1) in v.shape)
    axis = d.axis(x, lambda size: size == fixed(1))
    return Made(f"tf.squeeze({x.name}, [{d.signed(axis, x.rank)}])", without(x.shape, axis))


@form(1.5)
def tile(d: Draft) -> Made:
    x = d.pick(least=1)
    many: list[str] = []
    shape: list[Size] = []
    for _axis, size in enumerate(x.shape):
        k = int(d.one_of(1, 1, 1, 2, 3))
        if size == fixed(1) and d.chance(0.3):
            rows = [v for v in d.values if v.rank and not is_fixed(v.shape[0])]
            if rows:
                many.append(f"tf.shape({rows[0].name})[0]")
                shape.append(rows[0].shape[0])
                continue
        many.append(str(k))
        shape.append(times(size, fixed(k)))
    return Made(f"tf.tile({x.name}, {_list(many, d)})", tuple(shape))


@form(0.5)
def repeat(d: Draft) -> Made:
    x = d.pick(least=1)
    axis, k = d.axis(x), int(d.draw.randint(2, 4))
    shape = replaced(x.shape, axis, times(x.shape[axis], fixed(k)))
    return Made(f"tf.repeat({x.name}, {k}, axis={axis})", shape)


@form(1.2)
def pad(d: Draft) -> Made:
    x = d.pick(least=1)
    paddings, shape = [], []
    for size in x.shape:
        before, after = (
            int(d.one_of(0, 0, 1, 2)) if is_fixed(size) or d.chance(0.3) else 0 for _ in "ab"
        )
        paddings.append([before, after])
        shape.append(plus(size, before + after))
    mode = d.one_of("CONSTANT", "CONSTANT", "SYMMETRIC", "REFLECT")
    if mode != "CONSTANT":
        limit = 1 if mode == "REFLECT" else 0
        if any(max(p) + limit > min(size) for p, size in zip(paddings, x.shape)):
            raise UnfitError
    more = ", constant_values=.5" if mode == "CONSTANT" and d.chance(0.3) else ""
    return Made(f'tf.pad({x.name}, {paddings}, "{mode}"{more})', tuple(shape))


@form(3)
def slices(d: Draft) -> Made:
    """Takes a part of some axes, and shrinks some."""
    x = d.pick(least=1)
    key: list[str] = []
    shape: list[Size] = []
    at = d.n - 1
    for size in x.shape:
        least = min(size)
        way = d.draw.rand()
        is_row = not is_fixed(size)
        if way < 0.5 or (is_row and way < 0.75):
            key.append(":")
            shape.append(size)
        elif way < 0.6:
            key.append(d.one_of("0", "-1") if least < 2 else d.one_of("0", "-1", "1"))
        elif way < 0.7 and size[at] > 1:
            key.append(d.one_of("1:", ":-1"))
            shape.append(tuple(max(entry - 1, 0) for entry in size))
        elif way < 0.8:
            key.append("::-1")
            shape.append(size)
        elif way < 0.88:
            key.append("::2")
            shape.append(tuple((entry + 1) // 2 for entry in size))
        elif way < 0.94:
            key.append(":2")
            shape.append(tuple(min(entry, 2) for entry in size))
        else:
            key += [":", "None"]
            shape += [size, fixed(1)]
    if d.chance(0.2) and key[0] == ":":
        text = f"{x.name}[..., {', '.join(key[1:])}]" if len(key) > 1 else x.name
        if len(key) == 1 or (":" in key[-1:] and len(key) > 3):
            text = f"{x.name}[{', '.join(key)}]"
    else:
        text = f"{x.name}[{', '.join(key)}]"
    return Made(text, tuple(shape))


@form(1)
def slice_sizes(d: Draft) -> Made:
    x = d.pick(least=1)
    begin, size, shape = [], [], []
    for axis, entries in enumerate(x.shape):
        if is_fixed(entries) and entries[0] > 1:
            low = int(d.draw.randint(entries[0]))
            many = int(d.draw.randint(1, entries[0] - low + 1))
            begin.append(str(low))
            size.append(str(many) if low + many < entries[0] else d.one_of("-1", str(many)))
            shape.append(fixed(many))
        else:
            begin.append("0")
            size.append(d.one_of("-1", d.size(x, axis)))
            shape.append(entries)
    return Made(f"tf.slice({x.name}, [{', '.join(begin)}], [{', '.join(size)}])", tuple(shape))


@form(2)
def concat(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(x)
    others = [v for v in d.values if _fits(x.shape, v.shape, axis) and v.dtype == "float"]
    chosen = [x] + [others[d.draw.randint(len(others))] for _ in range(int(d.draw.randint(1, 3)))]
    d.draw.shuffle(chosen)
    total = fixed(0)
    for value in chosen:
        total = tuple(a + b for a, b in zip(total, value.shape[axis]))
    names = ", ".join(value.name for value in chosen)
    return Made(f"tf.concat([{names}], {d.signed(axis, x.rank)})", replaced(x.shape, axis, total))


def _fits(a: tuple, b: tuple, axis: int) -> bool:
    return len(a) == len(b) and without(a, axis) == without(b, axis)


@form(1.5)
def stack(d: Draft) -> Made:
    x = d.pick(where=lambda v: v.rank < 4)
    y = d.pick(where=lambda v: v.shape == x.shape)
    axis = int(d.draw.randint(x.rank + 1))
    shape = (*x.shape[:axis], fixed(2), *x.shape[axis:])
    return Made(f"tf.stack([{x.name}, {y.name}], {d.signed(axis, x.rank + 1)})", shape)


@form(1)
def unstack(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(x, is_fixed)
    parts = f"tf.unstack({x.name}, {x.shape[axis][0]}, {d.signed(axis, x.rank)})"
    return Made(d.one_of(f"{parts}[-1]", f"tf.add_n({parts})"), without(x.shape, axis))


@form(1.5)
def split(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(
        x, lambda size: all(entry % 2 == 0 for entry in size) or (is_fixed(size) and size[0] > 1)
    )
    size = x.shape[axis]
    if all(entry % 2 == 0 for entry in size) and (is_fixed(size) or d.is_static or d.chance(0.5)):
        half = tuple(entry // 2 for entry in size)
        text = d.one_of(
            "tf.split({x}, 2, {a})[1]",
            "tf.concat(tf.split({x}, 2, {a})[::-1], {a})",
            "(lambda p, q: p * q)(*tf.split({x}, 2, {a}))",
        )
        shape = x.shape if "concat" in text else replaced(x.shape, axis, half)
        return Made(text.format(x=x.name, a=axis), shape)
    if not is_fixed(size):
        raise UnfitError
    low = int(d.draw.randint(1, size[0]))
    index = int(d.draw.randint(2))
    shape = replaced(x.shape, axis, fixed((low, size[0] - low)[index]))
    return Made(f"tf.split({x.name}, [{low}, {size[0] - low}], {axis})[{index}]", shape)


@form(1)
def reverse(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(x)
    way = d.draw.randint(3)
    if way == 0:
        return Made(f"tf.reverse({x.name}, [{d.signed(axis, x.rank)}])", x.shape)
    if way == 1:
        return Made(f"tf.roll({x.name}, {int(d.draw.randint(-2, 3))}, {axis})", x.shape)
    more = d.axis(x)
    axes = sorted({axis, more})
    return Made(f"tf.reverse({x.name}, {axes})", x.shape)


@form(0.5)
def reverse_sequence(d: Draft) -> Made:
    x = d.pick(least=2, where=lambda v: is_fixed(v.shape[1]))
    high = x.shape[1][0]
    k = d.pick("int", rank=1, where=lambda v: v.shape[0] == x.shape[0])
    lengths = f"tf.minimum({k.name}, {high})"
    return Made(f"tf.reverse_sequence({x.name}, {lengths}, seq_axis=1, batch_axis=0)", x.shape)


@form(0.5)
def broadcast_to(d: Draft) -> Made:
    x = d.pick(least=1, where=lambda v: v.rank < 4)
    sizes = [d.size(x, axis) for axis in range(x.rank)]
    many = int(d.draw.randint(1, 4))
    return Made(f"tf.broadcast_to({x.name}, [{many}, {', '.join(sizes)}])", (fixed(many), *x.shape))


@form(0.4)
def meshgrid(d: Draft) -> Made:
    x, y = d.pick(rank=1), d.pick(rank=1)
    index = d.draw.randint(2)
    return Made(f"tf.meshgrid({x.name}, {y.name})[{index}]", (y.shape[0], x.shape[0]))


@form(0.5)
def integers_moved(d: Draft) -> Made:
    k = d.pick("int", least=1, where=lambda v: v.rank < 3)
    text, shape = d.one_of(
        (f"tf.expand_dims({k.name}, 1)", (k.shape[0], fixed(1), *k.shape[1:])),
        (f"tf.reverse({k.name}, [0])", k.shape),
        (f"tf.reshape({k.name}, [-1])", (times(*k.shape),)),
        (
            f"tf.tile({k.name}, {[2] + [1] * (k.rank - 1)})",
            replaced(k.shape, 0, times(k.shape[0], fixed(2))),
        ),
    )
    return Made(text, shape, "int", k.high)
