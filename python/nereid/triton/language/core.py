"""The language's types, constants and names as Python objects. What runs on a device is the compiler's affair: a name
here is known to it by its full name, and called outside of a kernel it says so."""
import builtins
import enum
import inspect
import math as _math
import operator

from ... import _native
from .._utils import (TRITON_MAX_TENSOR_NUMEL, get_primitive_bitwidth, type_canonicalisation_dict,
                      validate_block_shape)

TRITON_BUILTIN = "__triton_builtin__"


# ---- constants ------------------------------------------------------------------------------------------------------

class base_value:
    """What kernels work on."""


class base_type:
    """The type of a base_value."""

    def __eq__(self, other):
        raise NotImplementedError("Types must implement __eq__")

    def __ne__(self, other):
        return not (self == other)


class const:
    """As an annotation: a pointer that the kernel does not store through."""


class constexpr_type(base_type):
    """The type of a constexpr: its value."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return isinstance(other, constexpr_type) and other.value == self.value

    def __repr__(self):
        return f"constexpr_type[{self.value}]"

    def mangle(self):
        return repr(self)


class constexpr(base_value):
    """A value that is known while a kernel is compiled. Operators give constexprs again."""

    def __init__(self, value):
        self.value = value.value if isinstance(value, constexpr) else value
        self.type = constexpr_type(self.value)

    def __bool__(self):
        return bool(self.value)

    def __index__(self):
        return self.value

    def __repr__(self):
        return f"constexpr[{self.value}]"

    def __hash__(self):
        return hash((self.value, self.type))

    def __iter__(self):
        return iter(self.value)

    def __call__(self, *args, **kwargs):
        return self.value(*args, **kwargs)

    def __getitem__(self, *args):
        return self.value.__getitem__(*(_unwrap_if_constexpr(a) for a in args))

    def __not__(self):
        return constexpr(not self.value)

    def logical_and(self, other):
        return constexpr(self.value and _unwrap_if_constexpr(other))

    def logical_or(self, other):
        return constexpr(self.value or _unwrap_if_constexpr(other))


_native.configure("constexpr", constexpr)


def _binary(op, swapped=False):
    if swapped:
        return lambda self, other: constexpr(op(_unwrap_if_constexpr(other), self.value))
    return lambda self, other: constexpr(op(self.value, _unwrap_if_constexpr(other)))


for _name in "add sub mul truediv floordiv mod pow and or xor lshift rshift".split():
    _op = getattr(operator, _name + "_" if _name in ("and", "or") else _name)
    setattr(constexpr, f"__{_name}__", _binary(_op))
    setattr(constexpr, f"__r{_name}__", _binary(_op, swapped=True))
for _name in "lt le gt ge eq ne".split():
    setattr(constexpr, f"__{_name}__", _binary(getattr(operator, _name)))
for _name in "neg pos invert".split():
    setattr(constexpr, f"__{_name}__", lambda self, op=getattr(operator, _name): constexpr(op(self.value)))

CONSTEXPR_0 = constexpr(0)


def _unwrap_if_constexpr(o):
    if isinstance(o, list):
        return [_unwrap_if_constexpr(x) for x in o]
    if isinstance(o, builtins.tuple) and not hasattr(o, "_fields"):
        return builtins.tuple(_unwrap_if_constexpr(x) for x in o)
    if isinstance(o, tuple):
        return tuple(_unwrap_if_constexpr(x) for x in o.values)
    return o.value if isinstance(o, constexpr) else o


def _unwrap_shape(shape):
    return [int(_unwrap_if_constexpr(s)) for s in _unwrap_if_constexpr(shape)]


# ---- element types --------------------------------------------------------------------------------------------------

_FLOATS = {  # name: bits of the fraction, bias of the exponent
    "fp8e4b15": (3, 15), "fp8e4nv": (3, 7), "fp8e4b8": (3, 8), "fp8e5": (2, 15), "fp8e5b16": (2, 16),
    "fp16": (10, 15), "bf16": (7, 127), "fp32": (23, 127), "fp64": (52, 1023)}


class dtype(base_type):
    """The type of an element: tl.float32, ..."""
    SINT_TYPES = ["int8", "int16", "int32", "int64"]
    UINT_TYPES = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES = list(_FLOATS)
    STANDARD_FP_TYPES = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES = ["void"]

    SIGNEDNESS = enum.Enum("SIGNEDNESS", "SIGNED UNSIGNED", start=0)
    KIND = enum.Enum("KIND", "BOOLEAN INTEGRAL FLOATING", start=0)

    def __init__(self, name):
        name = _unwrap_if_constexpr(name)
        assert dtype.is_dtype(name), name
        self.name = name
        self.primitive_bitwidth = get_primitive_bitwidth(name)
        self.itemsize = self.primitive_bitwidth // 8
        if self.is_int():
            self.int_signedness = dtype.SIGNEDNESS.SIGNED if self.is_int_signed() else dtype.SIGNEDNESS.UNSIGNED
            self.int_bitwidth = self.primitive_bitwidth
        elif self.is_floating():
            self.fp_mantissa_width, self.exponent_bias = _FLOATS[name]

    @staticmethod
    def is_dtype(name):
        return name in dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES + dtype.OTHER_TYPES

    def is_fp8(self):
        return "fp8" in self.name

    def is_int(self):
        return self.is_int_signed() or self.is_int_unsigned()

    is_floating_point = property(lambda self: self.is_floating())

    def is_bool(self):
        return self.name == "int1"

    def kind(self):
        return dtype.KIND.BOOLEAN if self.is_bool() else dtype.KIND.INTEGRAL if self.is_int() else dtype.KIND.FLOATING

    def get_int_max_value(self):
        assert self.is_int()
        return 2**(self.int_bitwidth - self.is_int_signed()) - 1

    def get_int_min_value(self):
        assert self.is_int()
        return -2**(self.int_bitwidth - 1) if self.is_int_signed() else 0

    @staticmethod
    def is_void():
        raise RuntimeError("Not implemented")

    def is_block(self):
        return False

    def is_ptr(self):
        return False

    def is_const(self):
        return False

    def __eq__(self, other):
        other = _unwrap_if_constexpr(other)
        return isinstance(other, dtype) and self.name == other.name

    def __hash__(self):
        return hash((self.name,))

    @property
    def scalar(self):
        return self

    def with_element_ty(self, element_ty):
        return element_ty

    def __str__(self):
        return self.name

    def codegen_name(self):
        for short, long in (("fp", "float"), ("bf", "bfloat")):
            if self.name.startswith(short):
                return long + self.name[2:]
        return self.name

    @property
    def cache_key_part(self):
        return self.name

    def __repr__(self):
        return f"triton.language.{self.codegen_name()}"

    def mangle(self):
        if self.is_int():
            return ("i" if self.is_int_signed() else "u") + str(self.int_bitwidth)
        return self.name if self.is_floating() else "V"


for _type in [*dtype.SINT_TYPES, *dtype.UINT_TYPES, *dtype.FP_TYPES]:
    setattr(dtype, f"is_{_type}", lambda self, name=_type: self.name == name)
for _name, _types in {"int_signed": dtype.SINT_TYPES, "int_unsigned": dtype.UINT_TYPES, "floating": dtype.FP_TYPES,
                      "standard_floating": dtype.STANDARD_FP_TYPES}.items():
    setattr(dtype, f"is_{_name}", lambda self, types=_types: self.name in types)


class pointer_type(dtype):
    def __init__(self, element_ty, address_space=1, const=False):
        element_ty = _unwrap_if_constexpr(element_ty)
        if not isinstance(element_ty, dtype):
            raise TypeError(f"element_ty has type `{type(element_ty).__name__}`; expected `dtype`.")
        self.element_ty, self.address_space, self.const = element_ty, address_space, const
        self.name = f"{'const_' if const else ''}pointer<{element_ty}>"

    def __repr__(self):
        return self.name

    def is_ptr(self):
        return True

    def is_const(self):
        return self.const

    def __eq__(self, other):
        other = _unwrap_if_constexpr(other)
        return isinstance(other, pointer_type) and (self.element_ty, self.address_space, self.const) == (
            other.element_ty, other.address_space, other.const)

    __hash__ = dtype.__hash__

    def mangle(self):
        return f"P{self.element_ty.mangle()}"


class block_type(dtype):
    def __init__(self, element_ty, shape):
        self.element_ty = element_ty
        self.shape = builtins.tuple(_unwrap_shape(shape))
        if not self.shape:
            raise TypeError("0d block_type is forbidden")
        self.numel = validate_block_shape(self.shape)
        self.name = f"<{self.shape}, {self.element_ty}>"

    def __repr__(self):
        return self.name

    def is_block(self):
        return True

    def get_block_shapes(self):
        return self.shape

    def with_element_ty(self, scalar_ty):
        return block_type(scalar_ty, self.shape)

    def __eq__(self, other):
        return isinstance(other, block_type) and (self.element_ty, self.shape) == (other.element_ty, other.shape)

    __hash__ = dtype.__hash__

    scalar = property(lambda self: self.element_ty)
    nbytes = property(lambda self: self.numel * self.element_ty.itemsize)

    def mangle(self):
        return f"{self.scalar.mangle()}S{'_'.join(map(str, self.shape))}S"


class tuple_type(base_type):
    def __init__(self, types, fields=None):
        self.types, self.fields = types, fields or [""] * len(types)
        self.name = "[" + ",".join(f"{k}:{v}" for k, v in zip(self.fields, self.types)) + "]"

    def __str__(self):
        return self.name

    def __iter__(self):
        return iter(self.types)

    def __getitem__(self, index):
        return self.types[index]

    def __eq__(self, other):
        return type(self) is type(other) and self.types == other.types and self.fields == other.fields


void = dtype("void")
int1, int8, int16, int32, int64 = map(dtype, ("int1", "int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(dtype, ("uint8", "uint16", "uint32", "uint64"))
float8e5, float8e5b16, float8e4nv = map(dtype, ("fp8e5", "fp8e5b16", "fp8e4nv"))
float8e4b8, float8e4b15 = map(dtype, ("fp8e4b8", "fp8e4b15"))
float16, bfloat16, float32, float64 = map(dtype, ("fp16", "bf16", "fp32", "fp64"))
pi32_t = pointer_type(int32)
_BY_SIGNATURE = {type_canonicalisation_dict[t.name]: t
                 for t in (int8, int16, int32, int64, uint8, uint16, uint32, uint64, int1, void, float8e5, float8e5b16,
                           float8e4nv, float8e4b8, float8e4b15, float16, bfloat16, float32, float64)}


def str_to_ty(name, c=None):
    """The type that a signature names: "*fp32", "i1", "constexpr"."""
    if isinstance(name, builtins.tuple):
        return tuple_type([str_to_ty(n, c) for n in name], getattr(name, "_fields", None))
    if name.startswith("*"):
        is_const = name[1:2] == "k"
        return pointer_type(str_to_ty(name[1 + is_const:], c), const=is_const)
    if name == "constexpr":
        return constexpr_type(c)
    return _BY_SIGNATURE[type_canonicalisation_dict[name]]


def get_int_dtype(bitwidth, signed):
    if bitwidth == 1:
        return int1
    found = _BY_SIGNATURE.get(f"{'i' if signed else 'u'}{bitwidth}")
    if found is None:
        raise ValueError(f"Unsupported bitwidth {bitwidth} and signedness {signed}")
    return found


# ---- values of kernels: for isinstance and annotations --------------------------------------------------------------

class tensor(base_value):
    """A block of elements, or one. There are such in kernels alone."""

    def __init__(self, handle, type):
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape = builtins.tuple(constexpr(s) for s in type.shape) if type.is_block() else ()
        self.numel = constexpr(_math.prod(s.value for s in self.shape))

    def __str__(self):
        return f"{self.dtype}[{', '.join(str(s.value) for s in self.shape)}]"


class tuple(base_value):
    """A tuple within a kernel."""

    def __init__(self, args, type=None):
        self.values = list(args)
        self.type = type

    def __getitem__(self, i):
        i = _unwrap_if_constexpr(i)
        return tuple(self.values[i]) if isinstance(i, slice) else self.values[i]

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __eq__(self, other):
        return constexpr(builtins.tuple(self.values) == builtins.tuple(_unwrap_if_constexpr(other)))

    def __hash__(self):
        return hash(builtins.tuple(self.values))


class tensor_descriptor_base_type(base_type):
    pass


class tensor_descriptor_type(tensor_descriptor_base_type):
    pass


class tensor_descriptor_base(base_value):
    """What loads and stores tiles of an array."""


class tensor_descriptor(tensor_descriptor_base):
    pass


class PropagateNan(enum.Enum):
    NONE = 0
    ALL = 1


PROPAGATE_NAN = PropagateNan


def _in_kernels_alone(name):
    def refuse(self):
        raise RuntimeError(f"{name} can only be used in @triton.jit'd functions")
    return refuse


class static_range(base_value):
    """range, unrolled while the kernel is compiled."""

    def __init__(self, arg1, arg2=None, step=None):
        self.start, self.end = (constexpr(0), arg1) if arg2 is None else (arg1, arg2)
        self.step = constexpr(1) if step is None else step

    __iter__ = __next__ = _in_kernels_alone("static_range")


class range(base_value):
    """range, with hints for the loop."""

    def __init__(self, arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None,
                 disallow_acc_multi_buffer=False, flatten=False, warp_specialize=False, disable_licm=False):
        self.start, self.end = (constexpr(0), arg1) if arg2 is None else (arg1, arg2)
        self.step = constexpr(1) if step is None else step

    __iter__ = __next__ = _in_kernels_alone("tl.range")


class condition(base_value):
    """The condition of a while loop, with hints."""

    def __init__(self, arg1, disable_licm=False):
        self.condition = arg1


# ---- functions ------------------------------------------------------------------------------------------------------

class Builtin:
    """A function of the language, by its full name."""
    __triton_builtin__ = True
    __module__ = "triton.language"

    def __init__(self, library, arguments=None, doc=None):
        self.library, self._arguments = library, arguments
        self.__name__ = self.__qualname__ = library.rpartition(".")[2]
        self.__doc__ = f"{self.__name__}({arguments or ''})" + (f"\n\n{doc}" if doc else "")

    def __call__(self, *args, **kwargs):
        raise ValueError(f"{self.library} is called outside of a kernel. Did you forget to add @triton.jit ? "
                         "(`_semantic` argument must be provided outside of JIT functions.)")

    def __getattr__(self, name):
        if name != "__signature__" or self._arguments is None:
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        # Programs look for `_semantic` to see which version of Triton this is.
        given = inspect.signature(eval("lambda {}: None".format(self._arguments.replace("\n", "\\n"))))
        semantic = inspect.Parameter("_semantic", inspect.Parameter.KEYWORD_ONLY, default=None)
        self.__signature__ = given.replace(parameters=[*given.parameters.values(), semantic])
        return self.__signature__

    def __repr__(self):
        return f"<function {self.library}>"

    def __reduce__(self):
        from ..compiler.names import _from_library
        return _from_library, (self.library,)


def builtin(fn):
    """Marks a function that is written against Triton's own code generator; Nereid has another."""

    def unavailable(*args, **kwargs):
        raise ValueError(f"{fn.__name__} is written for Triton's code generator, which is not here")

    unavailable.__name__, unavailable.__doc__ = fn.__name__, fn.__doc__
    setattr(unavailable, TRITON_BUILTIN, True)
    unavailable.signature = inspect.signature(fn)
    return unavailable


