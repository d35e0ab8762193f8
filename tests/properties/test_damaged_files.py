"""Files that are not text can do no harm, nor can code that is only read, nor an odd argument.

Readers get valid files with random damage, from a seed that the failure prints. They read what is
left, or raise the documented error; they run nothing, and write only where they should.
"""

import contextlib
import io
import os
import random
import re
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import record_sets
from examples import data
from examples.data.errors import DataError
from examples.nas_search import analyze_mobile_search_lib
from properties import damaged
from replicate.faults import checkpoints
from replicate.migration.scan import command as scan
from replicate.planning import command as planning

# Cases of each reader: of these tests, and of those that run every night, with other seeds.
CASES, NIGHTLY = 40, 2_000
SIZES = [CASES, pytest.param(NIGHTLY, marks=pytest.mark.nightly)]


@pytest.fixture
def choose(request):
    """A `random.Random` of one seed always, or of a new one that is printed."""
    is_nightly = request.node.get_closest_marker("nightly")
    seed = random.SystemRandom().randrange(2**32) if is_nightly else 0
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def folder(tmp_path):
    """A folder, beside which nothing may be written."""
    path = tmp_path / "above" / "folder"
    path.mkdir(parents=True)
    yield path
    assert [each.name for each in tmp_path.iterdir()] == ["above"]
    assert [each.name for each in path.parent.iterdir()] == ["folder"]


@contextlib.contextmanager
def told(contents):
    """Adds the contents of a file to an error that no reader documents."""
    try:
        yield
    except (KeyboardInterrupt, AssertionError):
        raise
    except BaseException as error:
        raise AssertionError(f"{error!r} of {contents!r}") from error


@pytest.mark.parametrize("count", SIZES)
def test_events_are_read_up_to_the_damage(count, folder, choose):
    path = folder / "events.out.tfevents.1"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for step in range(8):
            values = [tf.Summary.Value(tag=f"tag_{i}", simple_value=i) for i in range(3)]
            writer.write(tf.Event(step=step, summary=tf.Summary(value=values)).SerializeToString())
    good = path.read_bytes()
    for _ in range(count):
        contents = damaged.damaged(good, choose)
        path.write_bytes(contents)
        with told(contents):
            scalars = analyze_mobile_search_lib.read_scalars(str(folder))
        assert all(isinstance(each, float) for one in scalars.values() for each in one.values())


@pytest.mark.parametrize("count", SIZES)
def test_training_falls_back_from_any_damage(count, folder, choose):
    values = {"weights": np.arange(60, dtype=np.float32), "global_step": np.int64(1)}
    with tf.Graph().as_default(), tf.Session() as session:
        made = [tf.get_variable(name, initializer=value) for name, value in values.items()]
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(made, save_relative_paths=True)  # as Estimators do
        for step in (1, 2):
            saver.save(session, str(folder / "model.ckpt"), step, write_meta_graph=False)
    good = {path.name: path.read_bytes() for path in folder.iterdir()}
    newest = [name for name in good if "-2." in name]
    for _ in range(count):
        for path in folder.iterdir():
            path.unlink()
        changed = {choose.choice([*newest, "checkpoint"]) for _ in range(2)}
        now = {
            name: damaged.damaged(contents, choose) if name in changed else contents
            for name, contents in good.items()
        }
        for name, contents in now.items():
            (folder / name).write_bytes(contents)
        with told({name: now[name] for name in changed}):
            found = checkpoints.fall_back(str(folder))
            assert found in {str(folder / f"model.ckpt-{step}") for step in (1, 2)}
            reader = tf.train.load_checkpoint(found)
            for name, value in values.items():
                np.testing.assert_array_equal(reader.get_tensor(name), value)


