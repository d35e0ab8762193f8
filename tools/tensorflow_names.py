"""Writes what `replicate scan` knows of TensorFlow's names, asked of TensorFlow itself.

    python -m tools.tensorflow_names ask FILE       with each TensorFlow: 1.15, 2.15 and 2.21, the
                                                    last with TF_USE_LEGACY_KERAS=1
    python -m tools.tensorflow_names write FILE...  of these, `tensorflow_names.txt`

Two names mean the same if the functions behind them do, decorators apart, and take the same
arguments. Keras, the Estimator, `tf.contrib` and raw operations are left out: they are not named
otherwise in TensorFlow 2, or have rules of their own.
"""

import argparse
import inspect
import json
import pathlib
import re
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "replicate" / "migration" / "scan" / "tensorflow_names.txt"
LEFT_OUT = "compat contrib core dtensor estimator include keras lite mlir python raw_ops security"
# Beginnings of the names of modules that hold public names; others are internal.
PUBLIC = ("_api", "tensorflow.", "tensorflow_core.", "tensorboard.", "keras", "tf_keras")
HEADER = """\
# What `replicate scan` knows of TensorFlow's names; not to be edited: `tools/tensorflow_names.py`
# asked {}. `tf` is version 1's, `tensorflow.compat.v1`.
#   lacks NAME             TensorFlow 2's own `tensorflow` does not have it, nor what lies below it
#   means NAME [ARGUMENT]  has another meaning there; arguments that version 1 alone has
#   gone NAME VERSION      no newer TensorFlow than this has it, `compat.v1` neither
#   new NAME               TensorFlow 2 has it, `compat.v1` does not, nor what lies below it
#   inside MODULE NAME...  what a module of its insides defines; `=PUBLIC` is how `tf` calls that
"""
INSIDES = re.compile(r"(?:tensorflow|tensorflow_core)\.(python\.[\w.]+)\.(\w+)")


def names_below(root):
    """Returns what public names of a module stand for, `[what, arguments]` by name."""
    found, pending = {}, [(root, "", {id(root)})]
    while pending:
        module, prefix, seen = pending.pop()
        for name in dir(module):
            if name.startswith("_") or (not prefix and name in [*LEFT_OUT.split(), "tools", "tsl"]):
                continue
            try:
                value = getattr(module, name)
            except Exception:  # A name that is loaded late may raise anything.
                continue
            if not inspect.ismodule(value):
                found[prefix + name] = [_what(value), _arguments(value)]
                continue
            found[prefix + name] = ["module", None]
            module_name = value.__name__
            is_public = module_name.startswith(PUBLIC) and (
                ".python" not in module_name or "_api" in module_name
            )
            if is_public and id(value) not in seen:
                pending.append((value, f"{prefix}{name}.", seen | {id(value)}))
    return found


def _what(value):
    if not callable(value):
        return repr(value)[:60]
    plain = inspect.unwrap(value)
    return f"{getattr(plain, '__module__', '')}.{getattr(plain, '__qualname__', '')}"


def _arguments(value):
    try:
        parameters = inspect.signature(value.__init__ if inspect.isclass(value) else value)
    except (TypeError, ValueError):
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters.parameters.values() if p.kind in named]


def ask(path):
    """Writes what the TensorFlow that is installed here says."""
    import tensorflow
    import tensorflow.compat.v1 as version_1

    asked = {"version": tensorflow.__version__}
    asked.update(tf=names_below(tensorflow), v1=names_below(version_1))
    pathlib.Path(path).write_text(json.dumps(asked))


def lines(asked):
    """Returns the lines of the table.

    Args:
        asked: What `ask` has written, dicts, of TensorFlow 1 and then of others, oldest first.
    """
    first, *others = asked
    first["v1"].update(first["tf"])
    newest = others[-1]
    status = {}
    for name in {name: 0 for one in asked for name in one["v1"]}:
        if name not in newest["v1"]:
            last = [one["version"] for one in asked if name in one["v1"]][-1]
            status[name] = f"gone {name} {last.rpartition('.')[0]}"
        elif any(name in one["v1"] and name not in one["tf"] for one in others):
            status[name] = f"lacks {name}"
        elif newest["v1"][name] != newest["tf"][name]:
            old, new = newest["v1"][name][1] or [], newest["tf"][name][1] or []
            more = [argument for argument in old if argument not in [*new, "self"]]
            status[name] = " ".join(["means", name, *(more if new else [])])
    known = {name for one in others for name in one["v1"]}
    for name in {name for one in others for name in one["tf"]} - known - set(first["tf"]):
        status[name] = f"new {name}"
    made = []
    for name in sorted(status):
        kind, parent = status[name].split()[0], name.rpartition(".")[0]
        above = status.get(parent, "").split()[:1]
        if kind in ("means", "gone") or above != [kind]:
            made.append(status[name])
    return made + insides(asked)


def insides(asked):
    """Returns the lines that tell where TensorFlow defines what has a public name in the newest."""
    public = {}
    for one in asked:
        for name, (what, _) in one["v1"].items():
            match = INSIDES.fullmatch(what)
            if match and name in asked[-1]["v1"]:
                public.setdefault(match[1], {}).setdefault(match[2], set()).add(name)
    made = []
    for module in sorted(public):
        shown = []
        for internal, names in sorted(public[module].items()):
            best = min(names, key=lambda name: (name.count("."), len(name), name))
            shown.append(internal if internal == best else f"{internal}={best}")
        made.append(" ".join([f"inside tensorflow.{module}", *shown]))
    return made


def main(argv):
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("ask", "write"))
    parser.add_argument("files", nargs="+")
    args = parser.parse_args(argv)
    if args.what == "ask":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of names that are deprecated.
            ask(args.files[0])
    else:
        asked = [json.loads(pathlib.Path(path).read_text()) for path in args.files]
        asked.sort(key=lambda one: tuple(map(int, one["version"].split(".")[:2])))
        versions = ", ".join(one["version"] for one in asked)
        TABLE.write_text(HEADER.format(versions) + "\n".join(lines(asked)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
