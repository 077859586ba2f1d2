"""Errors that the user is told about, in one line."""


class UserError(Exception):
    """What is wrong with what the user gave."""
