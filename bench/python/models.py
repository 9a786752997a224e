#!/usr/bin/env python3
"""Training steps of models with random weights, by torch.compile: right beside eager, cold compile, time of a step.

    PYTHONPATH=build/python python3 bench/python/models.py [--device cuda] [--backends aot_eager,nereid] [MODEL...]
    PYTHONPATH=build/python python3 bench/python/models.py --cold 2 [--device cuda] [MODEL...]

A line of JSON for each backend, when a model is done: the seconds of the first step, the largest difference of outputs
and of gradients from eager's over the largest value, the median time of a step (on a CPU the least; all backends in
turn), and what PyTorch ran; or "failed", and why. Needs transformers.

--cold N: only the first step, N times in a process of its own for each backend, without anything cached. A line for each
model: the least wall time, the processor seconds of the process and of those that it started, and of backends but
aot_eager, which is Dynamo and AOTAutograd alone, how many times its wall time. Of nereid also the seconds of its wall
time in which graphs were read and planned, kernels waited for, and programs run.
"""
import argparse
import copy
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import nereid
import torch
import transformers as T


def text(config, model, batch=4, tokens=128, **more):
    return model(config), {"input_ids": torch.randint(3, 999, (batch, tokens)), **more}


def image(config, model, size=128):
    return model(config), {"pixel_values": torch.randn(4, 3, size, size)}


def sizes(width):
    return dict(hidden_size=width, num_hidden_layers=4, num_attention_heads=width // 64, intermediate_size=4 * width)


MODELS = {
    "bert": lambda w, **b: text(T.BertConfig(vocab_size=1000, **sizes(w)), T.BertModel, **b),
    "llama": lambda w, **b: text(T.LlamaConfig(vocab_size=1000, num_key_value_heads=w // 128, **sizes(w)), T.LlamaModel,
                                 use_cache=False, **b),
    "gpt2": lambda w, **b: text(T.GPT2Config(vocab_size=1000, n_embd=w, n_layer=4, n_head=w // 64), T.GPT2Model,
                                use_cache=False, **b),
    "vit": lambda w, **b: image(T.ViTConfig(image_size=128, patch_size=16, **sizes(w)), T.ViTModel),
    "resnet18": lambda w, **b: image(T.ResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2],
                                                    layer_type="basic"), T.ResNetModel),
}


def without_dropout(model):
    for m in model.modules():
        for name, value in list(vars(m).items()) + [("p", getattr(m, "p", None))]:
            if isinstance(value, float) and ("drop" in name or (name == "p" and isinstance(m, torch.nn.Dropout))):
                setattr(m, name, 0.0)
    return model


def step(model, inputs):
    model.zero_grad(set_to_none=True)
    out = [v for v in model(**inputs).values() if isinstance(v, torch.Tensor) and v.is_floating_point()]
    sum(o.float().square().mean() for o in out).backward()
    return out


def reason(text):
    """The line of a message that says what is wrong; PyTorch's hints come after it."""
    lines = text.strip().splitlines() or ["no reason is said"]
    return next((line for line in reversed(lines) if "Error" in line), lines[-1])


def difference(got, want):
    scale = max(w.abs().max().item() for w in want)
    return max((g.double() - w.double()).abs().max().item() for g, w in zip(got, want)) / scale


def prepare(name, device):
    torch.manual_seed(0)
    batch = dict(batch=8, tokens=512) if device == "cuda" else {}
    model, inputs = MODELS[name](768 if device == "cuda" else 256, **batch)
    model = without_dropout(model).to(device).train()
    return model, {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}


def measure(name, args):
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    eager, inputs = prepare(name, args.device)
    models, rows = {"eager": eager}, {"eager": {}}
    want = step(eager, inputs)
    grads = {n: p.grad.clone() for n, p in eager.named_parameters() if p.grad is not None}
    for backend in args.backends.split(","):
        torch._dynamo.reset()
        own = copy.deepcopy(eager)
        compiled = torch.compile(own, backend=nereid.torch_backend if backend == "nereid" else backend)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            start = time.perf_counter()
            try:
                got = step(compiled, inputs)
                wait()
            except Exception as e:  # Inductor without Python's headers, say
                rows[backend] = {"failed": reason(str(e))}
                continue
        rows[backend] = {"cold_s": round(time.perf_counter() - start, 2), "outputs": difference(got, want),
                         "gradients": difference([dict(own.named_parameters())[n].grad for n in grads], grads.values()),
                         "said": [str(w.message) for w in said if "nereid" in str(w.message)]}
        models[backend] = compiled
    times = {b: [] for b in models}
    for i in range(args.repeat + 1):
        for b, model in models.items():
            start = time.perf_counter()
            step(model, inputs)
            wait()
            if i:
                times[b].append((time.perf_counter() - start) * 1e3)
    typical = statistics.median if args.device == "cuda" else min  # others may use the processors
    for b, row in rows.items():
        step_ms = {"step_ms": round(typical(times[b]), 3)} if b in times else {}
        print(json.dumps({"model": name, "backend": b, **row, **step_ms}), flush=True)


def processor_seconds():
    return [round(u.ru_utime + u.ru_stime, 2) for u in
            (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))]


