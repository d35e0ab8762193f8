"""`python -m replicate bench`, and what benchmarks share."""

import ast
import collections
import json
import pathlib
import re
import shlex
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import programs
import replicate
from bodies import matching, source_files
from replicate import __main__ as program
from replicate.bench import choices, command, engines, harness, losses, models, rows, traffic
from replicate.reports import transfers

PACKAGE = pathlib.Path(replicate.__file__).parent
TWO = ["--devices", "/cpu:0", "/cpu:1"]
CHOICE = {"replicate_model_fn": {"variable_placement": "round_robin"}}
MLP = ((784, 512), (512, 512), (512, 512), (512, 10))  # Rows and columns of its layers.
WAYS = [
    "one device",
    "replicate",
    f"replicate, {json.dumps(CHOICE)}",
    "MirroredStrategy",
    "CentralStorageStrategy",
]

FLAGS = [
    ([], "Without `--devices`, every GPU is used…only /device:CPU:0…--devices /cpu:0 /cpu:1"),
    (["--devices", "/cpu:0", "/gpu:0"], "must be all GPUs or all CPUs of this host…/gpu:0…Pass"),
    (["--devices", "/job:worker/cpu:0"], "all CPUs of this host…/job:worker/cpu:0…Pass"),
    (["--devices", "/gpu:6"], "`devices` must exist, but /device:GPU:6 does not…/device:CPU:0"),
    (["--devices", "/cpu:0", "cpu:0"], "must name each device once…/device:CPU:0"),
    (["--devices", "/gpu:*"], "named by its type and index, like '/gpu:0'…got '/gpu:*'"),
    ([*TWO, "--counts", "3"], "`--counts` must be distinct and at most the…2…are 3…lower"),
    ([*TWO, "--counts", "2", "2"], "`--counts` must be distinct…are 2 2…Name more devices"),
    (
        [*TWO, "--global_batch", "7"],
        "`--global_batch` must be a multiple of each number of…2…is 7…Take e.g. 256",
    ),
    ([*TWO, "--global_batch", "8", "--rows", "4"], "not allowed with argument"),
    ([*TWO, "--rounds", "0"], "must be a whole number >= 1, but is…'0'…Leave the option out"),
    (
        [*TWO, "--models", "mlp,rnn"],
        "must be distinct names out of…cnn,mlp,wide…'mlp,rnn'…Leave the option out",
    ),
    ([*TWO, "--choices", "best"], "choices must be distinct names out of…default…'best'…Leave"),
    (
        [*TWO, "--choices", '{"reduction": 1}'],
        "as JSON, a choice must be an object of the arguments of…'{\"reduction\": 1}'…Pass e.g.",
    ),
    (
        [*TWO, "--choices", '{"TowerOptimizer": {"reduction": {"wire": 1}}}'],
        "A choice must name arguments that `replicate_model_fn` and `TowerOptimizer` take, but "
        '{"TowerOptimizer": {"reduction": {"wire": 1}}} is not: …wire',
    ),
    (
        [*TWO, "--choices", '{"replicate_model_fn": {"variable_placement": "nowhere"}}'],
        "A choice must name arguments…is not: `variable_placement` must be one of…'nowhere'",
    ),
    ([*TWO, "--choices", "{"], "as JSON, a choice must be an object of the arguments of…'{'"),
    (
        [*TWO, "--out", "no such directory/out.jsonl"],
        "`--out` must be in an existing directory…'no such directory/out.jsonl'…Make",
    ),
    (
        [*TWO, "--out", "/"],
        "`--out` must be a file that can be written, but…'/'…Is a directory…Name",
    ),
    ([*TWO, "--speed"], "unrecognized arguments: --speed…--help"),
]
GPUS = ["/device:GPU:0", "/device:GPU:1"]
CALLS = [
    (
        lambda: harness.run("json.tool", {}, timeout=60),
        "A benchmark's process must exit with 0, but…json.tool exited with…for {}…Fix it",
    ),
    (
        lambda: harness.run("replicate", {}, timeout=0.01),
        "A benchmark's process must end within…0.01 seconds…replicate did not for {}…smaller",
    ),
    (
        lambda: losses.check("mlp", {"one device": [2.0, 1.0], "replicate": [2.0, 1.1]}),
        "must agree to…0.001…`mlp` `one device` has 1.0 and `replicate` 1.1…Find the wrong one",
    ),
    (
        lambda: losses.check("mlp", {"one device": [2.0], "replicate": [float("nan")]}),
        "must agree to…0.001…has 2.0 and `replicate` nan",
    ),
    (
        lambda: engines._distributed(
            models.CASES["mlp"], GPUS, lambda _: tf.distribute.get_strategy()
        ),
        "A strategy must hold one replica per tower, …2…holds 1…Check that ['/device:GPU:0'",
    ),
    (
        lambda: engines._check_devices("replicate", GPUS, {"/device:GPU:0": 6}),
        "An engine must compute equally on each of its devices…GPU:1…`replicate`…: 6}…Check",
    ),
    (
        lambda: models.make_input_fn(models.CASES["mlp"]._replace(global_batch=7), 2),
        "`global_batch` must be a multiple of…2…is 7…Change `global_batch` or `towers`",
    ),
]


