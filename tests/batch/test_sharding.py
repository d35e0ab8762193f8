"""`sharding.shard`: nested structures, dense, sparse and ragged, any number of rows."""

import collections
import collections.abc

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
import selection
from bodies import matching
from replicate.batch import sharding

Point = collections.namedtuple("Point", ["x", "y"])


def sizes(rows, num_towers):
    """The rows of each shard: the first `rows mod num_towers` have one more."""
    return [rows // num_towers + (index < rows % num_towers) for index in range(num_towers)]


def run(fetches):
    with tf.Session() as session:
        return session.run(fetches)


def split(features, num_towers, labels=None, need_row=False):
    """Returns the `Shards` of a batch, and their values."""
    shards = sharding.shard(features, labels, num_towers, need_row)
    flat = tf.nest.flatten([shards.features, shards.labels])
    kinds = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)
    values = iter(run([leaf for leaf in flat if isinstance(leaf, kinds)]))
    flat = [next(values) if isinstance(leaf, kinds) else leaf for leaf in flat]
    packed = tf.nest.pack_sequence_as([shards.features, shards.labels], flat)
    return shards, packed


def dense(rows, known):
    value = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    return tf.placeholder_with_default(value, [rows if known else None, 2]), value


def sparse(rows, known):
    """Row i has i entries, up to three, so that there are empty rows."""
    value = np.tril(np.ones([rows, 3]), -1) * np.arange(1, rows + 1)[:, None]
    whole = tf.sparse.from_dense(value)
    shape = np.array(value.shape, np.int64)
    shape = tf.constant(shape) if known else tf.placeholder_with_default(shape, [2])
    return tf.SparseTensor(whole.indices, whole.values, shape), value


def ragged(rows, known):
    value = [[float(row)] * (row % 3) for row in range(rows)]
    lengths = np.array([len(row) for row in value], np.int64)
    lengths = tf.placeholder_with_default(lengths, [rows if known else None])
    flat = np.array([entry for row in value for entry in row], np.float32)
    return tf.RaggedTensor.from_row_lengths(tf.constant(flat), lengths), value


def text(rows, known):
    value = np.array([str(row).encode() for row in range(rows)], object)
    return tf.placeholder_with_default(value, [rows if known else None]), value


def as_rows(value, axis=0):
    """Returns a dense, sparse or ragged value as a list of its rows, which are on an axis."""
    if isinstance(value, tf.SparseTensorValue):
        # As wide as the batch, which a shard need not be.
        whole = np.zeros([*value.dense_shape[:-1], 3])
        whole[tuple(value.indices.T)] = value.values
        value = whole
    if isinstance(value, tf.ragged.RaggedTensorValue):
        return value.to_list()
    return np.moveaxis(value, axis, 0).tolist()


def along(axis, rows, shape):
    """Returns tensors whose rows are on an axis, one whose rows come first, and rows, by name."""
    value = np.arange(2 * rows * 3).reshape(2, rows, 3)
    known = {"static": value.shape, "dynamic": [2, None, 3], "unknown": None}[shape]
    whole = tf.sparse.from_dense(value)
    rank = [None if shape == "unknown" else 3]
    sizes = tf.placeholder_with_default(np.array(value.shape), rank)
    return {
        "dense": (tf.placeholder_with_default(value, known), np.moveaxis(value, axis, 0)),
        "sparse": (
            tf.SparseTensor(whole.indices, whole.values, sizes),
            np.moveaxis(value, axis, 0),
        ),
        "first": (tf.range(rows), np.arange(rows)),
    }


# Batches of more kinds, over five towers at most, are drawn in `properties/`.
CELLS = {
    0: {(11, 8): "static dynamic", (8, 8): "static", (1, 8): "dynamic"},
    1: {(6, 2): "static", (7, 3): "dynamic", (2, 5): "unknown", (0, 2): "dynamic"},
    -2: {(6, 2): "unknown", (7, 3): "static", (2, 5): "dynamic", (0, 2): "unknown"},
}


def table():
    """Yields batches by axis, rows, towers, and what the graph knows of shapes."""
    for axis, splits in CELLS.items():
        for (rows, num_towers), quick in splits.items():
            for shape in ("static", "dynamic", *(["unknown"] if axis else [])):
                yield selection.cell(axis, rows, num_towers, shape, is_quick=shape in quick.split())


