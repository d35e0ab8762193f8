"""The page that `analyze` writes, and the pictures in it."""

import io
import json
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from matplotlib import patches

from examples.nas_search import mobile_classifier_factory, schema
from examples.nas_search.basic_specs import OP_TAG, ConvTowerSpec, block
from examples.nas_search.costs import network_cost
from examples.nas_search.mobile_search_space_v3 import ActivationSpec, ConvSpec
from examples.nas_search.reports import (
    choice_plots,
    network_drawing,
    report,
    search_analysis,
    search_plots,
)
from examples.runs import figures
from nas_search.nas_pages import Page
from nas_search.nas_searches import INDICES, logits, write_search

V3 = "mobilenet_v3_like_search"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    with tf.Graph().as_default():
        return search_analysis.analyze(str(write_search(tmp_path_factory.mktemp("my search"))))


@pytest.fixture(scope="module")
def text(digits):
    return report.page(digits)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.fixture(scope="module")
def largest(tmp_path_factory):
    """The largest space after 1,000 summaries, each with other probabilities."""
    spec = mobile_classifier_factory.get_model_spec(V3)
    sizes = []
    schema.map_oneofs(lambda oneof: sizes.append(len(oneof.choices)), spec)
    random = np.random.RandomState(0)
    chosen = [int(random.randint(size)) for size in sizes]
    with tf.Graph().as_default():
        directory = write_search(
            tmp_path_factory.mktemp("largest"),
            {1: logits(1.0, chosen, V3)},
            spec,
            ssd=V3,
            enable_cost_model=False,
            image_shape=[224, 224, 3],
            num_classes=1001,
        )
        found = search_analysis.analyze(str(directory))
    steps = range(1, 100_000, 100)
    history = {name: {step: random.rand() for step in steps} for name in found.history}
    probabilities = {step: [random.dirichlet(np.ones(size)) for size in sizes] for step in steps}
    probabilities[1] = found.probabilities[1]
    return found._replace(history=history, probabilities=probabilities)


def test_what_a_picture_shows_is_told_in_words_and_tables(digits, page):
    labels = [of["aria-label"] for _, _, of in page.elements("svg")]
    assert labels[0].startswith(
        "Over the steps: reward from 0.5 to 0.7, validation accuracy (%) from 60 to 80, "
    )
    assert "convolution 3×3, batch norm, relu, then bottleneck 5×5, expansion ×3" in labels[1]
    # e³ / (e³ + 2) = 0.909
    assert (
        "Probabilities of width over the steps: 2 from 33% to 5%, 4 from 33% to 5%, 8 from"
        in (labels[7])
    )
    words = " ".join(page.words)
    assert re.search(r"20\s+0\.7\s+80\s+0\.4\s+", words)
    assert re.search(r"width\s+8\s+33%\s+58%\s+91%", words)


def test_the_page_tells_everything(digits, page):
    words = "".join(page.words)  # Paths may be broken.
    for shown in (
        ":".join(map(str, INDICES)),
        f"{digits.madds:,}",
        f"{digits.params:,}",
        "80.0%",  # the accuracy of late, 0.6 + 20 / 100
        "for one image; target 500,000, ",  # The cost is said once, by the multiply-adds.
        "blocks/1/layers/1/layer",
        "rl_delay_steps",
        *digits.layers,
    ):
        assert shown in words
    assert (
        page.tags.count("details") == 2 * 2 + 3
    )  # blocks with choices and tables; series, words, settings
    open_nodes = [node for node in digits.nodes if len(node.choices) > 1]
    assert page.tags.count("figcaption") == len(open_nodes)
    assert page.tags.count("svg") == 2 + len(open_nodes)


def test_pictures_of_a_page_have_the_colour_of_its_text(text):
    assert "currentColor" in text
    assert figures.ink() not in text


def test_the_page_tells_how_to_go_on(digits, page):
    words, start = " ".join(page.words), "python -m examples.nas_search"
    assert f"{start} train --search_dir '{digits.directory}' --checkpoint_dir" in words
    assert f"{start} export --checkpoint_dir" in words


EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>${title} $x^{$ &amp;"


def test_text_from_files_is_shown_and_does_nothing(tmp_path):
    kernels = schema.OneOf([ConvSpec(3, 1), ActivationSpec(EVIL)], OP_TAG)
    spec = ConvTowerSpec([block([kernels], 8)], 8)
    steps = {3: {f"rlpathlogits/blocks/0/layers/0/{i}": float(i) for i in range(2)}}
    steps[3].update({"rlpathlogits/blocks/0/filters/0": 0.0, "rlcontroller/reward": 0.5})
    settings = {"ssd": EVIL, "enable_cost_model": False, "note": EVIL, EVIL: [EVIL]}
    found = search_analysis.analyze(
        str(write_search(tmp_path / EVIL[:15], steps, spec, **settings))
    )
    page = Page(report.page(found))
    assert not {"script", "img"} & set(page.tags)
    assert not [value for _, key, value in page.attributes if key.startswith("on")]
    assert "".join(page.words).count(EVIL) >= 5
    for draw in report.pictures(found).values():
        figures.png(draw, io.BytesIO())


@pytest.mark.thorough
def test_the_page_of_the_largest_space_is_small(largest):
    text = report.page(largest)
    assert len(text) < 3e6
    page = Page(text)
    assert page.tags.count("figcaption") == 86
    is_open = [tag for tag, key, _ in page.attributes if key == "open"]
    assert is_open == ["details"] * 2  # of eight blocks


# The drawing of a network.


def test_the_drawing_has_a_row_for_each_layer(digits):
    rows = network_drawing.rows_of(digits.network, digits.layer_costs)
    assert [row.text for row in rows] == [
        "convolution 3×3, batch norm, relu",
        "bottleneck 5×5, expansion ×3, stride 2, relu",
        "skipped",
        "bottleneck 3×3, expansion ×1, stride 2, relu",
        "bottleneck 5×5, expansion ×1, relu",
        "convolution 1×1, batch norm, relu",
        "global average pool",
        "classifier",
    ]
    assert [row.block for row in rows] == [0, 1, 1, 2, 2, 3, 3, None]
    assert [row.kernel_size for row in rows] == [3, 5, None, 3, 5, 1, None, 1]
    assert [row.is_skipped for row in rows].index(True) == 2
    assert [row.is_residual for row in rows].index(True) == 4
    assert sum(row.cost.madds for row in rows if row.cost) == digits.madds


def test_the_drawing_shows_what_large_networks_have():
    spec = mobile_classifier_factory.get_model_spec("mobilenet_v3_large")
    cost = network_cost.network_cost(spec, [224, 224, 3], 1001)
    rows = network_drawing.rows_of(spec, cost.layers)
    assert "bottleneck 5×5, expansion 72, stride 2, SE, relu" in [row.text for row in rows]
    first = next(row for row in rows if row.is_endpoint)
    assert first.text == "separable convolution 3×3, relu"
    assert sum(row.is_endpoint for row in rows) == 5
    assert sum(row.cost.madds for row in rows) == cost.madds


def test_words_of_a_drawing_do_not_overlap_their_boxes_or_the_edge(largest):
    """All words are inside the picture of the largest space, as people see it."""
    figure = network_drawing.draw_network(largest, "title")
    figure.savefig(io.BytesIO(), format="png")
    axes = figure.axes[0]
    frame = figure.bbox
    for words in axes.texts:
        box = words.get_window_extent()
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1, words.get_text()
    longest = max(
        words.get_window_extent().width for words in axes.texts if "bottleneck" in words.get_text()
    )
    boxes = [box for box in axes.patches if isinstance(box, patches.FancyBboxPatch)]
    assert longest < min(box.get_window_extent().width for box in boxes)


# The choices over time.


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("blocks/1/filters", "width"),
        ("blocks/1/layers/0", "layer 0"),
        ("blocks/2/layers/1/layer", "layer 1"),
        ("blocks/2/layers/1/layer/choices/0/kernel_size", "layer 1 kernel"),
        ("blocks/2/layers/1/layer/choices/0/use_squeeze_and_excite", "layer 1 SE"),
        ("elsewhere", ""),
    ],
)
def test_choices_have_short_names(path, name):
    assert choice_plots.name_within_block(path) == name


