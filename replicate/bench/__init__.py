"""`python -m replicate bench`: one device against several, engines side by side.

An *engine* is a way to train an Estimator; a *choice* is an option of `replicate`'s own. Each runs
in a process of its own. Nothing of the library imports this package but its command line, and the
check of a machine's GPUs, which times choices.
"""

__all__ = ["choices", "engines", "harness", "models", "timer"]