@pytest.mark.parametrize(("axis", "rows", "num_towers", "shape"), list(table()))
def test_shards_together_are_the_batch(axis, rows, num_towers, shape):
    if axis:
        leaves, axes = along(axis, rows, shape), {"dense": axis, "sparse": axis}
    else:
        makers = (dense, sparse, ragged, text)
        leaves, axes = {make.__name__: make(rows, shape == "static") for make in makers}, {}
    features = {name: leaf for name, (leaf, _) in leaves.items()}
    shards = sharding.shard(features, None, num_towers, False, batch_axis=axes)
    parts, counts, total = run(
        [shards.features, tf.stack(shards.rows), tf.convert_to_tensor(shards.total)]
    )
    assert counts.tolist() == sizes(rows, num_towers) and total == rows
    for part, own in zip(parts, np.array_split(np.arange(rows), num_towers)):
        # A shard without rows gets a copy of the last, so that no tower sees an empty batch.
        own = own.tolist() or list(range(rows))[-1:]
        for name, (_, whole) in leaves.items():
            whole = whole if isinstance(whole, list) else whole.tolist()
            got = as_rows(part[name], axes.get(name, 0))
            assert got == [whole[row] for row in own], name


def test_one_known_leaf_makes_the_batch_size_known():
    shards, _ = split({"a": dense(5, True)[0], "b": dense(5, False)[0]}, 2)
    assert (shards.rows, shards.total) == ([3, 2], 5)
    assert [part["b"].shape.as_list() for part in shards.features] == [[3, 2], [2, 2]]


def test_structures_and_leaves_without_rows():
    a, value = dense(3, True)
    array = np.arange(3)
    whole = [tf.constant(2.0), None, tf.Variable([1.0, 2.0])]
    scalars = ("text", 7, 2.5, None)
    features = {
        "list": [a, *whole],
        "tuple": (a, {"in": a}),
        "point": Point(a, None),
        "none": None,
        "scalars": scalars,
        "pair": Point(1.0, 2.0),
    }
    shards, _ = split(features, 2, labels=(a, array))
    for part in shards.features:
        assert set(part) == set(features)
        assert isinstance(part["list"], list)
        assert isinstance(part["tuple"], tuple)
        assert isinstance(part["point"], Point)
        assert part["scalars"] == scalars and part["pair"] == Point(1.0, 2.0)
        for got, want in zip(part["list"][1:], whole):
            assert got is want
        assert part["point"].y is None and part["none"] is None
    firsts = [
        [part["list"][0], part["tuple"][0], part["tuple"][1]["in"], part["point"].x]
        for part in shards.features
    ]
    for got, want in zip(run(firsts), (value[:2], value[2:])):
        for leaf in got:
            np.testing.assert_array_equal(leaf, want)
    (x0, array0), (x1, array1) = run(shards.labels)
    np.testing.assert_array_equal(np.concatenate([x0, x1]), value)
    assert [list(array0), list(array1)] == [[0, 1], [2]]


@pytest.mark.parametrize("labels", [None, {}])
def test_labels_may_be_missing(labels):
    shards, _ = split(dense(4, True)[0], 2, labels)
    assert shards.labels == [labels, labels]


@pytest.mark.parametrize("features", [{}, [], {"scale": 2.0}, None])
def test_a_batch_without_rows_is_refused(features):
    message = "neither `features` nor `labels` holds a tensor of rank 1 or more…Let `input_fn`"
    with pytest.raises(ValueError, match=matching(message)):
        sharding.shard(features, {}, 2, need_row=True)


def test_a_structure_without_rows_may_stand_beside_labels():
    shards, (features, labels) = split({"scale": tf.constant(2.0)}, 2, dense(3, True)[0])
    assert features == [{"scale": 2.0}] * 2
    assert [len(part) for part in labels] == [2, 1]
    assert shards.rows == [2, 1]


def test_a_tensor_of_unknown_rank_has_rows():
    unknown = tf.placeholder_with_default(np.ones([3, 1]), None)
    _, (features, _) = split(unknown, 2)
    assert [part.shape for part in features] == [(2, 1), (1, 1)]


