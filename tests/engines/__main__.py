"""Measures the table of engines: `python -m tests.engines [--page PATH]`."""

import argparse
import os
import pathlib
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

_TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", help="rows to measure; all if there are none")
    parser.add_argument("--page", type=pathlib.Path, help="also write them into its table")
    args = parser.parse_args()

    import tensorflow.compat.v1 as tf

    import replicate

    replicate.compat.install()  # Models say `tf.estimator`, as users do.
    warnings.simplefilter("ignore")  # Strategies make TensorFlow warn.
    tf.logging.set_verbosity(tf.logging.ERROR)
    # Strategies look their devices up in the eager runtime, which takes them once.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 3
    )
    from engines import harness

    print(f"TensorFlow {tf.__version__}")
    columns = [name for name in harness.ENGINES if name != "one_device"]
    titles = [harness.ENGINES[name].title for name in columns]
    print(f"| `model_fn` | {' | '.join(titles)} | TPU graph |")
    print("| --- " * (len(columns) + 2) + "|")
    measured = {}
    for model in args.models or harness.MODELS:
        cells = [_cell(harness, model, engine) for engine in columns]
        sums = "—" if harness.MODELS[model].own_networks else f"{harness.tpu_graph(model)} sums"
        print(f"| `{model}` | {' | '.join(cells)} | {sums} |", flush=True)
        measured[model] = dict(zip([*titles, "TPU graph"], [*cells, sums]))
    if args.page:
        import tables

        tables.write(args.page, measured)


def _cell(harness, model, engine):
    reference = harness.reference(model, engine)
    if reference is None:
        return "—"
    rounding = harness.MODELS[model].rounding
    runs = harness.run(model, engine), harness.run(model, reference)
    deviation = harness.deviation(*runs, rounding)
    return "0" if deviation == 0 else f"{deviation:.0e}".replace("e-0", "e-")


if __name__ == "__main__":
    main()
