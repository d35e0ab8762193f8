"""Defects that tests must catch, and what applies them one by one: `python -m tests.mutations`."""
