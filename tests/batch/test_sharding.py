"""`sharding.shard`: whatever a batch is and over however many towers, its shards are the batch."""

import collections
import collections.abc
import dataclasses
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import assume
from hypothesis import strategies as st

import replicate
import selection
from batch.batches_of_rows import (
    TENSORS,
    Batch,
    Leaf,
    Pair,
    axes_of,
    kinds,
    leaves_of,
    parsed,
    tensors_of,
)
from bodies import matching
from properties.random_examples import holds, session
from replicate.batch import sharding

CONFORMS = pytest.mark.conformance
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool", "complex64"]
SHAPES = ["static", "dynamic", "unknown"]


# ---- batches of every kind


@st.composite
def leaves(draw):
    kind = draw(st.sampled_from(["dense", "dense", "list", "sparse", "varying", "wide", "ragged"]))
    row, dtype, axis = (3,), "int64", 0
    if kind == "list":
        row = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
        dtype = draw(st.sampled_from(["int32", "float32", "bool", "str"]))
    elif kind == "dense":
        row = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
        dtype = draw(st.sampled_from([*DTYPES, "str"]))
    elif kind == "sparse":
        row = draw(st.sampled_from([(3,), (3,), (2, 3)]))
    if kind in ("list", "dense", "sparse"):
        axis = draw(st.just(0) | st.integers(-len(row), len(row)))
    shape = draw(st.sampled_from(["static", *SHAPES, "dynamic"]))
    return Leaf(kind, row, axis, shape, dtype, draw(st.integers(0, 99)))


def structures(leaf):
    """Draws nested structures, in which some leaves are no tensors."""
    whole = st.none() | st.just("a text") | st.integers(0, 9) | st.just(2.5)
    return st.recursive(
        leaf | whole,
        lambda inner: (
            st.lists(inner.filter(lambda each: not is_data(each)), max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), inner, max_size=3)
            | st.builds(Pair, inner, inner)
        ),
        max_leaves=4,
    )


def is_data(value):
    """Whether a Python list of `value` were data: numbers and strings, or tuples of these."""
    if isinstance(value, (str, int, float)) or getattr(value, "kind", None) == "list":
        return True
    return type(value) is tuple and bool(value) and all(map(is_data, value))


def batches(rows):
    """Draws batches; those without rows hold no Python lists, which would be no data."""
    parts = structures(leaves()), st.none() | structures(leaves())
    made = st.builds(Batch, *parts, rows, st.integers(1, 5), st.booleans())
    return made.filter(lambda b: b.rows or all(leaf.kind != "list" for leaf in b.leaves))


BATCHES = batches(st.integers(0, 13))


def run(fetches):
    """Evaluates the tensors in a structure; the other leaves stay as they are."""
    flat = tf.nest.flatten(fetches)
    with session(1) as on_one:
        values = iter(on_one.run([each for each in flat if isinstance(each, TENSORS)]))
    return [next(values) if isinstance(each, TENSORS) else each for each in flat]


def form(structure):
    """Returns how a structure is built: its types, and the order of its keys."""
    return repr(tf.nest.map_structure(lambda leaf: 0, structure))


def check(shards, rows, towers, *batches):
    """Asserts which rows the shards of a batch have, and that they are built like it.

    Args:
        shards: The `Shards`.
        rows: Rows of the batch.
        towers: The number of shards.
        *batches: Structures of `Leaf`s, the shards of each, and how many rows it has for each row.
    """
    # The first shards have one row more.
    counts, cut = [len(part) for part in np.array_split(range(rows), towers)], []
    for structure, parts, times in batches:
        assert [form(part) for part in parts] == [form(structure)] * towers
        for part, count, end in zip(parts, counts, np.cumsum(counts)):
            # A shard without rows has a copy of the last one, so that no tower has an empty batch.
            held = slice(end - count if count else max(rows - 1, 0), end if count else rows)
            held = slice(held.start * times, held.stop * times)
            pairs = zip(tf.nest.flatten(structure), tf.nest.flatten(part))
            cut.extend((leaf, got, rows * times, held) for leaf, got in pairs)
    total, *found = run([shards.total, shards.rows, *(got for _, got, _, _ in cut)])
    assert [total, *found[:towers]] == [rows, *counts]
    for (leaf, _, whole, held), got in zip(cut, found[towers:]):
        if isinstance(leaf, Leaf):
            leaf.check(got, whole, held)
        else:
            assert got == leaf