@pytest.mark.parametrize(
    ("choices", "names"),
    [
        (["3", "5"], ["3", "5"]),
        (["separable convolution 3×3, relu", "separable convolution 5×5, relu"], ["3×3", "5×5"]),
        (["bottleneck", "skip"], ["bottleneck", "skip"]),
        (["same", "same"], ["same", "same"]),
    ],
)
def test_alternatives_are_named_by_what_differs(digits, choices, names):
    assert choice_plots.alternatives(digits.nodes[0]._replace(choices=choices)) == names


def test_areas_are_the_probabilities_and_the_one_taken_stands_out(digits):
    number = next(i for i, node in enumerate(digits.nodes) if node.path == "blocks/1/filters")
    figure = choice_plots.draw_one(digits, number)
    areas = figure.axes[0].collections
    colors = [choice_plots.color(digits.nodes[number], index) for index in range(3)]
    assert colors[2] == choice_plots.TAKEN
    assert len(set(colors)) == 3
    below = 0.0
    for index, area in enumerate(areas):
        top = area.get_paths()[0].vertices[:, 1].max() if index == 2 else None
        height = digits.probabilities[20][number][index]
        xs, ys = area.get_paths()[0].vertices.T
        assert ys[xs == 20].max() == pytest.approx(below + height, abs=0.002)
        below += height
    assert top == pytest.approx(1, abs=0.002)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["2", "4", "8"]


def test_a_search_with_one_summary_can_be_drawn(tmp_path):
    found = search_analysis.analyze(str(write_search(tmp_path, {7: logits(1.0)})))
    assert set(report.pictures(found)) == {"search.png", "network.png", "choices.png"}
    assert Page(report.page(found)).tags.count("svg") > 2


# Series.


def panels_of(figure):
    return [axes.get_ylabel() for axes in figure.axes]


def test_a_series_without_values_has_no_panel():
    series = [
        search_plots.Series("a", {1: 0.5}),
        search_plots.Series("b", {}),
        search_plots.Series("cost\n(ms)", {1: 2.0, 2: 3.0}, target=2.5),
    ]
    starts = {"one starts": 1, "another starts": 2, "none starts": 0}
    figure = search_plots.draw_search(series, "title", starts)
    assert panels_of(figure) == ["a", "cost\n(ms)"]
    labels = figure.axes[1].get_legend_handles_labels()[1]
    assert labels == ["target 2.5"]
    assert figure.axes[0].get_legend_handles_labels()[1] == ["one starts", "another starts"]
    marks = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 2]
    assert [(line.get_xdata()[0], line.get_linestyle()) for line in marks] == [(1, ":"), (2, "-.")]


def test_the_line_is_the_mean_of_all_points_and_few_are_drawn():
    random = np.random.RandomState(0)
    values = {step: random.rand() for step in range(5000)}
    lines = search_plots.draw_search([search_plots.Series("a", values)]).axes[0].lines
    points, mean = (line.get_xydata() for line in lines[:2])
    assert len(points) == len(mean) == 400
    assert points[-1].tolist() == [4999, values[4999]]
    assert mean[0, 1] == pytest.approx(np.mean([values[step] for step in range(250)]))


def test_a_plot_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"at least one series with values, but of a there are"):
        search_plots.draw_search([search_plots.Series("a", {})])
    with pytest.raises(ValueError, match=r"but of no series there are none\. Let the search run"):
        search_plots.draw_search([])


@pytest.mark.parametrize(("number", "limit"), [(3, 5), (5, 5), (100, 7)])
def test_thinning_keeps_both_ends(number, limit):
    thinned = figures.thinned(list(range(number)), limit)
    assert len(thinned) == len(set(thinned)) == min(number, limit)
    assert (thinned[0], thinned[-1]) == (0, number - 1)


def test_settings_are_shown_as_json(page):
    assert json.dumps([8, 8, 1]) in page.words
