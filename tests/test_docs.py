"""The code on the pages runs, and files that they name exist; see `pages.py`."""

import json
import re
import shlex

import pytest

import pages
import replicate

PAGES = {pages.name_of(path): path for path in pages.PAGES}
# Each says why, in a comment before it.
NOT_RUN = {"docs/moving.md": 3}
SLOW = {"docs/tutorial.md": pytest.mark.slow}


def page(name):
    return PAGES[name].read_text()


# The blocks that run.


@pytest.fixture
def fresh_graph():
    """Instead of the one of `conftest.py`: pages run as programs do, without a graph."""
    yield


def is_python(name):
    return any(block.language == "python" for block in pages.blocks(page(name)))


@pytest.mark.filterwarnings("ignore")  # TensorFlow's warnings are no matter here.
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=SLOW.get(n, ())) for n in PAGES if is_python(n)]
)
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    pages.run(PAGES[name])


@pytest.mark.parametrize("name", PAGES)
def test_blocks_are_of_known_languages(name):
    text = page(name)
    found = pages.blocks(text)
    assert {block.language for block in found} <= set(pages.LANGUAGES)
    hidden = len(re.findall(r"^<!-- hidden$", text, re.MULTILINE))
    fences = len(re.findall(r"^\s*```", text, re.MULTILINE))
    assert (len(found) - hidden) * 2 == fences, "fences begin at the left margin"
    for block in found:
        if block.language == "json":
            json.loads(block.text)


def test_little_is_not_run():
    counts = {}
    for name in PAGES:
        for block in pages.blocks(page(name)):
            if block.note.startswith("not run"):
                counts[name] = counts.get(name, 0) + 1
                assert len(block.note) > len("not run: a reason")
    assert counts == NOT_RUN


def test_comments_are_those_that_are_known():
    known = r"<!-- (hidden\n|(in model_fn|not run: .*) -->\n+```python|(made by .*|end) -->\n)"
    for name in PAGES:
        text = page(name)
        assert len(re.findall("<!--", text)) == len(re.findall(known, text)), name


def test_blocks_are_found_with_what_is_said_of_them():
    text = "a\n<!-- hidden\nx = 1\n-->\n\n"
    text += "<!-- in model_fn -->\n```python\ny = 2\n```\n```sh\nls\n```\n"
    assert pages.blocks(text) == [
        pages.Block("python", "x = 1\n", 2, ""),
        pages.Block("python", "y = 2\n", 7, "in model_fn"),
        pages.Block("sh", "ls\n", 10, ""),
    ]


def test_an_error_names_the_line_of_the_page(tmp_path, monkeypatch):
    path = tmp_path / "page.md"
    path.write_text("# A page\n\n```python\nhere = 1\nraise KeyError(here)\n```\n")
    monkeypatch.setattr(pages, "name_of", lambda path: "page.md")
    with pytest.raises(KeyError) as caught:
        pages.run(path)
    assert caught.traceback[-1].lineno + 1 == 5


# The commands, which are looked at.


def commands(text):
    """Returns the commands of a page, lists of words: of its blocks, and of its sentences."""
    found, line = [], ""
    shown = "".join(block.text for block in pages.blocks(text) if block.language == "sh")
    for more in shown.replace("\\\n", " ").splitlines():
        line += more
        if line.count("'") % 2 == 0:  # Else what is quoted goes on.
            found.append(line)
            line = ""
    found += re.findall(r"`((?:make|python -m|pip) [^`]+)`", re.sub(r"\s+", " ", sentences(text)))
    return [words for words in (shlex.split(line, comments=True) for line in found) if words]


def sentences(text):
    """Returns a page without its blocks."""
    return re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)


def problems(words):
    """Yields what a command names that is not there."""
    words = [word for word in words if not re.match(r"[A-Z_]\w*=", word)]
    words = words[1:] if words[:1] == ["export"] else words
    if words[:1] == ["make"]:
        makefile = (pages.ROOT / "Makefile").read_text()
        targets = re.findall(r"^([\w.-]+):", makefile, re.MULTILINE)
        yield from (f"no target {word}" for word in words[1:] if word not in targets)
    elif words[:1] and re.search(r"python[\d.]*$", words[0]) and words[1:2] == ["-m"]:
        yield from problems_of_module(words[2], words[3:])
    for word in words:
        in_clone = re.match(r"(constraints|examples|tests|docs|benchmarks)/", word)
        if in_clone and not (pages.ROOT / word).exists():
            yield f"no file {word}"


