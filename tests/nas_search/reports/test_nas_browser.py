"""The pages of searches as a browser shows them: on phones, dark and light, and by keyboard."""

import re

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.fronts import front_page
from examples.nas_search.reports import comparison, report, search_analysis
from nas_search import nas_browser, nas_fronts
from nas_search.nas_searches import logits, write_search

pytestmark = pytest.mark.skipif(
    not nas_browser.find(), reason=f"there is none of {', '.join(nas_browser.NAMES)}"
)

PHONE = 360  # pixels
OTHER = [0, 0, 1, 1, 1, 0, 2, 0, 1, 1, 0, 1, 0, 0]

OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
WIDTH = "Math.max(document.documentElement.scrollWidth, innerWidth)"
# Elements that can be reached, by name and number; elements that are folded away cannot.
NAME = """
const name = each => [each.getAttribute('aria-label') || each.textContent,
                      [...document.querySelectorAll('*')].indexOf(each)];
"""
REACHABLE = f"""(() => {{
  {NAME}
  return [...document.querySelectorAll('a[href], button, summary, [tabindex]')]
    .filter(each => each.checkVisibility({{contentVisibilityAuto: true}})).map(name);
}})()"""
FOCUSED = f"""(() => {{
  {NAME}
  const each = document.activeElement, style = getComputedStyle(each);
  return each === document.body ? null : {{
    name: name(each), outline: style.outlineStyle, width: parseFloat(style.outlineWidth)}};
}})()"""
# All texts: whether in a picture, size in pixels as shown, and contrast with the background; black
# text on a box of a picture is left out.
TEXTS = """(() => {
  const luminance = color => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(c => c / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = each => {
    for (; each; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor;
      if (color != 'rgba(0, 0, 0, 0)') return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const each = walker.currentNode.parentElement, style = getComputedStyle(each);
    if (!walker.currentNode.data.trim() || each.closest('style')) continue;
    const picture = each.closest('svg');
    let size = parseFloat(style.fontSize);
    if (picture) {
      const {a, b, c, d} = each.getScreenCTM();
      size *= Math.sqrt(Math.abs(a * d - b * c));
      if (style.fill == 'rgb(0, 0, 0)') continue;
    }
    const pair = [picture ? style.fill : style.color, behind(each)].map(luminance);
    const [low, high] = pair.sort((x, y) => x - y);
    found.push({text: walker.currentNode.data, picture: !!picture, size: size,
                contrast: (high + 0.05) / (low + 0.05)});
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def browser():
    with nas_browser.started() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages as files, by name."""
    folder = tmp_path_factory.mktemp("pages")
    with tf.Graph().as_default():
        first = search_analysis.analyze(str(write_search(folder / "first")))
        steps = {0: logits(0.0), 20: {**logits(2.0, OTHER), "rlcontroller/reward": 0.6}}
        second = search_analysis.analyze(str(write_search(folder / "second", steps)))
    texts = {"search": report.page(first), "comparison": comparison.page([first, second])}
    texts["front"] = front_page.page(nas_fronts.front(folder / "front", num_trainings=2))
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture
def show(browser, pages):
    """Function that opens a page, in which a text may be replaced by another."""

    def show(name, old="", new="", **how):
        path = pages[name]
        if old:
            text = path.read_text(encoding="utf-8")
            assert old in text
            path = path.with_name("spoiled.html")
            path.write_text(text.replace(old, new), encoding="utf-8")
        return nas_browser.Tab(browser, path, **how)

    return show


def walk(tab):
    """Returns what the Tab key comes to, one after another."""
    places = []
    while len(places) < 100:
        tab.press("Tab")
        place = tab.run(FOCUSED)
        if place is None or place in places:
            return places
        places.append(place)
    raise AssertionError("the keyboard does not come to an end")


# Pages, and the number of places on each that the keyboard comes to, at least.
PLACES = {"search": 9, "comparison": 9, "front": 5}
all_pages = pytest.mark.parametrize("name", list(PLACES))


@all_pages
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, 1280])
def test_a_page_fits_and_can_be_read(show, name, scheme, width):
    tab = show(name, width=width, scheme=scheme)
    tab.run(OPEN_ALL)
    assert tab.run(WIDTH) == width
    texts = tab.run(TEXTS)
    assert len(texts) > 100
    assert [text for text in texts if text["size"] < (10 if text["picture"] else 12)] == []
    assert [text for text in texts if text["contrast"] < 4.5] == []  # AA of WCAG
    assert tab.console() == []


@all_pages
def test_dark_is_dark_and_light_is_light(show, name):
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = (
        [int(c) for c in re.findall(r"\d+", show(name, scheme=scheme).run(paper))]
        for scheme in ("light", "dark")
    )
    assert min(light) > 200
    assert max(dark) < 50


@all_pages
def test_the_keyboard_comes_to_everything_in_order(show, name):
    tab = show(name, width=PHONE)
    places = walk(tab)
    assert [place["name"] for place in places] == tab.run(REACHABLE)
    assert len(places) >= PLACES[name]
    assert {place["outline"] for place in places} == {"solid"}
    assert min(place["width"] for place in places) >= 2


@all_pages
def test_what_is_folded_unfolds_by_keyboard(show, name):
    tab = show(name)
    first = "document.querySelector('details')"
    tab.run(f"{first}.querySelector('summary').focus()")
    assert tab.run(f"{first}.open") is False
    tab.press("Enter")
    assert tab.run(f"{first}.open") is True


# These tests fail for worse pages.


def test_what_is_loaded_is_told_in_the_console(show):
    assert show("search", "<main>", '<main><img src="a.png" alt="">').console()


def test_what_is_too_wide_is_noticed(show):
    tab = show("search", "overflow-x: auto", "overflow-x: visible", width=PHONE)
    assert tab.run(WIDTH) > PHONE


def test_what_is_too_pale_is_noticed(show):
    tab = show("search", "--quiet: #59626b", "--quiet: #a0a0a0")
    assert min(text["contrast"] for text in tab.run(TEXTS)) < 4.5


def test_what_the_keyboard_does_not_come_to_is_noticed(show):
    tab = show("comparison", "<main>", '<main><p tabindex="-1">not reached</p>')
    assert [place["name"] for place in walk(tab)] != tab.run(REACHABLE)
