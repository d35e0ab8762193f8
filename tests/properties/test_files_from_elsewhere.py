"""Files from elsewhere can do no harm: parsers give a value or the documented error, nothing else.

Each parser gets valid files with random changes. Neither may it take memory by the numbers in a
file rather than by its size, nor write outside its directory. Below are the faults that were found.
"""

import itertools
import json
import os
import random
import re
import sys
import tracemalloc

import pytest
import tensorflow.compat.v1 as tf

import record_sets
from bodies import matching
from examples.data.errors import DataError
from examples.data.sources import record_manifest, tfrecords
from examples.nas_search import (
    analyze_mobile_search_lib,
    basic_specs,
    mobile_specs,
    schema,
    schema_io,
)
from examples.nas_search.commands import analyze, sample
from examples.nas_search.costs import cost_model_io
from examples.nas_search.latency import measurement_log
from examples.nas_search.reports import search_analysis
from examples.nas_search.spaces import space_check
from examples.nas_search.training import train_settings
from examples.revnet.training import train_settings as revnet_settings
from examples.runs import json_file, settings_file
from examples.runs.errors import UserError
from examples.runs.flags import SettingsError
from examples.runs.json_file import JsonError
from nas_search import nas_searches
from properties import hostile_files, parsers
from properties.parsers import (
    COST_MODEL,
    HEADER,
    MEASURED,
    PARSERS,
    REVNET,
    SEARCHED,
    SPACE,
    TRAINED,
)


def test_there_are_ten_thousand_bad_files():
    assert sum(parser[-1] for parser in PARSERS.values()) >= 10_000


_STARTED = []  # programs, while a list is in it
sys.addaudithook(
    lambda event, args: (
        _STARTED[-1].append(event)
        if _STARTED and event in ("os.system", "subprocess.Popen", "pickle.find_class", "os.exec")
        else None
    )
)


# The first fifth of all files always, or 200.
@pytest.mark.parametrize("share", [0.2, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", PARSERS)
def test_a_bad_file_is_an_error_or_another_file(name, share, tmp_path):
    _, good, parse, errors, count = PARSERS[name]
    path = parsers.place(name, tmp_path / "above" / "directory")
    choose, seen, started = random.Random(name), set(), []
    _STARTED.append(started)
    try:
        for number in range(max(int(share * count), min(count, 200))):
            contents = hostile_files.mutated(good, choose)
            path.write_bytes(contents)
            is_traced = number % 24 == 0
            if is_traced:
                tracemalloc.start()
            try:
                parse(str(path))
                seen.add("read")
            except errors:
                seen.add("refused")
            except Exception as error:
                raise AssertionError(f"{error!r} of {contents[:2_000]!r}") from error
            finally:
                if is_traced:
                    peak = tracemalloc.get_traced_memory()[1]
                    tracemalloc.stop()
            if is_traced:  # A list of JSON takes up to some 60 bytes for each of its own.
                assert peak < 8e7 + 200 * len(contents), contents[:2_000]
    finally:
        _STARTED.remove(started)
    assert seen == ({"read"} if errors == () else {"read", "refused"})
    assert not started
    assert [each.name for each in tmp_path.iterdir()] == ["above"]
    assert [each.name for each in (tmp_path / "above").iterdir()] == ["directory"]
    assert not os.path.exists("escaped")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 102 + "]" * 102, "Lists and objects must be in one another 100 times at most"),
        ("[" * 100_000, "Lists and objects must be in one another 100 times at most"),
        (str(2**63), "Integers must have 64 bits at most, but one is 9223372036854775808"),
        ("9" * 5_000, "Integers must have 64 bits at most, but one is 999"),
        (r'["\ud800"]', "surrogates not allowed"),
        (r'{"\ud800": 1}', "surrogates not allowed"),
        ("[NaN]", "Numbers must be finite, but one is NaN"),
        ("-Infinity", "Numbers must be finite, but one is -Infinity"),
        ("1e999", "Numbers must be finite, but one is 1e999"),
        ('{"a": ', """A text must be JSON, but '{"a": ' is not: Expecting value"""),
    ],
    ids=["too_deep", "far_too_deep", "too_large", "too_long", "half_a_pair", "half_as_key"]
    + ["not_a_number", "infinite", "too_large_to_be_finite", "cut"],
)
def test_json_that_a_program_could_not_walk_or_write_is_refused(text, message):
    with pytest.raises(JsonError, match=rf"{message}.*\. Let what wrote it write it again\.$"):
        json_file.loads(text)


