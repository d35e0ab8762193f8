"""Flags of a task of a cluster, which the program that starts all tasks knows, too."""

import argparse

from examples.runs.arguments import at_least


def make_parser(description, **kwargs):
    """Returns the parser of the command line of a task; takes what `ArgumentParser` does."""
    parser = argparse.ArgumentParser(description=description, **kwargs)
    parser.add_argument("--model_dir", required=True, help="which all tasks can read and write")
    parser.add_argument("--devices", nargs="+", default=["/cpu:0", "/cpu:1"], help="of each worker")
    parser.add_argument(
        "--batch_size", type=at_least(1), default=120, help="rows of a step, of all workers"
    )
    parser.add_argument("--steps", type=at_least(1), default=500)
    parser.add_argument(
        "--save_steps", type=at_least(1), default=100, help="from one checkpoint to the next"
    )
    parser.add_argument("--sync", action="store_true", help="workers wait for one another")
    parser.add_argument(
        "--mirrored",
        action="store_true",
        help="without parameter servers and towers: by MultiWorkerMirroredStrategy",
    )
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument(
        "--stall_secs", type=float, default=600, help="without a step, before it ends"
    )
    return parser
