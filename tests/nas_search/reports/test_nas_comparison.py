"""The page that compares searches; and what holds of it and of the page of one search."""

import html
import io
import itertools
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.reports import comparison, comparison_plots, report, search_analysis
from examples.nas_search.reports.search_plots import Series
from examples.runs import figures
from nas_search.nas_pages import Page, check_loads_nothing, check_names, check_readable
from nas_search.nas_searches import INDICES, logits, write_search

# Of block 1 the layer that `INDICES` skips is there, and the width is another.
OTHER = [*INDICES[:5], 0, 0, *INDICES[7:]]


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    folder = tmp_path_factory.mktemp("my searches")
    steps = {0: logits(0.0), 30: {**logits(3.0, OTHER), "rlcontroller/reward": 0.25}}
    with tf.Graph().as_default():
        return [
            search_analysis.analyze(str(write_search(folder / "a", seed=4))),
            search_analysis.analyze(str(write_search(folder / "b", steps, seed=5))),
        ]


@pytest.fixture(scope="module")
def texts(searches):
    return {"search": report.page(searches[0]), "comparison": comparison.page(searches)}


@pytest.fixture(scope="module")
def page(texts):
    return Page(texts["comparison"])


@pytest.fixture
def undrawn(searches, monkeypatch):
    """The pages, with empty pictures, which take no time."""
    element = '<svg role="img" aria-label="{}"></svg>'
    monkeypatch.setattr(
        figures, "svg", lambda draw, name, words: element.format(html.escape(words))
    )
    return [report.page(searches[0]), comparison.page(searches)]


def test_pages_are_for_everybody_whatever_their_pictures(undrawn):
    for text in undrawn:
        check_loads_nothing(text)
        check_readable(text)


def test_a_picture_has_words_that_stay_words():
    words = 'a "picture" of <b> & more'
    picture = figures.svg(lambda: figures.new(1, 1), "name", words)
    ((_, _, of),) = Page(picture).elements("svg")
    assert (of["role"], of["aria-label"]) == ("img", words)


CHECKS = (check_loads_nothing, check_names, check_readable)


@pytest.mark.parametrize("name", ["search", "comparison"])
@pytest.mark.parametrize("check", CHECKS)
def test_a_page_is_for_everybody(texts, name, check):
    check(texts[name])


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        (' lang="en"', "", check_readable),
        ("<h2>", "<h3>", check_readable),
        (' role="img"', "", check_readable),
        (' scope="row"', "", check_readable),
        ("<caption>", "<caption></caption><caption>", check_readable),
        (' tabindex="0"', "", check_readable),
        ('class="wide "', "", check_readable),
        ("width=device-width", "width=1000", check_readable),
        ("<h1>", '<img src="a.png"><h1>', check_loads_nothing),
        ("<svg", '<a href="https://example.com">a</a><svg', check_loads_nothing),
        (' id="series-', ' id="other-', check_names),
    ],
)
def test_a_page_that_is_not_for_everybody_is_told(texts, old, new, check):
    assert old in texts["search"]
    with pytest.raises((AssertionError, KeyError)):
        check(texts["search"].replace(old, new))


def test_the_page_tells_what_each_found_and_how_they_agree(searches, page):
    words = re.sub(r"\s+", " ", "\n".join(page.words).replace("/\n", "/"))
    for shown in (
        "2 searches of digits_search",
        f"{searches[0].directory} 4 20 80.0% {searches[0].madds:,}",
        f"{searches[1].directory} 5 30 {searches[1].madds:,}",  # It has logged no accuracy.
        # e³ / (e³ + 2) = 0.909, e³ / (e³ + 1) = 0.953
        "blocks/1/filters 8 (91%) 2 (91%) 2 | 4 | 8",
        "blocks/1/layers/1/layer skip (95%) bottleneck (95%) bottleneck | skip",
        "blocks/1/layers/1/layer/choices/0/kernel_size 3 (95%, not reached) 3 (95%) 3 | 5",
        # In 10 of 12 choices, which have 2 alternatives each, or 3 in two of them.
        "take the same alternative in 83% of the choices on average, where choosing at random "
        "would give 47%, and their probabilities overlap by 85%.",
        # The widths 2, 4 and 8 share 0.045 each.
        "blocks/1/filters 1 of 2 14%",
        "blocks/2/filters 2 of 2 100%",
        "search 1 and 2 10 of 12 85%",
        "0 0.5 10 0.6 20 0.7 30 0.25",  # the rewards; 0.25 is the second's alone
    ):
        assert shown in words
    assert page.tags.count("svg") == 2 + 2
    for search in searches:
        assert all(layer.strip() in "".join(page.words) for layer in search.layers)


