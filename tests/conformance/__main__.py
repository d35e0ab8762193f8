"""Measures the complete programs of the table: `python -m tests.conformance [--page PATH]`."""

import argparse
import json
import math
import os
import pathlib
import re
import sys
import time
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

_TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="rows to run; all if there are none")
    parser.add_argument("--towers", type=int, nargs="*", default=[2, 3], help="numbers of towers")
    parser.add_argument("--json", type=pathlib.Path, help="also write the results to this file")
    parser.add_argument("--page", type=pathlib.Path, help="also write them into its table")
    parser.add_argument("--show", type=int, default=0, help="deviations to show of each cell")
    parser.add_argument("--raise", action="store_true", dest="stop", help="stop at an exception")
    args = parser.parse_args()

    import tensorflow.compat.v1 as tf

    import replicate

    replicate.compat.install()  # Code shared with the contract uses `tf.estimator`.
    warnings.simplefilter("ignore")  # Warnings about the rows' code are expected.
    from conformance import harness
    from contract import models

    tf.logging.set_verbosity(tf.logging.ERROR)
    print(f"TensorFlow {tf.__version__}")
    results = []
    for name in args.rows or models.rows("program"):
        for towers in args.towers:
            start = time.time()
            result = _run(harness, name, towers, args)
            results.append({"tensorflow": tf.__version__, **result})
            print(_line(result, time.time() - start), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    if args.page:
        import tables

        tables.write(args.page, _measured(results), is_column_of)
    return 0 if all(result["status"] != "fail" for result in results) else 1


def _run(harness, name, towers, args):
    """Returns what a row on so many towers came to, a dict."""
    result = {"row": name, "towers": towers}
    try:
        found = harness.compare(name, towers)
    except Exception as error:
        if args.stop:
            raise
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        return {**result, "status": "fail", "deviation": None, "what": what}
    for one in found[: args.show]:
        print(f"    {one.value:.1e} of {one.tolerance:.0e}  {one.what} {one.note}")
    worst = found[0]
    return {
        **result,
        "status": "pass" if worst.passes else "fail",
        "deviation": worst.value if math.isfinite(worst.value) else None,
        "tolerance": worst.tolerance,
        "what": f"{worst.what} {worst.note}".strip(),
    }


def _measured(results):
    """Returns the cells of the page's table, by the names of rows and the titles of columns."""
    made = {}
    for row in dict.fromkeys(result["row"] for result in results):
        own = [result for result in results if result["row"] == row]
        towers = " and ".join(str(result["towers"]) for result in own)
        title = f"TensorFlow {own[0]['tensorflow']}, {towers} towers"
        made[row] = {title: ", ".join(map(_cell, own))}
    return made


def _cell(result):
    found = result["deviation"]
    figure = "" if found is None else f" {found:.0e}".replace("e-0", "e-")
    return result["status"] + figure


def is_column_of(title):
    """Returns what two titles have in common that are of one TensorFlow, such as 2.15."""
    return re.sub(r"^(TensorFlow \d+\.\d+)\.\d+", r"\1", title)


def _line(result, seconds):
    deviation = "-" if result["deviation"] is None else f"{result['deviation']:.1e}"
    what = "" if result["status"] == "pass" else result["what"]
    return (
        f"{result['row']:26} {result['towers']} towers  {result['status']:5} {deviation:>8} "
        f"{seconds:5.1f} s  {what}"
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
