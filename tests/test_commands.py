"""Every command that documentation and programs show is one that the program takes."""

import argparse
import logging
import re
import shlex

import pytest

import command_lines
import programs
from examples.classifiers import commands as classifier_commands
from examples.nas_search.commands import PROGRAM as NAS_SEARCH
from examples.nas_search.costs import cost_model_io
from examples.nas_search.fronts import front_run
from examples.nas_search.latency import fit_cost
from examples.nas_search.reports import report, search_analysis
from examples.nas_search.search import search_loop, search_settings
from examples.nas_search.training import train_settings
from examples.revnet.commands import PROGRAM as REVNET
from examples.revnet.training import train_settings as revnet_settings
from nas_search import nas_fronts, nas_searches

# Which are not of this repository, have no parser, or need what is not there to parse.
FOREIGN = ("pytest", "venv", "pip")
NO_PARSER = ("tests.durations",)
SHOWN = [
    (name, tuple(words))
    for name, words in [
        *command_lines.of_pages(),
        *command_lines.of_sources("examples", "replicate", "benchmarks"),
    ]
]
OF_PYTHON = [(name, words) for name, words in SHOWN if "-m" in words]
# Modules that compose the commands that they print, as tests below have them.
TOGETHER = {
    "examples/classifiers/commands.py",
    "examples/nas_search/commands/finalists.py",
    "examples/nas_search/commands/fit_cost.py",
    "examples/nas_search/commands/front.py",
    "examples/nas_search/commands/search.py",
    "examples/nas_search/reports/report.py",
}

pytestmark = pytest.mark.filterwarnings("ignore:.*found in sys.modules.*:RuntimeWarning")


@pytest.fixture(autouse=True)
def log_as_before():
    """Programs have the log of a process of their own, and filter what it says."""
    logger = logging.getLogger("tensorflow")
    filters, level = list(logger.filters), logger.level
    yield
    logger.filters[:] = filters
    logger.setLevel(level)


def module_of(words):
    return words[words.index("-m") + 1]


@pytest.mark.parametrize(
    ("name", "words"),
    [pytest.param(*each, id=f"{each[0]}-{' '.join(each[1])}"[:90]) for each in OF_PYTHON],
)
def test_a_program_takes_the_command(name, words, monkeypatch):
    monkeypatch.chdir(command_lines.ROOT)
    if module_of(words) not in (*FOREIGN, *NO_PARSER):
        command_lines.parse(list(words))


RESOLVE = {
    ("examples.nas_search", "search"): search_settings.resolve,
    ("examples.nas_search", "train"): train_settings.resolve,
    ("examples.revnet", "train"): revnet_settings.resolve,
}
# Flags by which settings depend on files, and the file of a space.
OF_FILES = ("--search_dir", "--dataset", "--dataset_dir", "--cost_model", "--help", "my_space.json")
OF_SETTINGS = {
    " ".join(words[words.index("-m") :]): RESOLVE[words[words.index("-m") + 1 :][:2]]
    for _, words in OF_PYTHON
    if words[words.index("-m") + 1 :][:2] in RESOLVE and not set(OF_FILES).intersection(words)
}


@pytest.mark.parametrize("line", OF_SETTINGS)
def test_the_flags_make_settings(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = command_lines.parse(["python", *shlex.split(line)])
    params = OF_SETTINGS[line](**vars(given))
    assert params["checkpoint_dir"] == given.checkpoint_dir
    assert params["max_global_step"] > 0


def test_make_has_the_targets():
    makefile = (command_lines.ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w.-]+):", makefile, re.MULTILINE))
    made = [(name, words[1:]) for name, words in SHOWN if words[0] == "make"]
    assert len(made) > 30
    assert [each for each in made if not targets.issuperset(each[1])] == []


def test_commands_are_found():
    """As many as when this was written, or more: what looks for them still finds them."""
    assert len(OF_PYTHON) >= 90
    assert len(OF_SETTINGS) >= 4
    found = {module_of(words) for _, words in OF_PYTHON}
    assert {"examples.nas_search", "examples.revnet", "examples.cluster.local"} <= found
    assert {"replicate", "benchmarks.towers", "tests.conformance"} <= found
    text = "```sh\nA='{\n}' \\\n  python -m a --b 1  # c\nls\n```\nSee `python -m d` and `make e`."
    blocks = [*command_lines._in_blocks(text), *command_lines._in_sentences(text)]
    wanted = [["A={\n}", "python", "-m", "a", "--b", "1"], ["python", "-m", "d", "--help"]]
    assert blocks == [*wanted, ["make", "e"]]


