"""Errors that the user can mend: the command line shows their text alone, without a traceback."""


class UserError(ValueError):
    """A request that cannot be done; the message says why, and what to do instead."""
