"""Descriptors of arrays whose rows belong to slices of unequal lengths: what a kernel loads from or stores to one slice
never reaches the next.

A tensor descriptor bounds what it reads by its shape, which is the same for every slice. Here the ragged dim gets BOUND
rows, and a slice is moved up until it ends there: row r of a slice is at BOUND - size + r, so that rows behind the slice
are those that the descriptor has not. Two dims before it move the address back. The first has a stride that, BOUND
times, comes to -BOUND rows, since addresses wrap around at 64 bits; the second goes by rows, to the slice's end:

    BOUND * (2**34 - stride) + (offset + size) * stride + (BOUND - size + r) * stride  =  2**64 + (offset + r) * stride
"""
from .. import jit, language as tl
from .tensor_descriptor import TensorDescriptor

BOUND = tl.constexpr(2**30)
_MOST = 0x7FFF0000  # of a dim that bounds nothing


def create_ragged_descriptor(T, block_shape, ragged_dim=0):
    """Of an array of 2 or 3 dims, of which the last is not ragged; block_shape: as the kernel has it."""
    shape, strides, block_shape = list(T.shape), list(T.stride()), list(block_shape)
    rank = len(shape)
    ragged_dim += rank if ragged_dim < 0 else 0
    assert 2 <= rank <= 3, f"ragged descriptors have 2 or 3 dims, not {rank}"
    assert 0 <= ragged_dim < rank - 1, f"dim {ragged_dim} of {rank} cannot be ragged: the last one has to lie close"
    assert len(block_shape) == rank, f"a block of {len(block_shape)} dims for an array of {rank}"
    assert shape[ragged_dim] <= BOUND.value, f"a ragged dim has at most {BOUND.value} rows, not {shape[ragged_dim]}"
    stride = strides[ragged_dim]
    shape[ragged_dim] = BOUND.value
    return TensorDescriptor(T, [_MOST, _MOST, *shape], [2**34 - stride, stride, *strides], [1, 1, *block_shape])


@jit
def to_ragged_indices(slice_off, slice_size, row):
    """The indices of both dims in front, and the one of the ragged dim."""
    return BOUND, slice_off + slice_size, BOUND - slice_size + row


@jit
def _corner(slice_off, slice_size, coords, ragged_dim: tl.constexpr):
    first, second, row = to_ragged_indices(slice_off, slice_size, coords[ragged_dim])
    return [first, second] + coords[:ragged_dim] + [row] + coords[ragged_dim + 1:]


@jit
def load_ragged(TMA, slice_off, slice_size, coords, ragged_dim: tl.constexpr = 0):
    """A block of rows slice_off to slice_off + slice_size of the array, at coords of that slice; zeros beyond it."""
    tl.static_assert(len(TMA.shape) == len(coords) + 2, "load_ragged takes what create_ragged_descriptor makes")
    block = TMA.load(_corner(slice_off, slice_size, coords, ragged_dim))
    return tl.reshape(block, block.shape[2:])


@jit
def store_ragged(TMA, slice_off, slice_size, coords, data, ragged_dim: tl.constexpr = 0):
    """What load_ragged would load gets data; what is beyond the slice stays."""
    TMA.store(_corner(slice_off, slice_size, coords, ragged_dim), tl.reshape(data, [1, 1] + data.shape))


@jit
def atomic_add_ragged(TMA, slice_off, slice_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Adds data to what load_ragged would load."""
    TMA.atomic_add(_corner(slice_off, slice_size, coords, ragged_dim), tl.reshape(data, [1, 1] + data.shape))
