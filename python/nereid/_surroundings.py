"""What surrounds a recorded kernel, as a log has it: the values of its free names, those of the functions among them,
and so on. Kernels are Triton's or ours, so objects are known by the names of their classes.

    2, 0.5, "x", None, [1, 2]           constants; a tuple is a list
    {"dtype": "fp16"}                   a type; "*fp16" a pointer
    {"library": "triton.language.exp"}  something of the language, of math or of Python
    {"jit": "relu", "function": 0}      number 0 of the launch's "functions"; so "constexpr_function" and "class"
    {"module": "ops", "attributes": {}} those that the kernel may ask for; so "object"
    {"enum": "Mode", "member": "ADD", "value": 1}
    {"named_tuple": "Pair", "fields": ["a", "b"], "items": [1, 2]}; without items the class
    {"list": [1, 2]}, {"dict": [[1, 2]]}
    {"other": "what it is"}             nothing that a kernel can use
"""
import builtins
import enum
import functools
import inspect
import math
import sys
import types

_LANGUAGES = ("triton.language", "nereid.triton.language")
_MOST, _DEPTH = 100000, 15  # parts of a launch's values; values in values, of which a function's begin anew
_BUILTINS = {id(v): k for k, v in vars(builtins).items() if callable(v)}


def _names_of(code):
    """Names that a function's text has, those of its comprehensions and lambdas included; attributes are among them."""
    found = [*code.co_freevars, *code.co_names]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _names_of(constant)
    return list(dict.fromkeys(found))


