#!/usr/bin/env python3
"""What a warm launch of eight arguments costs the host, from Python: kernel[grid](4 tensors, 3 integers, a constexpr).

    PYTHONPATH=build/python python3 bench/python/overhead.py [--device cuda|cpu] [--triton]

Under Nereid, or with --triton under Triton; beside it PyTorch's own addition. Rounds of 400 calls between two waits for
the device, so that the queue never fills; the median and the least of the rounds. "no programs" is a launch of an empty
grid: all that the host does but the driver's call (on a CPU: but the kernel).
"""
import argparse
import time

import torch

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
options.add_argument("--triton", action="store_true")
options = options.parse_args()
if options.triton:
    import triton
    import triton.language as tl
else:
    import nereid.triton as triton
    import nereid.triton.language as tl


@triton.jit
def kernel(a, b, c, out, n, s, t, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(a + i) + tl.load(b + i) + tl.load(c + i) + n + s * t)


def wait():
    if options.device == "cuda":
        torch.cuda.synchronize()


def per_call(f, calls=400, rounds=40):
    times = []
    for _ in range(rounds):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            f()
        times.append((time.perf_counter() - start) / calls * 1e6)
    wait()
    times.sort()
    return f"{times[len(times) // 2]:6.2f} {times[0]:6.2f}"


a, b, c, out = (torch.rand(64, device=options.device) for _ in range(4))
kernel[(1,)](a, b, c, out, 64, 3, 5, BLOCK=16)
wait()
torch.testing.assert_close(out[:16], a[:16] + b[:16] + c[:16] + 64 + 15)
print("us a call                          median  least")
print("a launch                           ", per_call(lambda: kernel[(1,)](a, b, c, out, 64, 3, 5, BLOCK=16)))
if not options.triton:
    print("no programs                        ", per_call(lambda: kernel[(0,)](a, b, c, out, 64, 3, 5, BLOCK=16)))
print("with options                       ",
      per_call(lambda: kernel[(1,)](a, b, c, out, 64, 3, 5, BLOCK=16, num_warps=4, num_stages=3)))
print("a grid function that calls cdiv    ",
      per_call(lambda: kernel[lambda meta: (triton.cdiv(16, meta["BLOCK"]),)](a, b, c, out, 64, 3, 5, BLOCK=16)))
print("torch.add(a, b)                    ", per_call(lambda: torch.add(a, b)))
print("torch.add(a, b, out=out)           ", per_call(lambda: torch.add(a, b, out=out)))
