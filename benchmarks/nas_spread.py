"""Does architecture decide? How far networks of one cost differ, beside trainings of one.

    python -m benchmarks.nas_spread --preset pulses --out runs/nas_spread

A search can only find better networks where networks differ. Draws random networks of the space of
a preset that cost what its searches aim at, and trains each several times with other seeds, as
`nas_quality.py` does, whose directory may be given, and is resumed. Prints JSON: a line for each
network, then one with the spread of the accuracies on test images:

    within_sd    standard deviation between trainings of one network
    between_sd   that between networks, without the part that is due to trainings
    ratio        between_sd / within_sd, and ratio_95 its interval, by drawing networks again
"""

import argparse
import json
import os
import pathlib

from benchmarks import nas_trainings
from replicate.bench import harness


def main(argv=None):
    """Runs the benchmark that the command line `argv` describes; see `--help`."""
    args = _parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from benchmarks import nas_statistics

    space = nas_trainings.experiment(args).space
    networks = nas_trainings.drawn(space, args.target, args.window, args.num_networks)
    with nas_trainings.workers(args.processes) as pool:
        trained = list(pool.map(nas_trainings.train, [args] * len(networks), networks))
    for number, network in enumerate(trained):
        print(json.dumps({"network": f"random {number}", **network}))
    spread = nas_statistics.spread([[run["test"] for run in each["runs"]] for each in trained])
    asked = {"preset": args.preset, "target_madds": 1e6 * args.target, "window": args.window}
    of = {**asked, **harness.machine(), **nas_trainings.versions()}
    print(json.dumps({**spread, **of}), flush=True)


def _parse(argv):
    from benchmarks.nas_experiments import EXPERIMENTS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=EXPERIMENTS, default="pulses", help="whose space")
    parser.add_argument("--out", type=pathlib.Path, default="runs/nas_spread", help="directory")
    parser.add_argument("--num_networks", type=int, default=20)
    parser.add_argument("--num_trainings", type=int, default=3, help="of each network")
    parser.add_argument("--target", type=float, help="cost, in million MAdds (default: by preset)")
    parser.add_argument("--window", type=float, default=0.05, help="of cost: target ± share")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="few steps; figures mean nothing")
    args = parser.parse_args(argv)
    for name in ("num_networks", "num_trainings"):
        if getattr(args, name) < 2:
            parser.error(f"--{name} must be at least 2, as one alone has no spread")
    if args.target is None:
        args.target = EXPERIMENTS[args.preset].target
    return args


if __name__ == "__main__":
    main()
