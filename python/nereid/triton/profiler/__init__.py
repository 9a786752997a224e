"""Proton's interface on Nereid's profiles: start, scopes, finalize; NAME.hatchet is what Proton's viewer opens, and
NAME.trace what `nereid prof` views."""
import contextlib
import functools
import os
import warnings

from ... import _errors, _native
from .. import knobs
from . import language

DEFAULT_PROFILE_NAME = os.path.join(os.path.expanduser("~"), "proton")
_sessions = {}  # number -> _Session
_CHOICES = {"context": ("shadow", "python"), "data": ("tree", "trace"), "backend": (None, "cupti", "instrumentation")}


class _Session:
    def __init__(self, name, data, hook):
        self.name, self.data, self.hook, self.active = name, data, hook, True
        self.trace = f"{name}.trace"
        try:
            self.native = _native.Session(self.trace, False)
        except (_errors.NereidError, RuntimeError, ValueError) as e:
            warnings.warn(f"nereid: the GPU's own times are not recorded: {str(e).splitlines()[0]}", stacklevel=3)
            self.native = _native.Session(self.trace, True)
        if hook:
            knobs.runtime.launch_enter_hook.add(_enter_launch)
            knobs.runtime.launch_exit_hook.add(_exit_launch)

    def finish(self):
        if not any(s.hook for s in _sessions.values() if s is not self):
            knobs.runtime.launch_enter_hook.remove(_enter_launch)
            knobs.runtime.launch_exit_hook.remove(_exit_launch)
        self.native.stop()
        if self.data == "trace":
            _native.prof_view(self.trace, "chrome", f"{self.name}.chrome_trace")
        else:
            _native.prof_view(self.trace, "hatchet", f"{self.name}.hatchet")


def _enter_launch(metadata):
    about = metadata.get()
    _native.prof_enter(about["name"])
    for name, value in about.items():
        if isinstance(value, (int, float)) and name not in ("function", "stream"):
            _native.prof_metric(name, float(value))


def _exit_launch(metadata):
    _native.prof_leave(metadata.get()["name"])


def start(name=None, *, context="shadow", data="tree", backend=None, mode=None, hook=None):
    """Begins a session and returns its number. data: "tree" (NAME.hatchet) or "trace" (NAME.chrome_trace). hook
    "triton" (or "launch"): what a kernel's launch_metadata says of each launch becomes metrics. A name that has a
    session already means that one, which goes on."""
    if knobs.proton.disable:
        return None
    for option, value in (("context", context), ("data", data), ("backend", backend)):
        if value not in _CHOICES[option]:
            raise ValueError(f"{option}={value!r} is not there: {option} is one of {_CHOICES[option]}")
    if context == "python" or backend == "instrumentation" or mode:
        warnings.warn(f"nereid: sessions with context={context!r}, backend={backend!r}, mode={mode!r} record scopes and "
                      "kernels as those with the defaults do", stacklevel=2)
    for number, known in _sessions.items():
        if known.name == (name or DEFAULT_PROFILE_NAME):
            activate(number)
            return number
    number = max(_sessions, default=-1) + 1
    _sessions[number] = _Session(name or DEFAULT_PROFILE_NAME, data, hook in ("triton", "launch"))
    return number


def _chosen(session):
    return list(_sessions.values()) if session is None else [_sessions[session]] if session in _sessions else []


def activate(session=None):
    for s in _chosen(session):
        if not s.active:
            s.native.resume()
            s.active = True


def deactivate(session=None):
    for s in _chosen(session):
        if s.active:
            s.native.pause()
            s.active = False


def finalize(session=None, output_format=""):
    """Ends sessions and writes their files; the first error is raised when all have ended."""
    errors = []
    for number in list(_sessions) if session is None else [session] if session in _sessions else []:
        try:
            _sessions.pop(number).finish()
        except Exception as e:
            errors.append(e)
    if errors:
        raise errors[0]


def enter_scope(name, *, metrics=None):
    _native.prof_enter(name)
    for key, value in (metrics or {}).items():
        _native.prof_metric(key, float(value))


def exit_scope(name=None, *, metrics=None):
    for key, value in (metrics or {}).items():
        _native.prof_metric(key, float(value))
    _native.prof_leave(name)


class scope(contextlib.ContextDecorator):
    """with scope("name", {"flops": ...}): or @scope("name")"""

    def __init__(self, name, metrics=None):
        self.name, self.metrics = name, metrics

    def __enter__(self):
        enter_scope(self.name, metrics=self.metrics)
        return self

    def __exit__(self, *error):
        exit_scope(self.name)


class cpu_timed_scope(scope):
    """A scope; every scope has the host's time, too."""


class state(scope):
    """What a program is in for a while, "prefill": as a scope, under which its launches are recorded."""

    def __init__(self, name):
        super().__init__(name)


def enter_state(name):
    enter_scope(name)


def exit_state():
    exit_scope()


def profile(func=None, *, name=None, **options):
    """A decorator: each call of the function is a session."""
    if func is None:
        return lambda f: profile(f, name=name, **options)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        session = start(name, **options)
        try:
            return func(*args, **kwargs)
        finally:
            finalize(session)

    return wrapper
