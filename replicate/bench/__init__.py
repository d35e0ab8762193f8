"""`python -m replicate bench`: one device against several, engines side by side.

An *engine* is a way to train an Estimator; a *choice* is a set of options of `replicate`. Each runs
in a separate process. Only the command line of the library imports this package, and the check of a
machine's GPUs, which times choices.
"""

__all__ = ["choices", "engines", "harness", "models", "timer"]
