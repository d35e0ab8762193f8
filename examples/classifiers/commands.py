"""Messages of the commands `train`, `evaluate` and `export` of all programs.

Importing this imports no TensorFlow: see `command_line.py`.
"""

import json

from examples.runs.command_line import INTERRUPTED, say


def train(program, params, run):
    """Trains a network; prints its metrics as JSON, and what can be done next.

    Args:
        program: The `Program`.
        params: Dict of settings.
        run: Function of nothing that trains, and returns metrics, or None if there are none to
            print.

    Returns:
        Exit status: 0, or `INTERRUPTED` if it was stopped before the end.
    """
    from examples.classifiers.training import METRICS
    from examples.runs import checkpoints

    directory, end = params["checkpoint_dir"], params["max_global_step"]
    try:
        metrics = run()
    except KeyboardInterrupt:
        step = checkpoints.latest_step(directory)
        if step >= end:
            say(
                f"Training is at its end, step {end:,}; evaluation was stopped. The same command "
                "evaluates."
            )
        elif step:
            say(f"Stopped; saved at step {step:,} of {end:,}. The same command goes on there.")
        else:
            say(f"Stopped before the first of {end:,} steps. The same command begins again.")
        return INTERRUPTED
    if metrics is not None:
        say(f"Written to {directory}/{METRICS}.")
        _print_metrics(metrics)
        say("To make a SavedModel of it:")
        exported = f"{directory.rstrip('/')}-exported"
        made = ("export", "--checkpoint_dir", directory, "--export_dir", exported)
        say(f"    {program.command_line(*made)}")
    return 0


def evaluate(args, resolve, run):
    """Evaluates a network; prints its metrics as JSON.

    Args:
        args: Namespace of the flags `training_flags.EVALUATE`.
        resolve: Function of these flags, by name, that returns settings.
        run: Function of settings, split and checkpoint that returns metrics.

    Returns:
        Exit status: 0.
    """
    given = vars(args)
    _print_metrics(run(resolve(**given), given.get("split"), given.get("checkpoint")))
    return 0


def _print_metrics(metrics):
    print(json.dumps(metrics, indent=2, sort_keys=True))


def print_export(record, directory, title, size, remarks=()):
    """Prints what was exported, and how it is used.

    Args:
        record: Dict of what network.json holds.
        directory: Where it was written.
        title: The network, in a few words.
        size: How large it is, in a few words.
        remarks: Lines about what else was written.
    """
    shape = ", ".join(map(str, record["image_shape"]))
    low, high = record["pixel_range"]
    print(f"{directory}: {title}")
    print(f"  step {record['global_step']:,}, {size}")
    metrics = record["metrics"]
    if metrics:
        print(f"  accuracy {metrics['accuracy']:.2%} on {metrics['split']} images")
    print(f"  serving_default: images, float32 [n, {shape}], values from {low:g} to {high:g}")
    if len(record["signatures"]) > 1:
        print(f"  {record['signatures'][1]}: encoded_images, contents of n JPEG or PNG files")
    for remark in remarks:
        print(f"  {remark}")
    print("To use it, in Python with nothing but TensorFlow:")
    print(f"    model = tf.saved_model.load({directory!r}).signatures['serving_default']")
    print("    model(images=tf.constant(images))['classes']")