def spent_in(owner, name, seconds):
    """Adds the time of each call to seconds[name]."""
    f = getattr(owner, name)
    seconds[name] = 0.0

    def timed(*args, **options):
        start = time.perf_counter()
        try:
            return f(*args, **options)
        finally:
            seconds[name] += time.perf_counter() - start

    setattr(owner, name, timed)


def first_step(name, backend, device):
    """In a process of its own."""
    seconds = {}
    if backend == "nereid":
        import nereid._dynamo as d
        spent_in(d, "compile_graph", seconds)
        spent_in(d._Kernels, "failed", seconds)
        spent_in(d._Program, "run", seconds)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    model, inputs = prepare(name, device)
    step(model, inputs)  # PyTorch's own libraries are loaded
    compiled = torch.compile(model, backend=nereid.torch_backend if backend == "nereid" else backend)
    wait()
    before, start = processor_seconds(), time.perf_counter()
    step(compiled, inputs)
    wait()
    wall = time.perf_counter() - start
    own, children = (b - a for a, b in zip(before, processor_seconds()))
    words = {"compile_graph": "planning_s", "failed": "waiting_s", "run": "running_s"}
    print(json.dumps({"wall_s": round(wall, 2), "own_s": round(own, 2), "children_s": round(children, 2),
                      **{words[k]: round(s, 2) for k, s in seconds.items()}}))


def measure_cold(name, args):
    best = {}
    for _ in range(args.cold):
        for backend in args.backends.split(","):
            with tempfile.TemporaryDirectory() as folder:
                caches = {k: os.path.join(folder, k) for k in ("NEREID_CACHE_DIR", "TRITON_CACHE_DIR",
                                                               "TORCHINDUCTOR_CACHE_DIR")}
                p = subprocess.run([sys.executable, __file__, name, "--device", args.device, "--first-step", backend],
                                   env={**os.environ, **caches}, capture_output=True, text=True)
            row = {"failed": reason(p.stderr)} if p.returncode else json.loads(p.stdout.splitlines()[-1])
            best[backend] = min(best.get(backend, row), row, key=lambda r: r.get("wall_s", math.inf))
    for backend, row in best.items():
        if backend != "aot_eager" and "wall_s" in row and "wall_s" in best.get("aot_eager", {}):
            row["times"] = round(row["wall_s"] / best["aot_eager"]["wall_s"], 2)
    print(json.dumps({"model": name, **best}), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    p.add_argument("--device", default="cpu")
    p.add_argument("--backends", help="aot_eager,nereid, and but for --cold inductor")
    p.add_argument("--repeat", type=int, default=20)
    p.add_argument("--cold", type=int, metavar="N")
    p.add_argument("--first-step", metavar="BACKEND", help=argparse.SUPPRESS)
    args = p.parse_args()
    unknown = [m for m in args.models if m not in MODELS]
    if unknown:
        p.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    args.backends = args.backends or "aot_eager,nereid" + ("" if args.cold else ",inductor")
    for name in args.models:
        if args.first_step:
            first_step(name, args.first_step, args.device)
        elif args.cold:
            measure_cold(name, args)
        else:
            measure(name, args)


if __name__ == "__main__":
    main()
