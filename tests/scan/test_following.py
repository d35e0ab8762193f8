"""What a `model_fn` calls in other files of the codebase is looked at there."""

import gc
import os

import pytest

import planted
from replicate.scan import following, loading, scan

HEAD = "import tensorflow.compat.v1 as tf\nimport replicate\nreplicate.compat.install()\n"
TRAPS = """\
import tensorflow.compat.v1 as tf
def build(features, size):
    losses = tf.square(features['x'])
    last = tf.get_variable('last', [3])
    last.assign(features['x'][-1])  #! update-from-rows
    tf.zeros([FLAGS.batch_size, 3])  #! static-batch-size
    state = tf.zeros([size, 3])
    return tf.reduce_mean(tf.boolean_mask(losses, m))  #! loss-per-count
def loss(features, size):
    losses = tf.reduce_sum(features['x'])
    return losses / size  #! loss-by-batch-size
def not_called(features):
    return tf.zeros([FLAGS.batch_size, 3])
"""


def model(imports, *lines, arguments="features, labels, mode, params"):
    body = "".join(f"    {line}\n" for line in lines)
    return f"{imports}\n{HEAD}\ndef model_fn({arguments}):\n{body}{planted.SPEC}"


@pytest.fixture
def scanned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def of(files, *paths):
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(".", name)), exist_ok=True)
            (tmp_path / name).write_text(planted.plain(text))
        return scan(list(paths) or ["."])

    return of


def places(found, path):
    return sorted((one.line, one.rule) for one in found.findings if one.path == path)


def check(found, files):
    """Asserts that exactly what is planted in files is found."""
    for path, text in files.items():
        assert places(found, path) == planted.expected(text), path
    assert {one.path for one in found.findings} <= {*files}


