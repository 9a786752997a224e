"""Small functions that Triton's own packages share."""
from functools import reduce
from math import prod

TRITON_MAX_TENSOR_NUMEL = 1048576

_ALIASES = {
    "u1": "bool int1 uint1 i1",
    "fp8e4nv": "float8e4nv float8_e4m3fn",
    "fp8e5": "float8e5 float8_e5m2",
    "fp8e4b15": "float8e4b15",
    "fp8e4b8": "float8e4b8 float8_e4m3fnuz",
    "fp8e5b16": "float8e5b16 float8_e5m2fnuz",
    "fp16": "half float16",
    "bf16": "bfloat16",
    "fp32": "float float32",
    "fp64": "double float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "void": "",
}
# every spelling of a type -> how signatures have it
type_canonicalisation_dict = {alias: name for name, more in _ALIASES.items() for alias in [*more.split(), name]}
BITWIDTH_DICT = {alias: 0 if name == "void" else 8 if name.startswith("fp8") else int(name.lstrip("iufbp"))
                 for alias, name in type_canonicalisation_dict.items()}


def get_primitive_bitwidth(dtype):
    return BITWIDTH_DICT[dtype]


def canonicalize_dtype(dtype):
    return type_canonicalisation_dict[str(dtype).split(".")[-1]]


def canonicalize_ptr_dtype(dtype, is_const):
    return f"*{'k' if is_const else ''}{canonicalize_dtype(dtype)}"


def is_power_of_two(x):
    return not x & (x - 1)


def _wrong_in_shape(shape):
    """The first error that a block of that shape would be, or None."""
    for at, size in enumerate(shape):
        if not isinstance(size, int):
            return TypeError(f"Shape element {at} must have type `constexpr[int]`, got `constexpr[{type(size)}]")
        if not is_power_of_two(size):
            return ValueError(f"Shape element {at} must be a power of 2")
    if prod(shape) > TRITON_MAX_TENSOR_NUMEL:
        return ValueError(f"numel ({prod(shape)}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})")
    return None


def validate_block_shape(shape):
    """How many elements a block of that shape has; an error when there can be no such block."""
    wrong = _wrong_in_shape(shape)
    if wrong:
        raise wrong
    return prod(shape)


def get_iterable_path(iterable, path):
    return reduce(lambda at, i: at[i], path, iterable)


def find_paths_if(iterable, pred):
    """The paths, as tuples of indices, of the leaves for which pred(path, leaf) is true."""
    found = []

    def walk(path, at):
        if isinstance(at, (list, tuple)):
            for i, item in enumerate(at):
                walk((*path, i), item)
        elif pred(path, at):
            found.append(path)

    walk((), iterable)
    return found


def is_namedtuple(val):
    return isinstance(val, type) and issubclass(val, tuple) and hasattr(val, "_fields")


def of_another_triton(o):
    """What o is, where it comes from a package named triton that is not this one; else None."""
    for at in (type(o), o):
        if str(getattr(at, "__module__", "")).partition(".")[0] == "triton":
            name = getattr(o, "__name__", None) or type(o).__name__
            return (f"{name} of another package that is loaded as triton: take nereid.triton's, or call "
                    "nereid.use_as_triton() before that is imported")
    return None
