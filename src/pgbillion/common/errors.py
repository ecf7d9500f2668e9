"""The one exception that means: the user can do something about it."""

from __future__ import annotations


class UserError(Exception):
    """A failure explained in one line, with what to do about it and the exit status it ends the program with.

    The command line prints it as ``error: message`` and ``hint: hint``. The status is psql's: 1 for our own errors
    or the user's, 2 for a connection that could not be made or was lost, 3 for a statement that the server refused.
    """

    def __init__(self, message: str, hint: str | None = None, status: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status
