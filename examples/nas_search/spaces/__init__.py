"""The search spaces by name, and those that are not published ones."""
