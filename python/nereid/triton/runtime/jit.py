"""@jit functions: their source, their arguments, and the Python half of a launch. The fast half is _native.Launcher."""
import ast
import inspect
import itertools
import json
import operator
import re
import textwrap
import threading
from collections import defaultdict

from ... import _devices, _forks, _native
from .. import knobs
from .._utils import is_namedtuple, type_canonicalisation_dict  # noqa: F401 (programs take them from here)
from . import _async_compile
from .driver import driver

_NUMBERS = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64", "u1"}


# ---- parameters -----------------------------------------------------------------------------------------------------

_SPELLED = re.compile(r"""[\s'"]*(?P<const>const )?(?P<star>\*?)(?:tl\.)?(?P<name>.*?)(?P<behind>\*?)[\s'"]*""")


def _spelled(text):
    """Of the text of an annotation: "const tl.float32*", "*fp32"."""
    m = _SPELLED.fullmatch(text)
    name = _spelled(m["name"]) if m["star"] or m["behind"] or m["const"] else m["name"]
    if m["const"]:
        return "*k" + (name[1:] if not m["star"] and not m["behind"] else name)
    if m["star"] or m["behind"]:
        return "*" + name
    return type_canonicalisation_dict.get(name.replace("_t", ""), name)


def _normalize_ty(ty):
    """An annotation as signatures have it: "*fp32", "i32", "constexpr"; a pointer to const "*kfp32"."""
    from ..language import core
    if isinstance(ty, core.pointer_type):
        return ("*k" if ty.const else "*") + _normalize_ty(ty.element_ty)
    named = getattr(ty, "name", ty) if isinstance(ty, core.dtype) else getattr(ty, "__name__", ty)
    return _spelled(str(named if isinstance(ty, (core.dtype, type)) else ty))


class KernelParam:
    """A parameter of a @jit function."""

    def __init__(self, num, param, do_not_specialize, do_not_specialize_on_alignment):
        self.num, self._param, self.name = num, param, param.name
        self.do_not_specialize, self.do_not_specialize_on_alignment = do_not_specialize, do_not_specialize_on_alignment
        given = param.annotation
        self.annotation = "" if given is inspect.Parameter.empty or not given else _normalize_ty(given)
        self.is_constexpr = "constexpr" in self.annotation
        self.is_const = not self.is_constexpr and ("const" in self.annotation or self.annotation.startswith("*k"))

    @property
    def annotation_type(self):
        bare = self.annotation.removeprefix("*").removeprefix("k")
        return self.annotation if bare in set(type_canonicalisation_dict.values()) else ""

    default = property(lambda self: self._param.default)
    has_default = property(lambda self: self.default is not inspect.Parameter.empty)

    def row(self):
        """For Launcher._configure."""
        number = self.annotation if self.annotation in _NUMBERS else None
        return (self.name, self.has_default, self.default if self.has_default else None, self.is_constexpr,
                bool(self.do_not_specialize), bool(self.do_not_specialize_on_alignment),
                _native.dtype_code("int1" if number == "u1" else number) if number else -1)


def type_of(value, is_const=False, specialize=True, align=True):
    """(type, attribute) of an argument as signatures have them: ("*fp32", "D"), ("constexpr", 1), ..."""
    from ..language import core
    from ..tools.tensor_descriptor import TensorDescriptor
    if value is None or isinstance(value, (JITCallable, core.constexpr, str)):
        return "constexpr", value
    if isinstance(value, bool):
        return "u1", None
    if isinstance(value, int):
        if specialize and value == 1:
            return "constexpr", 1
        name = "i32" if -2**31 <= value < 2**31 else "u64" if value >= 2**63 else "i64"
        return name, "D" if specialize and align and value % 16 == 0 else "" if specialize else None
    if isinstance(value, float):
        return "fp32", None
    if isinstance(value, tuple):
        rows = [type_of(v, is_const, specialize, align) for v in value]
        make = type(value)._make if hasattr(value, "_fields") else tuple
        return make(r[0] for r in rows), make(r[1] for r in rows)
    if isinstance(value, TensorDescriptor):
        return f"tensordesc<{_dtype_name(value.base.dtype)}{list(value.block_shape)}>", None
    if isinstance(value, core.dtype):
        return "constexpr", value
    if hasattr(value, "data_ptr"):
        name, address = _dtype_name(value.dtype), value.data_ptr()
    else:
        name, address = _native.array_type(value)
        name = name and _signature_name(name)
    if name:
        aligned = specialize and align and address % 16 == 0
        return f"*{'k' if is_const else ''}{name}", "D" if aligned else "" if specialize else None
    return type(value).__name__, None


