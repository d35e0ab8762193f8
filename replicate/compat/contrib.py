"""The former path of `replicate.migration.contrib`, for programs that import `find` by it."""

from replicate.migration import contrib

__all__ = ["Place", "find"]

Place = contrib.Place
find = contrib.find
