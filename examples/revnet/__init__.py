"""Reversible residual networks: one model, every way to run it."""

import importlib

# Not imported before they are asked for: the command line must answer without TensorFlow.
_PLACES = {"RevNet": "network.model", "RevNetConfig": "network.config", "preset": "network.config"}

__all__ = ("RevNet", "RevNetConfig", "preset")


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