def _signature_name(name):
    return type_canonicalisation_dict.get({"f16": "fp16", "f32": "fp32", "f64": "fp64"}.get(name, name), name)


def _dtype_name(dtype):
    return _signature_name(_native.dtype_name(_devices._dtype(dtype)))


def mangle_type(arg, specialize=False):
    return type_of(arg, specialize=specialize)[0]


# ---- interfaces and stand-ins ---------------------------------------------------------------------------------------

class KernelInterface:
    """What can be launched: kernel[grid](...)."""

    def warmup(self, *args, grid, **kwargs):
        """Compiles what a launch of these arguments needs, and runs nothing; element types stand for arrays."""
        return self.run(*map(MockTensor.wrap_dtype, args), grid=grid, warmup=True, **kwargs)

    def run(self, *args, grid, warmup, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no run()")

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


class MockTensor:
    """An array that is not there: kernel.warmup(MockTensor(torch.float32), ...)."""

    def __init__(self, dtype, shape=None, address=0):
        self.dtype, self.shape, self._address = dtype, [1] if shape is None else shape, address

    @staticmethod
    def wrap_dtype(arg):
        kind = type(arg)
        return MockTensor(arg) if (kind.__module__, kind.__name__) == ("torch", "dtype") else arg

    def stride(self):
        return tuple(itertools.accumulate(self.shape[1:], operator.mul, initial=1))[::-1]

    def data_ptr(self):
        return self._address

    @staticmethod
    def ptr_range():
        return 0


class TensorWrapper:
    """A tensor whose elements are taken for another type of the same size."""

    def __init__(self, base, dtype):
        self.base, self.dtype = base, dtype
        for name in ("data", "device", "shape"):
            setattr(self, name, getattr(base, name))

    def __str__(self):
        return f"TensorWrapper[{self.dtype}]({self.base})"

    def copy_(self, other):
        self.base.copy_(other.base)


def _of_base(name, wraps):
    """The base's method; what it gives is taken for the wrapper's type, too, where it is a tensor."""
    def method(self, *args):
        found = getattr(self.base, name)(*args)
        return TensorWrapper(found, self.dtype) if wraps else found
    return method


for _name in ("data_ptr", "stride", "element_size"):
    setattr(TensorWrapper, _name, _of_base(_name, wraps=False))
for _name in ("cpu", "clone", "to", "new_empty"):
    setattr(TensorWrapper, _name, _of_base(_name, wraps=True))


def reinterpret(tensor, dtype):
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not hasattr(base, "data_ptr"):
        raise TypeError(f"Cannot reinterpret a {type(tensor)}.")
    return base if base is not tensor and base.dtype == dtype else TensorWrapper(base, dtype)


# ---- functions that kernels call ------------------------------------------------------------------------------------

def _equal_items(a, b):
    """Whether two lists or tuples, which are made anew for each compilation, hold the same numbers, strings, objects."""
    if type(a) is not type(b) or type(a) not in (list, tuple) or len(a) != len(b):
        return False
    plain = bool, int, float, str
    return all(type(x) is type(y) and repr(x) == repr(y) if type(x) in plain else
               (x is y and not isinstance(x, JITCallable)) or _equal_items(x, y) for x, y in zip(a, b))


def get_full_name(fn):
    return f"{fn.__module__}.{fn.__qualname__}"


class JITCallable:
    """A function with its source: what kernels may call."""

    def __init__(self, fn):
        self.fn = fn
        self.signature = inspect.signature(fn)
        try:
            self.raw_src, self.starting_line_number = inspect.getsourcelines(fn)
        except (OSError, TypeError) as e:
            raise ValueError("@jit functions should be defined in a Python file, or a notebook's cell: the source of "
                             f"{getattr(fn, '__qualname__', fn)} is not to be had (exec, -c, and the prompt of Python "
                             "before 3.13 keep none)") from e
        self._fn_name = get_full_name(fn)
        self._hashed_by = None
        self._hash_lock = _forks.lock(threading.RLock)
        text = textwrap.dedent("".join(self.raw_src))
        found = re.search(r"^(async\s+)?def\s+(\w+)\s*\(", text, re.MULTILINE)
        if found is None:
            raise ValueError(f"@jit functions are made of a def, not of {getattr(fn, '__qualname__', fn)}")
        code, name = inspect.unwrap(fn).__code__, found.group(2)
        if code.co_name != name and name.isascii():  # others are normalized; the file was edited, or exec named it
            raise ValueError(f"the source of {fn.__qualname__} is not to be had: at line {self.starting_line_number} of "
                             f"{code.co_filename} stands {name}; when a file has changed, load it again before @jit")
        self._def_line = text[:found.start()].count("\n")  # decorators stand before it
        self._src = text[found.start():]
        self._src_given = True  # as it stands in the file
        self.hash_value = None
        self.used_global_vals = {}
        for name in ("__doc__", "__name__", "__qualname__", "__globals__", "__module__"):
            setattr(self, name, getattr(fn, name))

    def _scope(self):
        """Free names: of the enclosing functions, then of the module."""
        code, cells = self.fn.__code__, self.fn.__closure__ or ()
        found = {}
        for name, cell in zip(code.co_freevars, cells):
            try:
                found[name] = cell.cell_contents
            except ValueError:  # not bound yet
                pass
        return found

    def get_capture_scope(self):
        return self.__globals__ | self._scope()

    def _register(self):
        from ..compiler import errors
        indent = len(self.raw_src[self._def_line]) - len(self.raw_src[self._def_line].lstrip())
        errors.register(self.fn.__code__.co_filename, self.starting_line_number + self._def_line, self._src,
                        indent if self._src_given else 0)

    def _source(self, launch_only=False):
        """("source", ...) as native/names.c describes it. `debug` is not of it: a launch's options have that."""
        self._register()
        line = self.starting_line_number + self._def_line
        text = "".join(self.raw_src[self._def_line:]) if self._src_given else self._src
        plain = tuple(p.name for p in getattr(self, "params", ()) if p.do_not_specialize)
        unaligned = tuple(p.name for p in getattr(self, "params", ()) if p.do_not_specialize_on_alignment)
        return ("source", 1, self.fn.__code__.co_filename, text, line, self.__name__, self,
                bool(getattr(self, "noinline", False)), launch_only, getattr(self, "_must_use_result", None), plain,
                unaligned)

    def _set_hash(self, value):
        self.hash_value = value
        if value is None:
            self._reset()

    hash = property(lambda self: self.hash_value, _set_hash)

    def _reset(self):
        pass

    @property
    def cache_key(self):
        """Of the source, its place, and of all that it reaches."""
        from ._dependences import Dependences
        with self._hash_lock:
            if self.hash_value is None:
                if self._hashed_by == threading.get_ident():  # another: of this process's parent, which forked meanwhile
                    return f"recursion:{self._fn_name}"
                self._hashed_by = threading.get_ident()
                try:
                    found = Dependences(self)
                finally:
                    self._hashed_by = None
                self.used_global_vals = dict(sorted(found.used.items()))
                self.hash_value = found.key(self.starting_line_number)
            return self.hash_value

    def __hash__(self):
        return hash(self.cache_key)

    def __eq__(self, other):
        return self is other

    def parse(self):
        return ast.parse(self._src)

    @property
    def type(self):
        from ..language.core import constexpr_type
        return constexpr_type(self)

    @property
    def src(self):
        return self._src

    def _unsafe_update_src(self, new_src):
        """Functions that call this one keep the old text until their `hash` is set to None."""
        self._src, self._src_given = new_src, False
        self.hash = None


class _Compiled(dict):
    """A kernel's specializations for a device. Programs clear it to have them compiled, and hooks called, again."""

    def __init__(self, forget):
        self._forget = forget

    def clear(self):
        super().clear()
        self._forget()


class _DeviceCaches(defaultdict):
    """By the device's number; PyTorch's number of a CPU is "cpu"."""

    def __init__(self, forget):
        super().__init__(lambda: (_Compiled(forget), {}, driver.active.get_current_target(), None, None))
        self._forget = forget

    def __getitem__(self, device):
        return super().__getitem__(0 if device == "cpu" else device)

    def clear(self):
        super().clear()
        self._forget()


class JITFunction(_native.Launcher, JITCallable, KernelInterface):
    """A kernel. kernel[grid](*args, **kwargs) launches it."""

    def __init__(self, fn, version=None, do_not_specialize=None, do_not_specialize_on_alignment=None, debug=None,
                 noinline=None, repr=None, launch_metadata=None):
        _devices.see_torch()
        plain, unaligned = do_not_specialize or [], do_not_specialize_on_alignment or []
        JITCallable.__init__(self, fn)
        self.module = fn.__module__
        self.version, self.debug, self.noinline = version, debug, noinline
        self.do_not_specialize, self.do_not_specialize_on_alignment = plain, unaligned
        self._repr, self.launch_metadata = repr, launch_metadata
        self.params = [KernelParam(i, p, i in plain or p.name in plain, i in unaligned or p.name in unaligned)
                       for i, p in enumerate(self.signature.parameters.values())]
        self.arg_names = [p.name for p in self.params]
        self.constexprs = [p.num for p in self.params if p.is_constexpr]
        self.pre_run_hooks = []
        self.kernel = None
        self.device_caches = _DeviceCaches(self._forget)
        self._compiled = set()  # hashes
        self._compile_lock = _forks.lock()
        self._native_module = None
        self._constants = {}  # name -> (value, cache key) of a constexpr that no text can say
        self._held = {}       # (id of globals, name) -> (globals, name, value)
        self._preloaded = {}  # (device, key) -> a kernel that was not asked for yet
        self._configure([p.row() for p in self.params])

    def is_gluon(self):
        return False

    def repr(self, _):
        return self._fn_name if self._repr is None else self._repr(_)

    def __repr__(self):
        return f"JITFunction({self.module}:{self.fn.__qualname__})"

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")

    def __reduce__(self):
        raise TypeError(f"{self!r} cannot be pickled: import it by its module, {self.module}")

    def __copy__(self):
        return self  # as of functions

    def __deepcopy__(self, memo):
        return self

    __hash__ = JITCallable.__hash__
    __eq__ = JITCallable.__eq__

    def warmup(self, *args, grid, **kwargs):
        return self.run(*map(MockTensor.wrap_dtype, args), grid=grid, warmup=True, **kwargs)

    def add_pre_run_hook(self, hook):
        """hook(*args, **kwargs) is called before each launch."""
        assert callable(hook)
        self.pre_run_hooks.append(hook)
        self._set_slow(True)

    # ---- compiling ----

    def _module(self):
        with self._compile_lock:
            if self._native_module is None:
                from ..compiler import names
                self._native_module = names.load(self)
            return self._native_module

    def _reset(self):
        self._native_module = None
        self._held, self._preloaded = {}, {}
        if hasattr(self, "device_caches"):
            self.device_caches.clear()

    def _constexpr_text(self, value):
        """A constexpr as Python text; a name that is asked back, where there is no such text."""
        from ..language.core import _unwrap_if_constexpr
        value = _unwrap_if_constexpr(value)
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        if type(value) is float:
            return repr(value) if value - value == 0 else f"float('{value}')"
        key = value.cache_key if isinstance(value, JITCallable) else None  # its text may be set
        for name, known in self._constants.items():
            if known[1] == key and (known[0] is value or _equal_items(known[0], value)):
                return name
        name = f"_constexpr_{len(self._constants)}"
        self._constants[name] = value, key
        return name

    def _hold_globals(self):
        self._hold(list(self._held.values()))

    def _changed(self, name, before, now):
        raise RuntimeError(f"Global variable {name} has changed since we compiled this kernel, from {before} to {now}")

    def _miss(self, arguments, options, device, warmup):
        """A specialization that was not launched before."""
        _devices.see_torch()
        from ..backends.compiler import AMD_OPTIONS, Options
        from ..compiler.compiler import ASTSource, compile_source, compile_values, other_target
        for name in options:
            if name in ("device_type", "device", "stream"):
                raise AssertionError(f"{name} option is deprecated; the current one will be used")
            if name not in Options.__dataclass_fields__ and not (name in AMD_OPTIONS and _on_cpu(device)):
                raise KeyError("Keyword argument %s was specified but unrecognised" % name)
        for p in self.signature.parameters.values():
            if p.kind is inspect.Parameter.VAR_POSITIONAL:  # Triton 3.6 binds no such name; 3.8 does
                raise NameError(f"{p.name} is not defined: kernels of Triton 3.6 have no *{p.name}")
        options = {k: v for k, v in options.items() if k not in AMD_OPTIONS}
        self.cache_key  # raises where a function that it calls was compiled with another value of a global
        options["debug"] = bool(options.get("debug", self.debug) or knobs.runtime.debug)
        parsed = Options(**{k: v for k, v in options.items() if v is not None})
        rows = [self._specialize(p, arguments[p.name]) for p in self.params]
        signature = {p.name: row[0] for p, row in zip(self.params, rows)}
        constants, attrs = _leaves(arguments, rows)
        src = ASTSource(self, signature, constants, attrs)
        values = tuple(arguments.values())
        other = None if _on_cpu(device) else other_target(parsed)
        if other and not warmup:
            raise RuntimeError(f"a kernel for sm_{other.arch} does not run on this GPU: warmup() gives its texts")
        key = f"{[tuple(r) for r in rows]}{sorted(options.items(), key=str)}"
        index = driver.active.get_current_device()
        preloaded = self._preloaded.pop((index, key), None)
        if preloaded is not None:
            return preloaded
        if self._call_hook(knobs.runtime.jit_cache_hook, key, rows, src, index, parsed, warmup):
            return None

        def compile_it():
            return compile_source(src, other, parsed) if other else compile_values(self, src, values, parsed, device)

        def finish(kernel):
            self.device_caches[index][0][key] = kernel
            self._call_hook(knobs.runtime.jit_post_compile_hook, key, rows, src, index, parsed, warmup)

        mode = _async_compile.active_mode.get()
        if mode is not None:
            future = mode.submit((self.cache_key, key), compile_it, finish)
            return future if warmup else future.result()
        kernel = compile_it()
        finish(kernel)
        return kernel

    def _specialize(self, param, value):
        if param.is_constexpr:
            return "constexpr", value
        found = type_of(value, param.is_const, not param.do_not_specialize, not param.do_not_specialize_on_alignment)
        if param.annotation_type:
            number = param.annotation_type == "u1" or param.annotation_type[:2] in ("fp", "bf")
            return param.annotation_type, None if number or param.do_not_specialize else found[1]
        return found

    def _call_hook(self, hook, key, rows, src, device, options, warmup):
        if not hook:
            return None
        name = self.fn.__qualname__
        types = ", ".join(f"{p.name}: {row[0]}" for p, row in zip(self.params, rows))
        shown = (f"{name}[num_warps={options.num_warps}, num_ctas={options.num_ctas}, num_stages={options.num_stages}, "
                 f"enable_fp_fusion={options.enable_fp_fusion}, "
                 f"launch_cooperative_grid={options.launch_cooperative_grid}]({types})")
        about = {"key": key, "signature": src.signature, "device": device, "constants": src.constants,
                 "configs": [src.attrs], "is_warmup": warmup,
                 "specialization_data": _specialization_data(self, src, options, key)}
        for option in ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion", "launch_cooperative_grid",
                       "extern_libs"):
            about[option] = getattr(options, option)
        return hook(key=key, repr=shown, fn=JitFunctionInfo(self.fn.__module__, name, self), compile=about,
                    is_manual_warmup=warmup, already_compiled=False)

    def preload(self, specialization_data):
        """Compiles what specialization_data of a hook describes."""
        from ..backends.compiler import Options
        from ..compiler.compiler import ASTSource, compile_source
        from ..language import core
        data = json.loads(specialization_data)
        if data["name"] != self._fn_name:
            raise RuntimeError(
                f"Specialization data is for {data['name']} but trying to preload for {self._fn_name}")

        def value_of(v):
            if isinstance(v, dict) and "constexpr" in v:
                return core.constexpr(v["constexpr"])
            return core.dtype(v) if core.dtype.is_dtype(v) else v

        constants = {tuple(k): value_of(v) for k, v in zip(data["constant_keys"], data["constant_vals"])}
        attrs = dict(zip(map(tuple, data["attrs_keys"]), data["attrs_vals"]))
        signature = {k: _tuples(v) for k, v in data["signature"].items()}
        known = Options.__dataclass_fields__
        options = Options(**{k: _tuples(v) for k, v in data["options"].items() if k in known})
        src = ASTSource(self, signature, constants, attrs)
        index = driver.active.get_current_device()
        rows = [(t, None) for t in signature.values()]
        if self._call_hook(knobs.runtime.jit_cache_hook, data["key"], rows, src, index, options, True):
            return None
        kernel = compile_source(src, None, options)
        self.device_caches[index][0][data["key"]] = self._preloaded[index, data["key"]] = kernel
        self._call_hook(knobs.runtime.jit_post_compile_hook, data["key"], rows, src, index, options, True)
        return kernel

    # ---- launches that hooks watch ----

    def _slow(self, arguments, options, grid, warmup):
        for hook in self.pre_run_hooks:
            hook(*arguments.values(), **options)
        if warmup:
            return self._launch(arguments, options, None, True)
        enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
        if knobs.runtime.recorder is not None and grid is not None:
            grid = tuple(grid(arguments) if callable(grid) else grid)
            knobs.runtime.recorder.launch(self, arguments, options, grid)
        if not knobs.is_set(enter) and not knobs.is_set(leave):
            return self._launch(arguments, options, grid, False)
        kernel = self._launch(arguments, options, None, True)
        if kernel is None:
            return None
        size = grid(arguments) if callable(grid) else grid
        size = (*size, *([1] * (3 - len(size))))
        about = kernel.launch_metadata(size, driver.active.get_current_stream(), *arguments.values())
        if knobs.is_set(enter):
            enter(about)
        result = self._launch(arguments, options, size, False)
        if knobs.is_set(leave):
            leave(about)
        return result


