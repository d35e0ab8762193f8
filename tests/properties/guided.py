"""Looks for a file from elsewhere that does harm, guided by the code that each one reaches.

    python -m tests.properties.guided space --runs 2000 --directory build/guided

Atheris (https://github.com/google/atheris) changes files, keeps those by which a parser reaches
new code, and changes these again. Half of the changes are those of `hostile_files.py`. Prints the
file and the error, and ends with another status than 0, if an error is none of the documented ones.
"""

import argparse
import contextlib
import os
import pathlib
import random
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

_TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

_MOST_BYTES = 60_000
_LONGEST_S = 60  # A file that takes longer is a failure.


def main(argv=None):
    """Runs the command line `argv`; ends the process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of a parser, see parsers.py")
    parser.add_argument("--runs", type=int, default=2_000, help="files to read")
    parser.add_argument("--seed", type=int, help="of all changes (default: a new one, printed)")
    parser.add_argument("--directory", type=pathlib.Path, required=True, help="a new one")
    args = parser.parse_args(argv)
    seed = args.seed or random.SystemRandom().randrange(1, 2**31)

    import atheris
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    with atheris.instrument_imports(include=["examples"]):
        from properties import hostile_files, parsers

    _, good, parse, errors, _ = parsers.PARSERS[args.name]
    path = parsers.place(args.name, args.directory / "above" / "directory")
    corpus = args.directory / "corpus"
    corpus.mkdir()
    (corpus / "good").write_bytes(good.encode())

    def read(contents):
        path.write_bytes(contents)
        with contextlib.suppress(errors):
            parse(str(path))

    def changed(contents, most, seed):
        choose = random.Random(seed)
        if choose.random() < 0.5:
            return atheris.Mutate(contents, most)
        return hostile_files.mutated(contents.decode(errors="replace"), choose)[:most]

    print(f"seed {seed}", flush=True)
    flags = [f"-runs={args.runs}", f"-seed={seed}", f"-max_len={_MOST_BYTES}"]
    flags += [f"-timeout={_LONGEST_S}", "-rss_limit_mb=0", f"-artifact_prefix={args.directory}/"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], read, custom_mutator=changed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