def batches_of(dataset, folder, size=8):
    """Reads two batches of a data set in a folder; returns whether it could."""
    params = {"dataset": dataset, "dataset_dir": str(folder), "checkpoint_dir": str(folder / "run")}
    settings = {"validation_fraction": 0.0, "test_fraction": 0.0, "seed": 0, "use_tpu": False}
    try:
        with tf.Graph().as_default(), tf.Session() as session:
            opened = data.open_data({**params, **settings, "image_size": size, "label_offset": 0})
            batch = opened.input_fn("train", 4, training=False).make_one_shot_iterator().get_next()
            for _ in range(2):
                images, _ = session.run(batch)
                assert np.isfinite(images).all()
    except tf.errors.OutOfRangeError:
        return True
    except (DataError, tf.errors.OpError):
        return False
    finally:
        shutil.rmtree(folder / "run", ignore_errors=True)
    return True


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_images_are_read_or_refused(suffix, count, folder, choose):
    pictures = record_sets.encode(record_sets.pictures(8), suffix)
    for number, contents in enumerate(pictures):
        path = folder / ("cat", "dog")[number % 2] / f"{number}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(contents)
    seen = set()
    for _ in range(count // 4):
        contents = damaged.damaged(pictures[0], choose)
        (folder / "cat" / f"0.{suffix}").write_bytes(contents)
        with told(contents):
            seen.add(batches_of("image_folder", folder))
    assert False in seen


@pytest.mark.parametrize("count", SIZES)
def test_records_are_read_or_refused(count, folder, choose):
    pictures = record_sets.encode(record_sets.pictures(8))
    records = [record_sets.example(each, number % 2) for number, each in enumerate(pictures)]
    record_sets.write_shards(folder, "train", records, [8])
    record_sets.write_shards(folder, "validation", records, [8])
    path = folder / "train-00000-of-00001"
    good, seen = path.read_bytes(), set()
    for _ in range(count // 4):
        contents = damaged.damaged(good, choose)
        path.write_bytes(contents)
        with told(contents):
            seen.add(batches_of("tfrecords", folder))
    assert False in seen


CODE = b'''"""A model."""
import os
import tensorflow as tf
from tensorflow.contrib import layers

open(os.path.join(os.path.dirname(__file__), "..", "escaped"), "w").close()


def model_fn(features, labels, mode, params):
    net = layers.fully_connected(features["x"], params["units"])
    loss = tf.losses.mean_squared_error(labels, net)
    optimizer = tf.contrib.estimator.TowerOptimizer(tf.train.AdamOptimizer())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


model_fn = tf.contrib.estimator.replicate_model_fn(model_fn)
'''


@pytest.mark.parametrize("count", SIZES)
def test_a_codebase_is_only_read(count, folder, choose, capsys):
    """If it ran, the fixture `folder` would find what it writes."""
    statuses = set()
    for _ in range(count):
        contents = damaged.damaged(CODE, choose)
        (folder / "model.py").write_bytes(contents)
        with told(contents):
            statuses.add(scan.main([str(folder)]))
        assert "Traceback" not in "".join(capsys.readouterr())
        assert sorted(path.name for path in folder.iterdir()) == ["model.py"]
    assert 1 in statuses and statuses <= {0, 1, 2}


@pytest.mark.parametrize("count", SIZES)
def test_an_argument_that_names_no_function_is_one_line(count, folder, choose, monkeypatch):
    """Nothing is written: names of files that there are would be run, as they should be."""
    monkeypatch.chdir(folder)
    for _ in range(count):
        word = damaged.damaged(b"model.py:model_fn", choose).decode("utf-8", "replace")
        word = re.sub(r"\x00", "0", word)  # No argument of a program can have it.
        if word.startswith("-"):
            continue  # It is an option.
        errors = io.StringIO()
        with told(word), contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as ended:
            planning.main([word])
        assert ended.value.code == 2, word
        last = errors.getvalue().rstrip("\n").split("error: ")[-1]
        assert last and "Traceback" not in errors.getvalue(), word
        assert not os.listdir(folder)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([".model:model_fn"], "is not: relative names have a meaning inside of packages only. Run"),
        (["..model:model_fn"], "relative names have a meaning inside of packages only"),
        (["os:getcwd", "os:getcwd", "--options", "[" * 100_000], "`--options` must be a JSON obj"),
    ],
)
def test_arguments_that_ended_in_another_error(words, text, capsys):
    with pytest.raises(SystemExit) as ended:
        planning.main(words)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err