def _on_cpu(device):
    return not _devices.name_of(device).startswith(("cuda", "sim"))


def _leaves(arguments, rows):
    """Values of constexprs, and attributes, by path."""
    constants, attrs = {}, {}

    def walk(path, type_, attr, value):
        if isinstance(type_, tuple):
            for i, item in enumerate(type_):
                walk((*path, i), item, attr[i], value[i])
        elif type_ == "constexpr":
            constants[path] = value
        elif attr == "D":
            attrs[path] = [["tt.divisibility", 16]]

    for i, (row, value) in enumerate(zip(rows, arguments.values())):
        walk((i,), row[0], row[1], value)
    return constants, attrs


def _tuples(v):
    return tuple(map(_tuples, v)) if isinstance(v, list) else v


def _specialization_data(fn, src, options, key):
    def value_of(v):
        kind = type(v).__name__
        return str(v) if kind == "dtype" else {"constexpr": v.value} if kind == "constexpr" else v

    data = {"name": fn._fn_name, "signature": src.signature, "constant_keys": [list(k) for k in src.constants],
            "constant_vals": [value_of(v) for v in src.constants.values()],
            "attrs_keys": [list(k) for k in src.attrs], "attrs_vals": list(src.attrs.values()),
            "options": options.__dict__, "key": key}
    return json.dumps(data, default=str)


