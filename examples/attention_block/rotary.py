"""What an attention block has between its products: rotary position embedding, and the heads side by side again."""
import triton
import triton.language as tl


@triton.jit
def rotary(qkv_ptr, q_ptr, k_ptr, v_ptr, n, log2_base, HEADS: tl.constexpr, D: tl.constexpr):
    """Row r of qkv, [n, 3 * HEADS * D], becomes row r of each head of q, k and v, [HEADS, n, D]; q and k are rotated: of
    each head, elements i and i + D / 2 by the angle r / base^(2 i / D). Grid: (n, HEADS)."""
    row = tl.program_id(0)
    head = tl.program_id(1)
    i = tl.arange(0, D // 2)
    angle = row.to(tl.float32) * tl.exp2(-log2_base * (2 * i).to(tl.float32) / D)
    sin = tl.sin(angle)
    cos = tl.cos(angle)
    out = (head * n + row) * D + i
    qkv = qkv_ptr + row * (3 * HEADS * D) + head * D + i
    q1 = tl.load(qkv).to(tl.float32)
    q2 = tl.load(qkv + D // 2).to(tl.float32)
    k1 = tl.load(qkv + HEADS * D).to(tl.float32)
    k2 = tl.load(qkv + HEADS * D + D // 2).to(tl.float32)
    tl.store(q_ptr + out, q1 * cos - q2 * sin)
    tl.store(q_ptr + out + D // 2, q2 * cos + q1 * sin)
    tl.store(k_ptr + out, k1 * cos - k2 * sin)
    tl.store(k_ptr + out + D // 2, k2 * cos + k1 * sin)
    tl.store(v_ptr + out, tl.load(qkv + 2 * HEADS * D))
    tl.store(v_ptr + out + D // 2, tl.load(qkv + 2 * HEADS * D + D // 2))


@triton.jit
def merge_heads(x_ptr, out_ptr, n, HEADS: tl.constexpr, D: tl.constexpr):
    """[HEADS, n, D] -> [n, HEADS * D]. Grid: (n, HEADS)."""
    row = tl.program_id(0)
    head = tl.program_id(1)
    i = tl.arange(0, D)
    tl.store(out_ptr + row * (HEADS * D) + head * D + i, tl.load(x_ptr + (head * n + row) * D + i))