CALLS = "{}.build(features, params['batch_size'])  #! static-batch-size"
LOSS = "{}.loss(features, params['batch_size'])"
IMPORTS = {
    "a module beside it": ("m.py", "networks.py", "import networks", "networks"),
    "a module by another name": ("m.py", "networks.py", "import networks as n", "n"),
    "a module of a package": ("m.py", "pkg/networks.py", "import pkg.networks", "pkg.networks"),
    "from a package": ("m.py", "pkg/networks.py", "from pkg import networks", "networks"),
    "from this package": ("pkg/m.py", "pkg/networks.py", "from . import networks", "networks"),
    "from the package above": ("a/b/m.py", "a/c/d.py", "from ..c import d", "d"),
    "from the root": ("a/b/m.py", "a/c/d.py", "from a.c import d", "d"),
    "from a directory above": ("x/a/b/m.py", "x/a/c/d.py", "from a.c import d", "d"),
    "from src": ("scripts/m.py", "src/pkg/d.py", "from pkg import d", "d"),
    "a package itself": ("m.py", "networks/__init__.py", "import networks", "networks"),
    "in a function": ("m.py", "networks.py", "def f():\n    import networks", "networks"),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_functions_of_other_files(scanned, name):
    path, other, imports, called = IMPORTS[name]
    if name == "in a function":
        lines = ["import networks", CALLS.format(called), LOSS.format(called)]
        imports = ""
    else:
        lines = [CALLS.format(called), LOSS.format(called)]
    files = {path: model(imports, *lines), other: TRAPS}
    check(scanned(files), files)


@pytest.mark.parametrize(
    "imports",
    [
        "from networks import build, loss",
        "from networks import build as build\nfrom networks import loss as loss",
        "from networks import *",
        "import networks\nbuild = networks.build\nloss = networks.loss",
    ],
)
def test_names_of_other_files(scanned, imports):
    call = "build(features, params['batch_size'])"
    files = {
        "m.py": model(imports, f"{call}  #! static-batch-size", "loss(features, FLAGS.batch_size)"),
        "networks.py": TRAPS,
    }
    check(scanned(files), files)


@pytest.mark.parametrize(
    "front",
    [
        "from .networks import build, loss\n",
        "from .networks import *\n",
        "from . import networks\nbuild, _ = networks.build, 1\nloss = networks.loss\n",
        "from . import networks\nbuild = networks.build\nloss = networks.loss\n",
    ],
)
def test_fronts_of_packages(scanned, front):
    files = {
        "m.py": model("import pkg", CALLS.format("pkg"), LOSS.format("pkg")),
        "pkg/networks.py": TRAPS,
    }
    found = scanned({**files, "pkg/__init__.py": front})
    if ", _ =" in front:
        assert places(found, "pkg/networks.py") == [(11, "loss-by-batch-size")]
    else:
        check(found, files)


CLASSES = """\
import tensorflow.compat.v1 as tf
import base
class Other:
    def forward(self, x):
        return tf.zeros([FLAGS.batch_size, 3])
class Net(base.Base):
    def __init__(self, params):
        self.batch_size = params['batch_size']
        self.zeros = tf.zeros([params['batch_size']])  #! static-batch-size
        self.cell = base.Cell()
    def forward(self, x):
        self.cell(x)
        self.above(x)
        return self._inner(x) + tf.zeros([self.batch_size, 3])  #! static-batch-size
    def _inner(self, x):
        tf.assign(self.v, x[0])  #! update-from-rows
    def not_called(self, x):
        return tf.zeros([self.batch_size, 3])
"""
BASE = """\
import tensorflow.compat.v1 as tf
class Base:
    def above(self, x):
        tf.assign(self.v, x[0])  #! update-from-rows
class Cell:
    def call(self, x):
        tf.assign(self.v, x[0])  #! update-from-rows
"""


@pytest.mark.parametrize(
    "lines",
    [
        ["net = networks.Net(params)", "net.forward(features['x'])"],
        ["networks.Net(params).forward(features['x'])"],
        ["made = networks.Net", "net = made(params=params)", "y = net.forward(features['x'])"],
    ],
)
def test_methods_of_classes_of_other_files(scanned, lines):
    files = {"m.py": model("import networks", *lines), "networks.py": CLASSES, "base.py": BASE}
    check(scanned(files), files)


MODELS = """\
import tensorflow.compat.v1 as tf
def make(x, y, how):
    tf.zeros([FLAGS.batch_size, 3])  #! static-batch-size
    tf.assign(v, x[0])  #! update-from-rows
    return spec(how)
class Model:
    def make(self, x, y, how):
        tf.assign(v, x[0])  #! update-from-rows
"""


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("models.make", [3, 4]),
        ("model_fn=functools.partial(models.make, size=3)", [3, 4]),
        ("replicate.replicate_model_fn(models.make)", [3, 4]),
        ("replicate.replicate_model_fn(model_fn=models.make)", [3, 4]),
        ("model_fn=models.Model().make", [8]),
        ("model_fn=other(models.make)", []),  # Which may be whatever.
        ("models.none", []),
    ],
)
def test_model_fns_of_other_files(scanned, given, lines):
    text = f"import models\n{HEAD}replicate.replicate_model_fn\ntf.estimator.Estimator({given})\n"
    for main in ("a.py", "z.py"):  # Read before, or after.
        found = scanned({main: text, "models.py": MODELS})
        assert [line for line, _ in places(found, "models.py")] == lines
        assert places(found, main) == []
        wanted = [("models.py", 7 if lines == [8] else 2, "make")] if lines else []
        assert found.model_fns == wanted
        os.unlink(main)


def test_a_function_of_the_file_is_none_of_another(scanned):
    own = "def make(x, y, how):\n    tf.assign(v, x[0])\n"
    text = f"import models\n{HEAD}{own}tf.estimator.Estimator(models.make, 'x')\n"
    found = scanned({"a.py": text, "models.py": MODELS})
    assert [one[0] for one in found.model_fns] == ["models.py"]


def test_comments_ignore_findings_where_these_are(scanned):
    ignored = TRAPS.replace("#! update-from-rows", "# replicate: ignore[update-from-rows]")
    call = CALLS.format("networks").replace("#! ", "# replicate: ignore  # ")
    files = {"m.py": model("import networks", call), "networks.py": ignored}
    found = scanned(files)
    assert places(found, "m.py") == []
    assert places(found, "networks.py") == [(6, "static-batch-size"), (8, "loss-per-count")]


