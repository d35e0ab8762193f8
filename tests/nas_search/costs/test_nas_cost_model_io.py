"""JSON of cost models, which comes from elsewhere."""

import dataclasses
import json

import numpy as np
import pytest

from bodies import matching
from examples.nas_search.costs import cost_model_io
from nas_search.nas_searches import latency_model


def test_what_was_measured_is_kept_to_the_last_bit():
    model = latency_model()
    text = cost_model_io.to_json(model)
    again = cost_model_io.from_json(text)
    for field in dataclasses.fields(model):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(model, field.name))
    assert cost_model_io.to_json(again) == text


def test_a_model_says_what_it_is():
    model = latency_model()
    assert str(model) == "latency, ms on Abacus 1, batch 1, 2 threads"
    one = latency_model(measurement={**model.measurement, "threads": 1, "batch_size": 8})
    assert str(one) == "latency, ms on Abacus 1, batch 8, 1 thread"
    assert str(latency_model(measurement=None)) == "latency, ms"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], 1, "is not of format 2"),
        (["more"], 1, "has other fields than it should: more"),
        (["kernel"], None, "has other fields than it should: kernel"),
        (["ssd"], 3, "has ssd 3, which must be a text"),
        (["ssd"], "nowhere", "is for the space 'nowhere', which is none of"),
        (["num_classes"], True, "has num_classes true, which must be an integer > 0"),
        (["num_classes"], 0, "has num_classes 0, which must be an integer > 0"),
        (["seed"], -1, "has seed -1, which must be an integer >= 0"),
        (["seed"], "a", "cannot be read"),
        (["input_shape"], [8, 8], "has input_shape [8, 8], which must be three integers > 0"),
        (["bias"], float("nan"), "cannot be read (Numbers must be finite, but one is NaN)"),
        (["bias"], 10**400, "cannot be read"),
        (["kernel"], [0.5] * 140, "which must be 141 finite numbers"),
        (["kernel"], [0.5] * 140 + ["a"], "which must be 141 finite numbers"),
        (["kernel"], [float("inf")] * 141, "Numbers must be finite, but one is Infinity"),
        (["statistics"], [], "has statistics [], which must be an object"),
        (["statistics", "mean"], None, "has other statistics than it should: mean"),
        (["statistics", "mean"], "0.5", 'has mean "0.5", which must be a finite number'),
        (["measurement"], [], "has measurement [], which must be an object or null"),
        (["measurement", "date"], None, "has other measurement than it should: date"),
        (["measurement", "os"], "", 'has os "", which must be a text'),
        (["measurement", "threads"], 1.5, "has threads 1.5, which must be an integer > 0"),
        (["measurement", "reference_latency"], 0, "has reference_latency 0, which must be a numb"),
    ],
)
def test_faults_are_named(path, value, message):
    fields = json.loads(cost_model_io.to_json(latency_model()))
    inner = fields
    for name in path[:-1]:
        inner = inner[name]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    with pytest.raises(ValueError, match=matching(f"must be JSON by `fit-cost`…{message}…Let it")):
        cost_model_io.from_json(json.dumps(fields))
