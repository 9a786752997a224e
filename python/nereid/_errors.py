"""Exceptions made of nereid.h's errors."""
import warnings

from . import _native

(OK, BAD_ARGUMENT, BAD_SOURCE, BAD_FILE, UNSUPPORTED, NO_DEVICE, NO_COMPILER, OUT_OF_MEMORY, KERNEL_FAULT, INTERNAL,
 OVER_LIMIT) = range(11)


class NereidError(RuntimeError):
    """What went wrong outside of a kernel's source: no device, no compiler, a defect."""


class KernelFault(NereidError):
    """A failed device_assert, an access out of bounds, an illegal address, while a kernel ran."""


class OverLimit(NereidError):
    """A kernel took more than the limits that are set allow."""


(OTHER, SYNTAX, NAME, TYPE, VALUE, NOT_SUPPORTED, ASSERTION, RESOURCES, ASSEMBLER, LAUNCH, FAULT) = range(11)


def make(status, kind, message, text, places, resource, required, limit):
    """The exception for an error. text: all of it, with place, source line and call chain; places: (file, line, column)
    of the error and of the calls that lead there, innermost first."""
    text = text.rstrip("\n")
    if resource is not None:
        from .triton.runtime.errors import OutOfResources
        return OutOfResources(required, limit, resource)
    if kind == ASSEMBLER:
        from .triton.runtime.errors import PTXASError
        return PTXASError(text)
    if status in (BAD_SOURCE, UNSUPPORTED):
        from .triton.compiler import errors
        return errors.from_native(kind, message, text, places)
    if status == BAD_ARGUMENT:
        return ValueError(text)
    if status == BAD_FILE:
        return OSError(text)
    if status == OUT_OF_MEMORY:
        return MemoryError(text)
    return {KERNEL_FAULT: KernelFault, OVER_LIMIT: OverLimit}.get(status, NereidError)(text)


def _warn(message, file, line):
    if file:
        warnings.warn_explicit(message, UserWarning, file, line)
    else:
        warnings.warn(message, UserWarning)


_native.configure("error", make)
_native.configure("warn", _warn)