def test_a_size_is_said_where_it_is_with_where_it_is_taken(scanned):
    found = scanned(
        {"m.py": model("import networks", CALLS.format("networks")), "networks.py": TRAPS}
    )
    (one,) = [one for one in found.findings if one.path == "m.py"]
    assert one.name == "params['batch_size']"
    assert one.message.endswith("of a tensor with its rows. networks.py:7 takes it.")


def test_sizes_pass_through_several_files(scanned):
    files = {
        "m.py": model("import a", "a.one(features, FLAGS.batch_size)  #! static-batch-size"),
        "a.py": "from b import two\ndef one(x, n):\n    return two(n, rows=x)\n",
        "b.py": "import c\ndef two(n, rows):\n    return c.three(n=n)\n",
        "c.py": "import tensorflow.compat.v1 as tf\ndef three(n):\n    return tf.zeros([n, 3])\n",
    }
    check(scanned(files), files)


def test_each_call_with_a_size_is_found(scanned):
    call = "networks.build(features, params['batch_size'])  #! static-batch-size"
    names = [f"m{number}.py" for number in range(2 * following._MOST)]
    files = {name: model("import between", call.replace("networks", "between")) for name in names}
    between = "import networks\ndef build(x, n):\n    return networks.build(x, size=n)\n"
    found = scanned({**files, "networks.py": TRAPS, "between.py": between})
    assert {one.path for one in found.findings} == {*files, "networks.py"}


@pytest.mark.parametrize("names", ["am", "ma"])
def test_a_function_is_looked_at_for_each_kind_of_call(scanned, names):
    first, second = names
    files = {
        f"{first}.py": model("import networks", "networks.loss(features, tf.shape(x)[0])"),
        f"{second}.py": model("import networks", LOSS.format("networks")),
    }
    found = scanned({**files, "networks.py": TRAPS})
    assert places(found, "networks.py") == [(11, "loss-by-batch-size")]


def test_a_model_for_tpus_has_its_shard_in_other_files_too(scanned):
    text = model("import networks", "networks.f(params)").replace("Estimator", "tpu.TPUEstimator")
    network = (
        "import tensorflow.compat.v1 as tf\ndef f(params):\n    tf.zeros([params['batch_size']])"
    )
    assert places(scanned({"m.py": text, "networks.py": network}), "networks.py") == []


