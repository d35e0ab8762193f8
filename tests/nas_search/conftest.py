"""Gives the tests in this directory the fixtures that they share."""

from nas_search.nas_layers import control_flow  # noqa: F401
