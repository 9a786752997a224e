"""What a machine can do at most: the kernels by which `nereid roofline` measures it.

Each does one thing and as much of it as it can: read, write or copy a working set over and over, so that it is found in the cache that
holds it; multiply and add in registers; take exponentials. `doubling` is the roofline's experiment itself: one array, read once and
written once, and a growing number of operations on each element in between.
"""
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["blocks", "iterations", "shift"])
def read(x_ptr, out_ptr, blocks, iterations, shift, BLOCK: tl.constexpr, EACH: tl.constexpr):
    """Each program sums its slice of `blocks` blocks, `iterations` times; with shift 1 another program's slice in each
    iteration. EACH: a sum for each element of a block, as threads keep them in registers of their own; else one, which a
    processor's loop over a block keeps there."""
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    sums = tl.zeros([BLOCK], tl.float32)
    total = 0.0
    for iteration in range(iterations):
        start = ((pid + iteration * shift) % programs).to(tl.int64) * blocks * BLOCK
        for block in range(blocks):
            x = tl.load(x_ptr + start + block * BLOCK + tl.arange(0, BLOCK))
            if EACH:
                sums += x
            else:
                total += tl.sum(x)
    tl.store(out_ptr + pid, total + tl.sum(sums))


@triton.jit(do_not_specialize=["blocks", "iterations", "shift"])
def write(out_ptr, blocks, iterations, shift, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    for iteration in range(iterations):
        start = ((pid + iteration * shift) % programs).to(tl.int64) * blocks * BLOCK
        value = tl.zeros([BLOCK], tl.float32) + iteration
        for block in range(blocks):
            tl.store(out_ptr + start + block * BLOCK + tl.arange(0, BLOCK), value)


@triton.jit(do_not_specialize=["blocks", "iterations", "shift"])
def copy(x_ptr, out_ptr, blocks, iterations, shift, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    for iteration in range(iterations):
        start = ((pid + iteration * shift) % programs).to(tl.int64) * blocks * BLOCK
        for block in range(blocks):
            offsets = start + block * BLOCK + tl.arange(0, BLOCK)
            tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit(do_not_specialize=["iterations", "a", "b"])
def multiply_add(x_ptr, iterations, a, b, FUSED: tl.constexpr, BLOCK: tl.constexpr, CHAIN: tl.constexpr):
    """CHAIN multiply-adds an iteration on each element, of x's type. None of them can be left out."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    a = tl.zeros([BLOCK], x.dtype) + a.to(x.dtype)
    b = tl.zeros([BLOCK], x.dtype) + b.to(x.dtype)
    for iteration in range(iterations):
        for _ in tl.static_range(CHAIN):
            if FUSED:
                x = tl.fma(x, a, b)
            else:
                x = x * a + b
    tl.store(x_ptr + offsets, x)


@triton.jit(do_not_specialize=["iterations"])
def exponential(x_ptr, iterations, BLOCK: tl.constexpr, CHAIN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    for iteration in range(iterations):
        for _ in tl.static_range(CHAIN):
            x = tl.exp(-x)
    tl.store(x_ptr + offsets, x)


@triton.jit(do_not_specialize=["iterations"])
def divide(x_ptr, iterations, a, BLOCK: tl.constexpr, CHAIN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    for iteration in range(iterations):
        for _ in tl.static_range(CHAIN):
            x = a / x
    tl.store(x_ptr + offsets, x)


@triton.jit
def nothing():
    pass


@triton.jit
def doubling(x_ptr, out_ptr, n, factor, REPEAT: tl.constexpr, BLOCK: tl.constexpr):
    """out = x * factor * factor * ...: REPEAT operations an element, whatever REPEAT is the same bytes."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    factor = factor.to(x.dtype)
    if REPEAT <= 64:
        for _ in tl.static_range(REPEAT):
            x = x * factor
    else:
        for iteration in range(REPEAT // 64):
            for _ in tl.static_range(64):
                x = x * factor
    tl.store(out_ptr + offsets, x, mask=mask)
