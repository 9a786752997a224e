"""Runs kernels under Triton for `nereid bench --triton`, in a process of its own: a command a line as JSON comes in, a line of JSON goes out
with "ok" or "error". Arrays come and go as files of their bytes."""
import importlib.util
import json
import os
import sys
import time

reply = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what kernels and libraries print is no reply


def say(**what):
    reply.write(json.dumps(what) + "\n")
    reply.flush()


try:
    import torch
    import triton
    assert torch.cuda.is_available(), "PyTorch finds no GPU"
    device = "cuda:%s" % (sys.argv[1] if len(sys.argv) > 1 else "0")
    torch.cuda.set_device(device)
    say(ok=True, text="Triton %s, PyTorch %s, %s" % (triton.__version__, torch.__version__, torch.cuda.get_device_name(device)))
except BaseException as e:
    say(ok=False, error="%s: %s" % (type(e).__name__, e))
    sys.exit(1)

TYPES = {"i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32,
         "u64": torch.uint64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn}
arrays, cases, modules = {}, {}, {}
flush = None


def kernel_of(path, name):
    if path not in modules:
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec = importlib.util.spec_from_file_location("nereid_bench_%d" % len(modules), path)
        modules[path] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[path])
    kernel = getattr(modules[path], name)
    while not hasattr(kernel, "arg_names") or type(kernel).__name__ in ("Autotuner", "Heuristics"):
        kernel = kernel.fn  # the configuration is the command line's
    return kernel


def argument(a):
    kind = a["kind"]
    if kind == "array":
        return arrays[a["id"]]
    if kind == "descriptor":
        from triton.tools.tensor_descriptor import TensorDescriptor
        return TensorDescriptor(arrays[a["id"]], a["shape"], a["strides"], a["block"])
    if kind == "python":
        import triton.language as tl
        return eval(a["text"], {"tl": tl, "triton": triton, "torch": torch})
    return a.get("value")


def launcher(launch):
    kernel = kernel_of(launch["file"], launch["kernel"])
    named = {a["name"]: argument(a) for a in launch["args"]}
    named.update({k: v for k, v in launch["options"].items() if v})
    run = kernel[tuple(launch["grid"])]
    return lambda: run(**named)


def run(case):
    for go in cases[case]:
        go()


def handle(c):
    global flush
    op = c["op"]
    if op == "array":
        n = c["bytes"]
        raw = torch.from_file(c["path"], shared=False, size=n, dtype=torch.uint8) if n else torch.empty(0, dtype=torch.uint8)
        arrays[c["id"]] = raw.to(device).view(TYPES[c["type"]])
    elif op == "case":
        cases[c["case"]] = [launcher(x) for x in c["launches"]]
    elif op == "run":
        run(c["case"])
        torch.cuda.synchronize()
    elif op == "read":
        with open(c["path"], "wb") as f:
            f.write(memoryview(arrays[c["id"]].view(torch.uint8).cpu().numpy()))
    elif op == "trial":
        if c["cold"]:
            flush = torch.ones(1 << 28, dtype=torch.uint8, device=device) if flush is None else flush
            flush.add_(1)
        else:
            run(c["case"])
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        began = time.perf_counter_ns()
        run(c["case"])
        end.record()
        torch.cuda.synchronize()
        return dict(wall=time.perf_counter_ns() - began, device=start.elapsed_time(end) * 1e6)
    elif op == "graph":
        graph, times = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph):
            for _ in range(c["times"]):
                run(c["case"])
        graph.replay()
        for _ in range(5):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e6 / c["times"])
        return dict(device=sorted(times)[2])
    elif op == "clear":
        arrays.clear()
        cases.clear()
        torch.cuda.empty_cache()
    return {}


for line in sys.stdin:
    try:
        say(ok=True, **handle(json.loads(line)))
    except Exception as e:
        text = [x.strip() for x in str(e).splitlines() if x.strip()]
        say(ok=False, error="%s: %s" % (type(e).__name__, text[-1] if text else "no reason given"))
