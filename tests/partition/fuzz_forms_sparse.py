"""Forms of random programs: masks, sorted rows, and sparse tensors that are made of the batch."""

from __future__ import annotations

from partition.fuzz_draft import Draft, Made, UnfitError, form
from partition.fuzz_program import ROWS, Value, fixed, is_fixed


def _mask(d: Draft, x: Value) -> str:
    """Returns an expression of which entries of a value are kept, none or all of them maybe."""
    least = d.one_of("0.", ".3", "-.2", "-9.", "9.")
    return str(d.one_of(f"{x.name} > {least}", f"tf.sin(3. * {x.name}) > {least}"))


def _of_rows(d: Draft, **kwargs: int) -> Value:
    """Returns a value with rows on axis 0."""
    return d.pick(where=lambda v: v.shape[:1] == (ROWS,), **kwargs)


_ELEMENTWISE = "tf.tanh({}) + .3", "{} * .5", "tf.sin({})", "tf.square({}) - .1", "tf.identity({})"


@form(0.7)
def kept_entries(d: Draft) -> Made:
    """Entries that a mask keeps, as one number."""
    x = d.pick(least=1)
    name, mask = d.name("m"), _mask(d, x)
    kept = d.one_of(*_ELEMENTWISE).format(f"tf.boolean_mask({x.name}, {mask})")
    text = d.one_of(
        f"tf.reduce_sum({name})",
        f"tf.reduce_sum({name}) / tf.cast(1 + tf.size({name}), tf.float64)",
        f"tf.reduce_mean(tf.concat([{name}, [.5]], 0))",
        f"tf.reduce_max(tf.concat([{name}, [.5]], 0))",
        f"tf.reduce_sum(tf.boolean_mask({name}, {name} < .2))",
    )
    return Made(f"{name} = {kept}\n{text}", (), is_wild=True)


@form(0.7)
def kept_rows(d: Draft) -> Made:
    """Rows that a mask keeps, through a layer, and back to where they were."""
    x = _of_rows(d, rank=2)
    if not is_fixed(x.shape[1]):
        raise UnfitError
    name, w = d.name("m"), d.variable(x.shape[1][0], 2)
    lines = [
        f"{name} = {_mask(d, x)}",
        f"{name} = {name}[:, 0]",
        f"{name}_kept = tf.tanh(tf.matmul(tf.boolean_mask({x.name}, {name}), {w.name}))",
    ]
    if d.chance(0.4):
        lines.append(f"{name}_kept -= tf.reduce_sum({name}_kept, 0) * .1")
    shape = f"tf.cast([{d.size(x, 0)}, 2], tf.int64)"
    return Made(
        "\n".join([*lines, f"tf.scatter_nd(tf.where({name}), {name}_kept, {shape})"]),
        (x.shape[0], fixed(2)),
    )


@form(0.6)
def sorted_rows(d: Draft) -> Made:
    """Rows that are partitioned, changed in two ways, and stitched."""
    x = _of_rows(d, least=1)
    k = d.pick("int", rank=1, where=lambda v: v.shape == (ROWS,) and v.high)
    name, n = d.name("m"), d.size(x, 0)
    one, other = d.one_of(*_ELEMENTWISE), d.one_of(*_ELEMENTWISE)
    lines = [
        f"{name} = tf.cast({k.name} > 0, tf.int32)",
        f"{name}_parts = tf.dynamic_partition({x.name}, {name}, 2)",
        f"{name}_places = tf.dynamic_partition(tf.range({n}), {name}, 2)",
        f"{name}_parts = [{one.format(name + '_parts[0]')}, {other.format(name + '_parts[1]')}]",
        f"{name} = tf.dynamic_stitch({name}_places, {name}_parts)",
        f"tf.reshape({name}, tf.shape({x.name}))",
    ]
    return Made("\n".join(lines), x.shape, is_wild=True)


@form(0.8)
def picked(d: Draft) -> Made:
    """An entry of each row, by coordinates."""
    x = _of_rows(d, rank=2)
    k = d.pick("int", where=lambda v: v.shape == (ROWS,) and 0 < v.high <= min(x.shape[1]))
    return Made(
        f"tf.gather_nd({x.name}, tf.stack([tf.range({d.size(x, 0)}), {k.name}], 1))", (ROWS,)
    )


