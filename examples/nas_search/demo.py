"""The whole story on handwritten digits: search, analyse, train what was found, compare, export.

    python -m examples.nas_search.demo

Searches `digits_search` on two towers, trains the network found alone, and beside it a few random
networks of about the same cost, all in the same way. The test images, on which they are compared,
were never seen by the search. `make search` runs it. A second run goes on where the first stopped.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

from examples.nas_search.commands import PROGRAM

SPACE = "digits_search"


def main(argv=None):
    """Runs the story; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default="runs/nas_search", help="directory")
    parser.add_argument("--seed", type=int, default=0, help="of the search and of all networks")
    parser.add_argument("--num_random", type=int, default=5, help="random networks to compare with")
    parser.add_argument("--quick", action="store_true", help="few steps; figures mean nothing")
    args = parser.parse_args(argv)
    started = time.monotonic()
    search_dir = args.out / "search"

    _title("1. Search on two towers")
    status = PROGRAM.main(
        ["search", "--preset", "digits", "--num_towers", "2", "--seed", str(args.seed)]
        + ["--checkpoint_dir", str(search_dir)]
        + (["--max_global_step", "20"] if args.quick else [])
    )
    if status:
        return status

    _title("2. What it found")
    status = PROGRAM.main(["analyze", "--dirname", str(search_dir)])
    if status:
        return status

    _title(f"3. The network found and {args.num_random} random ones, each trained alone")
    try:
        rows = [_train(name, indices, args) for name, indices in _networks(search_dir, args)]
    except KeyboardInterrupt:  # It is saved.
        print("Stopped. The same command goes on from here.")
        return 130
    _compare(rows)

    exported = args.out / "exported"
    if not exported.exists():
        _title("4. A SavedModel of the network found")
        status = PROGRAM.main(
            ["export", "--checkpoint_dir", str(args.out / "found"), "--export_dir", str(exported)]
        )
        if status:
            return status

    comparison = args.out / "comparison.json"
    comparison.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"\n{time.monotonic() - started:.0f} s in all. To look at:")
    print(f"  {search_dir / 'search.html'}   the search and the network found, for a browser")
    print(f"  {search_dir / 'network.png'}, search.png, choices.png   its pictures, for slides")
    print(f"  {search_dir}   params.json, model_spec.json, and summaries for TensorBoard")
    print(f"  {comparison}   the table above")
    print(f"  {exported}   the network found, as a SavedModel")
    return 0


def _title(text):
    print(f"\n{text}\n{'=' * len(text)}", flush=True)


def _networks(search_dir, args):
    """Returns names and indices: of the network found, then of random ones that cost about as much.

    They cost what the search aimed at, give or take 10 %, so that accuracies can be compared. All
    are different; choices for a layer that is then skipped do not count.
    """
    from examples.nas_search import mobile_classifier_factory
    from examples.nas_search.fronts import random_networks
    from examples.nas_search.reports import architecture_text, search_analysis

    def layers(indices):
        spec = mobile_classifier_factory.get_model_spec(
            SPACE, indices=[int(index) for index in indices.split(":")]
        )
        return architecture_text.describe(spec)

    analysis = search_analysis.analyze(str(search_dir))
    found = ":".join(map(str, analysis.indices))
    drawn = random_networks.distinct_networks(
        SPACE, analysis.cost_target, 0.1, args.num_random + 1, seed=args.seed
    )
    others = [indices for indices in drawn if layers(indices) != layers(found)]
    names = ["found", *(f"random {number}" for number in range(1, args.num_random + 1))]
    return list(zip(names, [found, *others]))


def _train(name, indices, args):
    """Trains a network alone; returns its name and metrics."""
    from examples.nas_search.training import mobile_train_eval, train_settings

    print(f"{name}: {indices}", flush=True)
    params = train_settings.resolve(
        preset="digits",
        ssd=SPACE,
        indices=indices,
        checkpoint_dir=str(args.out / name.replace(" ", "_")),
        use_held_out_test_set=True,
        epochs=1 if args.quick else None,
        num_towers=2,
        seed=args.seed,
    )
    return {"network": name, **mobile_train_eval.train_network(params)}


def _compare(rows):
    """Prints the networks' accuracy on the test images beside their size."""
    line = "{:<10} {:>14} {:>12} {:>12}".format
    print("\n" + line("network", "test accuracy", "MAdds", "parameters"))
    for row in rows:
        print(
            line(
                row["network"],
                f"{row['accuracy']:.2%}",
                f"{row['madds']:,}",
                f"{row['params']:,}",
            )
        )
    random = [row["accuracy"] for row in rows[1:]]
    if random:
        print(line("random, mean", f"{statistics.mean(random):.2%}", "", ""))


if __name__ == "__main__":
    sys.exit(main())
