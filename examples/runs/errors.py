"""Errors that the user can mend: the command line shows their text alone, without a traceback."""


class UserError(ValueError):
    """What was asked for cannot be done; says why, and the way out."""