@pytest.mark.parametrize(("flags", "phrases"), FLAGS, ids=lambda value: str(value)[:40])
def test_flags_that_are_wrong(flags, phrases, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit) as exited:
        command.main(flags)
    assert exited.value.code == 2
    output = capsys.readouterr()
    with pytest.raises(AssertionError, match=matching(phrases)):
        raise AssertionError(output.err)
    assert not output.out and output.err.count("\n") == 1


@pytest.mark.parametrize(("call", "phrases"), CALLS, ids=[text[:40] for _, text in CALLS])
def test_what_benchmarks_refuse(call, phrases):
    with pytest.raises((RuntimeError, ValueError), match=matching(phrases)):
        call()


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """The process of a bench of one model on two CPUs, and its JSON lines.

    It runs outside of the checkout, as an installed library does.
    """
    root = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, root / "replicate", ignore=shutil.ignore_patterns("__pycache__"))
    flags = [*TWO, "--models", "mlp", "--rows", "8", "--rounds", "1", "--steps", "2"]
    flags += ["--warmup", "1", "--choices", "default", json.dumps(CHOICE), "--out", "out.jsonl"]
    result = programs.run("-m", "replicate", "bench", *flags, root=root)
    assert result.returncode == 0, result.stderr
    lines = (root / "out.jsonl").read_text().splitlines()
    return result, [json.loads(line) for line in lines]


def test_there_is_a_line_for_each_way(bench):
    _, lines = bench
    assert [line["way"] for line in lines] == WAYS
    assert [len(line["devices"]) for line in lines] == [1, 2, 2, 2, 2]
    assert [line["global_batch"] for line in lines] == [8, 16, 16, 16, 16]
    for line in lines:
        assert line["tf"] == tf.__version__ and line["replicate"] == replicate.__version__
        assert line["cores"] and line["date"] and line["commit"] is None
        for figure in ("step_ms_p50", "build_s", "peak_rss_mb"):
            assert line[figure]["median"] > 0
        assert line["peak_gpu_mb"] is None
        rate = 1e3 * line["global_batch"] / line["step_ms_p50"]["median"]
        assert line["examples_per_s"]["median"] == pytest.approx(rate, rel=1e-3)
        alone = lines[0]["examples_per_s"]["median"] * len(line["devices"])
        assert line["efficiency"]["median"] == pytest.approx(rate / alone, rel=1e-3)


def test_lines_tell_what_crosses_devices(bench):
    single, default, spread, mirrored, central = bench[1]
    weights = 4 * sum((rows + 1) * columns for rows, columns in MLP)
    assert (single["transfers"], single["bytes"]) == (0, 0)
    # Tower 1 takes weights and its rows, and returns gradients and its loss.
    rows = 8 * (784 * 4 + 4)
    want = {"CPU:0 -> CPU:1": weights + rows, "CPU:1 -> CPU:0": weights + 4}
    assert default["links"].keys() == want.keys()
    # In addition a few numbers: the gradient of the loss, and sizes.
    assert all(0 <= size - want[link] <= 128 for link, size in default["links"].items())
    assert default["transfers_of_unknown_size"] == 0
    assert sum(central["links"].values()) == 2 * weights + 4
    # A ring of two sends each tensor once to be summed and once to be known, by halves.
    assert mirrored["all_reduced_bytes"] == 2 * weights
    assert spread["choice"] == json.dumps(CHOICE) and spread["bytes"] >= default["bytes"]


