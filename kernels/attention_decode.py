"""Attention of one new query a sequence over keys and values in pages (Kwon et al., "PagedAttention", arXiv 2309.06180).

    q, out: [batch, heads, D]                         k_cache, v_cache: [pages, PAGE, heads // GROUP, D]
    lengths: [batch] int32                            page_table: [batch, table_stride] int32
    partial: [batch, heads, SPLITS, D] fp32           lse: [batch, heads, SPLITS] fp32

Key j of sequence i is row j % PAGE of page page_table[i, j // PAGE]. A batch has too few heads to fill a GPU, so each sequence's keys
are split among SPLITS programs ("flash decoding"): attention_decode writes what each makes of its keys, with lse, the log2 of its sum;
combine_splits weighs them by it. The GROUP query heads that share a head of keys are the rows of one tile, so each key is read
once; dot wants 16 rows, and those beyond GROUP are zero. An empty sequence gets out = 0.
"""
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def split_of(length, split, SPLITS: tl.constexpr, BLOCK_N: tl.constexpr):
    """The keys begin .. end - 1 of this split: whole blocks, as many for each; none where the blocks do not suffice."""
    each = tl.cdiv(tl.cdiv(length, BLOCK_N), SPLITS) * BLOCK_N
    return split * each, min(length, (split + 1) * each)


@triton.jit
def attention_decode(q_ptr, k_ptr, v_ptr, partial_ptr, lse_ptr, page_table_ptr, lengths_ptr, table_stride, heads, scale,
                     D: tl.constexpr, GROUP: tl.constexpr, PAGE: tl.constexpr, SPLITS: tl.constexpr, BLOCK_H: tl.constexpr,
                     BLOCK_N: tl.constexpr):
    """Grid: (batch, heads // GROUP, SPLITS). BLOCK_H: 16, or more for a larger GROUP."""
    WIDTH: tl.constexpr = triton.next_power_of_2(D)
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    begin, end = split_of(tl.load(lengths_ptr + sequence), split, SPLITS, BLOCK_N)
    member = tl.arange(0, BLOCK_H)
    rows = sequence * heads + kv_head * GROUP + member
    d = tl.arange(0, WIDTH)
    of_group = (member[:, None] < GROUP) & (d[None, :] < D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :], mask=of_group, other=0.0)
    acc = tl.zeros([BLOCK_H, WIDTH], tl.float32)
    row_max = tl.full([BLOCK_H], -float("inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_H], tl.float32)
    for start in range(begin, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        page = tl.load(page_table_ptr + sequence * table_stride + cols // PAGE, mask=cols < end, other=0)
        slot = page.to(tl.int64) * PAGE + cols % PAGE
        at = (slot * (heads // GROUP) + kv_head) * D
        there = (cols[:, None] < end) & (d[None, :] < D)
        k = tl.load(k_ptr + at[:, None] + d[None, :], mask=there, other=0.0)
        v = tl.load(v_ptr + at[:, None] + d[None, :], mask=there, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2_E)
        s = tl.where(cols[None, :] < end, s, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        p = tl.exp2(s - new_max[:, None])
        grow = tl.exp2(row_max - new_max)
        row_sum = row_sum * grow + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * grow[:, None], input_precision="ieee")
        row_max = new_max
    partial = acc / tl.where(row_sum == 0.0, 1.0, row_sum)[:, None]
    at_split = rows.to(tl.int64) * SPLITS + split
    tl.store(partial_ptr + at_split[:, None] * D + d[None, :], partial, mask=of_group)
    tl.store(lse_ptr + at_split, row_max + tl.log2(row_sum), mask=member < GROUP)


@triton.jit
def combine_splits(partial_ptr, lse_ptr, out_ptr, D: tl.constexpr, SPLITS: tl.constexpr, BLOCK_D: tl.constexpr):
    """out = sum over the splits of their share of the whole sum, exp2(lse), times partial.

    SPLITS is a power of two. Grid: (batch * heads, cdiv(D, BLOCK_D)).
    """
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    lse = tl.load(lse_ptr + row * SPLITS + split)
    partial = tl.load(partial_ptr + (row * SPLITS + split[:, None]) * D + d[None, :], mask=d[None, :] < D, other=0.0)
    top = tl.max(lse, axis=0)
    weight = tl.exp2(lse - tl.where(top == -float("inf"), 0.0, top))  # all are empty: 0, not NaN
    total = tl.sum(weight, axis=0)
    out = tl.sum(weight[:, None] * partial, axis=0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + row * D + d, out.to(out_ptr.dtype.element_ty), mask=d < D)