def test_json_within_bounds_is_read():
    text = "[" * 101 + "]" * 101
    assert json_file.loads(text) == json.loads(text)
    assert json_file.loads(f"[{-(2**63)}, {2**63 - 1}]") == [-(2**63), 2**63 - 1]


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b'"\xff"')
    with pytest.raises(JsonError, match=r"must be text in UTF-8, but is not: .*0xff in position 1"):
        json_file.read(str(tmp_path / "a.json"))


def test_an_endless_file_is_read_up_to_a_bound():
    with pytest.raises(JsonError, match="must have 16,777,216 bytes at most, but has more"):
        json_file.read("/dev/zero")


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (["dict", [["list", 1], 2]], "The keys of a dict must be numbers, or texts, or tuples"),
        (["dict", [1, 2], ["a", 2]], "The keys of a dict must be numbers, or texts, or tuples"),
        (["oneof", ["choices", 3], ["tag", "t"]], "must have a list of at least one choice"),
        (
            ["oneof", ["choices", "ab"], ["tag", "t"]],
            "must have a list of at least one choice and a",
        ),
        (
            ["oneof", ["choices", ["list", 1]], ["tag", 3]],
            "at least one choice and a text for a tag",
        ),
    ],
)
def test_structures_that_cannot_be_walked_are_refused(encoded, message):
    with pytest.raises(JsonError, match=message):
        schema_io.deserialize(json.dumps(encoded))


def space_of(layer, width=8, **fields):
    """Returns a space of one layer."""
    filters = schema.OneOf([width], basic_specs.FILTERS_TAG)
    blocks = [basic_specs.Block([layer], filters)._replace(**fields)]
    return basic_specs.ConvTowerSpec(blocks, 1)


CONV = mobile_specs.ConvSpec(3, (1, 2))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ([], "A space is a ConvTowerSpec of blocks, but is []"),
        (space_of(CONV)._replace(blocks=[1]), "A space is a ConvTowerSpec of blocks, but is Conv"),
        (
            space_of(CONV)._replace(filters_base=0),
            "A width is an integer from 1 to 1048576, but is",
        ),
        (space_of(CONV, "wide"), "A width is an integer from 1 to 1048576, but is 'wide'"),
        (space_of(CONV, filters=8), "A block has a list of layers, and its width is a choice, but"),
        (space_of(CONV, layers=CONV), "A block has a list of layers, and its width is a choice"),
        (space_of([CONV]), "A layer has numbers, texts and choices, but holds [Conv"),
        (space_of(CONV._replace(kernel_size=[1, 2, 3])), "but holds [1, 2, 3]"),
        (space_of(CONV._replace(kernel_size=schema.OneOf([[1, [2]]], "t"))), "but holds [2]"),
        (space_of(CONV._replace(use_batch_norm=[1, 2])), "but holds [1, 2]"),
        (space_of(CONV._replace(strides=[1, [2]])), "but holds [2]"),
        (space_of(schema.OneOf([None], "t")), "but holds None"),
        (space_of(CONV._replace(kernel_size=1e300)), "A number in a space is from 0 to 1048576"),
    ],
)
def test_spaces_that_nothing_can_be_computed_of_are_refused(space, message):
    space_check.check_space(space_of(CONV))
    kernels = schema.OneOf([(1, 3), 5], "t")
    space_check.check_space(space_of(CONV._replace(kernel_size=kernels)))
    with pytest.raises(JsonError, match=matching(message)):
        space_check.check_space(space)


def test_a_space_whose_networks_cannot_be_built_is_named(tmp_path):
    space = space_of(CONV._replace(strides=0))
    scalars = {"rlpathlogits/blocks/0/filters/0": 1.0}
    nas_searches.write_search(tmp_path, {0: scalars}, space)
    message = "must describe networks that can be built, but the one found cannot…Name the"
    with pytest.raises(search_analysis.UnreadableError, match=matching(message)):
        search_analysis.analyze(str(tmp_path))


