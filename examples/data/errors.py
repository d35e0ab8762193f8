"""The error of data that are missing, empty or damaged."""

from examples.runs.errors import UserError


class DataError(UserError):
    """The images cannot be used; says which, and the command or layout that would mend it."""
