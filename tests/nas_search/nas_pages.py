"""Reads pages, and holds them to what those need who do not see them, or see them on a phone."""

import html.parser
import re

VOID = {"meta", "br", "wbr"}


class Page(html.parser.HTMLParser):
    """The elements of a page; fails where they are not closed as they were opened."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        # `inside` has of each element, the n-th of `tags`, the numbers of those that it is in.
        self.tags, self.attributes, self.words, self._open = [], [], [], []
        self.of, self.inside = [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.inside.append([number for number, _ in self._open])
        if tag not in VOID:
            self._open.append((len(self.tags), tag))
        self.tags.append(tag)
        self.of.append(dict(attrs))
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open.pop()[1] == tag

    def handle_data(self, data):
        self.words.append(data)

    def values(self, name):
        return [value for _, key, value in self.attributes if key == name]

    def elements(self, *tags):
        """Returns number, tag and attributes of all elements with these tags."""
        return [
            (number, tag, self.of[number]) for number, tag in enumerate(self.tags) if tag in tags
        ]

    def within(self, number, *tags):
        """Returns tag and attributes of the elements in the element `number`."""
        return [(tag, of) for n, tag, of in self.elements(*tags) if number in self.inside[n]]


def check_loads_nothing(text):
    """Checks that a page needs nothing but itself."""
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert not page.values("src")
    hrefs = [value for _, key, value in page.attributes if key in ("href", "xlink:href")]
    assert all(value.startswith("#") for value in hrefs)
    assert not re.search(r"url\((?!#)|@import", text)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.values("content")


def check_names(text):
    """Checks that names in a page are unique, and that each reference finds its name."""
    page = Page(text)
    names = page.values("id")
    assert len(names) > 50
    assert len(set(names)) == len(names)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    assert used
    assert used <= set(names)


def check_readable(text):
    """Checks language, title, headings, pictures, tables, and boxes that scroll."""
    page = Page(text)
    ((_, _, root),) = page.elements("html")
    assert root["lang"] == "en"
    ((number, _, _),) = page.elements("main")
    assert len(page.elements("header", "title")) == 2
    assert "width=device-width, initial-scale=1" in page.values("content")
    levels = [int(tag[1]) for _, tag, _ in page.elements("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))
    assert len(page.within(number, "h2")) >= 2
    pictures = page.elements("svg", "img")
    assert pictures
    for _, _, of in pictures:
        assert of["role"] == "img"
        assert len(of["aria-label"]) > 20
    tables = page.elements("table")
    assert tables
    for number, _, _ in tables:
        assert [tag for tag, _ in page.within(number, "caption", "thead", "tbody")] == [
            *("caption", "thead", "tbody")
        ]
        assert {of.get("scope") for _, of in page.within(number, "th")} == {"col", "row"}
        headings = [tag for tag, of in page.within(number, "th") if of["scope"] == "row"]
        assert len(headings) == len(page.within(number, "tr")) - 1
    boxes = [of for _, _, of in page.elements("div", "pre") if "wide" in of.get("class", "")]
    boxes += [of for _, _, of in page.elements("pre")]
    assert all(of["tabindex"] == "0" and of["role"] == "group" for of in boxes)
    labels = [of["aria-label"] for of in boxes]
    assert len(set(labels)) == len(labels)
    # A table, a wide picture or a text with lines of its own would widen the page, if not in one.
    for number, _, _ in tables:
        outer = [page.of[n].get("class", "") for n in page.inside[number]]
        assert any("wide" in name for name in outer)