def test_networks_with_other_choices_than_the_found_one_are_described_too(tmp_path):
    """Found by the search that coverage guides: the found network skips the layer."""
    number = itertools.count()  # Each layer has two expansions.

    def spoil(match):
        return match[1] + ('"wide"' if next(number) == 3 else match[2])

    spoiled = re.sub(r'("scale",\s*)([\d.]+)', spoil, SPACE)
    nas_searches.write_search(tmp_path)
    (tmp_path / "model_spec.json").write_text(spoiled)
    with pytest.raises(
        search_analysis.UnreadableError, match="but one with other choices cannot: "
    ):
        search_analysis.analyze(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_shape": [8, 8, 10**9]}, "image_shape is [8, 8, 1000000000]. Name the"),
        ({"image_shape": 3}, "image_shape is 3. Name the"),
        ({"num_classes": 10**12}, "num_classes is 1000000000000. Name the"),
        ({"ssd": ["a"]}, "ssd is ['a']. Name the"),
        ({"rl_delay_steps": "1"}, "rl_delay_steps is '1'. Name the"),
        ({"skip_delay_steps": "1"}, "skip_delay_steps is '1'. Name the"),
        ({"rl_cost_model_target": 0}, "`rl_cost_model_target` in params.json must be numbers > 0"),
        ({"cost_model": [3]}, "`cost_model` in params.json must be texts, one for each cost"),
        ({"cost_model_files": [3]}, "`cost_model_files` in params.json must be texts or null"),
        ({"cost_model_weights": [1, 2]}, "`cost_model_weights` in params.json must be numbers > 0"),
        ({"cost_model": ["/dev/zero"]}, "must be JSON by `fit-cost`, but cannot be read"),
    ],
)
def test_settings_of_a_search_that_cannot_be_are_named(changes, message, tmp_path):
    nas_searches.write_search(tmp_path, **changes)
    with pytest.raises(search_analysis.UnreadableError, match=matching(message)):
        search_analysis.analyze(str(tmp_path))


@pytest.mark.parametrize("text", ["[]", "3", "null", "[" * 500])
def test_settings_that_are_no_object_are_refused(text, tmp_path):
    (tmp_path / "params.json").write_text(text)
    with pytest.raises(SettingsError, match=matching("must be in its directory, but…Name the")):
        settings_file.read(str(tmp_path))
    with pytest.raises(UserError, match=matching("params.json is damaged, or of another program")):
        search_analysis.analyze(str(tmp_path))
    assert settings_file.read_metrics(str(tmp_path), "params.json", 2) is None
    nas_searches.save_checkpoint(tmp_path)
    with pytest.raises(
        SettingsError, match=matching("must be the settings of the run, but cannot")
    ):
        settings_file.check_same({"checkpoint_dir": str(tmp_path)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 10**12}, "num_classes is 1000000000000.…Name the --checkpoint_dir"),
        ({"eval_batch_size": "8"}, "eval_batch_size is '8'.…Name the --checkpoint_dir"),
        ({"seed": "0"}, "--seed must be a whole number, but is '0'.…Name the --checkpoint_dir"),
        ({"seed": True}, "--seed must be a whole number, but is True.…Name the --checkpoint_dir"),
        ({"momentum": [1]}, "--momentum must be a number, but is [1].…Name the --checkpoint_dir"),
        ({"use_bfloat16": 1}, "--use_bfloat16 must be true or false, but is 1.…Name the"),
        ({"engine": [1]}, "engine is [1].…Name the --checkpoint_dir"),
    ],
)
def test_settings_of_another_type_are_named(changes, message, tmp_path):
    (tmp_path / "params.json").write_text(json.dumps({**TRAINED, **changes}))
    with pytest.raises(SettingsError, match=matching(f"must hold the settings of a tr…{message}")):
        train_settings.resolve_evaluation(checkpoint_dir=str(tmp_path))


def test_settings_that_make_no_revnet_are_named(tmp_path):
    (tmp_path / "params.json").write_text(json.dumps({**REVNET, "units": [1] * 3}))
    message = "must hold the settings of a RevNet, but they make none…Name the --checkpoint_dir"
    with pytest.raises(SettingsError, match=matching(message)):
        revnet_settings.resolve_evaluation(checkpoint_dir=str(tmp_path))


@pytest.mark.parametrize("changes", [{"ssd": [1]}, {"preset": {}}])
def test_settings_taken_over_from_a_search_are_checked(changes, tmp_path):
    (tmp_path / "params.json").write_text(json.dumps({**SEARCHED, **changes}))
    with pytest.raises(SettingsError, match="name a search, whose preset and ssd are texts, but"):
        train_settings.resolve(search_dir=str(tmp_path), checkpoint_dir=str(tmp_path / "alone"))
    if "ssd" in changes:
        with pytest.raises(UserError, match=r"params.json in .* names no space. Name another"):
            sample._of_search(str(tmp_path), None)


@pytest.mark.parametrize("field, value", [("image_shape", 3), ("num_classes", None)])
def test_images_of_a_search_that_is_sampled_are_checked(field, value, tmp_path):
    (tmp_path / "params.json").write_text(json.dumps({**SEARCHED, field: value}))
    with pytest.raises(UserError, match=f"`{field}` in params.json must be .*Name another"):
        sample._of_search(str(tmp_path), None)


@pytest.mark.parametrize("value", ["\x1b[2J", "\n", "\u2028"])
def test_texts_of_a_cost_model_can_be_printed(value):
    fields = json.loads(COST_MODEL)
    fields["measurement"]["device_model"] = value
    with pytest.raises(JsonError, match=r"has device_model .* which must be a text"):
        cost_model_io.from_json(json.dumps(fields))


