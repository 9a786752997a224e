"""What surrounds a kernel's source, for the compiler that asks: its free names, their attributes, defaults and
annotations are what Python says they are. The other half is native/names.c."""
import builtins
import copy
import enum
import functools
import inspect
import math
import types
import weakref

from ... import _native
from .._utils import is_namedtuple, of_another_triton
from ..language import core
from ..runtime.jit import BoundConstexprFunction, ConstexprFunction, JITCallable, JITFunction

NAME, ATTRIBUTE, DEFAULT, ANNOTATION = range(4)
OURS = __name__.partition(".compiler")[0]  # nereid.triton
CLASS = 3  # NEREID_SOURCE_CLASS

_roots = weakref.WeakValueDictionary()  # address of a kernel's JITFunction, by that of its module
_BUILTINS = {id(v): k for k, v in vars(builtins).items() if callable(v)}
_MATH = {id(v): k for k, v in vars(math).items() if callable(v)}


def load(fn):
    module = _native.Module(fn._source())
    _roots[id(module)] = fn
    return module


# ---- asking ---------------------------------------------------------------------------------------------------------

def _class_scope(cls):
    """Names that the methods of a class see."""
    import sys
    found = dict(vars(sys.modules.get(cls.__module__, builtins)))
    for v in vars(cls).values():
        fn = v.fn if isinstance(v, JITCallable) else v
        if inspect.isfunction(fn):
            found = {**fn.__globals__, **found}
            for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
                try:
                    found[name] = cell.cell_contents
                except ValueError:
                    pass
    return found


def _watch(module, owner, scope, name, value):
    """A launch looks whether what was compiled in is what it was: a global, or a constexpr around a function."""
    root = _roots.get(id(module))
    if root is None or value is None or isinstance(value, (types.ModuleType, types.FunctionType, JITCallable, type)):
        return
    if getattr(value, "__triton_builtin__", False) or callable(value) and not isinstance(value, core.constexpr):
        return
    if isinstance(value, core.constexpr):
        value = core.constexpr(value.value)  # one of its own: its value may be set
    elif isinstance(value, (list, dict, set, bytearray)):
        value = copy.deepcopy(value)
    root._held[id(owner), name] = (scope, name, value)


def _free_name(module, of, name):
    if isinstance(of, JITFunction) and name in of._constants:
        return core.constexpr(of._constants[name][0])
    if isinstance(of, type):
        scope = _class_scope(of)
        return scope.get(name, NotImplemented)
    nonlocals = of._scope()
    if name in nonlocals:
        _watch(module, of, nonlocals, name, nonlocals[name])
        return nonlocals[name]
    scope = of.__globals__
    if name not in scope:
        return NotImplemented
    value = scope[name]
    _watch(module, scope, scope, name, value)
    return value


def _parameter(of, name):
    return of.signature.parameters.get(name) if isinstance(of, JITCallable) and hasattr(of, "signature") else None


def _annotation(of, name):
    p = _parameter(of, name)
    if p is None or p.annotation is inspect.Parameter.empty or not p.annotation:
        return NotImplemented
    for known in getattr(of, "params", ()):
        if known.name == name:
            if known.is_constexpr:
                return core.constexpr
            return known.annotation_type or NotImplemented
    return NotImplemented


def ask(module, what, of, name):
    """The object that is asked for; NotImplemented: there is none."""
    if what == NAME:
        return _free_name(module, of, name)
    if what == ATTRIBUTE:
        return getattr(of, name, NotImplemented)
    if what == ANNOTATION:
        return _annotation(of, name)
    p = _parameter(of, name)
    return NotImplemented if p is None or p.default is inspect.Parameter.empty else p.default


# ---- describing -----------------------------------------------------------------------------------------------------

_CODES = {"int1": "i1", "uint1": "i1"}


def type_name(t):
    if isinstance(t, core.pointer_type):
        return f"*{'k' if t.const else ''}{type_name(t.element_ty)}"
    name = t.name
    if name.startswith("uint"):
        return "u" + name[4:]
    return "i" + name[3:] if name.startswith("int") else name


def _library_name(o):
    """The full name of something of the language, math or builtins; None: it is none of theirs."""
    if isinstance(o, types.ModuleType):
        name = o.__name__
        if name == "math" or name == OURS or name.startswith(OURS + ".language") or name == OURS + ".profiler.language":
            return name.replace(OURS, "triton", 1)
        return None
    own = getattr(o, "library", None)
    if isinstance(own, str):
        return own
    if id(o) in _BUILTINS and getattr(builtins, _BUILTINS[id(o)], None) is o:
        return "builtins." + _BUILTINS[id(o)]
    if id(o) in _MATH:
        return "math." + _MATH[id(o)]
    if isinstance(o, type) and o.__module__.startswith(OURS + ".language"):
        return f"triton.language.{o.__name__}"
    return None