def test_the_table_says_it_too(bench):
    output = bench[0].stdout
    for line in bench[1]:
        cells = f"| mlp | {line['way']} | {len(line['devices'])} | {line['global_batch']} | "
        assert cells in output
    assert f" | {bench[1][1]['transfers']} | {bench[1][1]['bytes'] / 1e6:.2f} | " in output
    assert (
        "MirroredStrategy; CentralStorageStrategy are equal to 0.001, compared with one" in output
    )


def _measured(choice, least, middle, most, devices=2):
    efficiency = {"min": least, "median": middle, "max": most}
    names = ["/device:GPU:0"] * devices
    return {"model": "mlp", "choice": choice, "devices": names, "efficiency": efficiency}


@pytest.mark.parametrize(
    ("choice", "how"),
    [
        ("default", "the default"),
        (
            "replicated_in_turn",
            "`replicate_model_fn(..., variable_placement='replicated')` and "
            "`TowerOptimizer(..., reduction='round_robin')`",
        ),
        (
            "bfloat16",
            "`TowerOptimizer(..., reduction=replicate.Reduction(communication_dtype='bfloat16'))`",
        ),
        ("replicated", "`replicate_model_fn(..., variable_placement='replicated')`"),
    ],
)
def test_the_advice_is_what_was_fastest_in_every_round(choice, how):
    made = [_measured("nccl", 0.4, 0.5, 0.59), _measured(choice, 0.6, 0.7, 0.8)]
    lines = rows.advice([_measured(None, 1, 1, 1, 1), *made], choices.CHOICES)
    assert lines == [f"`mlp`, 2 devices: {choice} was fastest, 1.40 times nccl. Take {how}."]


def test_no_advice_is_given_of_what_may_be_chance():
    near = [_measured("default", 0.5, 0.6, 0.71), _measured("unpacked", 0.7, 0.75, 0.8)]
    (line,) = rows.advice([*near, _measured("nccl", 0.1, 0.2, 0.3)], choices.CHOICES)
    assert "unpacked was fastest, but not in every round faster than default. Take the si" in line
    assert rows.advice(near[:1], choices.CHOICES) == []
    apart = [_measured("unpacked", 0.7, 0.75, 0.8, devices=4), near[0]]
    assert rows.advice(apart, choices.CHOICES) == []  # Of other numbers of devices.


def test_losses_that_differ_end_it_with_1_and_the_table(capsys, monkeypatch):
    """The step of one choice is that of another optimizer: clipped to next to nothing."""
    clipped = {"TowerOptimizer": {"clip_norm": 1e-6}}
    flags = [*TWO, "--models", "mlp", "--global_batch", "16", "--rounds", "1", "--steps", "2"]
    flags += ["--warmup", "1", "--engines", "replicate", "--choices", json.dumps(clipped)]
    assert command.main(flags) == 1
    output = capsys.readouterr()
    assert "Losses of the first 5 steps must agree to 0.001, but on `mlp` `one dev" in output.err
    assert "| mlp | replicate, " in output.out and "are equal" not in output.out