def test_a_latency_of_too_many_digits_is_damage(tmp_path):
    line = MEASURED.replace("0.5", "9" * 5_000)
    (tmp_path / "measured").write_text(f"{json.dumps(HEADER)}\n{line}\n")
    with pytest.raises(UserError, match="must hold measured latencies, but cannot be read"):
        measurement_log.read(str(tmp_path / "measured"), HEADER)


@pytest.mark.parametrize("text", ["[]", "{", '{"a": [1]}', '{"a": [1, "2"]}', '{"a": [1, -2]}'])
def test_counts_of_records_that_were_changed_are_named(text, tmp_path):
    (tmp_path / "records.json").write_text(text)
    message = "must be what the run found out about its data, but cannot be used…Name a new"
    with pytest.raises(DataError, match=matching(message)):
        record_manifest._read(str(tmp_path / "records.json"))


def test_a_file_name_that_promises_billions_of_files_takes_no_memory(tmp_path):
    (tmp_path / "train-00000-of-99999999999999999999").touch()
    message = "lacks or has too many: train-00001-of-9999…train-00005-of-9999…, .... Copy them"
    with pytest.raises(DataError, match=matching(message)):
        tfrecords._names(str(tmp_path))


def log_events(directory, *events):
    path = str(directory / "events.out.tfevents.1")
    with tf.io.TFRecordWriter(path) as writer:
        for event in events:
            writer.write(event)


def test_events_that_claim_to_be_longer_than_the_file_end_it(tmp_path):
    good = tf.Event(step=1, summary=tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=2)]))
    log_events(tmp_path, good.SerializeToString())
    with open(tmp_path / "events.out.tfevents.1", "ab") as file:
        file.write(record_sets.HUGE)
    assert analyze_mobile_search_lib.read_scalars(str(tmp_path)) == {"a": {1: 2.0}}


def test_events_that_are_none_end_the_file(tmp_path):
    good = tf.Event(step=1, summary=tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=2)]))
    log_events(tmp_path, good.SerializeToString(), b"\xff\xff", good.SerializeToString())
    assert analyze_mobile_search_lib.read_scalars(str(tmp_path)) == {"a": {1: 2.0}}


def test_tensors_in_events_that_contradict_themselves_are_no_numbers(tmp_path):
    odd = tf.make_tensor_proto(1.0)
    odd.tensor_content = b"12345"
    values = [tf.Summary.Value(tag="a", tensor=odd)]
    values.append(tf.Summary.Value(tag="b", tensor=type(odd)(dtype=99)))
    log_events(tmp_path, tf.Event(summary=tf.Summary(value=values)).SerializeToString())
    assert analyze_mobile_search_lib.read_scalars(str(tmp_path)) == {}


def test_logits_of_absurd_numbers_are_none():
    scalars = {
        f"rlpathlogits/a/{'9' * 5_000}": {0: 1.0},
        f"rltaglogits/a_{'9' * 5_000}/0": {0: 1.0},
    }
    assert analyze_mobile_search_lib.path_logits(scalars) == {}
    assert analyze_mobile_search_lib.tag_logits(scalars) == {}


def test_logits_that_are_not_finite_are_named(tmp_path):
    steps = {0: {tag: float("inf") for tag in nas_searches.logits(1.0)}}
    nas_searches.write_search(tmp_path, steps=steps)
    with pytest.raises(search_analysis.UnreadableError, match="has logits that are not finite"):
        search_analysis.analyze(str(tmp_path))


def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path):
    nas_searches.write_search(tmp_path)
    nas_searches.save_checkpoint(tmp_path)
    (tmp_path / "model.ckpt-1.index").write_bytes(b"nothing")
    with pytest.raises(search_analysis.UnreadableError, match=r"the checkpoint in .* cannot be re"):
        search_analysis.analyze(str(tmp_path))


def test_what_is_written_beside_a_search_goes_through_no_link(tmp_path):
    directory = nas_searches.write_search(tmp_path / "search")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (directory / "search.html").symlink_to(victim)
    found = search_analysis.analyze(str(directory))
    assert analyze._write(found, "search.html", b"page") == [str(directory / "search.html")]
    assert victim.read_text() == "mine"
    assert (directory / "search.html").read_text() == "page"
    (directory / ".metrics.json.partial").symlink_to(victim)
    settings_file.write_json({}, str(directory), "metrics.json")
    assert victim.read_text() == "mine"


def test_analysing_writes_no_cost_model(tmp_path):
    nas_searches.write_search(tmp_path)
    before = sorted(tmp_path.iterdir())
    search_analysis.analyze(str(tmp_path))
    assert sorted(tmp_path.iterdir()) == before
