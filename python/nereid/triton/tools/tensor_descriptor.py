"""Descriptors that the host makes of arrays: kernels take them as arguments."""
from dataclasses import dataclass
from typing import Any

from ... import _native
from .._utils import validate_block_shape


_TRACED = ("FakeTensor", "FunctionalTensor")  # tensors without an address


def _faults(d):
    """What is wrong with a descriptor, in the order in which it is said."""
    dtype, dims = d.base.dtype, {len(d.shape), len(d.strides), len(d.block_shape)}
    yield len(dims) > 1 and f"rank mismatch: {d}"
    yield 0 in dims and "rank must not be zero"
    yield max(dims) > 5 and "rank cannot be more than 5"
    yield type(d.base).__name__ not in _TRACED and d.base.data_ptr() % 16 and "base must be 16-byte aligned"
    yield not validate_block_shape(d.block_shape)
    yield any(s * dtype.itemsize % 16 for s in d.strides[:-1]) and "strides must be 16-byte aligned"
    yield min(d.shape) < 1 and "shape must be positive"
    yield d.strides[-1] != 1 and "Last dimension must be contiguous"
    yield d.padding not in ("zero", "nan") and "Illegal value for padding"
    yield (d.padding == "nan" and not dtype.is_floating_point
           and "Padding option `nan` is only supported for floating point tensors")


@dataclass
class TensorDescriptor:
    """shape and strides in elements; the last dimension lies side by side, the others at multiples of 16 bytes.
    padding: what is read outside: "zero" or "nan"."""
    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"

    def __post_init__(self):
        for fault in _faults(self):
            assert not fault, fault

    @staticmethod
    def from_tensor(tensor, block_shape, padding="zero"):
        return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block_shape, padding)


_native.configure("descriptor", TensorDescriptor)
