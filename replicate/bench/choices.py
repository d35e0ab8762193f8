"""Named choices of how `replicate` trains, for benchmarks to compare.

A choice is a dictionary that stands in JSON: `replicate_model_fn` has the arguments of
`replicate_model_fn`, `TowerOptimizer` those of `TowerOptimizer`. Either may be left out.
"""

import argparse
import json

# The one place to add a choice: all benchmarks find it here.
CHOICES = {
    "default": {},
    "round_robin variables": {"replicate_model_fn": {"variable_placement": "round_robin"}},
}
_TAKERS = ("replicate_model_fn", "TowerOptimizer")


def of(text):
    """A type for `argparse`: names of `CHOICES` divided by commas, "all", or a choice as JSON.

    Returns:
        Dictionary of choices by name; one given as JSON is named by that.
    """
    if text.lstrip().startswith("{"):
        try:
            choice = json.loads(text)
        except ValueError:
            choice = None
        if isinstance(choice, dict) and all(
            name in _TAKERS and isinstance(arguments, dict) for name, arguments in choice.items()
        ):
            return {text.strip(): choice}
        raise argparse.ArgumentTypeError(
            "as JSON, a choice must be an object of the arguments of "
            f"{' and '.join(_TAKERS)}, but is {text!r}. Pass e.g. "
            '\'{"replicate_model_fn": {"variable_placement": "round_robin"}}\'.'
        )
    names = list(CHOICES) if text == "all" else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in CHOICES]
    if unknown or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(
            f"choices must be distinct names out of {', '.join(CHOICES)}, divided by commas, "
            f"'all', or JSON, but are {text!r}. Leave the option out for 'default'."
        )
    return {name: CHOICES[name] for name in names}
