"""Forms of random programs: matrix products, convolutions, pooling, linear algebra."""

from __future__ import annotations

from partition.fuzz_draft import Draft, Made, UnfitError, form, plus, replaced, times, without
from partition.fuzz_program import fixed, is_fixed


@form(6)
def dense(d: Draft) -> Made:
    x = d.pick(least=2, where=lambda v: is_fixed(v.shape[-1]))
    units = int(d.draw.randint(1, 6))
    v = d.variable(x.shape[-1][0], units)
    shape = (*x.shape[:-1], fixed(units))
    if x.rank == 2:
        if d.chance(0.2):
            v = d.variable(units, x.shape[-1][0])
            return Made(f"tf.matmul({x.name}, {v.name}, transpose_b=True)", shape)
        return Made(f"tf.matmul({x.name}, {v.name})", shape)
    axes = f"[[{d.signed(x.rank - 1, x.rank)}], [0]]"
    return Made(f"tf.tensordot({x.name}, {v.name}, {axes})", shape)


@form(2.5)
def matmul(d: Draft) -> Made:
    x = d.pick(least=2)
    y = d.pick(least=2, where=lambda v: d.broadcast(v.shape[:-2], x.shape[:-2]) is not None)
    batch = d.broadcast(x.shape[:-2], y.shape[:-2])
    if batch is None:
        raise UnfitError
    (m, k), (p, q) = x.shape[-2:], y.shape[-2:]
    options = [
        (f"transpose_{'a' if a else 'n'}", a, b)
        for a in (False, True)
        for b in (False, True)
        if d.same(m if a else k, q if b else p)
    ]
    if not options:
        raise UnfitError
    _, a, b = options[d.draw.randint(len(options))]
    flags = (", transpose_a=True" if a else "") + (", transpose_b=True" if b else "")
    shape = (*batch, k if a else m, p if b else q)
    return Made(f"tf.matmul({x.name}, {y.name}{flags})", shape, is_wild=d.chance(0.3))


@form(1)
def gram(d: Draft) -> Made:
    """Similarities of all pairs, or of all columns."""
    x = d.pick(least=2)
    flag, axis = d.one_of(("transpose_b", -2), ("transpose_a", -1))
    shape = (*x.shape[:-2], x.shape[axis], x.shape[axis])
    return Made(f"tf.matmul({x.name}, {x.name}, {flag}=True)", shape, is_wild=d.chance(0.5))


_LETTERS = "ijklm"


@form(2.5)
def einsum(d: Draft) -> Made:
    """One or two operands with random labels, and a random result."""
    x = d.pick(least=1)
    labels = list(_LETTERS[: x.rank])
    sizes = dict(zip(labels, x.shape))
    terms, names = ["".join(labels)], [x.name]
    if d.chance(0.8):
        y = d.pick(least=1, where=lambda v: v.rank <= 3)
        term = ""
        for size in y.shape:
            free = [c for c in labels if c not in term and d.same(sizes[c], size)]
            if free and d.chance(0.75):
                term += free[d.draw.randint(len(free))]
            else:
                new = next(c for c in "pqrs" if c not in term)
                term += new
                sizes[new] = size
        terms.append(term)
        names.append(y.name)
    every = list(dict.fromkeys("".join(terms)))
    d.draw.shuffle(every)
    result = "".join(every[: int(d.draw.randint(0, min(4, len(every)) + 1))])
    shape = tuple(sizes[c] for c in result)
    return Made(
        f'tf.einsum("{",".join(terms)}->{result}", {", ".join(names)})',
        shape,
        is_wild=d.chance(0.4),
    )


@form(0.7)
def tensordot(d: Draft) -> Made:
    x, y = d.pick(least=1), d.pick(least=1)
    pairs = [(i, j) for i, s in enumerate(x.shape) for j, t in enumerate(y.shape) if d.same(s, t)]
    if not pairs:
        raise UnfitError
    i, j = pairs[d.draw.randint(len(pairs))]
    shape = (*without(x.shape, i), *without(y.shape, j))
    return Made(f"tf.tensordot({x.name}, {y.name}, [[{i}], [{j}]])", shape, is_wild=d.chance(0.4))