INNOCENT = {
    "a library of that name": ("import numpy as networks", "networks.py"),
    "an argument of that name": ("def g(networks):\n    pass", "networks.py"),
    "what lies elsewhere": ("import networks", "other/networks.py"),
    "what is above": ("from ... import networks", "networks.py"),
    "what is of TensorFlow": ("from tensorflow import networks", "tensorflow/networks.py"),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_what_is_none_of_it(scanned, name):
    imports, other = INNOCENT[name]
    found = scanned({"m.py": model(imports, LOSS.format("networks")), other: TRAPS})
    assert places(found, other) == []


def test_files_that_are_not_scanned_are_not_read(scanned, monkeypatch):
    files = {
        "a/m.py": model("from ..b import networks\nimport c", LOSS.format("networks"), "c.f()")
    }
    (found) = scanned({**files, "b/networks.py": TRAPS, "c.py": TRAPS}, "a")
    assert found.files == 1 and found.findings == []
    found = scanned({}, "a", "b")  # Two directories are one codebase.
    assert {one.path for one in found.findings} == {"b/networks.py"}
    assert scanned({}, "a/m.py").findings == []


def test_links_to_files_lead_to_what_was_read(scanned, tmp_path):
    (tmp_path / "b.py").write_text(planted.plain(TRAPS))
    (tmp_path / "networks.py").symlink_to("b.py")
    found = scanned({"m.py": model("import networks", LOSS.format("networks"))})
    assert places(found, "b.py") == [(11, "loss-by-batch-size")]


CIRCLES = {
    "files that import each other": {
        "a.py": "from b import f\n",
        "b.py": "from a import f\n",
    },
    "stars": {"a.py": "from b import *\n", "b.py": "from a import *\nfrom b import *\n"},
    "a file that imports itself": {"a.py": "import a\nfrom a import f\n"},
    "names": {"a.py": "f = g\ng = h\nh = f\n"},
    "functions": {
        "a.py": "import b\ndef f(x, n):\n    b.f(n, x)\n    f(x, n)\n",
        "b.py": "import a\ndef f(x, n):\n    a.f(n, x)\n    b.f(n, x)\n",
    },
    "classes": {
        "a.py": "import b\nclass f(b.f):\n    pass\n",
        "b.py": "import a\nclass f(a.f):\n    pass\n",
    },
    "what is made of itself": {"a.py": "f = f(f)\nclass C(C):\n    pass\n"},
    "dots": {"a.py": f"from {'.' * 5000} import f\nfrom {'.' * 50} import *\n"},
    "what is no Python": {"a.py": "def f(:\n"},
    "what is too deep": {"a.py": f"def f(x, n):\n    return x{'.a' * 30_000}\n"},
}


@pytest.mark.parametrize("name", CIRCLES)
def test_circles_end(scanned, name):
    text = model("import a", "a.f(features['x'], params['batch_size'])", "a.f().f(a.f)")
    found = scanned({**CIRCLES[name], "m.py": text})
    assert {one.rule for one in found.findings} <= {"unreadable"}


def test_many_that_call_one_another_end(scanned):
    """Each of many functions calls all, with sizes of its own."""
    calls = "".join(f"    m.f{n}(x, FLAGS.batch_size, size)\n" for n in range(30))
    text = "import m\n" + "".join(f"def f{n}(x, size, more):\n{calls}" for n in range(30))
    found = scanned({"a.py": model("import m", "m.f0(features, 1, 2)"), "m.py": text})
    assert found.findings == []


def test_a_chain_of_many_files_ends(scanned):
    files = {
        f"f{n}.py": f"import f{n + 1}\ndef go(x, n):\n    return f{n + 1}.go(x, n)\n"
        for n in range(300)
    }
    files["f300.py"] = TRAPS.replace("build", "go")
    text = model("import f0", "f0.go(features, params['batch_size'])  #! static-batch-size")
    files["m.py"] = text
    assert places(scanned(files), "m.py") == planted.expected(text)


def test_few_files_are_kept_and_others_read_again(scanned, monkeypatch):
    monkeypatch.setattr(loading, "KEPT", 1)
    again, kept = [], []
    read = loading.Loading._again
    keep = loading.Loading._keep

    def counted(self, path):
        again.append(path)
        return read(self, path)

    def looked(self, path, module):
        keep(self, path, module)
        kept.append(len(self._kept))

    monkeypatch.setattr(loading.Loading, "_again", counted)
    monkeypatch.setattr(loading.Loading, "_keep", looked)
    files = {"z.py": model("import networks", CALLS.format("networks"), LOSS.format("networks"))}
    files["networks.py"] = TRAPS
    files["later.py"] = "import tensorflow\n"
    check(scanned(files), files)
    assert again and {*kept} == {1}


def test_a_file_that_changes_meanwhile_is_not_followed(scanned, monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "KEPT", 1)
    read = loading.Loading._again

    def changed(self, path):
        (tmp_path / path).write_text(planted.plain(TRAPS) + "# more\n")
        return read(self, path)

    monkeypatch.setattr(loading.Loading, "_again", changed)
    files = {"z.py": model("import networks", LOSS.format("networks")), "networks.py": TRAPS}
    files["other.py"] = "import tensorflow\n"
    assert scanned(files).findings == []


def test_collecting_circles_is_as_it_was(scanned):
    scanned({"a.py": "import tensorflow\n"})
    assert gc.isenabled()
    gc.disable()
    try:
        scanned({})
        assert not gc.isenabled()
    finally:
        gc.enable()
