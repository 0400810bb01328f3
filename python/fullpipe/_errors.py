"""Exceptions of the package."""

from __future__ import annotations


class Error(Exception):
    """Base of the package's exceptions."""


class ScenarioError(Error, ValueError):
    """A scenario or an argument that cannot be run.

    ``file`` is the file as it was named, ``line`` the line in it from 1 (None when none is meant), ``field`` the field
    as a path like ``flow[0].stop``, and ``message`` the mistake and a correct form. Of a scenario that was written in
    Python, ``line`` is that of :meth:`fullpipe.Scenario.to_toml`.
    """

    def __init__(self, text: str, file: str = "", line: int | None = None, field: str = "", message: str = "") -> None:
        super().__init__(text, file, line, field, message)
        self.file = file
        self.line = line
        self.field = field
        self.message = message or text

    def __str__(self) -> str:
        return str(self.args[0])


class RunError(Error, RuntimeError):
    """A run that gave no result."""


class OutputError(Error, OSError):
    """Results that cannot be written or read, or a directory that belongs to another sweep."""
