"""Embedding: rows of a table by index, and the gradient's rows added back."""
import triton
import triton.language as tl


@triton.jit
def embedding(table_ptr, index_ptr, out_ptr, width, BLOCK: tl.constexpr):
    """out[i, :] = table[index[i], :].

    table: [rows, width], out: [n, width], contiguous, one type; index: [n] int, each in [0, rows). BLOCK >= width. Grid: (n,).
    """
    i = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < width
    row = tl.load(index_ptr + i).to(tl.int64)
    tl.store(out_ptr + i * width + cols, tl.load(table_ptr + row * width + cols, mask=mask), mask=mask)


@triton.jit
def embedding_backward(grad_ptr, index_ptr, dtable_ptr, width, BLOCK: tl.constexpr):
    """dtable[index[i], :] += grad[i, :], with one atomic addition an element.

    grad: [n, width] any float type, dtable: [rows, width] fp32, contiguous; index: [n] int. BLOCK >= width. Grid: (n,).
    """
    i = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < width
    row = tl.load(index_ptr + i).to(tl.int64)
    grad = tl.load(grad_ptr + i * width + cols, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(dtable_ptr + row * width + cols, grad, mask=mask, sem="relaxed")