def _class_source(cls):
    lines, first = inspect.getsourcelines(cls)
    skip = next((i for i, text in enumerate(lines) if text.lstrip().startswith("class ")), 0)
    return ("source", CLASS, inspect.getsourcefile(cls) or "?", "".join(lines[skip:]), first + skip, cls.__name__, cls,
            False, False, None, (), ())


def _describe_class(o):
    if is_namedtuple(o):
        return "named_tuple_class", o.__name__, tuple(o._fields)
    if getattr(o, "__triton_aggregate__", False):
        return _class_source(getattr(o, "__aggregate_class__", o))
    if issubclass(o, enum.Enum):
        return "object", o.__name__
    return "other", f"class {o.__name__}"


# Kernels call one that tl.constexpr() holds, as they call a constexpr function.
_PYTHON_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)


def describe(o):
    """What an object is that is no plain value: a tuple as native/names.c has it."""
    if isinstance(o, core.constexpr):
        if isinstance(o.value, _PYTHON_FUNCTIONS) and not _library_name(o.value):
            return "function", getattr(o.value, "__name__", "function")
        return "constexpr", o.value
    if isinstance(o, core.dtype) and not o.is_block() and o.name != "void":
        return "type", type_name(o)
    library = _library_name(o)
    if library:
        return "library", library
    if isinstance(o, (ConstexprFunction, BoundConstexprFunction)):
        return "function", o.__name__
    if isinstance(o, JITCallable):
        return o._source()
    if isinstance(o, types.ModuleType):
        return "module", o.__name__
    foreign = of_another_triton(o)
    if foreign:
        return "other", foreign
    inner = o
    while hasattr(inner, "run") and hasattr(inner, "fn"):
        inner = inner.fn
        if isinstance(inner, JITCallable):
            return inner._source(launch_only=True)
    if isinstance(o, enum.Enum):
        return "enum", type(o).__name__, type(o), o.name, o.value
    if isinstance(o, type):
        return _describe_class(o)
    if isinstance(o, tuple) and hasattr(o, "_fields"):
        return "named_tuple", type(o).__name__, type(o), tuple(o._fields), tuple(o)
    return _describe_rest(o)


def _describe_rest(o):
    if isinstance(o, (bool, int, float, str)):  # subclasses of them
        for plain in (int, float, str):
            if isinstance(o, plain):
                return "value", plain(o)
    item = getattr(o, "item", None)
    if callable(item) and getattr(o, "shape", None) == ():  # NumPy's scalars
        return "value", item()
    if isinstance(o, types.FunctionType):
        return "other", f"function {o.__name__}, which is not @triton.jit"
    if isinstance(o, core.tuple):
        return "value", tuple(o.values)
    if isinstance(o, (set, frozenset)):
        return "value", tuple(o)
    return "object", type(o).__name__


# ---- constants of a kernel, handed to a constexpr function ----------------------------------------------------------

(_NONE, _BOOL, _INT, _FLOAT, _STR, TYPE, LIBRARY, _TUPLE, _LIST, DICT, ENUM, _OBJECT, TENSOR, OTHER) = range(14)


def _from_library(path):
    import importlib
    module, _, name = path.rpartition(".")
    if path.startswith("triton"):
        path, module = OURS + path[len("triton"):], OURS + module[len("triton"):]
    try:
        return getattr(importlib.import_module(module), name) if module else importlib.import_module(path)
    except (ImportError, AttributeError):
        return importlib.import_module(path)


def value(kind, text, obj, items):
    if kind == TYPE:
        return core.str_to_ty(text, None)
    if kind == LIBRARY:
        return _from_library(text)
    if kind == DICT:
        return dict(zip(items[::2], items[1::2]))
    if kind == ENUM:
        return obj[text]
    if kind == TENSOR:
        return core.tensor(None, core.block_type(core.str_to_ty(text, None), items) if items
                           else core.str_to_ty(text, None))
    if obj is not None:
        return obj
    raise TypeError(f"a constexpr function cannot take {text}")


_native.configure("ask", ask)
_native.configure("describe", describe)
_native.configure("value", value)