def test_what_the_pictures_show_is_told_in_words(searches, page):
    labels = [
        of["aria-label"].replace("\N{NO-BREAK SPACE}", " ") for _, _, of in page.elements("svg")
    ]
    assert labels[0] == (
        "Lines of 2 searches over their steps: reward, validation accuracy (%), "
        "madds (% of target), entropy of controller (nats)."
    )
    shares = [100 * each.cost_model / 0.5 for each in searches]
    assert labels[1] == (
        "Costs of the networks found, in per cent of the target: "
        f"search 1 madds {shares[0]:.0f}, search 2 madds {shares[1]:.0f}"
    )


EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>${title} $x^{$ &amp;"


def test_tables_of_steps_tell_the_latest_value():
    series = [{0: 1.0, 10: 2.0, 20: 3.0}, {5: 4.0, 15: 5.0}, {}]
    table = report.table_of_steps("what", ["a", "b", "c"], series, "as a table")
    rows = re.findall(r"<tr>(.*?)</tr>", table)[1:]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    assert cells == [
        ["0", "1", "", ""],
        ["5", "1", "4", ""],
        ["10", "2", "4", ""],
        ["15", "2", "5", ""],
        ["20", "3", "", ""],
    ]


def test_text_from_files_is_shown_and_does_nothing(searches):
    evil = [
        each._replace(
            ssd=EVIL,
            directory=EVIL,
            settings={**each.settings, "seed": EVIL},
            costs=[each.costs[0]._replace(label=EVIL, unit_and_device=EVIL)],
        )
        for each in searches
    ]
    page = Page(comparison.page([evil[0], evil[1]._replace(directory=EVIL + "2")]))
    assert not {"script", "img"} & set(page.tags)
    assert not [value for _, key, value in page.attributes if key.startswith("on")]
    assert "".join(page.words).count(EVIL) >= 8


def test_searches_in_which_cost_does_not_count(searches):
    free = [each._replace(costs=[]) for each in searches]
    page = Page(comparison.page(free))
    assert "Cost did not count in these searches." in page.words
    assert page.tags.count("svg") == 1 + 2


@pytest.mark.usefixtures("undrawn")
def test_a_cost_that_one_of_them_has(searches):
    latency = searches[0].costs[0]._replace(label="latency", estimate=3.0, target=2.0, unit="ms")
    first = searches[0]._replace(
        costs=[latency],
        history={**searches[0].history, "cost": {0: 1.0, 20: 3.0}},
    )
    page = Page(comparison.page([first, searches[1]]))
    labels = [
        of["aria-label"].replace("\N{NO-BREAK SPACE}", " ") for _, _, of in page.elements("svg")
    ]
    assert "latency (% of target)" in labels[0]
    assert "madds" not in labels[0]  # The second has logged none.
    assert "search 1 latency 150, search 2 madds " in labels[1]
    assert "+50.0%" in page.words


@pytest.mark.usefixtures("undrawn")
def test_searches_without_a_choice(searches):
    decided = []
    for each in searches:
        nodes = [node._replace(choices=[node.choices[node.index]], index=0) for node in each.nodes]
        rows = {step: [np.ones(1)] * len(nodes) for step in each.probabilities}
        decided.append(each._replace(nodes=nodes, probabilities=rows))
    assert "Every choice has one alternative." in Page(comparison.page(decided)).words


# Pictures.


def test_lines_of_searches_can_be_told_apart():
    panel = [Series("reward", {0: 0.0, 10: float(n)}, is_sampled=False) for n in range(12)]
    figure = comparison_plots.draw_searches([panel], range(1, 13))
    (axes,) = figure.axes
    styles = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
    assert len(styles) == 12
    labels = axes.get_legend_handles_labels()[1]
    assert labels == [f"search {number}" for number in range(1, 13)]
    assert [line.get_ydata()[-1] for line in axes.lines] == list(range(12))
    figure.savefig(io.BytesIO(), format="png")


def test_a_target_is_a_line_and_a_search_without_values_has_none():
    panel = [Series("cost", {0: 300.0, 10: 90.0}, 100.0), Series("cost", {}, 100.0)]
    (axes,) = comparison_plots.draw_searches([panel], [1, 2]).axes
    assert [len(line.get_xdata()) for line in axes.lines] == [2, 0, 2]
    assert set(axes.lines[2].get_ydata()) == {100.0}


def test_costs_are_points_beside_the_target():
    shares = {"madds": [80.0, None], "latency": [110.0, 95.0]}
    (axes,) = comparison_plots.draw_costs(shares, [1, 2]).axes
    target, madds, latency = axes.lines
    assert set(target.get_xdata()) == {100}
    assert madds.get_xydata().tolist() == [[80, 0]]
    assert latency.get_xydata().tolist() == [[110, 0], [95, 1]]
    assert [text.get_text() for text in axes.texts] == ["80", "110", "95"]


def test_colours_stand_out_from_white_and_from_dark():
    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return float(np.dot([0.2126, 0.7152, 0.0722], parts))

    colors = (figures.BLUE, figures.VERMILION, figures.GREEN)
    for color, paper in itertools.product(colors, ("#ffffff", "#15181b")):
        low, high = sorted([luminance(color), luminance(paper)])
        assert (high + 0.05) / (low + 0.05) >= 3
