"""What the tests share: arrays without NumPy."""
import array
import random

import nereid.triton as triton
import nereid.triton.language as tl

BLOCK = 64


def floats(n, seed=1):
    source = random.Random(seed)
    return array.array("f", (source.random() for _ in range(n)))


def zeros(n, code="f"):
    return array.array(code, bytes(array.array(code).itemsize * n))


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n)


@triton.jit
def fill(out_ptr, value, BLOCK: tl.constexpr = 64):
    tl.store(out_ptr + tl.arange(0, BLOCK), value)