def most_are_unknown(batch):
    """Whether the graph does not know the size of most labels, or in doubt, of most tensors."""
    for some in (leaves_of(batch.labels), batch.leaves):
        known = [leaf.is_static for leaf in some if leaf.kind in ("dense", "list")]
        if 2 * sum(known) != len(known):
            return 2 * sum(known) < len(known)
    return False


def check_batch(batch):
    are_static = {leaf.is_static for leaf in batch.leaves}
    # If most are unknown, or the others have one entry, these may be tables; see `OTHER_SIZES`.
    if len(are_static) > 1 and (batch.rows < 2 or most_are_unknown(batch)):
        return
    shards = batch.shard()
    # The smallest of several batches counts, which needs the rows of all.
    if True in are_static and not batch.has_several:
        assert isinstance(shards.total, int)
        assert all(isinstance(count, int) for count in shards.rows)
    both = (batch.features, shards.features, 1), (batch.labels, shards.labels, 1)
    check(shards, batch.rows, batch.towers, *both)


@holds(BATCHES, marks=CONFORMS, share=0.5)
def test_shards_together_are_the_batch(batch):
    assume(batch.leaves)
    assume(batch.rows or not batch.need_row)
    with tf.Graph().as_default():
        check_batch(batch)


# Over more towers than are drawn, and what is quick.
CELLS = {
    0: {(9, 6): "static dynamic", (6, 6): "static", (1, 6): "dynamic", (3, 2): "dynamic unknown"},
    1: {(6, 2): "static", (7, 3): "dynamic", (2, 5): "unknown", (0, 2): "dynamic"},
    -2: {(6, 2): "unknown", (7, 3): "static", (2, 5): "dynamic", (0, 2): "unknown"},
}


def table():
    """Yields batches by axis, rows, towers, and what the graph knows of shapes."""
    for axis, splits in CELLS.items():
        for (rows, num_towers), quick in splits.items():
            for shape in SHAPES:
                yield selection.cell(axis, rows, num_towers, shape, is_quick=shape in quick.split())


@pytest.mark.parametrize(("axis", "rows", "num_towers", "shape"), list(table()))
def test_shards_of_every_kind(axis, rows, num_towers, shape):
    check_batch(Batch(kinds(axis, shape), None, rows, num_towers, need_row=False))


def error_of(batch, rows=None, **kwargs):
    """Returns the class and text of the error of a rule that a batch breaks, whenever it does."""
    errors = (ValueError, tf.errors.InvalidArgumentError)
    with tf.Graph().as_default(), pytest.raises(errors) as caught:
        shards = batch.shard(rows, **kwargs)
        run([shards.features, shards.labels])
    return type(caught.value), str(caught.value)


NO_TENSOR = "neither `features` nor `labels` holds a tensor of rank 1 or more…Let `input_fn`"
NO_ROW = "A training batch must have a row, but this one has none. Let `input_fn` skip it"


@holds(batches(st.just(0)), share=0.1)
def test_a_training_batch_without_rows_is_refused(batch):
    assume(not batch.has_several)
    kind, text = error_of(dataclasses.replace(batch, need_row=True))
    # A tensor without entries may be another one, so some of the batch must have rows then.
    are_static = {leaf.is_static for leaf in batch.leaves}
    kinds = {True: ValueError, False: tf.errors.InvalidArgumentError}
    assert kind in [kinds[is_static] for is_static in are_static or {True}]
    assert re.search(matching(NO_ROW if batch.leaves else NO_TENSOR), text)


SAME_ROWS = "All tensors of a batch must have the same number of rows"
NOT_IN_BATCH = "…as a scalar or through `params`, or name it in `unsplit_features`."


@holds(BATCHES, st.data(), share=0.1)
def test_leaves_of_other_sizes_are_refused(batch, data):
    found = list(dict.fromkeys(batch.leaves))
    assume(len(found) > 1 and not batch.has_several)
    odd = data.draw(st.sampled_from(found))
    more = data.draw(st.integers(1, 5))
    rows = batch.rows + batch.towers
    kind, text = error_of(batch, lambda leaf: rows + more * (leaf == odd), same_rows=True)
    is_known = odd.is_static and sum(leaf.is_static for leaf in found) > 1
    assert kind is (ValueError if is_known else tf.errors.InvalidArgumentError)
    assert re.search(matching(SAME_ROWS + NOT_IN_BATCH), text)