@pytest.mark.parametrize("rows", [3, 4, 8])
def test_batches_of_another_size_go_through_the_same_graph(rows):
    batch = tf.placeholder(tf.float32, [None, 1])
    shards = sharding.shard(batch, None, 3, need_row=True)
    value = np.arange(rows, dtype=np.float32)[:, None]
    with tf.Session() as session:
        got, counts = session.run([shards.features, shards.rows], {batch: value})
    assert counts == sizes(rows, 3) == [len(part) for part in got]
    np.testing.assert_array_equal(np.concatenate(got), value)


def test_shards_are_made_on_the_host(fresh_graph):
    before = set(fresh_graph.get_operations())
    with tf.device("/gpu:0"):
        sharding.shard([dense(4, False)[0], sparse(4, False)[0]], None, 2, True)
    made = [
        op
        for op in fresh_graph.get_operations()
        if op not in before and op.name.startswith("replicate/")
    ]
    assert made
    assert {op.device for op in made} == {"/device:CPU:0"}


def test_a_static_batch_is_split_without_checks(fresh_graph):
    sharding.shard([dense(4, True)[0], dense(4, True)[0]], None, 2, True)
    types = [op.type for op in fresh_graph.get_operations() if op.name.startswith("replicate/")]
    assert "Assert" not in types
    assert types.count("Split") == 2


UNEQUAL = "Features and labels with the same keys hold one batch per key, each with a whole number"


def test_batches_of_a_step_must_be_multiples_of_the_smallest():
    features = {"a": dense(4, True)[0], "b": dense(6, True)[0]}
    with pytest.raises(ValueError, match=matching(UNEQUAL + "…'a' has 4, 'b' has 6…Enlarge")):
        sharding.shard(features, dict(features), 2, need_row=True)
    features["b"] = dense(6, False)[0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=matching(UNEQUAL + "…[4 6]…Enlarge")):
        run(sharding.shard(features, dict(features), 2, need_row=True).features)


def test_the_batches_of_a_step_are_known_by_features_and_labels_alike():
    features = {"image": dense(4, True)[0], "anchors": dense(8, True)[0]}
    labels = {"boxes": dense(4, True)[0]}
    with pytest.raises(ValueError, match="features/anchors has 8"):
        sharding.shard(features, labels, 2, need_row=True)


# ---- Python lists


@pytest.mark.parametrize(
    "rows",
    [
        # Lists of one type, and of tuples, are drawn in `properties/`.
        [b"a", "b", np.str_("c")],
        [np.float32(1), np.array(2.0), 3],
        [[[1], [2]], [[3], [4]], [[5], [6]]],
    ],
    ids=str,
)
def test_a_python_list_of_numbers_or_strings_is_data(rows):
    given = {"x": rows, "in": (rows, Point(rows, 2.5)), "t": [dense(3, False)[0], rows]}
    kept = dict(given)
    shards, (features, labels) = split(given, 2, labels=rows)
    assert (shards.rows, shards.total) == ([2, 1], 3)
    want = run(tf.convert_to_tensor(rows))
    for feature, label, part in zip(features, labels, (want[:2], want[2:])):
        inner, point = feature["in"]
        assert type(feature["t"]) is list and type(point) is Point and point.y == 2.5
        for got in (feature["x"], inner, point.x, feature["t"][1], label):
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


def test_lists_may_be_in_what_cannot_be_changed():
    features = Frozen({"x": [1.0, 2.0, 3.0], "inner": Frozen({"y": [4, 5, 6]})})
    shards, _ = split(features, 2)
    for part, rows in zip(shards.features, (2, 1)):
        assert type(part) is Frozen and type(part["inner"]) is Frozen
        assert part["x"].shape.as_list() == part["inner"]["y"].shape.as_list() == [rows]


