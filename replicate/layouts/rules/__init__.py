"""The table of rules, one file per family: importing the package enters those of all files."""

import importlib
import pkgutil

__all__ = [module.name for module in pkgutil.iter_modules(__path__)]

for _name in __all__:
    importlib.import_module(f"{__name__}.{_name}")
