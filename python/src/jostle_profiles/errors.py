"""What can go wrong, in words that name the file and the fix."""

from __future__ import annotations

import os


class ProfileError(ValueError):
    """A file that cannot be used.

    ``path`` is the file, ``problem`` what is wrong with it and what to do.
    """

    def __init__(self, path: str | os.PathLike[str], problem: str) -> None:
        super().__init__(f"{os.fspath(path)}: {problem}")
        self.path = os.fspath(path)
        self.problem = problem

    def __reduce__(self) -> tuple[type[ProfileError], tuple[str, str]]:
        return type(self), (self.path, self.problem)


class ProfileWarning(UserWarning):
    """Something in a directory of profiles that was left out or is ambiguous."""


class JostleError(RuntimeError):
    """The program ``jostle`` could not be run, or refused the request."""


class JostleNotFoundError(JostleError):
    """The program ``jostle`` is not where it was looked for."""