@pytest.mark.parametrize(
    "line",
    [
        "python -m examples.nas_search search --preset digits",
        "python -m examples.nas_search search --checkpoint_dir a --nothing 1",
        "python -m examples.nas_search serach --checkpoint_dir a",
        "python -m examples.cluster.local --workers 2 -- --nothing",
        "python -m examples.revnet train --checkpoint_dir a --engine steam",
        "python -m replicate bench --counts two",
        "python -m benchmarks.nas_speed --nothing 3",
    ],
)
def test_wrong_commands_are_refused(line, capsys):
    with pytest.raises(AssertionError, match="is refused"):
        command_lines.parse(line.split())


# Commands that programs compose.


def test_all_that_put_commands_together_are_tried():
    root = command_lines.ROOT
    calls = {
        path.relative_to(root).as_posix()
        for folder in ("examples", "replicate")
        for path in (root / folder).rglob("*.py")
        if re.search(r"(?<!def )\bcommand_line\(", path.read_text())
    }
    assert calls - {"examples/runs/command_line.py"} == TOGETHER


def printed(text):
    """Returns the namespaces of the commands in what was printed, by command, as parsed."""
    found = list(command_lines.in_lines(text))
    return {words[3]: command_lines.parse(words) for words in found}


@pytest.mark.parametrize("program", [NAS_SEARCH, REVNET])
def test_after_training_a_network_can_be_exported(program, tmp_path, capsys):
    directory = str(tmp_path / "a run")
    params = {"checkpoint_dir": directory, "max_global_step": 1}
    assert classifier_commands.train(program, params, lambda: {"accuracy": 0.5}) == 0
    (command,) = printed(capsys.readouterr().err).items()
    assert command[0] == "export"
    assert vars(command[1])["checkpoint_dir"] == directory
    assert vars(command[1])["export_dir"] == f"{directory}-exported"


@pytest.mark.parametrize("is_done", [True, False])
def test_after_a_search_it_is_analysed_or_goes_on(is_done, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(search_loop, "run", lambda params: is_done)
    given = {"checkpoint_dir": str(tmp_path / "a run"), "preset": "digits", "num_towers": 2}
    given.update(enable_cost_model=False, model_momentum=0.5)
    line = [f"--{name}={value}" for name, value in given.items()]
    assert NAS_SEARCH.main(["search", *line]) == (0 if is_done else 130)
    (command,) = printed(capsys.readouterr().out).items()
    if is_done:
        assert command == ("analyze", argparse.Namespace(dirname=[given["checkpoint_dir"]]))
    else:
        assert command == ("search", argparse.Namespace(**given))


@pytest.mark.parametrize(
    ("preset", "ssd"), [("digits", "digits_search"), ("imagenet", "proxylessnas_search")]
)
def test_after_a_fit_one_searches_at_that_cost(preset, ssd, tmp_path, monkeypatch, capsys):
    def run(settings, say):
        model = nas_searches.latency_model(ssd=ssd)
        (tmp_path / "a cost.json").write_text(cost_model_io.to_json(model))
        return model

    monkeypatch.setattr(fit_cost, "run", run)
    output = str(tmp_path / "a cost.json")
    assert NAS_SEARCH.main(["fit-cost", "--preset", preset, "--output", output]) == 0
    (command,) = printed(capsys.readouterr().out).items()
    name, given = command
    wanted = ("search", preset, ssd, [output])
    assert (name, given.preset, given.ssd, given.cost_model) == wanted
    if preset == "digits":
        params = search_settings.resolve(**vars(given))
        assert params["cost_model"] != ["madds"]
        assert params["ssd"] == ssd


def test_a_fit_that_was_stopped_goes_on(tmp_path, monkeypatch, capsys):
    def run(settings, say):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_cost, "run", run)
    given = {"preset": "imagenet", "threads": 1, "output": str(tmp_path / "a cost.json")}
    line = [f"--{name}={value}" for name, value in given.items()]
    assert NAS_SEARCH.main(["fit-cost", *line]) == 130
    assert printed(capsys.readouterr().err) == {"fit-cost": argparse.Namespace(**given)}


