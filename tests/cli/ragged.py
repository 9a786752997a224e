"""Kernels whose loops, masks and addresses integer arrays decide; check_report and check_bench count them."""
import triton
import triton.language as tl


@triton.jit
def paged(q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, out_ptr, pages, scale, PAGE: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0)
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    length = tl.load(lengths_ptr + row)
    d = tl.arange(0, D)
    t = tl.arange(0, PAGE)
    q = tl.load(q_ptr + (row * heads + head) * D + d) * scale
    m = -float("inf")
    total = 0.0
    acc = tl.zeros([D], tl.float32)
    for first in range(0, length, PAGE):
        page = tl.load(table_ptr + row * pages + first // PAGE).to(tl.int64)
        at = ((page * PAGE + t[:, None]) * heads + head) * D + d[None, :]
        inside = first + t < length
        k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
        s = tl.where(inside, tl.sum(k * q[None, :], axis=1), -float("inf"))
        top = tl.maximum(m, tl.max(s, axis=0))
        p = tl.exp(s - top)
        shrink = tl.exp(m - top)
        total = total * shrink + tl.sum(p, axis=0)
        v = tl.load(v_ptr + at, mask=inside[:, None], other=0.0)
        acc = acc * shrink + tl.sum(p[:, None] * v, axis=0)
        m = top
    tl.store(out_ptr + (row * heads + head) * D + d, acc / total)


@triton.jit
def varlen(x_ptr, starts_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = tl.load(starts_ptr + row)
    end = tl.load(starts_ptr + row + 1)
    i = tl.arange(0, BLOCK)
    sum = tl.zeros([BLOCK], tl.float32)
    for first in range(start, end, BLOCK):
        mask = first + i < end
        at = tl.load(index_ptr + first + i, mask=mask, other=0)
        sum += tl.load(x_ptr + at, mask=mask, other=0.0)
    tl.store(out_ptr + row, tl.sum(sum, axis=0))


@triton.jit
def lengthen(lengths_ptr, by):
    row = tl.program_id(0)
    tl.store(lengths_ptr + row, tl.load(lengths_ptr + row) + by)