def is_builtin(fn):
    return getattr(fn, TRITON_BUILTIN, False)


def must_use_result(x, s=None):
    """A kernel that drops what this function returns is wrong; s says why, in the message."""
    if isinstance(x, str):
        return lambda fn: must_use_result(fn, x)
    x._must_use_result = "" if s is None else s
    return x


def _aggregate(cls):
    """A class of values whose methods are kernels' functions."""
    cls.__triton_aggregate__ = True
    cls.__triton_builtin__ = True
    cls.hash_attrs = [m for name, m in inspect.getmembers(cls)
                      if inspect.isfunction(m) or (hasattr(m, "cache_key") and hasattr(m, "fn"))]
    return cls


# ---- the table of the compiler --------------------------------------------------------------------------------------

_CLASSES = {"tensor", "tensor_descriptor", "range", "static_range", "condition", "tuple", "constexpr"}


def _functions():
    """Those that are called, by full name: (arguments, remark)."""
    found = {}
    for group, name, *_, arguments, remark, _ in _native.language():
        base, _, last = name.rpartition(".")
        full = {"tl": "triton.language", "libdevice": "triton.language.extra.cuda.libdevice"}.get(base)
        full = full or (base.replace("tl.", "triton.language.", 1) if base.startswith("tl.") else base)
        if full.startswith("triton.") and (arguments is not None or base == "libdevice"):
            found[f"{full}.{last}"] = arguments, remark, group
    return found


FUNCTIONS = _functions()
_made = {}


def function(library):
    """The one object for a name of the language."""
    if library not in _made:
        arguments, remark, _ = FUNCTIONS.get(library, (None, None, None))
        _made[library] = Builtin(library, arguments, remark)
    return _made[library]


def functions_of(module, group=None):
    """{name: object} of the functions that stand in a module of the language."""
    return {full.rpartition(".")[2]: function(full) for full, row in FUNCTIONS.items()
            if full.rpartition(".")[0] == module and (group is None or row[2] == group)}


for _name, _object in functions_of("triton.language").items():
    globals().setdefault(_name, _object)
for _name in ("extern_elementwise", "dispatch", "extern"):
    globals().setdefault(_name, Builtin(f"triton.language.core.{_name}"))
del _name, _object, _op, _type, _types
