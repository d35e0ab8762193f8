"""Forms of random programs: losses, statistics, state, control flow, Python functions."""

from __future__ import annotations

from partition.fuzz_draft import Draft, Made, UnfitError, form, replaced, without
from partition.fuzz_program import ROWS, fixed, is_fixed


@form(1.5)
def cross_entropy(d: Draft) -> Made:
    x = d.pick(least=2)
    kind = d.one_of("sparse", "softmax", "sigmoid", "weighted")
    if kind == "sparse":
        k = d.pick(
            "int", where=lambda v: v.shape == x.shape[:-1] and 0 < v.high <= min(x.shape[-1])
        )
        text = f"tf.nn.sparse_softmax_cross_entropy_with_logits(labels={k.name}, logits={x.name})"
        return Made(text, x.shape[:-1])
    y = d.pick(where=lambda v: v.shape == x.shape)
    if kind == "softmax":
        labels = d.one_of(f"tf.nn.softmax({y.name})", f"tf.stop_gradient(tf.sigmoid({y.name}))")
        text = f"tf.nn.softmax_cross_entropy_with_logits_v2(labels={labels}, logits={x.name})"
        return Made(text, x.shape[:-1])
    labels = f"tf.sigmoid({y.name})"
    if kind == "sigmoid":
        text = f"tf.nn.sigmoid_cross_entropy_with_logits(labels={labels}, logits={x.name})"
    else:
        text = f"tf.nn.weighted_cross_entropy_with_logits({labels}, {x.name}, 1.5)"
    return Made(text, x.shape)


@form(1)
def losses(d: Draft) -> Made:
    """Losses of TensorFlow 1, which are in float32."""
    if "float32" not in d.types:
        raise UnfitError
    x = d.pick(least=1)
    y = d.pick(where=lambda v: v.shape == x.shape)
    weights = d.one_of("", f", weights=tf.cast({x.name} > 0., tf.float32)", ", weights=.5")
    reduction = d.one_of("", ", reduction='weighted_mean'", ", reduction='weighted_sum'")
    text = d.one_of(
        "tf.losses.mean_squared_error({y}, {x}{w}{r})",
        "tf.losses.absolute_difference({y}, {x}{w}{r})",
        "tf.losses.huber_loss({y}, {x}{w}{r})",
        "tf.losses.log_loss(tf.sigmoid({y}), tf.sigmoid({x}){w}{r})",
        "tf.losses.sigmoid_cross_entropy(tf.sigmoid({y}), {x}{w}{r})",
        "tf.losses.hinge_loss(tf.round(tf.sigmoid({y})), {x}{w}{r})",
        "tf.losses.mean_pairwise_squared_error({y}, {x})",
        "tf.losses.cosine_distance({y}, {x}, axis=0{r})",
    )
    text = text.format(x=x.name, y=y.name, w=weights, r=reduction)
    return Made(f"tf.cast({text}, tf.float64)", (), computed="float32")


@form(0.5)
def fused_batch_norm(d: Draft) -> Made:
    """The fused kernel, in float32, by moments that are no batch's."""
    x = d.pick(rank=4, where=lambda v: is_fixed(v.shape[3]))
    if "float32" not in d.types:
        raise UnfitError
    ones = f"tf.ones([{x.shape[3][0]}])"
    text = (
        f"tf.cast(tf.nn.fused_batch_norm(tf.cast({x.name}, tf.float32), {ones}, .1 * {ones}, "
        f"mean=.2 * {ones}, variance=2. * {ones}, is_training=False)[0], tf.float64)"
    )
    return Made(text, x.shape, computed="float32")


@form(1.2)
def batch_norm(d: Draft) -> Made:
    """Normalises by the batch's moments, with moving averages sometimes."""
    x = d.pick(least=2)
    axes = [axis for axis in range(x.rank - 1) if axis == 0 or d.chance(0.5)]
    name = d.name("m")
    first = f"{name} = tf.nn.moments({x.name}, {axes}, keepdims=True)"
    lines = [first]
    if d.chance(0.5):
        text = f"tf.nn.batch_normalization({x.name}, {name}[0], {name}[1], None, None, .1)"
    else:
        text = f"({x.name} - {name}[0]) * tf.rsqrt({name}[1] + .1)"
    if is_fixed(x.shape[-1]) and len(axes) == x.rank - 1 and d.chance(0.6):
        width = x.shape[-1][0]
        state = d.state(f"[{width}]")
        update = d.name("u")
        moved = f"tf.reshape({name}[0], [{width}])"
        lines.append(f"{update} = {state}.assign_sub(.1 * ({state} - {moved})).op")
        d.updates.append(update)
    return Made("\n".join([*lines, text]), x.shape)


