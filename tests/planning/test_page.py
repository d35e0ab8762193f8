"""The page of a plan: its text, and what a browser shows of it."""

import json
import pathlib
import re
import types

import pytest
import tensorflow.compat.v1 as tf

from nas_search import nas_browser
from replicate.planning import page, plan

ROOT = pathlib.Path(page.__file__).parents[2]
in_a_browser = pytest.mark.skipif(
    not nas_browser.find(), reason=f"there is none of {', '.join(nas_browser.NAMES)}"
)
OUTPUTS = [f"out_{number}" for number in range(10)]
LONG = "a_block_of_a_network_that_has_a_long_name_since_somebody_likes_those_{}_inside"


def scope(path, *children, towers=0, once=0, updates=0, line=1):
    name = path.rpartition("/")[2]
    inner = [(one["towers"], one["once"], one["updates"]) for one in children]
    towers, once, updates = map(sum, zip((towers, once, updates), *inner))
    return {
        **{"name": name, "path": path, "line": f"/models/model.py:{line}", "operations": 3},
        **{"towers": towers, "once": once, "updates": updates, "children": list(children)},
    }


def meeting(source, *takers, kind="join", size=40.0, tensor="Tensor"):
    name = f"{source}/{tensor}"
    return {"from": source, "to": list(takers), "tensor": name, "kind": kind, "bytes": size}


SCOPES = scope(
    "",
    scope("silent", scope("silent/inner")),
    scope("embed", scope("embed/quiet"), scope("embed/table", towers=4000), line=24),
    scope("mixed", scope("mixed/quiet"), towers=3, once=97, line=240),
    scope("nearly", scope("nearly/a", towers=9962), scope("nearly/b", once=38)),
    scope("whole", once=900),
    *(scope(name, towers=50) for name in OUTPUTS),
    *(scope(LONG.format(number), towers=1) for number in (1, 2)),
    scope("Adam", scope("Adam/update"), updates=5),
)
PLAN = {
    **{"towers": 2, "share": 1.0, "share_of": "the multiplications"},
    **{"computed_in_towers": SCOPES["towers"], "computed_once": SCOPES["once"]},
    "scopes": SCOPES,
    "meetings": [
        meeting("embed/table", "embed", "mixed", "whole", size=70.0, tensor="Gathered"),
        meeting("nearly/a", "nearly/b", size=9.0),
        meeting("nearly/b", "Adam/update", kind="sum", size=6000.0),
        *(meeting("nearly/a", name, size=20.0) for name in OUTPUTS),
    ],
    "once": [
        {
            **{"operation": "gradients/whole/Sort_grad/TopKV2", "type": "TopKV2"},
            **{"line": "/models/sorting.py:7", "computed": 900.0, "why": "it needs all rows"},
            **{"scope": "whole", "advice": "mask or weight rows"},
        }
    ],
}


def rendered(told, title="model.py:model_fn"):
    return page.render(types.SimpleNamespace(as_dict=lambda: told), title)


def test_the_page_holds_all_that_it_needs():
    text = rendered(PLAN)
    assert json.loads(re.search(r'id="data">(.*)</script>', text)[1]) == PLAN
    for part in ("page.css", "page.js", "page_edges.js"):
        assert (ROOT / "replicate" / "planning" / part).read_text(encoding="utf-8") in text
    assert not re.search(r"https?:|//\w+\.|\b(src|href)=|@import|url\(|\bfetch\(|\{\{", text)


def test_names_and_titles_are_text():
    hostile = "</script><script>alert(1)</script><!--"
    told = {**PLAN, "scopes": scope("", scope(hostile.replace("/", "|"), line=hostile))}
    text = rendered(told, title=f"{{{{data}}}}{hostile}")
    # The data and the script of the page, and no other.
    assert text.count("<script") == text.count("</script>") == 2 and "<!--" not in text
    assert json.loads(re.search(r'id="data">(.*)</script>', text)[1]) == told
    assert "<h1>{{data}}&lt;/script&gt;&lt;script&gt;alert(1)" in text


def test_the_files_of_the_page_are_shipped():
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    files = [file for file in (ROOT / "replicate" / "planning").glob("page*") if file.is_file()]
    shipped = re.findall(r'"planning/(.*)"', setup)
    assert shipped == sorted(file.name for file in files if file.suffix != ".py")


