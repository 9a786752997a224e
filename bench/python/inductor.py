#!/usr/bin/env python3
"""Inductor's kernels built by Nereid (nereid.use_in_inductor) and by Triton: time of compiling them, time of a step.

    PYTHONPATH=build/python python3 bench/python/inductor.py [--device cuda] [CASE...]

Each in a process of its own with nothing cached. A row for each case and compiler: how many kernels; the seconds in
which the program builds them or waits until they are built: all configurations, one after the other (--threads 1, the
default), or what is left of that when Inductor, which has them built beside what else it does, wants to go on; the wall
seconds of the first step and the processor seconds of the process and of those that it started; the median time of a
step; the largest difference of results and gradients from eager's over the largest value. On a CPU (Inductor's cpu_backend="triton") there is Nereid alone. BERT, Llama and
ResNet-18 are models.py's, which needs transformers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

COLUMNS = {"case": 10, "compiler": 8, "kernels": 7, "build_s": 8, "first_s": 8, "own_s": 7, "children_s": 10,
           "step_us": 9, "difference": 10}


def elementwise(f):
    def make(torch, device):
        x = torch.randn(4096, 4096 if device == "cuda" else 512, device=device)
        return f(torch), lambda f: [f(x)]
    return make


def mlp(torch, device):
    from torch import nn
    width = 1024 if device == "cuda" else 128
    model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width))
    model, x = model.to(device), torch.randn(512, width, device=device)

    def step(model):
        model.zero_grad(set_to_none=True)
        out = model(x)
        out.sin().mean().backward()
        return [out, *(p.grad for p in model.parameters())]
    return model, step


def of_models(name):
    def make(torch, device):
        import models
        model, inputs = models.prepare(name, device)

        def step(compiled):
            out = models.step(compiled, inputs)
            return [*out, *(p.grad for p in model.parameters() if p.grad is not None)]
        return model, step
    return make


CASES = {
    "gelu": elementwise(lambda torch: lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    "softmax": elementwise(lambda torch: lambda x: torch.softmax(x, -1)),
    "coscos": elementwise(lambda torch: lambda x: x.cos().cos()),
    "mlp": mlp,
    "bert": of_models("bert"),
    "llama": of_models("llama"),
    "resnet18": of_models("resnet18"),
}


def watch_builds(spent):
    """spent: [kernels, seconds] of those that this thread builds or waits for."""
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    thread, within = threading.get_ident(), []

    def watch(owner, name, kernels):
        method = getattr(owner, name)

        def timed(self, *args, **options):
            if threading.get_ident() != thread:
                return method(self, *args, **options)
            within.append(name)
            start = time.perf_counter()
            try:
                return method(self, *args, **options)
            finally:
                within.pop()
                spent[0] += kernels
                spent[1] += 0 if within else time.perf_counter() - start
        setattr(owner, name, timed)

    watch(CachingAutotuner, "precompile", 1)
    watch(AsyncCompile, "wait", 0)


def difference(got, want):
    largest = max(w.double().abs().max().item() for w in want)  # of all: some gradients are nothing but rounding
    return max((g.double() - w.double()).abs().max().item() for g, w in zip(got, want)) / largest


def run(case, compiler, device, threads, repeat):
    """In a process of its own."""
    import nereid
    if compiler == "nereid":
        nereid.use_in_inductor()
    import torch
    import torch._inductor.config as config
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    config.compile_threads = threads
    if device == "cpu":
        config.cpu_backend = "triton"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    torch.manual_seed(0)
    f, step = CASES[case](torch, device)
    want = [t.detach().clone() for t in step(f)]  # PyTorch's own libraries are loaded
    spent = [0, 0.0]
    watch_builds(spent)
    wait()
    before, start = os.times(), time.perf_counter()
    compiled = torch.compile(f)
    got = [t.detach().clone() for t in step(compiled)]
    wait()
    first, after = time.perf_counter() - start, os.times()
    step(compiled)  # some configurations are raced when they first run
    times = []
    for _ in range(repeat):
        wait()
        start = time.perf_counter()
        step(compiled)
        wait()
        times.append(time.perf_counter() - start)
    print(json.dumps({
        "kernels": spent[0], "build_s": round(spent[1], 3),
        "first_s": round(first, 2), "own_s": round(after[0] + after[1] - before[0] - before[1], 2),
        "children_s": round(after[2] + after[3] - before[2] - before[3], 2),
        "step_us": round(statistics.median(times) * 1e6, 1), "difference": f"{difference(got, want):.1e}"}))


def measure(case, compiler, args):
    with tempfile.TemporaryDirectory() as folder:
        caches = {k: os.path.join(folder, k) for k in ("NEREID_CACHE_DIR", "TRITON_CACHE_DIR",
                                                       "TORCHINDUCTOR_CACHE_DIR")}
        p = subprocess.run([sys.executable, __file__, case, "--device", args.device, "--threads", str(args.threads),
                            "--repeat", str(args.repeat), "--in-process", compiler],
                           env={**os.environ, **caches}, capture_output=True, text=True)
    if p.returncode:
        lines = p.stderr.strip().splitlines() or [f"status {p.returncode}"]  # after an error come PyTorch's hints
        why = next((line for line in reversed(lines) if "Error" in line), lines[-1])
        return {"case": case, "compiler": compiler, "failed": why}
    return {"case": case, "compiler": compiler, **json.loads(p.stdout.splitlines()[-1])}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help=", ".join(CASES))
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--threads", type=int, default=1, help="Inductor's compile_threads")
    p.add_argument("--repeat", type=int, default=50, help="steps that are timed")
    p.add_argument("--json", action="store_true", help="a line of JSON for each row")
    p.add_argument("--in-process", metavar="COMPILER", help=argparse.SUPPRESS)
    args = p.parse_args()
    unknown = [c for c in args.cases if c not in CASES]
    if unknown:
        p.error(f"there is no case {unknown[0]!r}; there are {', '.join(CASES)}")
    if args.in_process:
        return run(args.cases[0], args.in_process, args.device, args.threads, args.repeat)
    if not args.json:
        print(" ".join(f"{name:>{width}}" for name, width in COLUMNS.items()))
    failed = False
    for case in args.cases:
        for compiler in ("nereid",) if args.device == "cpu" else ("nereid", "triton"):
            row = measure(case, compiler, args)
            failed |= "failed" in row
            shown = ("" if row.get(name) is None else row[name] for name in COLUMNS)
            print(json.dumps(row) if args.json else
                  " ".join(f"{v:>{width}}" for v, width in zip(shown, COLUMNS.values())) + row.get("failed", ""),
                  flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