@holds(
    st.fixed_dictionaries({"a": leaves(), "b": leaves()}),
    st.lists(leaves(), min_size=2, max_size=2),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 3),
    share=0.25,
)
def test_batches_with_the_same_keys_are_split_in_proportion(features, labels, times, rows, towers):
    assume(rows >= towers)
    labels, repeats = dict(zip(features, labels)), {"a": 1, "b": times}
    with tf.Graph().as_default():
        made = [
            {key: leaf.tensor(rows * repeats[key]) for key, leaf in structure.items()}
            for structure in (features, labels)
        ]
        axes = axes_of(features, labels)
        shards = sharding.shard(*made, towers, need_row=True, batch_axis=axes)
        batches = [
            (structure[key], [part[key] for part in parts], repeats[key])
            for structure, parts in ((features, shards.features), (labels, shards.labels))
            for key in structure
        ]
        check(shards, rows, towers, *batches)


UNEQUAL = "Features and labels with the same keys hold one batch per key, each with a whole number"


def test_batches_of_a_step_must_be_multiples_of_the_smallest():
    features = {"a": tf.ones([4]), "b": tf.ones([6])}
    with pytest.raises(ValueError, match=matching(UNEQUAL + "…'a' has 4, 'b' has 6…Enlarge")):
        sharding.shard(features, dict(features), 2, need_row=True)
    features["b"] = Leaf("dense", shape="dynamic").tensor(6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=matching(UNEQUAL + "…[4 6]…Enlarge")):
        run(sharding.shard(features, dict(features), 2, need_row=True).features)


@pytest.mark.parametrize("shape", ["static", "dynamic"])
def test_an_empty_batch_is_beside_others_that_are_empty(shape):
    leaf = Leaf("dense", shape=shape)
    features = {"a": leaf.tensor(0), "b": leaf.tensor(8)}
    error = ValueError if shape == "static" else tf.errors.InvalidArgumentError
    with pytest.raises(error, match=matching(UNEQUAL)):
        run(sharding.shard(features, dict(features), 2, need_row=False).features)
    features["b"] = leaf.tensor(0)
    parts = run(sharding.shard(features, dict(features), 2, need_row=False).features)
    assert [len(rows) for rows in parts] == [0] * 4


def test_a_scalar_of_unknown_rank_is_named():
    features = {"x": tf.ones([4]), "warmth": tf.py_func(lambda: np.float32(0.5), [], tf.float32)}
    said = "must have an axis of rows…features/warmth…has the shape…unsplit_features…static shape"
    with pytest.raises(tf.errors.InvalidArgumentError, match=matching(said)):
        run(sharding.shard(features, None, 2, need_row=True).features)
    features["warmth"].set_shape([])
    assert run(sharding.shard(features, None, 2, need_row=True).features)


def test_the_batches_of_a_step_are_known_by_features_and_labels_alike():
    features = {"image": tf.ones([4]), "anchors": tf.ones([8])}
    with pytest.raises(ValueError, match="features/anchors has 8"):
        sharding.shard(features, {"boxes": tf.ones([4])}, 2, need_row=True, same_rows=True)


# By what the graph knows of the shapes of features and labels: how they are split into 3 and 2 rows
# of 5, as (axis, entries per row), or None if every tower gets all.
OTHER_SIZES = {
    "several entries of each row": ([[5, 2], [15, 2]], [[5]], [(0, 1), (0, 3), (0, 1)]),
    "a table": ([[5], [4, 3]], [[5]], [(0, 1), None, (0, 1)]),
    "time first": ([[9, 5, 2], [5]], [[5]], [(1, 1), (0, 1), (0, 1)]),
    "labels decide": ([[4], [4], [4]], [[5]], [None, None, None, (0, 1)]),
    "most labels": ([[5]], [[3], [5], [5]], [(0, 1), None, (0, 1), (0, 1)]),
    "most features": ([[5], [2], [5]], None, [(0, 1), None, (0, 1)]),
    "the smallest of as many": ([[15], [5]], None, [(0, 3), (0, 1)]),
    "features of two labels": ([[5, 2], [5]], [[3], [5]], [(0, 1), (0, 1), None, (0, 1)]),
    "the largest of others": ([[3], [5]], None, [None, (0, 1)]),
    "a single entry": ([[1], [5]], [[1]], [None, (0, 1), None]),
    "unknown ones": ([[None], [4], [None, 2]], [[None]], [(0, 1), None, (0, 1), (0, 1)]),
    "one that is unknown": ([[None], [10]], [[5]], [(0, 1), (0, 2), (0, 1)]),
    "an unknown label beside a table": ([[None]], [[None], [4]], [(0, 1), (0, 1), None]),
    "a label of one entry": ([[None], [None]], [[1]], [(0, 1), (0, 1), None]),
    "no entries and no labels": ([[0], [5]], None, [None, (0, 1)]),
    "no entries": ([[5], [0]], [[5]], [(0, 1), None, (0, 1)]),
}