def _library(v):
    """The full name of something of the language, math or builtins; None: it is none of theirs."""
    if isinstance(v, types.ModuleType):
        name = v.__name__.removeprefix("nereid.")
        return name if name in ("math", "triton") or name.startswith("triton.language") else None
    own = getattr(v, "library", None)
    if isinstance(own, str) and own.startswith(("triton.", "math.", "builtins.")):
        return own
    if id(v) in _BUILTINS and getattr(builtins, _BUILTINS[id(v)]) is v:
        return "builtins." + _BUILTINS[id(v)]
    name, module = getattr(v, "__name__", None), getattr(getattr(v, "fn", v), "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        return None
    if module == "math" and getattr(math, name, None) is v:
        return "math." + name
    if not module.startswith(_LANGUAGES):
        return None
    language = sys.modules.get(module[:module.index("language") + len("language")])
    if getattr(language, name, None) is v:
        return "triton.language." + name
    return f"{module.removeprefix('nereid.')}.{name}"


class Surroundings:
    """Of one launch. relative: a file's name as the log has it."""

    def __init__(self, relative):
        self.relative, self.functions, self.numbers, self.parts = relative, [], {}, 0
        self.depth = 0

    def value(self, v, names=()):
        """names: the attributes that may be asked for."""
        self.parts += 1
        if self.parts > _MOST or self.depth == _DEPTH:
            return {"other": "a value that is nested too deeply" if self.parts <= _MOST else "a value of many parts"}
        self.depth += 1
        try:
            return self._value(v, names)
        except Exception as e:  # an object of the program's own, which may fail in any way
            return {"other": f"{type(v).__name__}, which fails: {type(e).__name__}"}
        finally:
            self.depth -= 1

    def _value(self, v, names):
        kind = type(v).__name__
        if kind == "constexpr" and hasattr(v, "value"):
            held = v.value
            if isinstance(held, (types.FunctionType, types.MethodType, functools.partial)) and not _library(held):
                return self.function("constexpr_function", held, held)
            return self._value(held, names)
        if isinstance(v, enum.Enum):
            return {"enum": type(v).__name__, "member": v.name, "value": self.value(v.value, names)}
        if v is None or type(v) in (bool, int, float, str):
            return v
        if kind in ("dtype", "pointer_type"):
            return {"dtype": self._type(v)}
        library = _library(v)
        if library:
            return {"library": library}
        if isinstance(v, (tuple, list, dict)):
            return self._sequence(v, names)
        if isinstance(v, types.ModuleType):
            return {"module": v.__name__, "attributes": self._attributes(v, names)}
        while kind != "JITFunction" and hasattr(v, "run") and hasattr(v, "fn"):  # autotune, heuristics
            v, kind = v.fn, type(v.fn).__name__
        if hasattr(v, "fn") and hasattr(v, "__name__"):
            return self.function("constexpr_function" if "Constexpr" in kind else "jit", v, v.fn)
        return self._rest(v, names)

    def _rest(self, v, names):
        if isinstance(v, type):
            if getattr(v, "__triton_aggregate__", False):
                return self.aggregate(v, getattr(v, "__aggregate_class__", v))
            if issubclass(v, tuple) and hasattr(v, "_fields"):
                return {"named_tuple": v.__name__, "fields": list(v._fields)}
            if not issubclass(v, enum.Enum):
                return {"other": f"class {v.__name__}"}
        elif isinstance(v, (bool, int, float, str)):  # subclasses of them
            return next(plain(v) for plain in (int, float, str) if isinstance(v, plain))
        elif callable(getattr(v, "item", None)) and getattr(v, "shape", None) == ():  # NumPy's scalars
            return v.item()
        elif isinstance(v, types.FunctionType):
            return {"other": f"function {v.__name__}, which is not @triton.jit"}
        return {"object": v.__name__ if isinstance(v, type) else type(v).__name__,
                "attributes": self._attributes(v, names)}

    def _type(self, t):
        if type(t).__name__ == "pointer_type":
            return f"*{'k' if getattr(t, 'const', False) else ''}{self._type(t.element_ty)}"
        return t.name

    def _sequence(self, v, names):
        items = [self.value(x, names) for x in v] if not isinstance(v, dict) else None
        if items is None:
            return {"dict": [[self.value(k), self.value(x, names)] for k, x in v.items()]}
        if hasattr(v, "_fields"):
            return {"named_tuple": type(v).__name__, "fields": list(v._fields), "items": items}
        return items if isinstance(v, tuple) else {"list": items}

    def _attributes(self, v, names):
        found = {}
        for name in names:
            inner = vars(v).get(name, self) if isinstance(v, (types.ModuleType, type)) else getattr(v, name, self)
            if inner is not self and not isinstance(inner, types.MethodType):
                found[name] = self.value(inner, names)
        return found

    # ---- functions ----

    def free_names(self, fn, names, of_kernels=True):
        """Of a Python function; what Python itself calls so (len, range) is none. Constexpr functions can call plain
        ones, kernels cannot."""
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
        found = {}
        for name in names:
            try:
                v = cells[name].cell_contents if name in cells else fn.__globals__[name]
            except (KeyError, ValueError):  # not there, or not bound yet
                continue
            if not of_kernels and isinstance(v, types.FunctionType) and not _library(v):
                found[name] = self.function("constexpr_function", v, v)
            else:
                found[name] = self.value(v, names)
        return found

    def place(self, fn, of):
        """Where its text is; the text itself, where no file has it. of: what Triton made of fn."""
        code = fn.__code__
        place = {"file": self.relative(code.co_filename), "line": code.co_firstlineno}
        text = getattr(of, "_src", None)
        lines = getattr(of, "raw_src", None)
        if isinstance(text, str) and isinstance(lines, (list, str)):
            whole = inspect.cleandoc("\n" + "".join(lines)).rstrip()
            if not self.is_file(code.co_filename) or not whole.endswith(inspect.cleandoc("\n" + text).rstrip()):
                place["text"] = text
        return place

    @staticmethod
    @functools.lru_cache(None)
    def is_file(path):
        import os
        return os.path.isfile(path)

    def function(self, kind, v, fn):
        """A function that kernels call: `fn` is Python's, `v` what stands for it."""
        while isinstance(fn, (functools.partial, types.MethodType)) or not hasattr(fn, "__code__"):
            if isinstance(fn, (functools.partial, types.MethodType)) or not hasattr(fn, "fn"):
                return {"other": f"{type(fn).__name__} {getattr(fn, '__name__', '')}".rstrip()}
            fn = fn.fn
        said = {kind: fn.__name__}
        if id(fn) not in self.numbers:
            self.numbers[id(fn)] = len(self.functions)
            entry = {kind: fn.__name__, **self.place(fn, v)}
            self.functions.append(entry)
            if getattr(v, "noinline", False):
                entry["noinline"] = True
            if isinstance(getattr(v, "_must_use_result", None), str):
                entry["must_use"] = v._must_use_result
            names, depth, self.depth = _names_of(fn.__code__), self.depth, 0
            defaults = {k: self.value(p.default, names) for k, p in inspect.signature(fn).parameters.items()
                        if p.default is not inspect.Parameter.empty}
            if defaults:
                entry["defaults"] = defaults
            entry["names"], self.depth = self.free_names(fn, names, kind == "jit"), depth
        said["function"] = self.numbers[id(fn)]
        return said

    def aggregate(self, v, cls):
        said = {"class": cls.__name__}
        if id(v) not in self.numbers:
            self.numbers[id(v)] = len(self.functions)
            entry = {"class": cls.__name__, "file": self.relative(inspect.getsourcefile(cls) or "?"),
                     "line": inspect.getsourcelines(cls)[1], "names": {}}
            self.functions.append(entry)
            for method in vars(cls).values():
                fn = getattr(method, "fn", method)
                if isinstance(fn, types.FunctionType):
                    entry["names"].update(self.free_names(fn, _names_of(fn.__code__)))
            for name, annotation in getattr(cls, "__annotations__", {}).items():
                scope = vars(sys.modules.get(cls.__module__, builtins))
                for word in (annotation.split(".")[:1] if isinstance(annotation, str) else ()):
                    if word in scope:
                        entry["names"][word] = self.value(scope[word])
        said["function"] = self.numbers[id(v)]
        return said
