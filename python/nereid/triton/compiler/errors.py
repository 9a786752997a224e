"""Errors of compilations, as Triton's classes: a message has the place, the source line and a caret."""
import linecache
import types

from ... import _errors
from ..errors import TritonError

SHOWN_LINES = 12  # of the function, up to the one that is wrong


class CompilationError(TritonError):
    """A kernel's source is wrong. src: the function's text; node: what has lineno and col_offset in it."""

    def __init__(self, src, node, error_message=None, details=None):
        super().__init__(src, node, error_message)
        self.src, self.node, self.error_message = src, node, error_message
        self.details = details  # all that the compiler says: file, line, source, chain of calls, hint
        self.message = self._format()

    def _format(self):
        lineno, column = getattr(self.node, "lineno", None), getattr(self.node, "col_offset", 0)
        if self.src is None:
            text = " <source unavailable>"
        elif lineno is None:
            text = self.src
        else:
            lines = self.src.split("\n")[:lineno][-SHOWN_LINES:]
            text = "\n".join([*lines, " " * column + "^"]) if lines else " <source empty>"
        parts = [text if lineno is None else f"at {lineno}:{column}:\n{text}"]
        return "\n".join(parts + [p for p in (self.details, self.error_message) if p])

    def __str__(self):
        return self.message

    def __reduce__(self):
        return type(self), (self.src, self.node, self.error_message, self.details)


class CompileTimeAssertionFailure(CompilationError):
    """A static_assert fails."""


class UnsupportedLanguageConstruct(CompilationError):
    """Python that kernels do not have."""


# ---- what the compiler says, as exceptions -------------------------------------------------------------------------

_sources = {}  # file -> {first line: (text, columns that its lines are indented by in the file)}


def register(file, first_line, src, indent):
    """A function's text, so that places in it count from its first line, as Triton's do."""
    _sources.setdefault(file, {})[first_line] = (src, indent)


def _function_at(file, line, column):
    """(text of the function, line in it, column from 0) of a place in a file."""
    for first, (src, indent) in sorted(_sources.get(file, {}).items(), reverse=True):
        if first <= line <= first + src.count("\n"):
            return src, line - first + 1, max(column - 1 - indent, 0)
    lines = "".join(linecache.getlines(file)) if file else ""
    return lines or None, line, max(column - 1, 0)


_CLASSES = {_errors.ASSERTION: CompileTimeAssertionFailure, _errors.NOT_SUPPORTED: UnsupportedLanguageConstruct}
_CAUSES = {_errors.NAME: NameError, _errors.TYPE: TypeError, _errors.VALUE: ValueError, _errors.OTHER: ValueError}


def from_native(kind, message, text, places):
    """The exception that a launch raises: at the call in the kernel itself; its causes go along the chain of calls to
    where the error is, and the last one says what is wrong."""
    cls = _CLASSES.get(kind, CompilationError)
    if not places:
        return cls(None, None, message, text)
    cause = _CAUSES[kind](message) if kind in _CAUSES else None
    for i, place in enumerate(places):
        src, lineno, offset = _function_at(*place)
        node = types.SimpleNamespace(lineno=lineno, col_offset=offset)
        e = cls(src, node, message, text if i == len(places) - 1 else None)
        e.__cause__, cause = cause, e
    cause.places = places
    return cause
