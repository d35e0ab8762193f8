"""The model card of an exported network: README.md beside the SavedModel, a page of Markdown.

It tells what the network is, how it was found, which images it was trained and measured on, how
good it is and how sure that is, where it was trained, how it is run, and its limits; after
Mitchell et al., "Model Cards for Model Reporting" (FAT* 2019). All is taken from files of the
training, see `card_facts.py`. A fact that they lack, as those of older versions may, is left out.
"""

import datetime

import tensorflow.compat.v1 as tf

from examples.nas_search.serving import card_program, markdown
from examples.nas_search.serving.markdown import code

NAME = "README.md"

_MOST_CLASSES = 30  # whose names are shown
_MOST_INDICES = 2000  # characters; published spaces have less than 300
_METHODS = {
    "reinforce": "a REINFORCE controller over networks that share weights, after TuNAS (Bender, "
    "Liu et al., CVPR 2020)",
    "random": "random networks, evaluated with weights that they share",
    "evolution": "ageing evolution (Real et al., AAAI 2019) of networks that share weights (Guo et "
    "al., ECCV 2020)",
}
_OF_SEARCH = (
    *("ssd_file", "supernet_steps", "seed", "max_global_step", "train_batch_size"),
    *("num_towers", "rl_learning_rate", "rl_reward_function", "rl_cost_model_exponent"),
    *("rl_entropy_regularization", "rl_delay_steps", "skip_delay_steps", "start_at_target"),
    *("model_learning_rate", "model_weight_decay"),
)
_OF_TRAINING = (
    *(
        "ssd_file",
        "from_search",
        "seed",
        "max_global_step",
        "train_batch_size",
        "num_towers",
        "learning_rate",
    ),
    *("weight_decay", "dropout_rate", "path_dropout_rate", "filters_multiplier", "use_bfloat16"),
)
_OF_DATA = ("augmentation", "validation_fraction", "test_fraction")
_MACHINE = (
    *(("device_model", ""), ("devices", "on "), ("os", ""), ("python", "Python ")),
    *(("tensorflow", "TensorFlow "), ("numpy", "NumPy "), ("replicate", "replicate ")),
)


def card(facts):
    """Returns the model card of a network.

    Args:
        facts: `card_facts.Facts`.

    Returns:
        A page of Markdown, a str.
    """
    sections = (
        _title(facts),
        ["## The network", "", *_network(facts)],
        ["## How it was found", "", *_search(facts)],
        ["## Data", "", *_data(facts)],
        ["## How good it is", "", *_accuracy(facts)],
        ["## How and where it was trained", "", *_training(facts)],
        ["## How to run it", "", *_program(facts)],
        ["## Limits", "", *_limits(facts)],
    )
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _title(facts):
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return [
        f"# Model card: a classifier of images, {code(facts.record['ssd'])}",
        "",
        f"`python -m examples.nas_search export` wrote this page on {today}, with TensorFlow "
        f"{tf.__version__}, from files of the training. It leaves out facts that they do not tell.",
    ]


def _network(facts):
    record = facts.record
    yield f"- A convolutional network for {record['num_classes']:,} classes: {_name(record)}."
    yield (
        f"- {record['madds']:,} multiply-adds for an image, {record['params']:,} weights; those "
        f"after step {record['global_step']:,} of its training."
    )
    shape, (low, high) = "×".join(map(str, record["image_shape"])), record["pixel_range"]
    yield f"- It takes images of {shape} pixels and channels, with values from {low:g} to {high:g}."
    if len(record["signatures"]) > 1:
        yield "- It also takes the contents of JPEG and PNG files of any size."
    yield "- It gives the number of the most probable class, and a probability of each class."
    if record["class_names"]:
        yield f"- Classes, from number 0: {_some(record['class_names'])}."
    yield ""
    yield "Layers, sizes of their outputs, and their costs:"
    yield ""
    yield from markdown.block("text", facts.layers)


def _name(record):
    if not record["indices"]:
        return f"the reference network {code(record['ssd'])}"
    indices = code(record["indices"], _MOST_INDICES)
    return f"indices {indices} of the space {code(record['ssd'])}"


def _some(names):
    shown = ", ".join(map(code, names[:_MOST_CLASSES]))
    more = len(names) - _MOST_CLASSES
    return f"{shown} and {more:,} more, see `network.json`" if more > 0 else shown


