"""Reads event files."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import analyze_mobile_search_lib
from nas_search.nas_searches import log


def test_path_logits_come_by_step_and_node(tmp_path):
    log(tmp_path, {5: {"rlpathlogits/a/0/b/0": 1.0, "rlpathlogits/a/0/b/1": 2.0, "other": 3.0}})
    log(tmp_path, {3: {"rlpathlogits/c/0": 4.0}}, suffix=".v2")
    assert analyze_mobile_search_lib.read_path_logits(str(tmp_path)) == {
        3: {"c": [4.0]},
        5: {"a/0/b": [1.0, 2.0]},
    }


@pytest.mark.parametrize(
    ("tag", "written"),
    [
        ("some_tag", "rltaglogits/some_tag_{}/{}"),
        ("op_indices", "rltaglogits/op_indices_{}/{}"),
        ("op_indices", "rllogits/{}_{}"),  # what old searches wrote
        ("filters_indices", "rlfilterslogits/{}_{}"),
    ],
)
def test_tag_logits_come_by_step_tag_and_number(tmp_path, tag, written):
    values = [[0.5], list(range(11)), [2.0, 3.0]]  # 10 sorts before 2 as text
    scalars = {written.format(n, i): x for n, row in enumerate(values) for i, x in enumerate(row)}
    log(tmp_path, {7: scalars})
    assert analyze_mobile_search_lib.read_tag_logits(str(tmp_path)) == {7: {tag: values}}


def test_steps_with_a_gap_are_left_out(tmp_path):
    for name, read in (
        ("rlpathlogits/a/{}", analyze_mobile_search_lib.read_path_logits),
        ("rltaglogits/t_0/{}", analyze_mobile_search_lib.read_tag_logits),
        ("rltaglogits/t_{}/0", analyze_mobile_search_lib.read_tag_logits),
    ):
        directory = tmp_path / name.replace("/", "_")
        both, gap = {name.format(0): 1.0, name.format(1): 2.0}, {name.format(1): 1.0}
        log(directory, {1: both, 2: gap})
        assert list(read(str(directory))) == [1]


def test_a_step_that_was_logged_again_counts_as_it_was_last(tmp_path):
    log(tmp_path, {1: {"x": 1.0}, 2: {"x": 2.0}})
    (first,) = tmp_path.iterdir()
    first.rename(tmp_path / "events.out.tfevents.0000000001.host")
    log(tmp_path, {2: {"x": 5.0}, 3: {"x": 6.0}})
    assert analyze_mobile_search_lib.read_scalars(str(tmp_path)) == {"x": {1: 1.0, 2: 5.0, 3: 6.0}}


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_damaged_file_is_read_up_to_the_damage(tmp_path, damage):
    log(tmp_path, {1: {"x": 1.0}, 2: {"x": 2.0}})
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:-6] + (b"" if damage == "cut" else b"\0" * 6))
    assert analyze_mobile_search_lib.read_scalars(str(tmp_path)) == {"x": {1: 1.0}}


def test_scalars_of_tensorflow_2_are_read_and_other_values_left_out(tmp_path):
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        for tag, value in (("scalar", np.float32(2.5)), ("vector", [1.0, 2.0]), ("text", "a")):
            value = tf.Summary.Value(tag=tag, tensor=tf.make_tensor_proto(value))
            writer.add_summary(tf.Summary(value=[value]), 4)
    assert analyze_mobile_search_lib.read_scalars(str(tmp_path)) == {"scalar": {4: 2.5}}


@pytest.mark.parametrize("name", ["", "nowhere", "file"])
def test_where_there_are_no_event_files_there_are_no_scalars(tmp_path, name):
    (tmp_path / "file").write_text("")
    assert analyze_mobile_search_lib.read_scalars(str(tmp_path / name)) == {}
