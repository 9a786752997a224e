# A PyTorch program to profile: the training loop of an MLP with a print in it; and what torch.profiler says of it, to compare with.
#
#   train            runs it
#   torch OUT.json   runs it under torch.profiler: {name of a kernel: [calls, ns]} of the whole run
#   launches         100,000 launches three times: the best time of one, in microseconds
#   compare A... -- B...   A: JSON tables of `nereid prof --json`, B: files of `torch`; medians of the runs are compared
import json, statistics, sys


def train():
    import torch
    torch.manual_seed(0)
    layers = []
    for _ in range(4): layers += [torch.nn.Linear(256, 256), torch.nn.GELU()]
    net = torch.nn.Sequential(*layers).to("cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    for step in range(100):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        print(step, "%.6f" % loss.detach())
    torch.cuda.synchronize()


def under_torch(path):
    from torch.profiler import profile, ProfilerActivity
    with profile(activities=[ProfilerActivity.CUDA]) as p: train()
    out = {}
    for e in p.key_averages():
        if str(e.device_type).endswith("CUDA") and not e.key.startswith(("Memcpy", "Memset")) and e.self_device_time_total > 0:
            out[e.key] = [e.count, e.self_device_time_total * 1e3]
    json.dump(out, open(path, "w"))


def launches():
    import time, torch
    x = torch.zeros(1, device="cuda")

    def go(n):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n): x.add_(1)
        end = time.perf_counter()
        torch.cuda.synchronize()
        return (end - start) / n * 1e6

    go(10000)
    print("%.3f" % min(go(100000) for _ in range(3)))


def plain(name): return "".join(name.replace("(anonymous namespace)::", "").split())  # the two demanglers differ in spaces


def ours(path):
    rows = json.load(open(path))["rows"]
    out = {}
    for r in rows:
        if r["kind"] != "kernel": continue
        was = out.setdefault(plain(r["demangled"]), [0, 0])
        was[0] += r["calls"]
        was[1] += r["self_cuda_ns"]
    return out


def theirs(path):
    out = {}
    for name, (calls, ns) in json.load(open(path)).items():
        was = out.setdefault(plain(name), [0, 0])
        was[0] += calls
        was[1] += ns
    return out


def join(a, b):
    """Names on one side only, which another demangler wrote otherwise: by the template's name, where it is the only such on either side."""
    here, there = set().union(*a), set().union(*b)
    only_here, only_there = sorted(here - there), sorted(there - here)
    for n in only_here:
        alike = [m for m in only_there if m.split("<")[0] == n.split("<")[0]]
        if len(alike) == 1 and sum(m.split("<")[0] == n.split("<")[0] for m in only_here) == 1:
            for run in a: run[alike[0]] = run.pop(n, [0, 0])


def compare(files):
    at = files.index("--")
    a, b = [ours(f) for f in files[:at]], [theirs(f) for f in files[at + 1:]]
    join(a, b)
    names = sorted(set().union(*a, *b))
    bad = 0
    median = lambda runs, name: statistics.median(r.get(name, [0, 0])[1] for r in runs)
    total_a, total_b = sum(median(a, n) for n in names), sum(median(b, n) for n in names)
    print("%9s %9s %7s %6s %6s" % ("nereid us", "torch us", "ratio", "calls", "calls"))
    for n in sorted(names, key=lambda n: -median(b, n)):
        ta, tb, ca, cb = median(a, n), median(b, n), a[0].get(n, [0])[0], b[0].get(n, [0])[0]
        wrong = ca != cb or (tb > 0.05 * total_b and abs(ta - tb) > 0.05 * tb)  # what takes less is as uneven as a clock's tick
        bad += wrong
        print("%9.1f %9.1f %7.3f %6d %6d  %s%s" % (ta / 1e3, tb / 1e3, ta / tb if tb else 0, ca, cb, "DIFFERS " if wrong else "", n[:100]))
    print("%9.1f %9.1f %7.3f  all, %d kernels" % (total_a / 1e3, total_b / 1e3, total_a / total_b, len(names)))
    if abs(total_a - total_b) > 0.05 * total_b: bad += 1
    sys.exit(1 if bad or not names else 0)


what = sys.argv[1]
if what == "train": train()
elif what == "torch": under_torch(sys.argv[2])
elif what == "launches": launches()
elif what == "compare": compare(sys.argv[2:])