def test_lists_keep_the_structure_that_they_are_in():
    shared = collections.defaultdict(list, {"x": [1.0, 2.0], "none": None, "empty": []})
    ordered = collections.OrderedDict([("b", [1, 2]), ("a", 3)])
    mixed = [[1, 2], tf.ones([2]), (1.5, "a"), {"b": 3}, [None]]  # No number of its own.
    features = {"default": shared, "ordered": ordered, "nones": [None], "mixed": mixed}
    shards, _ = split(features, 2)
    for part in shards.features:
        assert type(part["default"]) is collections.defaultdict
        assert part["default"].default_factory is list
        assert part["default"]["none"] is None and part["default"]["empty"] == []
        assert list(part["ordered"]) == ["b", "a"] and part["ordered"]["a"] == 3
        assert part["nones"] == [None]
        assert [value.shape.as_list() for value in part["mixed"][:2]] == [[1], [1]]
        assert part["mixed"][2:] == mixed[2:]


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
        ([1.0, np.ones([2])], ": it also holds ndarray"),
    ],
    ids=str,
)
def test_a_python_list_that_is_no_tensor_is_refused(rows, given):
    phrases = f"{LISTS}features/in/x/1, a Python list, is {given}{WAY_OUT}"
    features = {"t": tf.ones([2]), "in": {"x": (None, rows)}}
    with pytest.raises(ValueError, match=matching(phrases.replace("is :", "is …:"))):
        sharding.shard(features, None, 2, need_row=True)


def test_a_python_list_of_numbers_and_tensors_is_refused():
    phrases = f"{LISTS}labels, …also holds …Tensor{WAY_OUT}"
    for tensor in (tf.ones([2]), tf.constant(1.0)):
        with pytest.raises(ValueError, match=matching(phrases)):
            sharding.shard(tf.ones([2]), [2.0, tensor], 2, need_row=True)


SAME_ROWS = "All tensors of a batch must have the same number of rows"
NOT_IN_BATCH = "…as a scalar or through `params`, or name it in `unsplit_features`."


def test_lists_are_called_so_where_rows_differ():
    phrases = f"{SAME_ROWS}…features has 4, labels (a Python list) has 3.{NOT_IN_BATCH}"
    with pytest.raises(ValueError, match=matching(phrases)):
        sharding.shard(tf.ones([4]), [1, 2, 3], 2, need_row=True)
    shards = sharding.shard(dense(4, False)[0], [1, 2, 3], 2, need_row=True)
    phrases = f"{SAME_ROWS}…features…4…in a batch of…3…those of labels (a Python list).…`params`"
    with pytest.raises(tf.errors.InvalidArgumentError, match=matching(phrases)):
        run(shards.features)


# ---- widths of sparse rows


def sparse_rows(rows, width=None, static=False, order=None):
    """Returns a sparse tensor of rows, lists of columns that have entries."""
    indices = [[row, column] for row, columns in enumerate(rows) for column in columns]
    indices = np.array(indices, np.int64).reshape(-1, 2)[order or slice(None)]
    width = indices[:, 1].max(initial=-1) + 1 if width is None else width
    shape = np.array([len(rows), width], np.int64)
    shape = tf.constant(shape) if static else tf.placeholder_with_default(shape, [2])
    return tf.SparseTensor(indices, tf.ones([len(indices)]), shape)


LENGTHS = [range(1), range(3), [], range(5), range(2), []]


@pytest.mark.parametrize(
    ("rows", "kwargs", "num_towers", "want"),
    [
        (LENGTHS, {}, 2, [3, 5]),
        (LENGTHS, {}, 3, [3, 5, 2]),
        (LENGTHS, {}, 8, [1, 3, 0, 5, 2, 0, 0, 0]),
        (LENGTHS, {"order": [10, 0, 3, 2, 1, 6, 5, 4, 7, 8, 9]}, 2, [3, 5]),
        (LENGTHS, {"static": True}, 2, [5, 5]),  # The model may count on it.
        (LENGTHS, {"width": 6}, 2, [6, 6]),  # Of a fixed width.
        ([[0], [1], [0], [2]], {}, 2, [3, 3]),  # A gap: columns mean something.
        ([[], [], [], []], {}, 2, [0, 0]),
        ([[], [], [], []], {"width": 3}, 2, [3, 3]),
        ([[], [], [0, 1]], {}, 2, [0, 2]),
        ([], {}, 2, [0, 0]),
        ([], {"width": 3}, 2, [3, 3]),
    ],
)
def test_rows_of_varying_length_are_as_wide_as_the_longest_of_the_shard(
    rows, kwargs, num_towers, want
):
    whole = sparse_rows(rows, **kwargs)
    _, (features, _) = split(whole, num_towers)
    assert [part.dense_shape[1] for part in features] == want
    dense_whole = run(tf.sparse.to_dense(tf.sparse.reorder(whole)))
    start = 0
    for part, count, width in zip(features, sizes(len(rows), num_towers), want):
        first = start if count else max(len(rows) - 1, 0)
        got = np.zeros(part.dense_shape)
        got[tuple(part.indices.T)] = part.values
        np.testing.assert_array_equal(got, dense_whole[first : first + max(count, 1), :width])
        start += count


