"""`contrib.find`: where a name of `tf.contrib` lives now."""

import re

import pytest

from replicate.migration import contrib
from replicate.migration.contrib import Place, modules, table

pytestmark = pytest.mark.conformance

FOUND = {
    "data.prefetch_to_device": Place(
        "data.prefetch_to_device", "alias", "tf.data.experimental.prefetch_to_device", "", ""
    ),
    "layers.xavier_initializer": Place(
        "layers.xavier_initializer",
        "own",
        "replicate.migration.contrib.initializers.xavier_initializer",
        "",
        "",
    ),
    "slim.conv2d": Place("slim.conv2d", "package", "tf_slim.conv2d", "tf-slim", ""),
    "slim": Place("slim", "package", "tf_slim", "tf-slim", ""),
    "slim.nets": Place("slim.nets", "package", "tf_slim.nets", "tf-slim", ""),
    "slim.nets.vgg.vgg_16": Place(
        "slim.nets.vgg.vgg_16", "package", "tf_slim.nets.vgg.vgg_16", "tf-slim", ""
    ),
    "layers": Place("layers", "own", "tensorflow.contrib.layers", "", ""),
    "layers.python.layers": Place(
        "layers.python.layers", "own", "tensorflow.contrib.layers.python.layers", "", ""
    ),
    "gan.losses.wargs": Place(
        "gan.losses.wargs", "own", "tensorflow.contrib.gan.losses.wargs", "", ""
    ),
    "gan.gan_loss": Place(
        "gan.gan_loss", "own", "replicate.migration.contrib.gan.gan_loss", "tensorflow-gan", ""
    ),
    "gan.losses.wargs.minimax_generator_loss": Place(
        "gan.losses.wargs.minimax_generator_loss",
        "package",
        "tensorflow_gan.losses.wargs.minimax_generator_loss",
        "tensorflow-gan",
        "",
    ),
    "distributions.Normal": Place(
        "distributions.Normal", "alias", "tf.distributions.Normal", "", ""
    ),
    "framework.nest.flatten": Place(
        "framework.nest.flatten", "own", "replicate.compat.kept.nest.flatten", "", ""
    ),
    "estimator.TowerOptimizer": Place(
        "estimator.TowerOptimizer", "own", "replicate.TowerOptimizer", "", ""
    ),
    "nccl": Place("nccl", "none", "", "", "Write `tf.distribute.NcclAllReduce`."),
    "nccl.all_sum": Place("nccl.all_sum", "none", "", "", "Write `tf.distribute.NcclAllReduce`."),
    "learn.learn_runner.run": contrib.find("learn.learn_runner")._replace(
        name="learn.learn_runner.run"
    ),
}
# Paths of files, by the names that they are found by.
DEEP = {
    "layers.python.layers.initializers.xavier_initializer": "layers.xavier_initializer",
    "layers.python.layers.layers.conv2d": "layers.conv2d",
    "framework.python.ops.arg_scope.arg_scope": "framework.arg_scope",
    "tpu.python.tpu.tpu_config.TPUConfig": "tpu.TPUConfig",
    "training.python.training.hparam.HParams": "training.HParams",
    "rnn.python.ops.core_rnn_cell.EmbeddingWrapper": "rnn.EmbeddingWrapper",
}


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("before", ["", "tf.contrib.", "tensorflow.contrib."])
def test_a_name_has_a_place(before, name):
    assert contrib.find(before + name) == FOUND[name]


@pytest.mark.parametrize("name", DEEP)
def test_the_path_of_a_file_is_found_by_the_name_at_its_end(name):
    assert contrib.find(name) == contrib.find(DEEP[name])
    assert contrib.find(name).name == DEEP[name]


@pytest.mark.parametrize(
    "name,advice",
    [
        ("nosuch", "TensorFlow 1.15 has no tf.contrib.nosuch, either."),
        ("nosuch.thing", "TensorFlow 1.15 has no tf.contrib.nosuch, either."),
        ("training.nosuch.HParams", "Look for it in `tf.train` and `tf.data`."),
        ("tpu.TPUStrategy", "Look for it in `tf.tpu` and `tf.estimator.tpu`."),
        (
            "gan.nosuch",
            "Look for it among the names of `tensorflow_gan`, some of whose arguments differ.",
        ),
        ("", "TensorFlow 1.15 has no tf.contrib., either."),
    ],
)
def test_what_is_unknown_has_no_place(name, advice):
    assert contrib.find(name) == Place(name, "none", "", "", advice)


def test_a_name_is_a_string():
    message = "A name of tf.contrib is a string, such as 'layers.conv2d', got 3."
    with pytest.raises(TypeError, match=re.escape(message)):
        contrib.find(3)


def every_row():
    for package in sorted(table.packages()):
        yield from table._rows(package).values()


@pytest.mark.parametrize("row", sorted({*every_row()}), ids=lambda row: row.name)
def test_a_line_says_one_thing_well(row):
    assert row.kind in ("alias", "own", "package", "none")
    assert bool(row.target) == (row.kind != "none")
    assert bool(row.advice) == (row.kind == "none")
    is_own = row.target.startswith("replicate.migration.contrib.gan.")
    assert (row.package in table.PACKAGES.values()) == (row.kind == "package" or is_own)
    roots = {"alias": "tf", "package": "(tf_slim|tensorflow_gan|tensorflow_probability)"}
    assert re.match(roots.get(row.kind, "(replicate|tensorflow.contrib)") + r"(\.|$)|$", row.target)
    assert re.match(r"([A-Z].*|.*)\.$|$", row.advice), "advice is a sentence"


def test_lines_are_in_order_and_unique():
    for path in sorted(table._NAMES.glob("*.txt")):
        lines = path.read_text().splitlines()
        names = [line.split()[0] for line in lines if not line.startswith("#")]
        assert len({*names}) == len(names), path.name


def test_modules_have_no_line_of_their_own():
    leaves = (table._NAMES / "modules.txt").read_text().split()
    assert leaves == sorted({*leaves})
    assert {name.partition(".")[0] for name in leaves} <= table.packages()


@pytest.mark.parametrize(
    "row",
    [row for row in sorted({*every_row()}) if row.kind != "none"],
    ids=lambda row: row.name,
)
def test_what_has_a_place_is_there(row):
    """Or an error says which package has it, where that is not installed."""
    if modules._problem(row) is None:
        assert modules.lookup(row.name) is not None
        return
    assert row.package != "tf-slim"  # Which the tests need.
    said = f" the package {row.package}, which is not installed. Run: "
    with pytest.raises(AttributeError, match=re.escape(said)):
        modules.lookup(row.name)