class JitFunctionInfo:
    def __init__(self, module, name, jit_function):
        self.module, self.name, self.jit_function = module, name, jit_function


# ---- decorators -----------------------------------------------------------------------------------------------------

def jit(fn=None, *, version=None, repr=None, launch_metadata=None, do_not_specialize=None,
        do_not_specialize_on_alignment=None, debug=None, noinline=None):
    """Makes a kernel, or what kernels call, of a function.

    do_not_specialize: parameters, by name or index, whose integers are not looked at (1, multiples of 16).
    debug: device_assert checks. noinline, repr, launch_metadata, version: as in Triton."""

    def decorator(fn):
        assert callable(fn)
        return JITFunction(fn, version=version, do_not_specialize=do_not_specialize,
                           do_not_specialize_on_alignment=do_not_specialize_on_alignment, debug=debug,
                           noinline=noinline, repr=repr, launch_metadata=launch_metadata)

    return decorator if fn is None else decorator(fn)


class BoundConstexprFunction(JITCallable):
    """A constexpr function that is a method, with its object."""
    library = None

    def __init__(self, instance, fn):
        self.__name__, self.__func__, self.__self__ = fn.__name__, fn, instance

    def __call__(self, *args, **kwargs):
        return self.__func__(self.__self__, *args, **kwargs)

    cache_key = property(lambda self: self.__func__.cache_key)


class ConstexprFunction(JITCallable):
    """A Python function that kernels call on constants while they compile."""
    library = None

    def __get__(self, obj, objclass):
        return self if obj is None else BoundConstexprFunction(obj, self)

    def __call__(self, *args, _semantic=None, **kwargs):
        if _semantic is None and not kwargs and all(type(a) is int for a in args):
            return self.fn(*args)  # grids: on the way of every launch
        from ..language.core import _unwrap_if_constexpr, constexpr
        result = self.fn(*map(_unwrap_if_constexpr, args), **{k: _unwrap_if_constexpr(v) for k, v in kwargs.items()})
        return result if _semantic is None else constexpr(result)


def constexpr_function(fn):
    """A function that kernels may call with constexprs, while they compile; its result is a constexpr."""
    return ConstexprFunction(fn)


def get_jit_fn_file_line(fn):
    """The file of a kernel, and the line of its def."""
    while not isinstance(fn, JITCallable):
        fn = fn.fn
    return fn.fn.__code__.co_filename, fn.starting_line_number + fn._def_line


_devices._see_dynamo()  # where it was there before us