@form(0.8)
def assigned(d: Draft) -> Made:
    """Assigns to a variable what is made of the batch, and reads it."""
    x = d.pick()
    state = d.state("[]")
    value = d.one_of(
        f"tf.reduce_mean({x.name})", f"tf.reduce_sum(tf.tanh({x.name}))", f"tf.reduce_max({x.name})"
    )
    verb = d.one_of("assign", "assign_add", "assign_sub")
    name = d.name("m")
    head = f"with tf.control_dependencies([{state}.{verb}({value}).op]):"
    text = d.one_of(f"{x.name} * tf.tanh({state}.read_value())", f"{x.name} + {state}.read_value()")
    return Made(f"{head}\n    {name} = {text}\ntf.identity({name})", x.shape, is_wild=True)


@form(0.8)
def waiting(d: Draft) -> Made:
    """Waits for assertions, or for anything else."""
    x = d.pick()
    y = d.pick()
    k = d.pick("int")
    before = d.one_of(
        f"tf.assert_less(tf.reduce_max(tf.abs({y.name})), tf.constant(1e300, tf.float64))",
        f"tf.assert_non_negative({k.name})",
        f"tf.debugging.assert_greater(tf.size({y.name}), -1)",
        f"tf.debugging.assert_all_finite({y.name}, '')",
        f"tf.assert_equal(tf.shape({y.name}), tf.shape({y.name}))",
        f"{y.name}",
        f"tf.tanh({y.name})",
        "tf.no_op()",
    )
    name = d.name("m")
    text = d.one_of(f"tf.identity({x.name})", f"tf.sin({x.name})", f"{x.name} * {d.number()}")
    head = f"with tf.control_dependencies([{before}]):"
    return Made(f"{head}\n    {name} = {text}\ntf.identity({name})", x.shape)


@form(0.6)
def python(d: Draft) -> Made:
    x = d.pick()
    text, shape = d.one_of(
        ("tf.py_func(lambda a: np.tanh(a) * 2., [{x}], tf.float64)", x.shape),
        ("tf.numpy_function(lambda a: a - a.mean(), [{x}], tf.float64)", x.shape),
        ("tf.py_func(lambda a: np.float64(np.cos(a).sum()), [{x}], tf.float64)", ()),
    )
    name = d.name("m")
    to = f"{x.name}.shape" if shape else "[]"
    return Made(f"{name} = {text.format(x=x.name)}\n{name}.set_shape({to})\n{name}", shape)


@form(0.8)
def conditional(d: Draft) -> Made:
    x = d.pick()
    y = d.pick()
    condition = d.one_of(
        f"tf.reduce_mean({y.name}) > 0.", f"tf.size({y.name}) > 5", f"tf.reduce_max({y.name}) < .3"
    )
    one, other = d.one_of(
        (f"{x.name} * 2.", f"tf.sin({x.name})"),
        (f"tf.identity({x.name})", f"{x.name} - tf.reduce_mean({x.name})"),
        (f"tf.tanh({x.name})", f"tf.zeros_like({x.name})"),
        (
            f"tf.sin({x.name}) * tf.reduce_max({x.name})",
            f"tf.fill(tf.shape({x.name}), {d.number()})",
        ),
        (f"tf.cond(tf.size({y.name}) > 7, lambda: -{x.name}, lambda: tf.sin({x.name}))", x.name),
        (_going_round(d, x.name), _going_round(d, x.name)),
        (_going_round(d, x.name), f"{x.name} * .5"),
    )
    return Made(f"tf.cond({condition}, lambda: {one}, lambda: {other})", x.shape)


def _going_round(d: Draft, x: str) -> str:
    """Returns a loop in a branch."""
    body = d.one_of(
        "tf.tanh(a) * .9",
        f"a * .5 + {x} * .3",
        f"tf.tanh(a) * tf.reduce_max({x})",
        "tf.sin(a) + tf.zeros(tf.shape(a), tf.float64)",
        "tf.cond(tf.equal(i, 1), lambda: tf.tanh(a), lambda: a * .5)",
        f"a * .5 + tf.reduce_sum(tf.sin({x})) * .1",
    )
    rounds = d.one_of("2", f"tf.minimum(tf.size({x}), 3)", "0")
    return (
        f"tf.while_loop(lambda i, _: i < {rounds}, lambda i, a: (i + 1, {body}), "
        f"[tf.constant(0), {x}])[1]"
    )


