"""Nereid from Python, as much as the benchmarks need: one device, kernels of a file, launches (on a GPU in PyTorch's stream)."""
import ctypes as C
import math
import os

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DTYPES = {torch.bool: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.uint8: 5, torch.float8_e5m2: 9,
          torch.float8_e4m3fn: 10, torch.float16: 14, torch.bfloat16: 15, torch.float32: 16, torch.float64: 17}


class Arg(C.Structure):
    pass


Arg._fields_ = [("kind", C.c_int), ("name", C.c_char_p), ("dtype", C.c_int), ("has_dtype", C.c_bool), ("pointer", C.c_void_p),
                ("i", C.c_int64), ("is_unsigned", C.c_bool), ("f", C.c_double), ("text", C.c_char_p), ("rank", C.c_int),
                ("shape", C.c_int64 * 5), ("strides", C.c_int64 * 5), ("block_shape", C.c_int32 * 5), ("nan_padding", C.c_bool),
                ("item_count", C.c_int), ("items", C.POINTER(Arg)), ("bytes", C.c_int64)]
POINTER, INT, FLOAT, BOOL, NONE, CONSTEXPR = range(6)


class Info(C.Structure):
    _fields_ = [("front_ms", C.c_double), ("backend_ms", C.c_double), ("compiler_ms", C.c_double), ("from_cache", C.c_bool),
                ("peak_bytes", C.c_int64), ("num_warps", C.c_int), ("num_stages", C.c_int), ("more", C.c_int64 * 32)]


def argument(v):
    a = Arg()
    if isinstance(v, torch.Tensor):
        a.kind, a.dtype, a.pointer = POINTER, DTYPES[v.dtype], v.data_ptr()
    elif isinstance(v, bool):
        a.kind, a.i = BOOL, v
    elif isinstance(v, int):
        a.kind, a.i = INT, v
    elif isinstance(v, float):
        a.kind, a.f = FLOAT, v
    else:
        raise TypeError(f"an argument of type {type(v).__name__}")
    return a


class Nereid:
    def __init__(self, device="cuda:0", library=None):
        self.lib = C.CDLL(library or os.environ.get("NEREID_LIBRARY", os.path.join(ROOT, "build/lib/libnereid.so")))
        self.lib.nereid_error_text.restype = C.c_char_p
        self.error = C.c_void_p()
        self.device = C.c_void_p()
        self.call("nereid_device_open", device.encode(), C.byref(self.device))
        self.stream = C.c_void_p()
        if device.startswith("cuda"):
            self.call("nereid_stream_wrap", self.device, C.c_void_p(torch.cuda.current_stream().cuda_stream), C.byref(self.stream))
        self.modules = {}

    def call(self, name, *args):
        if getattr(self.lib, name)(*args, C.byref(self.error)):
            raise RuntimeError(self.lib.nereid_error_text(self.error).decode())

    def tensor(self, shape, dtype):
        """A tensor in memory of this device, a CPU."""
        n = math.prod(shape) * dtype.itemsize
        at = C.c_void_p()
        self.call("nereid_alloc", self.device, C.c_int64(n), C.byref(at))
        return torch.frombuffer((C.c_char * n).from_address(at.value), dtype=dtype).view(shape)

    def module(self, path):
        if path not in self.modules:
            self.modules[path] = C.c_void_p()
            self.call("nereid_module_load", path.encode(), C.byref(self.modules[path]))
        return self.modules[path]

    def compile(self, path, kernel, args, constexprs, warps):
        """A function without arguments per grid: launches on PyTorch's stream."""
        values = [argument(v) for v in args]
        options = (C.c_int * 128)()  # nereid_options, which begins with num_warps, num_stages, num_ctas
        options[0] = warps
        for k, v in constexprs.items():
            if k in ("num_stages", "num_ctas"):
                options[1 if k == "num_stages" else 2] = v
                continue
            a = Arg()
            a.kind, a.name, a.text = CONSTEXPR, k.encode(), repr(v).encode()
            values.append(a)
        array = (Arg * len(values))(*values)
        function = C.c_void_p()
        self.call("nereid_compile", self.device, self.module(path), kernel.encode(), array, len(values), options, C.byref(function))
        run, error, stream, n = self.lib.nereid_run, C.byref(self.error), self.stream, len(values)

        def launch(grid, keep=args):  # keep: the tensors live as long as the launcher
            g = (C.c_int64 * 3)(*(tuple(grid) + (1, 1, 1))[:3])

            def go():
                if run(function, stream, g, array, n, error):
                    raise RuntimeError(self.lib.nereid_error_text(self.error).decode())
            return go
        return launch

    def info(self, function):
        info = Info()
        self.lib.nereid_function_get_info(function, C.byref(info))
        return info
