"""nereid_fuse and nereid_fusion_run from Python, on PyTorch's tensors."""
import ctypes as C
import time

import torch
from nereid_ctypes import DTYPES, Nereid as Base

MAX_DIMS = 16
BACK = {v: k for k, v in DTYPES.items()}


class Input(C.Structure):
    _fields_ = [("name", C.c_char_p), ("text", C.c_char_p), ("dtype", C.c_int), ("rank", C.c_int), ("shape", C.c_int64 * MAX_DIMS)]


class Info(C.Structure):
    _fields_ = [("name", C.c_char_p), ("dtype", C.c_int), ("rank", C.c_int), ("shape", C.c_int64 * MAX_DIMS), ("is_written", C.c_bool), ("is_state", C.c_bool),
                ("narrowest", C.c_int), ("reserved", C.c_uint64 * 4)]


class Options(C.Structure):
    _fields_ = [("eager", C.c_bool), ("no_online", C.c_bool), ("seed", C.c_uint64), ("grad", C.c_char_p), ("limits", C.c_int64 * 8),
                ("device", C.c_void_p), ("products", C.c_int), ("layouts", C.c_int), ("reserved", C.c_uint64 * 7)]
PRODUCTS = {"auto": 0, "own": 1, "library": 2}
LAYOUTS = {"auto": 0, "contiguous": 1, "channels_last": 2}


class Nereid(Base):
    def __init__(self, device):
        super().__init__(device)
        self.cuda = device.startswith("cuda")
        for f in ("nereid_fusion_input", "nereid_fusion_output"):
            getattr(self.lib, f).restype = Info
        self.lib.nereid_fusion_text.restype = C.c_char_p

    def own(self, v):
        """A row-major tensor with v's values, in memory of the device."""
        if self.cuda:
            return v.detach().clone(memory_format=torch.contiguous_format)
        n = self.empty(v.shape, v.dtype)
        n.copy_(v.detach())
        return n

    def empty(self, shape, dtype):
        if self.cuda:
            return torch.empty(tuple(shape), dtype=dtype, device="cuda")
        if not torch.Size(shape).numel():
            return torch.empty(tuple(shape), dtype=dtype)
        return self.tensor(tuple(shape), dtype)


class Fused:
    """A program on tensors that stay where they are: inputs by name, or in order."""

    def __init__(self, nereid, path, function, inputs, products="auto", layouts="auto"):
        self.n, lib = nereid, nereid.lib
        self.again = lambda **options: Fused(nereid, path, function, inputs, **options)
        self.fusion = C.c_void_p()
        by_name = inputs if isinstance(inputs, dict) else {}
        array = (Input * (len(by_name) + 1))()
        for i, (name, v) in enumerate(by_name.items()):
            array[i].name = name.encode()
            if isinstance(v, torch.Tensor):
                array[i].dtype, array[i].rank = DTYPES[v.dtype], v.dim()
                array[i].shape[:v.dim()] = list(v.shape)
            else:
                array[i].text = repr(v).encode()
        begin = time.perf_counter()
        nereid.call("nereid_fuse", path.encode(), function.encode() if function else None, array, len(by_name),
                    C.byref(Options(device=nereid.device, products=PRODUCTS[products], layouts=LAYOUTS[layouts])), C.byref(self.fusion))
        self.build_ms = (time.perf_counter() - begin) * 1e3
        infos = [lib.nereid_fusion_input(self.fusion, i) for i in range(lib.nereid_fusion_input_count(self.fusion))]
        self.inputs = [by_name[i.name.decode()] for i in infos] if by_name else [v for v in inputs if isinstance(v, torch.Tensor)]
        for v, i in zip(self.inputs, infos):
            if list(v.shape) != i.shape[:i.rank] or DTYPES[v.dtype] != i.dtype or not v.is_contiguous():
                raise RuntimeError(f"the input {i.name.decode()} is {list(i.shape[:i.rank])}, and not {list(v.shape)}")
        if len(self.inputs) != len(infos):
            raise RuntimeError(f"{len(infos)} inputs are wanted, and not {len(self.inputs)}")
        outs = [lib.nereid_fusion_output(self.fusion, i) for i in range(lib.nereid_fusion_output_count(self.fusion))]
        self.outputs = [None if i.rank < 0 else nereid.empty(i.shape[:i.rank], BACK[i.dtype]) for i in outs]
        self.at_in, self.at_out = self.pointers(self.inputs), self.pointers(self.outputs)
        self.kernels = lib.nereid_fusion_kernel_count(self.fusion)
        written = [v for v, i in zip(self.inputs, infos) if i.is_written]
        self.bytes = sum(v.numel() * v.element_size() for v in self.inputs + [v for v in self.outputs if v is not None] + written)
        self.call, self.error = lib.nereid_fusion_run, C.byref(nereid.error)

    @staticmethod
    def pointers(tensors):
        return (C.c_void_p * (len(tensors) + 1))(*[0 if v is None else v.data_ptr() for v in tensors])

    def run(self):
        if self.call(self.fusion, self.n.device, self.n.stream, self.at_in, self.at_out, self.error):
            raise RuntimeError(self.n.lib.nereid_error_text(self.n.error).decode())

    def text(self, what):
        return self.n.lib.nereid_fusion_text(self.fusion, what.encode()).decode()

    def measured(self):
        """What the plan says of products: who was the fastest."""
        text = self.n.lib.nereid_fusion_text(self.fusion, b"explain").decode()
        return [line.strip() for line in text.splitlines() if "as measured" in line]

    def free(self):
        self.n.lib.nereid_fusion_free(self.fusion)
        self.fusion = None