@form(0.8)
def loop(d: Draft) -> Made:
    x = d.pick()
    steps = int(d.draw.randint(1, 4))
    body = d.one_of(
        "tf.tanh(a) * .9",
        f"a * .5 + {x.name} * .3",
        "a - .1 * tf.reduce_mean(a)",
        "tf.sin(a + 1.)",
        "tf.cond(tf.equal(i, 1), lambda: tf.tanh(a), lambda: a * .5)",
        "tf.tanh(a + tf.zeros(tf.shape(a), tf.float64) + tf.cast(i, tf.float64))",
        f"tf.tanh(a) * tf.reduce_max({x.name})",
        "tf.while_loop(lambda j, _: j < i, lambda j, b: (j + 1, tf.tanh(b)), [0, a])[1]",
        *["tf.while_loop(lambda j, _: j < 2, lambda j, b: (j + 1, tf.tanh(b * w)), [0, a])[1]"] * 2,
        "tf.tanh(a + tf.reshape(tf.cast(tf.range(tf.size(a)) % 2, tf.float64), tf.shape(a)))",
    )
    if "* w)" in body:  # A weight of the inner loop.
        body = body.replace("* w)", f"* {d.variable(1, 1).name}[0, 0])")
    text = (
        f"tf.while_loop(lambda i, a: i < {steps}, lambda i, a: (i + 1, {body}), "
        f"[tf.constant(0), {x.name}])[1]"
    )
    return Made(text, x.shape)


@form(0.6)
def summed_in_a_loop(d: Draft) -> Made:
    """Adds up, round by round, what a variable makes of the rows."""
    x = d.pick(rank=2, where=lambda v: is_fixed(v.shape[1]))
    w = d.variable(x.shape[1][0], 2)
    what = d.one_of("tf.reduce_sum({})", "tf.reduce_mean({})", "tf.reduce_sum(tf.square({}))")
    step = what.format(f"tf.tanh(tf.matmul({x.name}, {w.name}) + tf.cast(i, tf.float64))")
    text = (
        f"tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + {step}), "
        f"[0, tf.constant({d.number()}, tf.float64)])[1]"
    )
    return Made(text, ())


@form(0.6)
def kept_in_a_loop(d: Draft) -> Made:
    """Goes through time in a loop, and keeps what each step makes."""
    x = d.pick(rank=3)
    cell = d.one_of(
        "tf.tanh(a + b)",
        "a * .5 + tf.sin(b)",
        "tf.tanh(b) * tf.reduce_max(a, 1, True)",
        "tf.scan(lambda c, e: tf.tanh(c * .7 + e), tf.stack([a, b, a * b]), b)[-1]",
        "tf.reduce_sum(tf.map_fn(lambda c: tf.sin(c) * a, tf.stack([a, b])), 0)",
    )
    steps, begin = f"tf.transpose({x.name}, [1, 0, 2])", f"tf.zeros_like({x.name}[:, 0])"
    text = d.one_of(
        f"tf.scan(lambda a, b: {cell}, {steps}, {begin})",
        f"tf.map_fn(lambda b: tf.tanh(b) * tf.cos({x.name}[:, 0]), {steps})",
    )
    return Made(f"tf.transpose({text}, [1, 0, 2])", x.shape)


@form(0.4)
def listed_in_a_loop(d: Draft) -> Made:
    """Changes a list of rows in each round, and tells how many are left."""
    x = d.pick(rank=2)
    zero = f"tf.cast(0. * tf.reduce_sum(tf.gather({x.name}, a)), tf.int32)"
    text = d.one_of(f"tf.concat([a, a[:1] + {zero}], 0)", f"a[1:] + {zero}", f"a[::2] + {zero}")
    shapes = "[tf.TensorShape([]), tf.TensorShape([None])]"
    listed = (
        f"tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, {text}), "
        f"[0, tf.range(tf.shape({x.name})[0])], {shapes})[1]"
    )
    return Made(f"tf.reduce_mean({x.name}) * tf.cast(tf.size({listed}), tf.float64)", ())


@form(0.6)
def mapped(d: Draft) -> Made:
    x = d.pick(least=1)
    if d.chance(0.5):
        text = d.one_of(
            "tf.map_fn(lambda a: tf.tanh(a) * .5, {x})",
            "tf.map_fn(lambda a: a - tf.reduce_mean(a), {x})",
        )
        return Made(text.format(x=x.name), x.shape)
    text = "tf.scan(lambda a, b: tf.tanh(a * .5 + b), {x}, initializer=tf.zeros_like({x}[0]))"
    return Made(text.format(x=x.name), x.shape)


@form(0.3)
def function(d: Draft) -> Made:
    x = d.pick()
    text = d.one_of(
        "tf.tanh(a) + 1.", "a - tf.reduce_mean(a)", "a * tf.cast(tf.size(a), tf.float64) * .1"
    )
    return Made(f"tf.function(lambda a: {text})({x.name})", x.shape)


