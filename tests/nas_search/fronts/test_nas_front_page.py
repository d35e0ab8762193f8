"""The record, the page and the picture of a front."""

import json
import re
from xml.etree import ElementTree

import pytest

from examples.nas_search.fronts import front_page, front_plot
from examples.runs import figures
from nas_search import nas_fronts, nas_pages


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    return nas_fronts.front(tmp_path_factory.mktemp("front") / "out")


@pytest.fixture(scope="module")
def page(front):
    return front_page.page(front)


def shown(page):
    return re.sub(r"\s+", " ", "".join(nas_pages.Page(page).words))


def test_the_record_is_complete(front):
    record = json.loads(json.dumps(front.record))
    assert record["settings"]["targets"] == list(nas_fronts.TARGETS)
    assert record["settings"]["cost_model"] == "madds"
    assert record["cost"]["unit"] == "million MAdds"
    assert record["cost"]["least"] == pytest.approx(0.005032)
    kinds = [network["kind"] for network in record["networks"]]
    assert (kinds.count("found"), kinds.count("random")) == (3, 9)
    network = record["networks"][1]
    assert set(network) == {
        *("kind", "target", "number", "indices", "cost", "madds", "params", "trainings"),
        *("validation", "test"),
    }
    assert network["trainings"][0]["seed"] == 0
    reference = record["hypervolume"]["reference"]
    assert reference["cost"] == pytest.approx(0.02 * (0.02 / 0.006) ** 0.5)
    assert reference["accuracy"] == min(network["test"] for network in record["networks"])
    # 40 seconds of a search and 10 of a training; there are only three random networks.
    assert record["hypervolume"]["random_networks_in_the_time_of_a_search"] == 5
    assert record["hypervolume"]["random_same_time_is_best_of"] == 3
    assert {"tensorflow", "numpy", "python", "os", "device_model", "cores"} <= set(
        record["machine"]
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    assert record["images"] == {"train": 1119, "validation": 357, "test": 321}


def test_the_reference_accuracy_can_be_given(tmp_path):
    front = nas_fronts.front(tmp_path / "out", reference_accuracy=0.5)
    assert front.record["hypervolume"]["reference"]["accuracy"] == 0.5
    assert "an accuracy of 50.00%, which was given." in shown(front_page.page(front))


def test_a_page_needs_nothing_but_itself_and_can_be_read(page):
    nas_pages.check_loads_nothing(page)
    nas_pages.check_readable(page)
    nas_pages.check_names(page)


def test_a_page_tells_all_figures(front, page):
    words = shown(page)
    for kind in ("found", "random", "random_same_time"):
        figure = front.comparison.figures[kind]
        assert f"{figure['hypervolume']:.4f}" in words
    low, high = front.comparison.figures["random"]["interval"]
    assert f"{low:.4f} to {high:.4f}" in words
    assert "none: all are equal" in words
    for network in front.results.networks:
        assert network.indices in words
        assert f"{network.test:.2%}" in words
    assert "in the time of a search and a training, 5 networks can be trained" in words
    assert "Bars are" not in words
    # At 0.006 the networks found have 0.02 more than the first random one, as the third has.
    assert "83% of random" in words


def test_a_picture_is_described(page):
    [(_, _, of)] = nas_pages.Page(page).elements("svg")
    assert (
        "over cost, million MAdds. At 0.006: found 76.8%, random 74.8% to 76.8%"
        in (of["aria-label"])
    )


def test_a_picture_shows_networks_and_steps(front):
    networks, steps = front.results.networks, front.comparison.steps
    with figures.matplotlib.rc_context():
        [axes] = front_plot.draw(networks, front.comparison, "ms").axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    corner = front.comparison.reference
    wanted = [
        [steps["found"][0].cost, 100 * corner.accuracy],
        *([step.cost, 100 * step.accuracy] for step in steps["found"]),
        [corner.cost, 100 * steps["found"][-1].accuracy],
    ]
    assert lines["found: best up to each cost"] == wanted
    assert {"random, as many: best up to each cost, mean"} < set(lines)
    marks = {each.get_label(): each for each in axes.containers}
    assert set(marks) == {"a network: found", "a network: random"}
    for kind in ("found", "random"):
        found = marks[f"a network: {kind}"].lines[0].get_xydata().tolist()
        assert found == [[n.cost, 100 * n.test] for n in networks if n.kind == kind]
        assert not marks[f"a network: {kind}"].has_yerr
    assert axes.get_xscale() == "log"


def test_several_trainings_have_bars(tmp_path):
    front = nas_fronts.front(tmp_path / "out", num_trainings=2)
    with figures.matplotlib.rc_context():
        [axes] = front_plot.draw(front.results.networks, front.comparison, "ms").axes
    for bars in axes.containers:
        low, high = bars.lines[2][0].get_segments()[0][:, 1]
        assert high - low == pytest.approx(2 * 0.2)  # of two trainings that differ by 0.4 %
    assert "Bars are one standard deviation" in shown(front_page.page(front))
    assert front.comparison.figures["found"]["interval"] is not None


def test_a_front_of_nothing_but_the_reference_has_no_steps(tmp_path):
    front = nas_fronts.front(tmp_path / "out", reference_accuracy=0.99)
    assert front.comparison.figures["found"]["hypervolume"] == 0
    assert "<svg" in front_page.picture(front)


def test_the_file_of_a_picture_stands_alone(front):
    picture = front_page.picture(front)
    root = ElementTree.fromstring(picture)
    assert root.tag.endswith("}svg")
    assert "prefers-color-scheme: dark" in root[0].text
    assert not re.search(r"url\((?!#)|@import|href=\"(?!#)", picture)
    assert picture == front_page.picture(front)
