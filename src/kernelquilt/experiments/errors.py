"""The error that a user is told about."""


class UserError(Exception):
    """What is wrong with what the user gave, in one line."""
