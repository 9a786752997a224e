"""Which device a launch runs on, and in which stream.

Arrays of the host run on `cpu`, arrays in CUDA memory on the GPU that is current, in PyTorch's current stream where
PyTorch is loaded, else in the one that nereid.stream() has set. NEREID_DEVICE, or set_default_device, names another
device for arrays of the host: "cpu:2", "interp", "sim"; TRITON_INTERPRET=1 means "interp".
"""
import atexit
import contextlib
import operator
import os
import sys
import threading

from . import _forks, _native
from ._native import Device

_lock = _forks.lock()
_opened = {}
_cuda_process = None  # that opened CUDA
_default = None
_chosen = threading.local()  # .stream: what `with stream()` of this thread says
_torch_seen = _dynamo_seen = False
_torch_stream = None  # PyTorch's (current stream of a device, current device), once it is there with CUDA
recorder = None  # nereid.record's


def device(name):
    """The device of that name, opened once: "cpu", "cuda:0", "interp", ..."""
    if name == "cuda":
        name = "cuda:0"
    with _lock:
        found = _opened.get(name)
        if found is None:
            found = _opened[name] = Device(name)
            if name.startswith("cuda"):
                global _cuda_process
                _cuda_process = os.getpid()
            found_names[id(found)] = name
    return found


found_names = {}  # id of a Device -> its name; devices live on


def name_of(d):
    return found_names[id(d)]


def _host_device():
    if _default and not _default.startswith("cuda"):
        return _default
    usual = "interp" if os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y") else "cpu"
    return os.environ.get("NEREID_DEVICE") or usual


def set_default_device(name):
    """For arrays of the host ("cpu", "interp", "sim"), and for what asks for a device without arrays."""
    global _default
    device(name)
    _default = name
    _native.forget_devices()


def has_cuda():
    """Whether a GPU is there that kernels can run on. Opens nothing."""
    global _cuda
    if _cuda is None:
        _cuda = any(d["name"].startswith("cuda") and d["available"] for d in _native.devices())
    return _cuda


_cuda = None


def uses_cuda():
    """Whether this process has CUDA open, by us or by PyTorch; what the parent of a fork has open it cannot use."""
    torch = sys.modules.get("torch")
    return _cuda_process == os.getpid() or torch is not None and torch.cuda.is_initialized()


def chosen_device():
    """What set_default_device or NEREID_DEVICE says, else ""."""
    return _default or os.environ.get("NEREID_DEVICE", "")


def default_device():
    """The name of the device for launches without arrays: the chosen one, else the current GPU, else cpu."""
    return chosen_device() or (f"cuda:{current_cuda()}" if has_cuda() else "cpu")


def _find(kind, index):
    """For the extension: kind 0: of arrays on the host, 1: in CUDA memory, -1: there are none."""
    see_torch()
    if kind < 0:
        return device(default_device())
    return device(f"cuda:{index}" if kind else _host_device())


def current_cuda():
    see_torch()
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_available() else 0


def _current_stream(index):
    return getattr(_chosen, "stream", 0)


def _cuda_index():
    """The current GPU, for the extension until PyTorch is loaded, which is seen here: warm launches ask nothing else."""
    if not _torch_seen and "torch" in sys.modules:
        see_torch()
        if _torch_stream is not None:
            return _torch_stream[1]()
    return 0


@contextlib.contextmanager
def stream(handle):
    """Launches of this thread within go into this CUDA stream (an integer, or what has .cuda_stream or .ptr). With
    PyTorch loaded it is PyTorch's current stream meanwhile."""
    number = getattr(handle, "cuda_stream", getattr(handle, "ptr", handle))
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"a stream is an integer, or has .cuda_stream or .ptr, unlike {handle!r}") from None
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{number} is no handle of a stream")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        known = torch.cuda.ExternalStream(number) if number else torch.cuda.default_stream()
        with torch.cuda.stream(known):
            yield
        return
    before = _current_stream(0)
    _chosen.stream = number
    try:
        yield
    finally:
        _chosen.stream = before


def current_stream(index):
    return _stream_of(index)


def is_current_stream(handle):
    """As a launch asks, that is in less than a microsecond."""
    if _torch_stream is None:
        return handle == _current_stream(0)
    of_device, device_now = _torch_stream
    return handle == of_device(device_now())