def test_widths_are_what_parse_example_gives_for_the_rows_of_a_shard():
    def parse(some):
        feature = {"x": tf.train.Feature(int64_list=tf.train.Int64List(value=some))}
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    records = [parse(some) for some in ([4], [1, 2, 3], [], [7, 8], [], [])]
    spec = {"x": tf.io.VarLenFeature(tf.int64)}
    shards, _ = split(tf.io.parse_example(records, spec), 3)
    want = [tf.io.parse_example(records[i : i + 2], spec) for i in (0, 2, 4)]
    for got, expected in zip(run(shards.features), run(want)):
        for part, other in zip(got["x"], expected["x"]):
            np.testing.assert_array_equal(part, other)


def test_sparse_tensors_of_other_ranks_keep_their_shape():
    shape = tf.placeholder_with_default(np.array([2, 3, 4], np.int64), [3])
    cube = tf.SparseTensor([[0, 0, 0], [1, 0, 1]], [1.0, 2.0], shape)
    unknown = tf.placeholder_with_default(np.array([2, 3], np.int64), [None])
    unranked = tf.SparseTensor([[0, 0], [1, 1]], [1.0, 2.0], unknown)
    _, (features, _) = split({"cube": cube, "unranked": unranked}, 2)
    for part in features:
        assert part["cube"].dense_shape.tolist() == [1, 3, 4]
        assert part["unranked"].dense_shape.tolist() == [1, 3]


# ---- what goes to every tower whole


def test_unsplit_features_go_to_every_tower_as_they_are():
    table, array, numbers = tf.ones([4, 3]), np.arange(4), [1.0, 2.0, 3.0]
    features = {
        "x": dense(4, True)[0],
        "table": table,
        "tables": [tf.ones([4])],
        "extra": {"a": array, "b": [table, {"c": numbers}]},
        "extras": tf.ones([4]),  # Its name only begins like one that is whole.
        "point": Point(table, tf.ones([4])),
    }
    labels = {"y": tf.ones([4]), "table": sparse(5, True)[0]}
    names = iter(["table", "extra", "features/point/x", "labels/table"])
    shards = sharding.shard(features, labels, 2, True, unsplit_features=names)
    assert shards.rows == [2, 2]
    for part, label in zip(shards.features, shards.labels):
        assert part["table"] is table is part["point"].x
        assert part["extra"]["a"] is array
        assert part["extra"]["b"][0] is table and part["extra"]["b"][1]["c"] == numbers
        assert label["table"] is labels["table"]
        for cut in (part["x"], part["tables"][0], part["extras"], part["point"].y, label["y"]):
            assert cut.shape.as_list()[0] == 2


def test_names_of_whole_labels_may_match_nothing_without_labels():
    shards = sharding.shard(tf.ones([2]), None, 2, False, unsplit_features=["labels/table"])
    assert shards.labels == [None, None]


NO_ENTRY = "Each name in `…unsplit_features` must be that of an entry of the batch…{} is not in {}…"


@pytest.mark.parametrize("name", ["tab", "table/0", "labels/table", "y", "labels", "x/0", ""])
def test_a_name_of_no_entry_is_refused(name):
    features = {"table": tf.ones([4]), "x": [1, 2, 3, 4]}
    given = name if name.startswith("labels/") else f"features/{name}"
    there = "features/table, features/x, labels/y"
    phrases = NO_ENTRY.format(repr(given), there) + "Name one of these"
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


ON_TPUS = "TPU cores take a shard of each tensor in the batch…('features/table',)…through `params`."


def test_tpu_cores_take_no_unsplit_features(monkeypatch):
    monkeypatch.setattr("replicate.devices.check_exist", lambda *args, **kwargs: None)
    with pytest.raises(ValueError, match=matching(ON_TPUS)):
        replicate.replicate_model_fn(
            lambda features: None, devices=["/tpu:0", "/tpu:1"], unsplit_features=["table"]
        )


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