@pytest.mark.parametrize("choice", choices.that_run_on("CPU"))
def test_choices_train(choice):
    """TensorFlow sends the tensors that are predicted from the graph."""
    case = models.CASES["wide"]._replace(layers=3, width=16, towers=2, global_batch=8)
    given = choices.CHOICES[choice]
    engines.check_choice(given, TWO[1:])

    def make_optimizer():
        optimizer = tf.train.AdamOptimizer()
        return replicate.TowerOptimizer(optimizer, **choices.optimizer_arguments(given))

    batch = tf.data.make_one_shot_iterator(models.make_input_fn(case, 1)()).get_next()
    replicated = replicate.replicate_model_fn(
        models.make_model_fn(case, make_optimizer),
        devices=TWO[1:],
        **choices.model_fn_arguments(given),
    )
    spec = replicated(*batch, "train")
    metadata = tf.RunMetadata()
    for hook in spec.training_hooks:
        hook.begin()
    with tf.Session(config=replicate.session_config(TWO[1:])) as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        for hook in spec.training_hooks:
            hook.after_create_session(session, None)
        options = tf.RunOptions(**traffic.OPTIONS)
        session.run([spec.train_op, spec.loss], options=options, run_metadata=metadata)
    sent = collections.Counter()
    for each in traffic.tensors_sent(metadata):
        sent[each.source, each.destination] += each.size
    predicted, constants = collections.Counter(), collections.Counter()
    for each in transfers.crossing([spec.train_op, spec.loss]):
        if each.source and each.destination:  # Where TensorFlow chooses, it chooses the first CPU.
            link = (each.source[-5:], each.destination[-5:])
            predicted[link] += each.size
            # Newer ones copy small constants to the devices, instead of sending them.
            constants[link] += each.size if each.tensor.op.type == "Const" else 0
    assert set(sent) == set(predicted)
    for link, size in predicted.items():
        assert size - constants[link] <= sent[link] <= size


@pytest.mark.parametrize("dtype", models.DTYPES)
@pytest.mark.parametrize("model", models.CASES)
def test_models_compute_in_a_type_and_keep_variables_in_float32(model, dtype):
    case = models.CASES[model]._replace(layers=2, width=4, dtype=dtype)
    rows, _ = models.MODELS[model].rows(case, 8, np.random.RandomState(1))
    model_fn = models.make_model_fn(case, lambda: tf.train.GradientDescentOptimizer(1.0))
    spec = model_fn(tf.constant(rows), tf.range(8), "train")
    assert {variable.dtype.base_dtype for variable in tf.trainable_variables()} == {tf.float32}
    products = [op for op in tf.get_default_graph().get_operations() if op.type == "MatMul"]
    assert {op.outputs[0].dtype.name for op in products} == {dtype}
    assert spec.loss.dtype == tf.float32
    # Gradients are multiplied by a loss scale, and must be divided by it: w' = w - g.
    bias = tf.trainable_variables()[-1]
    (gradient,) = tf.gradients(spec.loss, bias)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before, change = session.run([bias, gradient])
        session.run(spec.train_op)
        np.testing.assert_allclose(session.run(bias), before - change, atol=0.01)
        assert np.abs(change).max() > 0.05


def test_nothing_of_the_library_imports_it_but_its_command_line():
    """And that only when it is asked for."""
    for path in source_files():
        if path.parent.name not in ("bench", "checking") and path.name != "__main__.py":
            assert "replicate.bench" not in path.read_text(), path
    tree = ast.parse((PACKAGE / "__main__.py").read_text())
    imported = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert "replicate.version" in imported and "replicate.bench" not in imported


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as exited:
        program.main(["--help"])
    assert exited.value.code == 0
    text = capsys.readouterr().out
    assert "Without a command: prints versions" in text
    assert "bench  " in text and "engines side by side" in text
    with pytest.raises(SystemExit) as exited:
        program.main(["tables"])
    assert exited.value.code == 2


def test_the_commands_for_people_with_gpus_are_commands():
    text = (PACKAGE.parent / "benchmarks" / "gpu.md").read_text()
    lines = re.findall(r"(?m)^python -m replicate bench (.*)$", text)
    assert len(lines) > 8
    named = set()
    for line in lines:
        args = command.parser().parse_args(shlex.split(line))
        named.update(name for given in args.choices for name in given if name in choices.CHOICES)
    assert named == set(choices.CHOICES), "benchmarks/gpu.md is to measure every choice"
    (columns,) = set(re.findall(r"(?m)^\| model \| engine .*$", text))
    assert columns == rows.table([]).splitlines()[0]
