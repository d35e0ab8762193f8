"""Flags that all trainings have in common: the run, its data, and where it computes."""

from examples.runs.flags import POSITIVE, SHARE, Flag, SettingsError

RUN = (
    Flag(
        "checkpoint_dir",
        str,
        None,
        "directory for everything that is written; a rerun in the same one resumes",
        required=True,
    ),
    Flag("seed", int, 0, "number that all random choices depend on", (0, 2**31 - 1)),
)

DATA = (
    Flag(
        "dataset",
        str,
        "image_folder",
        "digits, mnist5k, pulses, image_folder or tfrecords for files of your own, or tfds:NAME, "
        "like tfds:cifar10",
    ),
    Flag(
        "dataset_dir",
        str,
        None,
        "folder of the folders of images, of the TFRecords, or of all data that TFDS prepared",
    ),
    Flag(
        "image_size",
        int,
        None,
        "side of the inputs made from images (default: their own if all have the same, 64 at most, "
        "else 224)",
        POSITIVE,
    ),
    Flag(
        "augmentation",
        str,
        "auto",
        "how training distorts images: by crops (imagenet), by shifts (shift), mirrored (small), "
        "or not (none); auto: as suits their size",
        choices=("auto", "imagenet", "small", "shift", "none"),
    ),
    Flag(
        "label_offset",
        int,
        None,
        "first class of tfrecords, 0 or 1 (default: the lowest)",
        (0, 1),
    ),
    Flag(
        "validation_fraction",
        float,
        0.04,
        "share of the images to validate on, where the data set does not say which",
        SHARE,
    ),
    Flag(
        "test_fraction",
        float,
        0.1,
        "share of the images that no choice may depend on, unless they are set apart",
        SHARE,
    ),
)

ENGINE = (
    Flag(
        "devices",
        str,
        None,
        "one tower on each, like /gpu:0 /gpu:1 (default: every GPU, else two towers on the CPU)",
        nargs="+",
    ),
    Flag("num_towers", int, None, "in place of --devices: how many of them", POSITIVE),
    Flag("tpu", str, "", "name or address of a TPU, or 'local' on a TPU VM, to run on it"),
    Flag("gcp_project", str, None, "project that the TPU belongs to"),
    Flag("tpu_zone", str, None, "zone that the TPU is in"),
    Flag("tpu_iterations_per_loop", int, 100, "steps between summaries for TensorBoard", POSITIVE),
)

EVALUATE = (
    Flag("checkpoint_dir", str, None, "where the network was trained", required=True),
    Flag(
        "split",
        str,
        None,
        "images to evaluate on (default: those that training set aside)",
        choices=("train", "validation", "test"),
    ),
    Flag("checkpoint", str, None, "path of the checkpoint (default: the latest one)"),
    Flag("eval_batch_size", int, None, "images per step (default: as in training)", POSITIVE),
    *(flag for flag in ENGINE if flag.name != "tpu_iterations_per_loop"),
)

EXPORT = (
    Flag("checkpoint_dir", str, None, "where the network was trained", required=True),
    Flag("export_dir", str, None, "new directory for the SavedModel", required=True),
    Flag("checkpoint", str, None, "path of the checkpoint (default: the latest one)"),
)

# Settings for the preset `digits`.
DIGITS = {
    "dataset": "digits",
    "image_size": 32,
    "validation_fraction": 0.2,
    "test_fraction": 0.2,
    "tpu_iterations_per_loop": 10,
}

# Settings for the preset `mnist5k`, whose many test images distinguish similar networks.
MNIST5K = {**DIGITS, "dataset": "mnist5k", "test_fraction": 0.3}

# Settings for the preset `pulses`. Its test sequences are set apart.
PULSES = {**DIGITS, "dataset": "pulses", "validation_fraction": 0.25}

# Settings for the preset `cifar10`. Its test images are set apart.
CIFAR10 = {"dataset": "tfds:cifar10", "image_size": None, "validation_fraction": 0.2}


def last_step(params, num_images, what):
    """Returns the step at which a run ends: `max_global_step`, or else after all its epochs.

    Args:
        params: Settings. Those used are `max_global_step`, `epochs` and `train_batch_size`.
        num_images: How many there are to train on.
        what: The run in a word, for the message.

    Raises:
        SettingsError: If there is no step to make.
    """
    end = params["max_global_step"]
    if end is None:
        end = params["epochs"] * num_images // params["train_batch_size"]
    if end < 1:
        raise SettingsError(
            f"{what} must make a step, but --epochs {params['epochs']} of {num_images} training "
            f"images make no batch of --train_batch_size {params['train_batch_size']}. Lower the "
            "batch size, or pass --max_global_step."
        )
    return end