# Convolutions and pooling


def _window(d: Draft, size: int, padding: str) -> int:
    return int(d.draw.randint(1, (min(3, size) if padding == "VALID" else 3) + 1))


def _after(size: int, window: int, stride: int, padding: str) -> int:
    return -(-size // stride) if padding == "SAME" else (size - window) // stride + 1


@form(1.5)
def conv1d(d: Draft) -> Made:
    x = d.pick(rank=3, where=lambda v: is_fixed(v.shape[1]) and is_fixed(v.shape[2]))
    (length, channels), padding = (x.shape[1][0], x.shape[2][0]), d.one_of("SAME", "VALID")
    window, stride, out = (
        _window(d, length, padding),
        int(d.draw.randint(1, 3)),
        int(d.draw.randint(1, 4)),
    )
    v = d.variable(window, channels, out)
    shape = (x.shape[0], fixed(_after(length, window, stride, padding)), fixed(out))
    return Made(f'tf.nn.conv1d({x.name}, {v.name}, {stride}, "{padding}")', shape)


def _image(d: Draft) -> Value:  # type: ignore  # noqa: F821
    return d.pick(rank=4, where=lambda v: all(is_fixed(size) for size in v.shape[1:]))


@form(1.5)
def conv2d(d: Draft) -> Made:
    x = _image(d)
    h, w, c = (size[0] for size in x.shape[1:])
    padding = d.one_of("SAME", "VALID")
    a, b = _window(d, h, padding), _window(d, w, padding)
    s = int(d.draw.randint(1, 3))
    out = int(d.draw.randint(1, 4))
    if d.chance(0.3):
        v = d.variable(a, b, c, 2)
        text = f'tf.nn.depthwise_conv2d({x.name}, {v.name}, [1, {s}, {s}, 1], "{padding}")'
        out = 2 * c
    else:
        v = d.variable(a, b, c, out)
        text = f'tf.nn.conv2d({x.name}, {v.name}, strides=[1, {s}, {s}, 1], padding="{padding}")'
    sizes = (fixed(_after(h, a, s, padding)), fixed(_after(w, b, s, padding)), fixed(out))
    return Made(text, (x.shape[0], *sizes))


@form(0.5)
def conv2d_transpose(d: Draft) -> Made:
    x = _image(d)
    h, w, c = (size[0] for size in x.shape[1:])
    out = int(d.draw.randint(1, 3))
    v = d.variable(2, 2, out, c)
    to = f"[{d.size(x, 0)}, {2 * h}, {2 * w}, {out}]"
    text = f'tf.nn.conv2d_transpose({x.name}, {v.name}, {to}, [1, 2, 2, 1], "SAME")'
    return Made(text, (x.shape[0], fixed(2 * h), fixed(2 * w), fixed(out)))


@form(1.5)
def pool2d(d: Draft) -> Made:
    x = _image(d)
    h, w = x.shape[1][0], x.shape[2][0]
    padding = d.one_of("SAME", "VALID")
    a, b, s = _window(d, h, padding), _window(d, w, padding), int(d.draw.randint(1, 3))
    kind = d.one_of("max_pool", "avg_pool")
    text = f'tf.nn.{kind}({x.name}, [1, {a}, {b}, 1], [1, {s}, {s}, 1], "{padding}")'
    sizes = (fixed(_after(h, a, s, padding)), fixed(_after(w, b, s, padding)), x.shape[3])
    return Made(text, (x.shape[0], *sizes))


@form(0.7)
def pool1d(d: Draft) -> Made:
    x = d.pick(rank=3, where=lambda v: is_fixed(v.shape[1]) and is_fixed(v.shape[2]))
    length, padding = x.shape[1][0], d.one_of("SAME", "VALID")
    a, kind = _window(d, length, padding), d.one_of("MAX", "AVG")
    text = f'tf.nn.pool({x.name}, [{a}], "{kind}", "{padding}")'
    return Made(text, (x.shape[0], fixed(_after(length, a, 1, padding)), x.shape[2]))


@form(0.6)
def image(d: Draft) -> Made:
    x = _image(d)
    h, w, c = (size[0] for size in x.shape[1:])
    way = d.draw.randint(4)
    if way == 0:
        text = f"tf.image.resize_nearest_neighbor({x.name}, [{h + 1}, {2 * w}])"
        return Made(text, (x.shape[0], fixed(h + 1), fixed(2 * w), x.shape[3]))
    if way == 1 and h % 2 == 0 and w % 2 == 0:
        sizes = (fixed(h // 2), fixed(w // 2), fixed(4 * c))
        return Made(f"tf.space_to_depth({x.name}, 2)", (x.shape[0], *sizes))
    if way == 2 and c % 4 == 0:
        sizes = (fixed(2 * h), fixed(2 * w), fixed(c // 4))
        return Made(f"tf.depth_to_space({x.name}, 2)", (x.shape[0], *sizes))
    if h % 2 == 0 and w % 2 == 0:
        text = f"tf.space_to_batch_nd({x.name}, [2, 2], [[0, 0], [0, 0]])"
        sizes = (times(x.shape[0], fixed(4)), fixed(h // 2), fixed(w // 2), x.shape[3])
        return Made(text, sizes)
    text = f'tf.image.extract_image_patches({x.name}, [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME")'
    return Made(text, x.shape)


# Linear algebra


@form(0.8)
def square_matrix(d: Draft) -> Made:
    x = d.pick(least=2, where=lambda v: v.shape[-1] == v.shape[-2])
    text, rank = d.one_of(
        ("tf.linalg.diag_part({x})", 1),
        ("tf.linalg.trace({x})", 0),
        ("tf.linalg.set_diag({x}, tf.linalg.diag_part({x}) * 0.)", 2),
        ("tf.linalg.band_part({x}, -1, 0)", 2),
        ("tf.linalg.band_part({x}, 0, 1)", 2),
        ("tf.matrix_inverse(tf.tanh({x}) * .1 + tf.eye(tf.shape({x})[-1], dtype=tf.float64))", 2),
        ("tf.linalg.transpose({x})", 2),
        (
            "tf.matrix_determinant(tf.tanh({x}) * .1 + tf.eye(tf.shape({x})[-1], dtype=tf.float64))",
            0,
        ),
        (
            "tf.cholesky(.1 * tf.tanh({x}) * tf.eye(tf.shape({x})[-1], dtype=tf.float64) + "
            "tf.eye(tf.shape({x})[-1], dtype=tf.float64))",
            2,
        ),
    )
    shape = (*x.shape[:-2], *x.shape[-2:][:rank])
    return Made(text.format(x=x.name), shape)


@form(0.4)
def diagonal(d: Draft) -> Made:
    x = d.pick(least=1)
    return Made(f"tf.linalg.diag({x.name})", (*x.shape, x.shape[-1]))


@form(0.4)
def solve(d: Draft) -> Made:
    x = d.pick(least=2, where=lambda v: is_fixed(v.shape[-2]))
    size = x.shape[-2][0]
    if x.rank > 2:
        raise UnfitError
    v = d.variable(size, size)
    eye = f"tf.eye({size}, dtype=tf.float64)"
    text = d.one_of(
        f"tf.matrix_solve({eye} + .1 * tf.tanh({v.name}), {x.name})",
        f"tf.matrix_triangular_solve(2. * {eye} + .1 * tf.tanh({v.name}), {x.name})",
    )
    return Made(text, x.shape)


@form(0.3)
def patches(d: Draft) -> Made:
    x = _image(d)
    h, w, c = (size[0] for size in x.shape[1:])
    if h < 2 or w < 2:
        raise UnfitError
    text = f'tf.image.extract_image_patches({x.name}, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")'
    return Made(text, (x.shape[0], plus(x.shape[1], -1), plus(x.shape[2], -1), fixed(4 * c)))


@form(0.3)
def outer(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(x)
    before, after = ", ".join([":"] * (axis + 1)), ", ".join([":"] * axis)
    shape = replaced(x.shape, axis, x.shape[axis], x.shape[axis])
    left = f"{x.name}[{before}, None]"
    right = f"{x.name}[{after}{', ' if after else ''}None]"
    return Made(f"{left} {d.one_of('*', '-', '+')} {right}", shape, is_wild=d.chance(0.3))