@pytest.mark.parametrize(("features", "labels", "want"), OTHER_SIZES.values(), ids=OTHER_SIZES)
def test_tensors_of_other_sizes(features, labels, want):
    def tensors(shapes):
        sizes = [[5 if size is None else size for size in shape] for shape in shapes or ()]
        values = [np.random.RandomState(0).normal(size=size) for size in sizes]
        made = [tf.placeholder_with_default(*pair) for pair in zip(values, shapes or ())]
        return (made if shapes else None), values

    (features, values), (labels, more) = tensors(features), tensors(labels)
    shards = sharding.shard(features, labels, 2, need_row=True)
    parts = run(
        [[*own, *(of_labels or [])] for own, of_labels in zip(shards.features, shards.labels)]
    )
    for place, (value, how) in enumerate(zip([*values, *more], want)):
        got = parts[place], parts[place + len(want)]
        if how is None:
            assert all(np.array_equal(one, value) for one in got)
            continue
        axis, each = how
        for one, cut in zip(got, np.split(value, [3 * each], axis)):
            np.testing.assert_array_equal(one, cut)
    assert shards.total == 5 or run([shards.total]) == [5]


def test_one_known_leaf_makes_the_batch_size_known():
    leaves = {shape: Leaf("dense", (2,), shape=shape) for shape in SHAPES[:2]}
    shards = Batch(leaves, None, 5, 2, need_row=True).shard()
    assert (shards.rows, shards.total) == ([3, 2], 5)
    assert [part["dynamic"].shape.as_list() for part in shards.features] == [[3, 2], [2, 2]]


def test_scalars_and_variables_go_to_every_tower_and_arrays_are_split():
    whole = {"scalar": tf.constant(2.0), "list": [tf.Variable([1.0, 2.0]), tf.constant(1)]}
    shards = sharding.shard(whole, (tf.ones([3]), np.arange(3)), 2, need_row=True)
    for part in shards.features:
        for got, want in zip(tf.nest.flatten(part), tf.nest.flatten(whole)):
            assert got is want
    assert [part.tolist() for part in run([array for _, array in shards.labels])] == [[0, 1], [2]]


def test_shards_are_made_on_the_host(fresh_graph):
    batch = tensors_of([Leaf("dense", shape="dynamic"), Leaf("sparse", (3,), shape="dynamic")], 4)
    before = set(fresh_graph.get_operations())
    with tf.device("/gpu:0"):
        sharding.shard(batch, None, 2, need_row=True)
    made = [
        op
        for op in fresh_graph.get_operations()
        if op not in before and op.name.startswith("replicate/")
    ]
    assert made
    assert {op.device for op in made} == {"/device:CPU:0"}


def test_a_static_batch_is_split_without_checks(fresh_graph):
    Batch([Leaf("dense")] * 2, None, 4, 2, need_row=True).shard()
    types = [op.type for op in fresh_graph.get_operations() if op.name.startswith("replicate/")]
    assert "Assert" not in types
    assert types.count("Split") == 2


def test_widths_are_what_parse_example_gives_for_the_rows_of_a_shard():
    sentences = [[4], [1, 2, 3], [], [7, 8], [], []]
    shards = sharding.shard(parsed(sentences), None, 3, need_row=True)
    want = [parsed(sentences[i : i + 2]) for i in (0, 2, 4)]
    for got, expected in zip(run(shards.features), run(want)):
        tf.nest.map_structure(np.testing.assert_array_equal, tuple(got), tuple(expected))


