"""Errors of launches, as Triton's classes."""
from ..errors import TritonError


class _Text(TritonError):
    prefix = ""

    def __init__(self, error_message=None):
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self):
        return self.prefix + (self.error_message or "")


class InterpreterError(_Text):
    """An error of a kernel that runs on `interp`."""


class PTXASError(_Text):
    """ptxas refuses a kernel, or cannot be run."""
    prefix = "PTXAS error: "


class AutotunerError(_Text):
    """No configuration is left to try."""
    prefix = "Autotuner error: "


class OutOfResources(TritonError):
    """A kernel asks for more shared memory, threads, ... than the device has."""

    def __init__(self, required, limit, name):
        super().__init__(required, limit, name)
        self.required, self.limit, self.name = required, limit, name

    def __str__(self):
        return (f"out of resource: {self.name}, Required: {self.required}, Hardware limit: {self.limit}. "
                "Reducing block sizes or `num_stages` may help.")
