"""Decoding with multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434), over pages.

All heads share one key a token, of LATENT + ROPE numbers (512 + 64); its first LATENT are the value, too. (Each head's own projections
of key and value are absorbed into q and into what follows.) So a tile of heads reads every number of the cache once for two products.

    q: [batch, heads, LATENT + ROPE]                  cache: [pages, PAGE, LATENT + ROPE]
    lengths: [batch] int32                            page_table: [batch, table_stride] int32
    partial: [batch, heads, SPLITS, LATENT] fp32      lse: [batch, heads, SPLITS] fp32

Key j of sequence i is row j % PAGE of page page_table[i, j // PAGE]. attention_decode.py:combine_splits makes out: [batch, heads, LATENT]
of partial and lse.
"""
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def mla_decode(q_ptr, cache_ptr, partial_ptr, lse_ptr, page_table_ptr, lengths_ptr, table_stride, heads, scale, LATENT: tl.constexpr,
               ROPE: tl.constexpr, PAGE: tl.constexpr, SPLITS: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr):
    """BLOCK_H heads, 16 to 64 (the sums of 128 take all registers of a multiprocessor), against one split of a sequence's keys.

    The programs of a sequence's heads are neighbours, so that they find its keys in the L2 cache. Grid: (cdiv(heads, BLOCK_H), batch, SPLITS).
    """
    ROW: tl.constexpr = LATENT + ROPE
    sequence = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(lengths_ptr + sequence)
    each = tl.cdiv(tl.cdiv(length, BLOCK_N), SPLITS) * BLOCK_N
    end = min(length, (split + 1) * each)
    head = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)
    rows = sequence * heads + head
    d = tl.arange(0, LATENT)
    r = tl.arange(0, ROPE)
    q = tl.load(q_ptr + rows[:, None] * ROW + d[None, :], mask=head[:, None] < heads, other=0.0)
    q_rope = tl.load(q_ptr + rows[:, None] * ROW + LATENT + r[None, :], mask=head[:, None] < heads, other=0.0)
    acc = tl.zeros([BLOCK_H, LATENT], tl.float32)
    row_max = tl.full([BLOCK_H], -float("inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_H], tl.float32)
    for start in range(split * each, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        page = tl.load(page_table_ptr + sequence * table_stride + cols // PAGE, mask=cols < end, other=0)
        at = (page.to(tl.int64) * PAGE + cols % PAGE) * ROW
        latent = tl.load(cache_ptr + at[:, None] + d[None, :], mask=cols[:, None] < end, other=0.0)
        rope = tl.load(cache_ptr + at[:, None] + LATENT + r[None, :], mask=cols[:, None] < end, other=0.0)
        s = tl.dot(q, tl.trans(latent), input_precision="ieee")
        s = tl.dot(q_rope, tl.trans(rope), s, input_precision="ieee") * (scale * LOG2_E)
        s = tl.where(cols[None, :] < end, s, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        p = tl.exp2(s - new_max[:, None])
        grow = tl.exp2(row_max - new_max)
        row_sum = row_sum * grow + tl.sum(p, axis=1)
        acc = tl.dot(p.to(latent.dtype), latent, acc * grow[:, None], input_precision="ieee")
        row_max = new_max
    partial = acc / tl.where(row_sum == 0.0, 1.0, row_sum)[:, None]
    at_split = rows.to(tl.int64) * SPLITS + split
    tl.store(partial_ptr + at_split[:, None] * LATENT + d[None, :], partial, mask=head[:, None] < heads)
    tl.store(lse_ptr + at_split, row_max + tl.log2(row_sum), mask=head < heads)