@form(0.7)
def of_each_row(d: Draft) -> Made:
    """Reduces the entries of each row that a mask keeps."""
    x = _of_rows(d, rank=2)
    name = d.name("m")
    how = d.one_of("sum", "mean", "prod", "sqrt_n")
    lines = [
        f"{name} = {_mask(d, x)}",
        f"{name}_ids = tf.where({name})[:, 0]",
        f"{name} = tf.boolean_mask({x.name}, {name})",
        f"tf.math.unsorted_segment_{how}({name}, {name}_ids, {d.size(x, 0)})",
    ]
    return Made("\n".join(lines), (ROWS,), is_wild=True)


def _sparse(d: Draft, x: Value, values: str = "{}") -> tuple[list[str], str]:
    """Returns lines that make a sparse tensor of what a mask keeps, and its name."""
    name = d.name("m")
    condition = f"{x.name} > 0" if x.dtype == "int" else _mask(d, x)
    kept = values.format(f"tf.gather_nd({x.name}, {name}_at)")
    return [
        f"{name}_at = tf.where({condition})",
        f"{name} = tf.SparseTensor({name}_at, {kept}, tf.shape({x.name}, out_type=tf.int64))",
    ], name


@form(0.8)
def sparse_floats(d: Draft) -> Made:
    """A sparse tensor that becomes dense, or is multiplied or reduced."""
    x = _of_rows(d, rank=2)
    lines, name = _sparse(d, x, d.one_of(*_ELEMENTWISE))
    kind = d.one_of("dense", "matmul", "sum", "reordered")
    if kind == "dense":
        text, shape = f"tf.sparse.to_dense({name}, {d.one_of('.2', '0.')})", x.shape
    elif kind == "reordered":
        text, shape = f"tf.sparse.to_dense(tf.sparse.reorder({name}))", x.shape
    elif kind == "sum":
        text = f"tf.reshape(tf.sparse.reduce_sum({name}, 1), [{d.size(x, 0)}])"
        shape = (x.shape[0],)
    else:
        if not is_fixed(x.shape[1]):
            raise UnfitError
        w = d.variable(x.shape[1][0], 2)
        text = f"tf.sparse.sparse_dense_matmul({name}, {w.name})"
        shape = (x.shape[0], fixed(2))
    return Made("\n".join([*lines, text]), shape, is_wild=True)


@form(0.8)
def embeddings(d: Draft) -> Made:
    """Embeddings of the ids of each row, combined."""
    k = d.pick("int", rank=2, where=lambda v: v.shape[0] == ROWS and 0 < v.high < 20)
    lines, name = _sparse(d, k)
    w, how = d.variable(k.high, 2), d.one_of("sum", "mean", "sqrtn")
    weights = "None"
    if d.chance(0.3):
        lines.append(
            f"{name}_w = tf.SparseTensor({name}_at, .5 + tf.sin(tf.cast({name}.values, tf.float64)), {name}.dense_shape)"
        )
        weights = f"{name}_w"
    text = (
        f"tf.nn.safe_embedding_lookup_sparse([{w.name}], {name}, {weights}, combiner='{how}'"
        f"{d.one_of('', ', default_id=0')})"
    )
    return Made("\n".join([*lines, text]), (ROWS, fixed(2)))


@form(0.5)
def words(d: Draft) -> Made:
    """Words of each row, which are hashed and looked up."""
    k = d.pick("int", rank=1, where=lambda v: v.shape == (ROWS,) and v.high)
    name, w = d.name("m"), d.variable(5, 2)
    lines = [
        f"{name} = tf.substr(tf.fill([{d.size(k, 0)}], 'a b c d e'), 0, 0)",
        f"{name} = tf.string_join([{name}, tf.as_string({k.name}), tf.as_string({k.name} // 2)], ' ')",
        f"{name} = tf.string_split(tf.regex_replace({name}, '0', ''))",
        f"{name}_ids = tf.string_to_hash_bucket_fast({name}.values, 5)",
    ]
    if d.chance(0.5):
        lines.append(f"{name} = tf.SparseTensor({name}.indices, {name}_ids, {name}.dense_shape)")
        text = f"tf.nn.safe_embedding_lookup_sparse([{w.name}], {name}, combiner='sum')"
        return Made("\n".join([*lines, text]), (ROWS, fixed(2)))
    text = f"tf.reduce_sum(tf.gather({w.name}, {name}_ids)) * .1"
    return Made("\n".join([*lines, text]), ())
