#!/usr/bin/env python3
"""Random tensor programs beside PyTorch: reads what `random_graphs ... --save FILE` wrote, runs each program with PyTorch
as it stands and in float64, and compares.

    build/tests/random_graphs 1000 1 --save /tmp/programs && tests/fuzz/compare_random_graphs.py /tmp/programs [--errors]

For each output: type and shape; the float64 reference beside PyTorch in float64; and the results of the fused form, whose
distance from float64 is at most twice that of PyTorch's own, or a few times what a rounding of each input, each result and
each gradient on the way makes of it: that is measured, in float64, with roundings drawn at random. Programs that draw random numbers, and what PyTorch refuses, are counted and left out. --errors prints the distances, too.
Without PyTorch the exit status is 77.
"""
import re
import sys
import warnings

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("no PyTorch")
    sys.exit(77)

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "double": torch.float64,
         "i64": torch.int64, "i32": torch.int32, "i1": torch.bool, "u8": torch.uint8}
ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53}
# How many times what random roundings of each operation's result make of an output: an operation rounds more than once.
FEW = 8


class Program:
    def __init__(self, number, text):
        self.number, self.text = number, text
        self.inputs, self.arrays, self.refused = [], {"reference": [], "fused": [], "eager": []}, None


def tensor(data, dtype, shape):
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def read(path):
    """The programs of a file, one after the other."""
    with open(path, "rb") as file:
        program = None
        for line in file:
            word = line.decode().split()
            if word[0] == "program":
                if program:
                    yield program
                program = Program(int(word[1]), file.read(int(word[2])).decode())
                continue
            shape, dtype = [int(n) for n in word[2:]], TYPES[word[1]]
            count = 1
            for n in shape:
                count *= n
            t = tensor(file.read(count * dtype.itemsize), dtype, shape)
            (program.inputs if word[0] == "input" else program.arrays[word[0]]).append(t)
        if program:
            yield program


class Rounding(torch.autograd.Function):
    """As if it had been rounded to a type, at random, and its gradient, too."""

    @staticmethod
    def forward(ctx, x, unit, noise):
        ctx.unit, ctx.noise = unit, noise
        return Rounding.moved(x, unit, noise)

    @staticmethod
    def backward(ctx, g):
        return Rounding.moved(g, ctx.unit, ctx.noise), None, None

    @staticmethod
    def moved(x, unit, noise):
        return x * (1 + unit * (2 * torch.rand(x.shape, generator=noise, dtype=torch.float64) - 1))


def rounded(x, dtype, noise):
    if noise is None or not x.is_floating_point() or dtype not in ROUNDING:
        return x
    return Rounding.apply(x, ROUNDING[dtype], noise)


class Written:
    """torch.nn.functional, with attention as the operations that it is, each of them rounded."""

    def __init__(self, noise, dtype):
        self.noise, self.dtype = noise, dtype

    def __getattr__(self, name):
        return getattr(F, name)

    def scaled_dot_product_attention(self, q, k, v, attn_mask=None, is_causal=False):
        def step(x):
            return rounded(x, self.dtype, self.noise)
        scores = step(step(q @ k.mT) / q.shape[-1] ** 0.5)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        e = step(torch.exp(step(scores - scores.detach().amax(-1, keepdim=True))))
        return step(e / step(e.sum(-1, keepdim=True))) @ v


def evaluate(program, double, noise=None):
    """Its outputs; with double, every float is of 64 bits; with noise, rounded as the program's types are."""
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    values, given, seeds, outputs, by = {}, iter(program.inputs), [], [], []
    for line in program.text.splitlines():
        if found := re.fullmatch(r"  output \d+: t(\d+)", line):
            outputs.append(values[int(found[1])])
        elif found := re.fullmatch(r"  output \d+: the gradient by t(\d+)", line):
            by.append(values[int(found[1])])
        elif found := re.fullmatch(r"  t(\d+) = (.*)   of (.*) -> (\w+).*", line):
            text = found[2]
            if double:
                text = re.sub(r"\.(float|half)\(\)|\.to\(torch\.bfloat16\)", ".double()", text)
            operands = dict(zip("abcd", [values[int(t[1:])] for t in found[3].split()]))
            dtype = TYPES[found[4]]
            y = eval(text, {"torch": torch, "F": Written(noise, dtype) if noise else F, **operands})
            values[int(found[1])] = rounded(y, dtype, noise)
        elif found := re.fullmatch(r"  t(\d+) = (\w+) .*", line):
            x = next(given)
            if x.is_floating_point():
                x = (rounded(x.double(), x.dtype, noise) if double else x.clone()).requires_grad_()
            values[int(found[1])] = x
            if found[2][0] == "g":
                seeds.append(x.detach())
    if by:
        floats = [y for y in outputs if y.is_floating_point()]
        kept = [(y, s) for y, s in zip(floats, seeds) if y.requires_grad]
        got = torch.autograd.grad([y for y, _ in kept], by, [s for _, s in kept], allow_unused=True) if kept else [None] * len(by)
        outputs += [torch.zeros_like(x) if g is None else g for x, g in zip(by, got)]
    return [y.detach() for y in outputs]