def _search(facts):
    directory = facts.params.get("search_dir")
    if not directory:
        return ["It was named by the user. It is not known whether a search found it."]
    if not facts.search:
        return [f"The user named the search in {code(directory)}. More of it is not known."]
    search = facts.search
    return [
        f"- {_found(search, directory, facts.record['indices'])}",
        *_method(search),
        *map(_target, search["costs"]),
        f"- Settings: {_settings(search['settings'], _OF_SEARCH)}.",
        *map("- Searched with {}.".format, map(_machine, search["machines"])),
    ]


def _method(search):
    # Those of other programs are left out, like other facts that are not known.
    method = _METHODS.get(_strategy(search))
    return [f"- Method: {method}."] if method else []


def _strategy(search):
    return search["settings"].get("strategy", "reinforce")  # Older searches do not name it.


def _found(search, directory, indices):
    where = f"the search in {code(directory)}"
    step = f"step {search['global_step']:,}"
    if search["indices"] == indices:
        best = "most probable one" if _strategy(search) == "reinforce" else "one with most reward"
        return f"It is the network that {where} found: the {best} after {step}."
    other = code(search["indices"], _MOST_INDICES)
    return f"It is another network than {where} found after {step}, which is {other}."


def _target(cost):
    estimate = f"the network found was estimated at {cost['estimate']:.4g}"
    return f"- Target: {cost['target']:.4g} {code(cost['unit_and_device'])}; {estimate}."


def _data(facts):
    source = code(facts.params["dataset"])
    folder = facts.params.get("dataset_dir")
    yield f"- Data: {source}{f' in {code(folder)}' if folder else ''}."
    settings = _settings(facts.params, _OF_DATA)
    if settings:
        yield f"- Preparation: {settings}."
    if facts.images:
        yield "- Images by part:"
        yield ""
        rows = [(part, f"{size:,}", _use(facts, part)) for part, size in facts.images.items()]
        yield from markdown.table(("part", "images", "used for"), rows)


def _use(facts, part):
    if part in str(facts.params.get("train_split", "train")).split("+"):
        searched = ", rewards of the search" if part == "validation" and facts.search else ""
        return f"training{searched}"
    if part == "validation":
        return "rewards of the search, measuring" if facts.search else "measuring"
    return "measuring"


def _accuracy(facts):
    yield "Share of images whose most probable class is theirs:"
    yield ""
    rows = [_measured(part, facts.measured[part]) for part in facts.measured]
    yield from markdown.table(("part", "accuracy", "95 % interval", "images"), rows)
    yield ""
    yield (
        "The interval is Wilson's (1927), for the chance by which these images were drawn and not "
        "others. Another training of the same network may differ by more."
    )


def _measured(part, measured):
    if measured is None:
        return (part, "not measured", "", "")
    low, high = measured.interval
    interval = f"{low:.2%} to {high:.2%}"
    return (part, f"{measured.accuracy:.2%}", interval, f"{measured.num_images:,}")


def _training(facts):
    yield f"- Settings: {_settings(facts.params, _OF_TRAINING)}."
    yield from map("- Trained with {}.".format, map(_machine, facts.machines))


def _machine(machine):
    known = [(before, machine[name]) for name, before in _MACHINE if name in machine]
    return ", ".join(f"{before}{code(text)}" for before, text in known)


def _settings(params, names):
    known = [name for name in names if params.get(name) is not None]
    return ", ".join(code(f"{name} {params[name]}") for name in known)


def _program(facts):
    yield card_program.introduction(facts.record)
    yield ""
    yield from markdown.block("python", card_program.program(facts.record).splitlines())


def _limits(facts):
    yield (
        "- All figures are of one data set, divided once, and of one training. They do not tell "
        "how good it is on images from elsewhere: of other cameras, places, times or people."
    )
    if facts.search:
        yield (
            "- The search chose networks by their accuracy on validation images. Accuracy there is "
            "too high an estimate; only test images tell how good it is."
        )
    if facts.measured.get("test") is None:
        yield "- It was not measured on test images: `evaluate --split test` does it."
    yield (
        "- It names one of its classes for every image, also for one that shows none of them. Its "
        "probabilities were not checked against frequencies."
    )
    yield (
        "- Accuracy was not measured by class, nor by groups of people that images may show. Do so "
        "before its answers matter to anybody."
    )
    yield (
        "- The program does not know what the network is meant for, who answers for it, nor the "
        "licence of the images. Add it here."
    )