def luminance(color):
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_can_be_read_on_their_grounds(scheme):
    css = (ROOT / "replicate" / "planning" / "page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?--ground.*?)\}", css, re.DOTALL)
    light = {name: luminance(c) for name, c in re.findall(r"--(\w+): (#\w{6})", blocks[scheme])}
    pairs = [(text, ground) for text in ("ink", "quiet") for ground in ("ground", "box", "mark")]
    for pair in [*pairs, ("once", "ground"), ("sum", "ground")]:
        low, high = sorted(light[name] for name in pair)
        assert (high + 0.05) / (low + 0.05) > 4.5, pair  # AA of WCAG


CODES = {
    **{"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36},
    **{"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40},
}


class Tab(nas_browser.Tab):
    """The page of a plan in a browser."""

    def press(self, *keys, shift=False):
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            event = {"key": key, "windowsVirtualKeyCode": CODES.get(key, 0), "text": text}
            self._ask("Input.dispatchKeyEvent", type="keyDown", modifiers=8 * shift, **event)

    def insert(self, text):
        self._ask("Input.insertText", text=text)

    def place(self):
        """Path of the box that has the focus and is the chosen one."""
        chosen = "[...tree.querySelectorAll('[aria-selected=true]'), document.activeElement]"
        first, *others = self.run(f"{chosen}.map(box => box.dataset.path)")
        assert others == [first]
        return first

    def paths(self):
        return self.run("[...tree.children].map(box => box.dataset.path)")

    def click(self, path):
        self.run(f"tree.querySelector('[data-path=\"{path}\"]').click()")

    def text(self, name):
        return self.run(f"document.getElementById('{name}').textContent").replace("\xa0", " ")

    def edges(self, chosen="g"):
        """Tooltips of edges, such as `a to b: 8 B in 1 tensor, sum`."""
        return self.run(f"[...svg.querySelectorAll('{chosen}')].map(g => g.firstChild.textContent)")

    def labels(self):
        return self.run("[...svg.querySelectorAll('text')].map(text => text.textContent)")


@pytest.fixture(scope="module")
def browser():
    with nas_browser.started() as browser:
        yield browser


@pytest.fixture
def show(browser, tmp_path):
    """Function that opens the page of a plan; at the end, it must have had no errors."""
    tabs = []

    def show(told=PLAN, **how):
        path = tmp_path / "plan.html"
        path.write_text(rendered(told), encoding="utf-8")
        tabs.append(Tab(browser, path, **how))
        return tabs[-1]

    yield show
    assert [tab.console() for tab in tabs] == [[] for _ in tabs]


@in_a_browser
def test_arrow_keys_go_through_the_whole_tree(show):
    few = [one for one in SCOPES["children"] if one["name"] not in OUTPUTS]
    tab = show({**PLAN, "scopes": {**SCOPES, "children": few}})
    tab.run("tree.firstChild.focus()")
    assert "silent" not in tab.paths()
    places = [tab.place()]
    while len(places) < 3 or places[-1] != places[-2]:
        tab.press("ArrowDown")
        if tab.run("document.activeElement.getAttribute('aria-expanded')") == "false":
            tab.press("ArrowRight")
        places.append(tab.place())
    seen = places[:-1]
    assert seen == tab.paths()
    assert {"embed/table", "nearly/b", "Adam/update"} <= set(seen)
    assert not {"silent", "embed/quiet", "mixed/quiet"} & set(seen)


@in_a_browser
def test_keys_open_and_close_scopes(show):
    tab = show()
    tab.run("tree.firstChild.focus()")
    # The first thing in `embed` is hidden.
    tab.press("ArrowDown", "ArrowRight", "ArrowRight")
    assert tab.place() == "embed/table"
    tab.press("ArrowRight", "ArrowLeft")
    assert tab.place() == "embed"
    tab.press("ArrowLeft")
    assert tab.place() == "embed" and "embed/table" not in tab.paths()
    tab.press("ArrowDown", "ArrowRight")  # Nothing in `mixed` is shown.
    assert tab.place() == "mixed"
    box = "tree.querySelector('[data-path=mixed]')"
    assert tab.run(f"{box}.getAttribute('aria-expanded')") is None
    assert tab.run(f"{box}.firstChild.textContent") == ""
    tab.press("End")
    assert tab.place() == "Adam"
    tab.press("ArrowLeft", "ArrowUp", "ArrowLeft", "ArrowUp", "ArrowLeft")
    assert tab.place() == "" and tab.paths() == [""]
    tab.press("Enter")
    assert tab.paths()[1] == "embed"
    tab.press("End", "Home")
    assert tab.place() == ""


@in_a_browser
def test_a_scope_that_is_hidden_gives_its_place_to_the_one_around_it(show):
    tab = show()
    tab.run("$('idle').click()")
    tab.click("silent")
    tab.press("ArrowRight")
    assert tab.place() == "silent/inner"
    tab.run("$('idle').focus(); $('idle').click()")
    tab.press("Tab")
    assert tab.place() == ""
    tab.press("ArrowDown")
    assert tab.place() == "embed"
    tab.run("document.activeElement.blur()")
    tab.run("$('idle').focus()")
    tab.press("Tab", "ArrowDown")
    assert tab.place() == "mixed"


@in_a_browser
def test_colours_show_the_share_and_numbers_are_in_columns(show):
    tab = show()
    style = "getComputedStyle(tree.querySelector('[data-path={}]'), '{}')"
    shares = {}
    for name in ("mixed", "nearly", "whole", "embed"):
        stripe = tab.run(style.format(name, "::before") + ".backgroundImage")
        assert "rgb(15, 127, 116)" in stripe and "rgb(168, 84, 0)" in stripe
        shares[name] = float(re.search(r"([\d.]+)%", stripe)[1])
    assert shares == pytest.approx({"mixed": 3, "nearly": 99.62, "whole": 0, "embed": 100})
    tab.click("mixed")
    assert tab.run(style.format("mixed", "") + ".boxShadow") == "none"
    assert tab.run(style.format("mixed", "") + ".outlineStyle") == "solid"
    assert "partly in towers" in tab.run("document.querySelector('.legend').textContent")
    assert tab.text("share") == (
        "2 towers run 100 % of the multiplications, 93.32 % of all that is computed"
    )
    tab.click("embed")
    tab.run("open.add(scopes.get('nearly')); draw()")
    for cell in ("lastElementChild", "lastElementChild.previousElementSibling"):
        right = f"Math.round(row.{cell}.getBoundingClientRect().right)"
        assert len(set(tab.run(f"[...document.querySelectorAll('.row')].map(row => {right})"))) == 1
    headings = tab.run("[...document.querySelectorAll('.columns .number')].map(h => h.textContent)")
    assert headings == ["computed", "in towers"]
    same = {**PLAN, "share": 0.5, "scopes": scope("", towers=1, once=1), "meetings": []}
    assert show(same).text("share") == "2 towers run 50 % of the multiplications"


OVERLAPS = """(() => {
  const all = [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect());
  return all.some((a, at) => all.slice(at + 1).some(b =>
    a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom));
})()"""


@in_a_browser
def test_meetings_are_labelled_and_told(show):
    tab = show()
    assert tab.run("svg.querySelectorAll('path.head').length") == len(tab.edges()) == 15
    # Bytes go to each taker, within a scope, too; the largest have labels, however small.
    assert {f"embed to {name}: 70 B in 1 tensor, join" for name in ("embed", "mixed", "whole")} < {
        *tab.edges()
    }
    assert len(tab.labels()) == 12 and {"6 kB", "70 B", "20 B"} == set(tab.labels())
    assert not tab.run(OVERLAPS)
    tab.click("embed")  # It is open: its edges are those of `embed/table`.
    assert "embed/table to mixed: 70 B in 1 tensor, join" in tab.edges("g:not(.dim)")
    assert len(tab.edges("g:not(.dim)")) == 3
    assert tab.text("met") == (
        "70 B meet in 1 tensor: 70 B joined within · 70 B joined to mixed · 70 B joined to whole"
    )
    tab.click("nearly")
    assert len(tab.edges("g:not(.dim)")) == 12 and len(tab.labels()) == 15
    assert "9 B" in tab.labels()
    assert not tab.run(OVERLAPS)
    told = tab.text("met")
    assert told.startswith("6.21 kB meet in 12 tensors: 6 kB reduced to Adam · 20 B joined to ")
    assert told.count(" · ") == 8 and told.endswith(" · and 4 more")
    tab.click("mixed")
    assert tab.text("met") == "70 B meet in 1 tensor: 70 B joined from embed/table"


@in_a_browser
def test_an_arrow_points_at_the_taker(show):
    tab = show()
    tops = tab.run("""(() => {
      const edge = [...svg.children].find(g => g.textContent.startsWith("nearly to Adam"));
      const box = tree.querySelector('[data-path=Adam]').getBoundingClientRect();
      const head = edge.querySelector('.head').getBoundingClientRect();
      return [box.top, head.top, head.bottom, box.bottom];
    })()""")
    assert tops == sorted(tops)


def found(tab, text):
    """Writes into the search field; returns the paths of what is found."""
    tab.run("find.focus(); find.value = ''")
    tab.insert(text)
    return tab.run("[...document.querySelectorAll('.found')].map(box => box.dataset.path)")


@in_a_browser
def test_the_search_finds_scopes_lines_and_operations(show):
    tab = show()
    before = tab.paths()
    tab.press("/")
    assert tab.run("document.activeElement.id") == "find"
    assert found(tab, "nearly") == ["nearly"]
    assert found(tab, "model.py:24") == ["embed"]  # Not `model.py:240`.
    assert found(tab, "topk") == found(tab, "sorting.py") == ["whole"]
    assert found(tab, "gathered") == ["embed/table"]
    assert found(tab, "nowhere") == [] and tab.text("matches") == "none found"
    assert found(tab, "out_") == OUTPUTS
    chosen = "tree.querySelector('[aria-selected=true]').dataset.path"
    places = [tab.run(chosen)]
    for shift in (False, False, True, True, True):
        tab.press("Enter", shift=shift)
        places.append(tab.run(chosen))
    assert places == [OUTPUTS[at] for at in (0, 1, 2, 1, 0, 9)]
    assert tab.text("matches") == "10 of 10" and tab.run("document.activeElement.id") == "find"
    assert found(tab, "quiet") == ["embed/quiet", "mixed/quiet"]
    assert not tab.run("$('idle').checked")
    tab.run("find.type = 'text'; find.focus()")  # Some browsers clear a field of type search.
    tab.press("Escape")
    assert tab.run("find.value") == "" and tab.text("matches") == ""
    assert tab.paths() == before and tab.run(chosen) == "embed"
    assert not tab.run("$('idle').checked")


@in_a_browser
def test_a_long_name_is_cut_where_others_are_alike(show):
    tab = show(width=400)
    for number in (1, 2):
        box = f"tree.querySelector('[data-path={LONG.format(number)}]')"
        assert tab.run(f"{box}.title").startswith(LONG.format(number) + "\n")
        end = f"{box}.querySelector('.name').lastChild"
        assert tab.run(f"{end}.textContent") == f"{number}_inside"
        assert tab.run(f"{end}.scrollWidth <= {end}.clientWidth")
        start = f"{box}.querySelector('.name').firstChild"
        assert 30 < tab.run(f"{start}.clientWidth") < tab.run(f"{start}.scrollWidth")


@in_a_browser
def test_all_fits_a_narrow_window(show):
    tab = show(width=400)
    assert tab.run("[document.documentElement.scrollWidth, innerWidth]") == [400, 400]
    rights = "[...document.querySelectorAll('.share, #edges text, td')]"
    assert tab.run(f"Math.max(...{rights}.map(one => one.getBoundingClientRect().right))") <= 400
    assert tab.run("document.querySelectorAll('#edges text').length") > 5
    names = tab.run("[...tree.querySelectorAll('.name')].map(name => name.clientWidth)")
    assert min(names) > 80
    line = "parseFloat(getComputedStyle(document.body).lineHeight)"
    assert tab.run(f"$('same').clientHeight < 2 * {line}")
    cells = "[...$('once').querySelectorAll('td')]"
    tops = tab.run(f"{cells}.map(td => td.getBoundingClientRect().top)")
    assert tops[0] < tops[1] == tops[2] == tops[3] < tops[4]


@in_a_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_of_a_model_is_drawn(show, scheme):
    def model_fn(features, labels, mode):
        with tf.name_scope("layer"):
            net = features @ tf.get_variable("w", [4, 3])
        with tf.name_scope("halves"):
            loss = tf.reduce_mean(tf.reshape(net, [3, 6]) ** 2)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    made = plan.make_plan(model_fn, lambda: (tf.ones([6, 4]), None), devices=["/cpu:0", "/cpu:1"])
    tab = show(made.as_dict(), scheme=scheme)
    assert {"", "layer", "halves"} <= set(tab.paths())
    assert any(edge.startswith("layer to halves: 72 B") for edge in tab.edges())
    assert "halves/Reshape" in tab.run("$('once').textContent")
    ground = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(21, 25, 27)") == (scheme == "dark")
    width = "tree.firstChild.getBoundingClientRect().width"
    before = tab.run(width)
    tab.press("+")
    assert tab.text("same") == "120 %" and tab.run(width) == pytest.approx(1.2 * before, abs=1)
    tab.press("0")
    assert tab.run(width) == before
