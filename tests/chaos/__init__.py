"""Chaos: clusters train while faults hit their tasks at random: `python -m tests.chaos`."""