def problems_of_module(module, rest):
    """Yields what is wrong with `python -m module rest`, if the module is of this repository."""
    top = pages.ROOT / module.split(".")[0]
    if not top.is_dir():
        return
    path = pages.ROOT / module.replace(".", "/")
    if not (path.with_suffix(".py").exists() or (path / "__main__.py").exists()):
        yield f"no module {module}"
    source = "\n".join(file.read_text() for file in top.rglob("*.py"))
    for word in rest:
        flag = re.match(r"--(\w[\w-]*)", word)
        # Some examples make flags of the fields of their settings.
        known = (
            rf"[\"']--{flag[1]}[\"']|^ +\"{flag[1]}\",$|^    {flag[1]}: |Flag\(\"{flag[1]}\","
            if flag
            else ""
        )
        if not re.search(known, source, re.MULTILINE):
            yield f"no flag {word} of {module}"


@pytest.mark.parametrize("name", PAGES)
def test_commands_name_what_there_is(name):
    assert [problem for words in commands(page(name)) for problem in problems(words)] == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("make nothing", "no target nothing"),
        ("VENV=x make test", None),
        ("python -m replicate.nothing", "no module replicate.nothing"),
        ("python -m examples.cluster.local --workers 2 -- --sync", None),
        ("python -m examples.digits --none 2", "no flag --none of examples.digits"),
        ("pip install -c constraints/tf-0.1.txt .", "no file constraints/tf-0.1.txt"),
        ("python -m pytest --anything", None),
    ],
)
def test_wrong_commands_are_found(command, problem):
    assert list(problems(shlex.split(command))) == ([problem] if problem else [])


# Files and pages.


@pytest.mark.parametrize("name", PAGES)
def test_files_and_pages_that_are_named_are_there(name):
    text, folder = sentences(page(name)), PAGES[name].parent
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (folder / link).exists()] == []
    # The site has the pages of `docs/` alone; what is elsewhere, they name.
    if name.startswith("docs/"):
        parents = {link: (folder / link).resolve().parents for link in links}
        assert [link for link in links if pages.ROOT / "docs" not in parents[link]] == []
    roots = "constraints|examples|tests|benchmarks|docs"
    named = re.findall(rf"`((?:{roots})/[\w./-]*)`", text)
    assert [path for path in named if not (pages.ROOT / path).exists()] == []


def test_links_into_a_page_name_a_heading():
    """Checks pages outside the site; building the site checks those in it."""
    for name in ("README.md", "CONTRIBUTING.md"):
        for link, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", sentences(page(name))):
            headings = re.findall(r"^#+ (.*)$", page(link or name), re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", heading.lower()) for heading in headings]
            assert anchor in [slug.replace(" ", "-") for slug in slugs]


def test_the_readme_is_one_page():
    text = page("README.md")
    assert len(text.splitlines()) <= 110
    assert "make search\nmake test\n" in text
    assert "`slow`" in text


def test_the_picture_is_the_same_in_both_places():
    (picture,) = [b.text for b in pages.blocks(page("README.md")) if b.language == "text"]
    assert picture in page("docs/how_partitioning_works.md")


def test_every_page_is_in_the_sites_list():
    listed = re.findall(r"[\w/]+\.md", (pages.ROOT / "mkdocs.yml").read_text())
    there = [name[len("docs/") :] for name in PAGES if name.startswith("docs/")]
    assert sorted(listed) == sorted(there)


def test_the_reference_has_every_public_name():
    text = "\n".join(page(name) for name in PAGES if name.startswith("docs/reference/"))
    found = set(re.findall(r"^::: replicate\.([\w.]+)$", text, re.MULTILINE))
    found |= set(re.findall(r"^## `replicate\.(\w+)`", text, re.MULTILINE))
    modules = {"checkpoints": ["fall_back"], "compat": ["install"]}
    modules.update({name: getattr(replicate, name).__all__ for name in ("hooks", "metrics")})
    modules["loss_scale"] = ["LossScale", "FixedLossScale", "DynamicLossScale"]
    wanted = set(replicate.__all__) - set(modules)
    wanted |= {f"{module}.{name}" for module, names in modules.items() for name in names}
    assert found == wanted


def test_the_command_line_is_documented():
    text = page("docs/reference/command_line.md")
    folder = pages.ROOT / "replicate"
    source = "".join(
        (folder / package / "command.py").read_text()
        for package in ("bench", "checking", "comparing", "migration/scan")
    )
    flags = set(re.findall(r"\"(--\w+)\"", source))
    assert {"--devices", "--json", "--rows"} <= flags
    assert sorted(flag for flag in flags if f"`{flag}`" not in text) == []


def test_all_that_builds_the_site_is_pinned():
    setup = (pages.ROOT / "setup.py").read_text()
    (wanted,) = re.findall(r"^DOCS = (\[.*\])$", setup, re.MULTILINE)
    pinned = (pages.ROOT / "constraints" / "docs.txt").read_text()
    for name in re.findall(r"\"([\w-]+)", wanted):
        assert re.search(rf"^{name}==[\d.]+$", pinned, re.MULTILINE), name