def test_a_front_that_was_stopped_goes_on(tmp_path, monkeypatch, capsys):
    def run(plan, say):
        raise KeyboardInterrupt

    monkeypatch.setattr(front_run, "run", run)
    given = {"targets": [0.01, 0.02], "num_random": 2, "out": str(tmp_path / "a front")}
    line = ["--targets", "0.01", "0.02", "--num_random=2", f"--out={given['out']}"]
    assert NAS_SEARCH.main(["front", *line]) == 130
    assert printed(capsys.readouterr().out) == {"front": argparse.Namespace(**given)}


def test_finalists_that_were_stopped_go_on_and_the_best_can_be_exported(tmp_path, capsys):
    history = [nas_searches.evaluation(0, nas_searches.INDICES, 0.5)]
    search = nas_searches.write_evaluated(tmp_path / "a run", history)
    line = ["finalists", f"--search_dir={search}", "--num_networks=2"]
    with nas_fronts.stand_ins() as stand_in:
        stand_in.stops_at = 0
        assert NAS_SEARCH.main(line) == 130
        given = argparse.Namespace(search_dir=search, num_networks=2)
        assert printed(capsys.readouterr().err) == {"finalists": given}
        stand_in.stops_at = None
        assert NAS_SEARCH.main(line) == 0
    (command,) = printed(capsys.readouterr().out).items()
    assert command[0] == "export"
    assert vars(command[1])["export_dir"] == f"{vars(command[1])['checkpoint_dir']}-exported"


def test_the_page_of_a_search_says_how_to_train_what_it_found(tmp_path):
    directory = nas_searches.write_search(tmp_path / "a run")
    page = report.page(search_analysis.analyze(str(directory)))
    commands = printed(page if isinstance(page, str) else page.decode())
    assert sorted(commands) == ["export", "train"]
    assert commands["train"].search_dir == str(directory)
    assert commands["export"].checkpoint_dir == commands["train"].checkpoint_dir


# A few that run, in a small form.

SMALL = {
    ("examples.nas_search", "search"): "--max_global_step=2 --train_batch_size=8",
    ("examples.nas_search", "rank"): "--num_networks=2",
    ("examples.nas_search", "finalists"): "--num_networks=2 --epochs=1",
    ("examples.nas_search", "train"): "--max_global_step=2 --train_batch_size=8",
    ("examples.nas_search", "fit-cost"): "--num_networks=20 --repeats=3",
    ("examples.nas_search", "front"): "--num_random=1 --max_global_step=2 --epochs=1",
    ("examples.revnet", "train"): "--max_global_step=2 --train_batch_size=8",
    ("examples.revnet", "memory"): "--depth=1 --preset=digits --batch_size=2 --rounds=1",
}


SEARCHING = "examples/nas_search/README.md", NAS_SEARCH
# From a search to a network that can be served. All others run in thorough tests.
FIRST = ("search", "train", "export")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "program", "chosen"),
    [
        pytest.param(*SEARCHING, FIRST, id="search"),
        pytest.param(*SEARCHING, tuple(NAS_SEARCH.commands), marks=pytest.mark.thorough),
        pytest.param(
            "examples/revnet/README.md",
            REVNET,
            tuple(REVNET.commands),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_the_commands_of_an_example_run_one_after_another(page, program, chosen, tmp_path):
    ran = set()
    for name, words in command_lines.of_pages():
        if name != page or words[:3] != ["python", "-m", program.package]:
            continue
        # The first use of each command; none that needs absent images, or is only mentioned.
        if words[3] in ran or {"imagenet", "tfds:cifar10", "--help"}.intersection(words):
            continue
        if words[3] not in chosen:
            continue
        ran.add(words[3])
        small = SMALL.get((program.package, words[3]), "").split()
        path = {"PYTHONPATH": str(command_lines.ROOT)}
        result = programs.run(*words[1:], *small, root=tmp_path, env=path)
        assert result.returncode == 0, (words, result.stderr)
    assert ran == set(chosen)
