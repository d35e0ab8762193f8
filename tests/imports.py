"""Finds the imports in the text of a module."""

import ast


def imported(tree):
    """Yields the full names of what `tree` imports; of `from a import b` both `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their package"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def check_one_way(needs):
    """Asserts that each module can be put after all that it imports.

    Args:
        needs: Dict of the sets of names that modules import, by name.
    """
    # A package's own name in `from replicate import x` is not a use of what it re-exports.
    remaining = {module: names - {module} for module, names in needs.items()}
    while remaining:
        free = [module for module, names in remaining.items() if not names & set(remaining)]
        assert free, f"these import one another: {sorted(remaining)}"
        for module in free:
            del remaining[module]
