"""The model of transfer times, checked by hand; its figures for machines are predictions."""

import json

import pytest

import selection
from benchmarks import links
from benchmarks.links import Link, Sent
from replicate.bench import choices, models

LINK = Link(bandwidth=100.0, latency=1.0)


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        ([], 0.0),
        ([Sent("a", "b", 50)], 1.5),
        # A device sends to two others one after the other: 2 + 4.
        ([Sent("a", "b", 100), Sent("a", "c", 300)], 6.0),
        # And it receives one after the other: 2 + 4.
        ([Sent("b", "a", 100), Sent("c", "a", 300)], 6.0),
        # Both directions at once, and other pairs at once.
        ([Sent("a", "b", 100), Sent("b", "a", 300)], 4.0),
        ([Sent("a", "b", 100), Sent("c", "d", 300)], 4.0),
        # A ring: no device sends or receives more than one.
        ([Sent("a", "b", 200), Sent("b", "c", 200), Sent("c", "a", 200)], 3.0),
        # Many small ones cost their latencies: 4 * 1.01.
        ([Sent("a", "b", 1)] * 4, 4.04),
        # Gradients wait for the step: 3 out and then 4 back.
        ([Sent("a", "b", 200), Sent("b", "a", 300, "after")], 7.0),
        ([Sent("a", "b", 200), Sent("a", "b", 300, "after")], 7.0),
    ],
)
def test_the_busiest_queue_decides(sent, seconds):
    assert links.step_seconds(sent, LINK) == pytest.approx(seconds)


def test_resnet50_has_as_many_weights_as_published():
    shapes = list(links.resnet50_shapes())
    total = 0
    for shape in shapes:
        size = 1
        for side in shape:
            size *= side
        total += size
    assert total == 25_557_032
    assert len(shapes) == 53 * 3 + 2


def test_what_two_towers_of_an_mlp_send_each_other():
    weights = 4 * (785 * 512 + 2 * 513 * 512 + 513 * 10)
    (record,) = links.predict("mlp", 2, {"default": {}})
    assert record["is_prediction"]
    # Weights, gradients, and a few numbers: losses, sizes, and means over rows.
    sent = record["links"]
    assert set(sent) == {
        "/device:CPU:0 -> /device:CPU:1",
        "/device:CPU:1 -> /device:CPU:0",
    }
    assert all(weights <= size <= weights + 512 for size in sent.values())
    # Out: three kernels, a pack of the rest. Back: likewise.
    assert 8 <= record["transfers"] <= 24
    assert 2 * weights <= record["bytes_of_busiest"] <= sum(sent.values())


LOSSLESS = ("default", "unpacked", "round_robin_variables", "round_robin", "replicated")


@pytest.mark.parametrize(
    ("model", "count"),
    [
        selection.cell(model, count, is_quick=(model, count) in (("cnn", 2), ("mlp", 4)))
        for model in ("cnn", "mlp", "wide")
        for count in (2, 4)
    ],
)
def test_auto_takes_what_is_predicted_to_be_fastest(model, count):
    """Where bytes take longer than messages; elsewhere it sends few more of these."""
    named = {name: choices.CHOICES[name] for name in (*LOSSLESS, "replicated_in_turn", "auto")}
    default, *others, auto = links.predict(model, count, named)
    assert auto["transfers"] <= 3 * default["transfers"]
    best = {
        link: min(one["predicted_ms"][link] for one in (default, *others)) for link in links.LINKS
    }
    by_bytes = {"mlp": ("PCIe 4", "10 Gbit/s", "25 Gbit/s"), "wide": ("10 Gbit/s",), "cnn": ()}
    for link in by_bytes[model]:
        assert auto["predicted_ms"][link] <= 1.01 * best[link]


def test_a_run_names_a_winner_and_says_that_it_predicts(capsys, monkeypatch, tmp_path):
    small = models.CASES["mlp"]._replace(layers=2, width=256)
    monkeypatch.setitem(models.CASES, "mlp", small)
    links.sent_by.cache_clear()
    out = tmp_path / "links.jsonl"
    flags = ["--models", "mlp", "--counts", "4", "--choices", "default,round_robin_bfloat16"]
    links.main([*flags, "--out", str(out)])
    links.sent_by.cache_clear()
    default, spread = map(json.loads, out.read_text().splitlines())
    assert default["choice"] == "default" and spread["choice"] == "round_robin_bfloat16"
    # Half of the bytes of gradients, and not all of them to one device.
    assert spread["bytes"] < default["bytes"]
    assert spread["bytes_of_busiest"] < default["bytes_of_busiest"]
    output = capsys.readouterr().out
    assert output.startswith("Predicted, not measured")
    slow = {each["choice"]: each["predicted_ms"]["10 Gbit/s"] for each in (default, spread)}
    ratio = slow["round_robin_bfloat16"] / slow["default"]
    assert ratio < 1
    assert f"round_robin_bfloat16, {slow['round_robin_bfloat16']:.2f} ms ({ratio:.2f})" in output