@form(1)
def of_gradients(d: Draft) -> Made:
    """The gradient of something in the middle, which is a part of the program then."""
    if d.has_loops:
        raise UnfitError
    x = d.pick(least=1)
    y = d.pick(where=lambda v: v.name != x.name and v.name[0] == "t")
    what = d.one_of(f"tf.reduce_sum({y.name})", y.name, f"tf.reduce_mean(tf.square({y.name}))")
    more = f", grad_ys=tf.ones_like({y.name}) * .5" if what == y.name and d.chance(0.5) else ""
    more += f", stop_gradients=[{x.name}]" if d.chance(0.2) else ""
    name = d.name("m")
    head = f"{name} = tf.gradients({what}, {x.name}{more})[0]"
    return Made(
        f"{head}\ntf.zeros_like({x.name}) if {name} is None else {name}", x.shape, is_wild=True
    )


@form(0.3)
def custom_gradient(d: Draft) -> Made:
    x = d.pick()
    text = "tf.custom_gradient(lambda a: (tf.tanh(a), lambda g: g * .5 * tf.cast(tf.size(g), tf.float64)))({x})"
    return Made(text.format(x=x.name), x.shape, is_wild=True)


@form(0.6)
def attention(d: Draft) -> Made:
    """Attends to other positions, or to other rows."""
    x = d.pick(least=2, where=lambda v: v.rank < 4)
    y = d.pick(
        rank=x.rank, where=lambda v: v.shape[:-2] == x.shape[:-2] and v.shape[-1] == x.shape[-1]
    )
    scores = f"tf.nn.softmax(tf.matmul({x.name}, {y.name}, transpose_b=True))"
    return Made(f"tf.matmul({scores}, {y.name})", x.shape)


@form(0.5)
def in_batch(d: Draft) -> Made:
    """Tells each row's partner from those of other rows."""
    x = d.pick(rank=2, where=lambda v: v.shape[0] == ROWS)
    y = d.pick(rank=2, where=lambda v: d.same(v.shape[1], x.shape[1]) and v.shape[0] == ROWS)
    scores = f"tf.tanh(tf.matmul({x.name}, {y.name}, transpose_b=True))"
    labels = f"tf.range(tf.shape({x.name})[0])"
    text = f"tf.nn.sparse_softmax_cross_entropy_with_logits(labels={labels}, logits={scores})"
    return Made(text, (ROWS,))


@form(0.5)
def covariance(d: Draft) -> Made:
    x = d.pick(rank=2, where=lambda v: v.shape[0] == ROWS and is_fixed(v.shape[1]))
    name = d.name("m")
    head = f"{name} = {x.name} - tf.reduce_mean({x.name}, 0)"
    text = f"tf.matmul({name}, {name}, transpose_a=True) / tf.cast({d.size(x, 0)}, tf.float64)"
    return Made(f"{head}\n{text}", (x.shape[1], x.shape[1]))


@form(0.5)
def recurrent(d: Draft) -> Made:
    """Goes through time step by step, unrolled."""
    x = d.pick(rank=3, where=lambda v: is_fixed(v.shape[1]) and is_fixed(v.shape[2]))
    v = d.variable(x.shape[2][0] + 2, 2)
    name, steps = d.name("m"), min(3, x.shape[1][0])
    lines = [f"{name} = tf.zeros([{d.size(x, 0)}, 2], tf.float64)"]
    lines += [
        f"{name} = tf.tanh(tf.matmul(tf.concat([{x.name}[:, {i}], {name}], 1), {v.name}))"
        for i in range(steps)
    ]
    return Made("\n".join([*lines, f"tf.identity({name})"]), (x.shape[0], fixed(2)))


@form(0.5)
def weighted(d: Draft) -> Made:
    """Sums with weights that are divided by their sum."""
    x = d.pick(least=1)
    w = d.pick(where=lambda v: v.shape == x.shape)
    axis = d.axis(x)
    a = f"tf.sigmoid({w.name})"
    text = f"tf.reduce_sum({x.name} * {a}, {axis}) / tf.reduce_sum({a}, {axis})"
    shape = without(x.shape, axis)
    if d.chance(0.3):
        text = f"tf.div_no_nan(tf.reduce_sum({x.name} * {a}), tf.reduce_sum(tf.cast({w.name} > 0., tf.float64)))"
        shape = ()
    return Made(text, shape)


@form(0.3)
def joined_shape(d: Draft) -> Made:
    """Makes one axis more of each row, by shapes that are put together."""
    x = d.pick(least=1, where=lambda v: v.rank < 4)
    text = (
        f"tf.reshape({x.name}, tf.concat([tf.shape({x.name})[:1], [1], tf.shape({x.name})[1:]], 0))"
    )
    return Made(text, replaced(x.shape, 0, x.shape[0], fixed(1)))