def _aligned(array):
    """Returns a copy where TensorFlow takes NumPy's memory for its own: at a multiple of 64."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    aligned[:] = array
    return aligned


@pytest.mark.parametrize("is_ragged", [False, True], ids=["dense", "ragged"])
def test_arrays_of_a_generator_are_not_overwritten(is_ragged):
    """Operations may write into what they take, and slices do not tell whose memory they are."""
    given = _aligned(np.arange(64, dtype=np.float32))

    def rows():
        for _ in range(3):
            yield given

    with tf.Graph().as_default(), tf.Session() as session:
        data = tf.data.Dataset.from_generator(rows, tf.float32, [64])
        batch = tf.data.make_one_shot_iterator(data).get_next()
        if is_ragged:
            batch = tf.RaggedTensor.from_row_lengths(batch, [2] * 32)
        else:
            batch = tf.reshape(batch, [4, 16])  # Of rows that end where others may begin.
        shards = sharding.shard(batch, None, 2, need_row=True)
        values = [shard.flat_values if is_ragged else shard for shard in shards.features]
        overwritten = [tf.negative(values[0])]
        with tf.control_dependencies(overwritten):  # The last one to take it may write into it.
            overwritten.append(tf.negative(values[1]))
        for _ in range(3):
            assert np.concatenate(session.run(overwritten)).sum() == -64 * 63 / 2
    assert (given == np.arange(64)).all()


# ---- Python lists


@pytest.mark.parametrize(
    "rows", [[b"a", "b", np.str_("c")], [np.float32(1), np.array(2.0), 3]], ids=str
)
def test_entries_of_a_python_list_may_be_of_several_types(rows):
    given = {"x": rows, "in": (rows, Pair(rows, 2.5)), "t": [tf.ones([3]), rows]}
    kept = dict(given)
    shards = sharding.shard(given, rows, 2, need_row=True)
    (want,) = run(tf.convert_to_tensor(rows))
    for feature, label, part in zip(shards.features, shards.labels, (want[:2], want[2:])):
        inner, (first, second) = feature["in"]
        assert second == 2.5
        for got in run([feature["x"], inner, first, feature["t"][1], label]):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, part)
    assert given == kept and given["x"] is rows  # The result of `input_fn` stays.


class Frozen(collections.abc.Mapping):
    """A dict that cannot be changed."""

    def __init__(self, entries):
        self._entries = dict(entries)

    def __getitem__(self, key):
        return self._entries[key]

    def __iter__(self):
        return iter(self._entries)

    def __len__(self):
        return len(self._entries)


def test_lists_keep_the_structure_that_they_are_in():
    default = collections.defaultdict(list, {"x": [1.0, 2.0], "none": None, "empty": []})
    ordered = collections.OrderedDict([("b", [1, 2]), ("a", 3)])
    mixed = [[1, 2], tf.ones([2]), (1.5, "a"), {"b": 3}, [None]]  # No number of its own.
    frozen = Frozen({"x": [1.0, 2.0], "inner": Frozen({"y": [4, 5]})})
    features = {"default": default, "ordered": ordered, "mixed": mixed, "frozen": frozen}
    for part in sharding.shard(features, None, 2, need_row=True).features:
        assert type(part["default"]) is collections.defaultdict
        assert part["default"].default_factory is list
        assert part["default"]["none"] is None and part["default"]["empty"] == []
        assert list(part["ordered"]) == ["b", "a"] and part["ordered"]["a"] == 3
        assert part["mixed"][2:] == mixed[2:]
        inner = part["frozen"]["inner"]
        assert type(part["frozen"]) is Frozen is type(inner)
        cut = [part["default"]["x"], part["ordered"]["b"], *part["mixed"][:2], inner["y"]]
        assert [each.shape.as_list() for each in [*cut, part["frozen"]["x"]]] == [[1]] * 6


LISTS = "A Python list of numbers or strings is data, with a row for each of its entries…"
WAY_OUT = "…Pass an array or a tensor instead, or a tuple if its entries go to every tower."


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        ([[1.0], [2.0, 3.0]], "[[1.0], [2.0, 3.0]]:"),
        ([[1.0], []], "[[1.0], []]:"),
        ([1.0, "a"], "[1.0, 'a']:"),
        ([1.0, None], "[1.0, None]: it also holds NoneType"),
        ([1.0, {"a": 2.0}], "[1.0, {'a': 2.0}]: it also holds dict"),
        ([(1.0, 2.0), 3.0], "[(1.0, 2.0), 3.0]:"),
        ([1.0, np.ones([2])], "…: it also holds ndarray"),
    ],
    ids=str,
)
def test_a_python_list_that_is_no_tensor_is_refused(rows, given):
    phrases = f"{LISTS}features/in/x/1, a Python list, is {given}{WAY_OUT}"
    features = {"t": tf.ones([2]), "in": {"x": (None, rows)}}
    with pytest.raises(ValueError, match=matching(phrases)):
        sharding.shard(features, None, 2, need_row=True)


def test_a_python_list_of_numbers_and_tensors_is_refused():
    phrases = f"{LISTS}labels, …also holds …Tensor{WAY_OUT}"
    for tensor in (tf.ones([2]), tf.constant(1.0)):
        with pytest.raises(ValueError, match=matching(phrases)):
            sharding.shard(tf.ones([2]), [2.0, tensor], 2, need_row=True)


def test_lists_are_called_so_where_rows_differ():
    phrases = f"{SAME_ROWS}…features has 4, labels (a Python list) has 3.{NOT_IN_BATCH}"
    with pytest.raises(ValueError, match=matching(phrases)):
        sharding.shard(tf.ones([4]), [1, 2, 3], 2, need_row=True, same_rows=True)
    features = Leaf("dense", shape="dynamic").tensor(4)
    shards = sharding.shard(features, [1, 2, 3], 2, need_row=True)
    phrases = f"{SAME_ROWS}…features…4…in a batch of…3…those of labels (a Python list).…`params`"
    with pytest.raises(tf.errors.InvalidArgumentError, match=matching(phrases)):
        run(shards.features)


# ---- names of entries that are whole, or have their rows on another axis


@holds(st.integers(1, 5), st.integers(1, 9), st.data(), share=0.1)
def test_names_keep_entries_whole(towers, rows, data):
    assume(rows >= towers)
    names = ["a", "b/c", "b/d/0", "b/d/1/0", "features/e/first", "labels/f"]
    whole = data.draw(st.sets(st.sampled_from([*names, "b", "b/d", "e"])))
    with tf.Graph().as_default():
        table = Leaf("sparse", (3,)).tensor(rows + ("labels/f" in whole))
        numbers = (list(range(rows)), tf.ones([rows]))
        features = {
            "a": np.arange(rows),
            "ab": tf.ones([rows]),  # Its name only begins like one that is whole.
            "b": {"c": tf.ones([rows]), "d": [tf.ones([rows]), numbers]},
            "e": Pair(tf.ones([rows]), tf.ones([rows])),
        }
        shards = sharding.shard(features, {"f": table}, towers, True, unsplit_features=iter(whole))

    def entries(part, labels):
        b, e = part["b"], part["e"]
        return [part["a"], b["c"], b["d"][0], b["d"][1][0], e.first, labels["f"]]

    given = entries(features, {"f": table})
    for part, labels in zip(shards.features, shards.labels):
        for name, got, want in zip(names, entries(part, labels), given):
            short = name.replace("features/", "")
            is_whole = any(
                f"{each}/".startswith(f"{one}/") for each in (name, short) for one in whole
            )
            # Lists are structures, too, which are made again.
            is_same = type(got) is list and got == want if type(want) is list else got is want
            assert is_same == is_whole, name
        assert part["ab"] is not features["ab"]


def test_the_longest_name_counts_and_those_of_no_rows_are_none():
    features = {
        "deep": {"a": tf.ones([2, 6]), "b": tf.ones([6, 2]), "scalar": tf.constant(1.0), "n": None},
        "features": tf.ones([2, 6]),
        "ragged": tf.RaggedTensor.from_row_lengths(tf.range(6), [1] * 6),
        "list": [[1, 2, 3, 4, 5, 6]],
    }
    axes = {"deep": 1, "deep/b": 0, "features/features": 1, "labels": 1, "list": 1, "ragged": -2}
    shards = sharding.shard(features, None, 3, True, batch_axis=axes)
    part = shards.features[1]
    assert part["deep"]["a"].shape.as_list() == [2, 2] == part["deep"]["b"].shape.as_list()
    assert part["features"].shape.as_list() == [2, 2]
    assert part["list"].shape.as_list() == [1, 2]
    assert (shards.rows, shards.total) == ([2, 2, 2], 6)


NO_ENTRY = "Each name in `…{}` must be that of an entry of the batch…{} is not in {}…"


@pytest.mark.parametrize("name", ["tab", "table/0", "labels/table", "y", "labels", "x/0", ""])
def test_a_name_of_no_entry_is_refused(name):
    features = {"table": tf.ones([4]), "x": [1, 2, 3, 4]}
    given = repr(name if name.startswith("labels/") else f"features/{name}")
    there = "features/table, features/x, labels/y"
    phrases = NO_ENTRY.format("unsplit_features", given, there) + "Name one of these"
    with pytest.raises(ValueError, match=matching(phrases)):
        sharding.shard(features, {"y": tf.ones([4])}, 2, True, unsplit_features=[name])


NAMES = "`unsplit_features` must be a list of names of features…is {}…Pass names like ['class_weigh"


@pytest.mark.parametrize("names", ["table", b"table", None, 3, ["table", 3], [b"table"]], ids=str)
def test_names_are_a_list(names):
    given = repr(tuple(names) if isinstance(names, (list, bytes)) else names)
    with pytest.raises(TypeError, match=matching(NAMES.format(given))):
        replicate.replicate_model_fn(lambda features: None, unsplit_features=names)
    with pytest.raises(TypeError, match=matching(NAMES.format(given))):
        sharding.shard(tf.ones([2]), None, 2, True, unsplit_features=names)


NOT_AXES = "`batch_axis` must be an integer, the axis of rows of all tensors…but is {}. Pass e.g."


@pytest.mark.parametrize("given", [None, "x", 1.0, True, ["x"], {"x": "1"}, {0: 1}, {"x": None}])
def test_axes_are_integers(given):
    with pytest.raises(TypeError, match=matching(NOT_AXES.format(repr(given)))):
        replicate.replicate_model_fn(lambda features: None, batch_axis=given)


NO_AXIS = (
    "`batch_axis` must name an axis of the tensor that it is for, but is …{} for features/x…{}"
)
RAGGED = "The rows of a ragged tensor are on axis 0…`batch_axis` is 1 for features/r. Leave it out"
ROWS = "All tensors of a batch must have the same number of rows (axis 0), but features/x (axis 1) "
ROWS += "has 3, labels has 2…Name tensors that have their rows on another axis in `batch_axis`."


@pytest.mark.parametrize(
    ("axes", "phrases"),
    [
        ({"y": 1}, NO_ENTRY.format("batch_axis", "'features/y'", "features/r, features/x")),
        ({"x": 2}, NO_AXIS.format(2, "(2, 3)")),
        ({"x": -3}, NO_AXIS.format(-3, "(2, 3)")),
        ({"x": 1}, ROWS),
        (1, RAGGED),
    ],
    ids=str,
)
def test_axes_that_do_not_fit(axes, phrases):
    features = {"r": tf.RaggedTensor.from_row_lengths(tf.range(2), [1, 1]), "x": tf.ones([2, 3])}
    if axes == {"x": 1}:
        del features["r"]
    with pytest.raises(ValueError, match=matching(phrases)):
        sharding.shard(features, tf.ones([2]), 2, True, batch_axis=axes)


WHOLE = "TPU cores take a shard of each tensor in the batch…('features/table',)…through `params`."
FIRST = "TPU cores take shards along axis 0, but `batch_axis` is …{'features/x': 1}. Leave it out"


@pytest.mark.parametrize(
    ("kwargs", "phrases"),
    [({"unsplit_features": ["table"]}, WHOLE), ({"batch_axis": {"x": 1}}, FIRST)],
    ids=["unsplit_features", "batch_axis"],
)
def test_tpu_cores_take_all_entries_by_their_first_axis(kwargs, phrases, monkeypatch):
    monkeypatch.setattr("replicate.devices.check_exist", lambda *args, **kwargs: None)
    tpus = {"devices": ["/tpu:0", "/tpu:1"]}
    replicate.replicate_model_fn(lambda features: None, **tpus, batch_axis={"x": 0})
    with pytest.raises(ValueError, match=matching(phrases)):
        replicate.replicate_model_fn(lambda features: None, **tpus, **kwargs)