def _stream_of(index):
    see_torch()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return torch._C._cuda_getCurrentRawStream(index)
    return _current_stream(index)


def synchronize():
    """Waits for every device that was opened; reports of kernels (device_print, device_assert) are handed out."""
    for d in list(_opened.values()):
        d.synchronize()


def _see_dynamo():
    """Where a compiled function launches a kernel that Dynamo does not know (`import triton` means another package),
    it shall not trace what tunes, compiles and watches it, which is hundreds of frames. triton.cdiv and the like stay
    what it traces."""
    global _dynamo_seen
    rules, jit = sys.modules.get("torch._dynamo.trace_rules"), sys.modules.get("nereid.triton.runtime.jit")
    if _dynamo_seen or not hasattr(rules, "check_file"):  # which stands behind add(): it is still being loaded
        return
    if not hasattr(jit, "JITFunction"):  # nobody has kernels; jit says so when it is loaded
        return
    _dynamo_seen = True
    from torch._dynamo import disable
    for name in ("nereid.triton.runtime.autotuner", "nereid.triton.testing"):
        rules.add(name)
    for name in ("_miss", "_slow"):
        setattr(jit.JITFunction, name, disable(getattr(jit.JITFunction, name)))


def see_torch():
    """Tells the extension of PyTorch, once it is loaded, and Dynamo of us."""
    global _torch_seen, _torch_stream
    _see_dynamo()
    torch = None if _torch_seen else sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn") or not hasattr(torch.nn, "Parameter"):
        return
    _torch_seen = True
    _native.configure("tensor", torch.Tensor)
    _native.configure("parameter", torch.nn.Parameter)
    _native.configure("is_cuda", torch._C.TensorBase.is_cuda)
    _native.configure("dtype_of", torch._C.TensorBase.dtype)
    _native.configure("data_ptr", torch._C.TensorBase.data_ptr)
    if torch.cuda.is_available():
        _native.configure("cuda_index", torch._C._cuda_getDevice)
        _native.configure("cuda_stream", torch._C._cuda_getCurrentRawStream)
        _torch_stream = torch._C._cuda_getCurrentRawStream, torch._C._cuda_getDevice


def _extent(o):
    """(address, bytes) of the memory that an array is part of, as far as it says."""
    o = getattr(o, "base", None) if hasattr(o, "block_shape") else o  # a descriptor
    while type(o).__name__ == "TensorWrapper":
        o = o.base
    if hasattr(o, "untyped_storage"):
        storage = o.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    return _native.array_extent(o)


def _memory(arguments):
    """For the extension: the arrays of a launch, for a device that checks accesses."""
    found, todo = [], list(arguments.values())
    while todo:
        o = todo.pop()
        if isinstance(o, tuple):
            todo += o
        elif o is not None and not isinstance(o, (bool, int, float, str)):
            extent = _extent(o)
            if extent and extent[1]:
                found.append(extent)
    merged = []
    for address, size in sorted(found):
        if merged and address < merged[-1][0] + merged[-1][1]:
            before = merged[-1][0]
            merged[-1] = before, max(merged[-1][1], address + size - before)
        else:
            merged.append((address, size))
    return merged


def _dtype(o):
    """The code of an element type: torch's, NumPy's, the language's, or a name."""
    name = getattr(o, "name", None)  # NumPy, tl.dtype
    if not isinstance(name, str):
        name = str(o)
    name = name.rsplit(".", 1)[-1]
    return _native.dtype_code(_TORCH_NAMES.get(name, name))


_TORCH_NAMES = {"float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3fnuz": "fp8e4b8",
                "float8_e5m2fnuz": "fp8e5b16", "bool": "int1", "uint1": "int1", "half": "float16", "float": "float32",
                "double": "float64", "int": "int32", "long": "int64", "short": "int16", "byte": "uint8"}


def _print(line):
    sys.stdout.write(line + "\n")


_native.configure("dtype", _dtype)
_native.configure("device", _find)
_native.configure("cuda_index", _cuda_index)
_native.configure("cuda_stream", _current_stream)
_native.configure("print", _print)
_native.configure("memory", _memory)


@atexit.register
def _at_exit():
    for name, d in list(_opened.items()):
        if name.startswith("cuda") and os.getpid() == _cuda_process:  # a child of fork has no work there
            try:
                d.synchronize()
            except Exception as e:  # nobody can catch it any more
                print(f"nereid: {e}", file=sys.stderr)