def distance(a, b):
    """The largest difference; of infinities and NaN, which must be where the other has them, infinity."""
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    d = torch.where(same, 0, (a - b).abs())
    return float(torch.where(d.isnan(), float("inf"), d).max()) if d.numel() else 0.0


def steps(program):
    """Of each output, one rounding of the narrowest type on the way to it."""
    of, out = {}, []
    for line in program.text.splitlines():
        if found := re.fullmatch(r"  t(\d+) = .*   of (.*) -> (\w+).*", line):
            of[found[1]] = max(ROUNDING.get(TYPES[found[3]], 0.0), *[of[t[1:]] for t in found[2].split()])
        elif found := re.fullmatch(r"  t(\d+) = \w+ (\w+)\[.*", line):
            of[found[1]] = ROUNDING.get(TYPES[found[2]], 0.0)
        elif found := re.fullmatch(r"  output \d+: t(\d+)", line):
            out.append(of[found[1]])
        else:
            out.append(max(out))  # a gradient: of all of them
    return out


def complaints(program, errors):
    try:
        wanted, exact = evaluate(program, False), evaluate(program, True)
        noise = torch.Generator().manual_seed(program.number)
        noisy = [evaluate(program, True, noise) for _ in range(2)]
    except Exception as error:  # PyTorch's answer to a program that it does not take
        program.refused = f"{type(error).__name__}: {(str(error) or 'no text').splitlines()[0]}"
        return
    step = steps(program)
    for i, (ours, ref, torchs, double) in enumerate(zip(program.arrays["fused"], program.arrays["reference"], wanted, exact)):
        if ours.dtype != torchs.dtype or ours.shape != torchs.shape:
            yield f"output {i} is {ours.dtype}{list(ours.shape)}, PyTorch's {torchs.dtype}{list(torchs.shape)}"
            continue
        finite = double.double().abs()
        finite = finite[finite.isfinite()]
        scale = max(1.0, float(finite.max()) if finite.numel() else 0.0)
        d = distance(ref, double)
        if d > scale * 1e-9:
            yield f"output {i}: float64 is off PyTorch's by {d:g} of {scale:g}"
            continue
        mine, theirs = distance(ours, double), max(d, distance(torchs, double))  # d: two orders of the same sums in float64
        moved = max(distance(n[i], double) for n in noisy)
        if errors:
            print(f"{program.number} {i} {ours.dtype} {mine:g} {theirs:g} {moved:g} {scale:g}")
        allowed = max(2 * theirs, FEW * moved, 4 * scale * step[i]) if ours.is_floating_point() else 0
        if not mine <= allowed:
            yield f"output {i} is off float64 by {mine:g} of {scale:g}, PyTorch by {theirs:g}, roundings move it by {moved:g}"


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    tried = wrong = random = 0
    refused = {}
    for program in read(sys.argv[1]):
        if "dropout" in program.text:
            random += 1
            continue
        tried += 1
        found = list(complaints(program, "--errors" in sys.argv))
        if program.refused:
            refused.setdefault(re.sub(r"\d+", "N", program.refused), []).append(program.number)
        elif found:
            wrong += 1
            print(f"program {program.number}:\n{program.text}" + "\n".join(found), flush=True)
    for why, numbers in sorted(refused.items(), key=lambda kv: -len(kv[1])):
        print(f"PyTorch refuses {len(numbers)}: {why[:150]} (such as {numbers[0]})")
    print(f"{tried} programs beside PyTorch {torch.__version__} ({sum(map(len, refused.values()))} of which it refuses; "
          f"{random} with random numbers left out): {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
