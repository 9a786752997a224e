"""Checks the files that `test_views --write DIR` wrote: python3 check_views.py DIR. Also writes cpu.html and gpu.html, the flame graphs with a test
of their script, for a browser. `python3 check_views.py --chrome FILE.json` holds any timeline against the rules of the format."""
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

timeline = Path(sys.argv[2]) if sys.argv[1] == "--chrome" else None
directory = Path(sys.argv[1])
failures = []


def check(what, ok):
    if not ok:
        failures.append(what)


def read(name):
    return (directory / name).read_text(encoding="utf-8")


# ---- Chrome's trace format: "Trace Event Format", sections JSON Object Format, Complete, Flow, Counter, Instant, Metadata events ----
chrome = json.loads(timeline.read_text(encoding="utf-8") if timeline else read("chrome.json"))
events = chrome["traceEvents"]
check("displayTimeUnit is ms or ns", chrome["displayTimeUnit"] in ("ms", "ns"))
tracks, flows, counters, names, processes = defaultdict(list), defaultdict(dict), defaultdict(list), {}, {}
for e in events:
    check(f"an event has ph and pid: {e}", isinstance(e.get("ph"), str) and len(e["ph"]) == 1 and isinstance(e.get("pid"), int))
    check(f"a name: {e}", isinstance(e.get("name"), str) and e["name"])
    if e["ph"] != "M":
        check(f"ts is a number, not below 0: {e}", isinstance(e.get("ts"), (int, float)) and e["ts"] >= 0)
    if e["ph"] == "X":
        check(f"dur is a number, not below 0: {e}", isinstance(e.get("dur"), (int, float)) and e["dur"] >= 0)
        tracks[e["pid"], e["tid"]].append(e)
    elif e["ph"] in "sf":
        check(f"each end of an arrow comes once: {e}", e["ph"] not in flows[e["id"]])
        check("an arrow ends at what surrounds its point", e["ph"] == "s" or e.get("bp") == "e")
        flows[e["id"]][e["ph"]] = e
    elif e["ph"] == "C":
        check(f"a counter's values are numbers: {e}", e["args"] and all(isinstance(v, (int, float)) for v in e["args"].values()))
        counters[e["pid"], e["name"]].append(e)
    elif e["ph"] == "i":
        check(f"an instant has a scope: {e}", e["s"] in "gpt")
    elif e["ph"] == "M":
        check(f"metadata is of a known kind: {e}", e["name"] in ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"))
        if e["name"] == "thread_name":
            check("a track is named once", (e["pid"], e["tid"]) not in names)
            names[e["pid"], e["tid"]] = e["args"]["name"]
        if e["name"] == "process_name":
            processes[e["pid"]] = e["args"]["name"]
    else:
        check(f"a known kind: {e}", False)


def ns(us):
    return round(us * 1000)


spans = {}
for track, all_of in tracks.items():
    check(f"track {track} has a name", track in names and track[0] in processes)
    stack = []
    gpu = processes.get(track[0], "").startswith("GPU")
    all_of.sort(key=lambda e: (ns(e["ts"]), -ns(e["dur"])))
    for e in all_of:
        start, end = ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])
        while stack and stack[-1] <= start:
            stack.pop()
        check(f"intervals nest: {e}", not stack or end <= stack[-1])
        check(f"nothing nests on a GPU's stream: {e}", not gpu or not stack)
        stack.append(end)
    spans[track] = [(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e) for e in all_of]


def surrounding(track, at):
    return [e for start, end, e in spans[track] if start <= at <= end]


check("there are arrows", timeline or len(flows) > 1000)
for n, (number, flow) in enumerate(flows.items()):
    check(f"an arrow has two ends: {flow}", set(flow) == {"s", "f"})
    check(f"no arrow goes back in time: {flow}", flow["s"]["ts"] <= flow["f"]["ts"])
    if n % 997 == 0:  # searching all of them takes long
        s, f = flow["s"], flow["f"]
        calls = [e for e in surrounding((s["pid"], s["tid"]), ns(s["ts"])) if e["cat"].startswith("call")]
        started = [e for e in surrounding((f["pid"], f["tid"]), ns(f["ts"])) if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
        check(f"an arrow joins what has one correlation: {flow}", {e["args"]["correlation"] for e in calls} & {e["args"]["correlation"] for e in started})
check("memory in use is counted, in the order of time", all(sorted(c, key=lambda e: e["ts"]) == c for c in counters.values()) and (timeline or counters))
if timeline:
    print("\n".join(f"FAIL {f}" for f in failures[:20]) or f"{len(events)} events on {len(tracks)} tracks, {len(flows)} arrows: as the format wants them")
    sys.exit(bool(failures))
check("the note is there", any(e["ph"] == "i" and "clock of the GPU" in e["name"] for e in events))

# ---- the table says the same as the timeline ----
table = json.loads(read("table.json"))
rows = {(r["kind"], r["name"]): r for r in table["rows"]}
counted, gpu_time, call_time = defaultdict(int), defaultdict(int), defaultdict(int)
for track in tracks.values():
    for e in track:
        counted[e["cat"].split(",")[0]] += 1
        if e["cat"] == "kernel":
            gpu_time[e["args"]["function"]] += ns(e["dur"])
        if e["cat"].startswith("call"):
            call_time[e["name"]] += ns(e["dur"])
for kind, category in (("kernel", "kernel"), ("call", "call"), ("range", "range"), ("copy", "gpu_memcpy")):
    check(f"as many of {kind} in the table as in the timeline", sum(r["calls"] for r in table["rows"] if r["kind"] == kind) == counted[category])
for name, time in gpu_time.items():
    check(f"GPU time of {name}", rows["kernel", name]["self_cuda_ns"] == time)
for name, time in call_time.items():
    check(f"CPU time of {name}", rows["call", name]["cpu_ns"] == time)
check("the sums", table["self_cpu_ns"] == sum(r["self_cpu_ns"] for r in table["rows"]) and table["self_cuda_ns"] == sum(r["self_cuda_ns"] for r in table["rows"]))
check("what calls started is what ran", sum(r["cuda_ns"] for r in table["rows"] if r["kind"] == "call") == table["self_cuda_ns"])

# ---- folded stacks ----
folded = [line.rsplit(" ", 1) for line in read("gpu.folded").splitlines()]
check("folded GPU time is the table's", sum(int(w) for _, w in folded) == table["self_cuda_ns"])
check("folded stacks come once", len({s for s, _ in folded}) == len(folded))

# ---- advice ----
advice = json.loads(read("advice.json"))
check("the five bounds make up the run", sum(advice["bounds"].values()) == advice["span_ns"])
check("busy and idle make up the run", advice["busy_ns"] + advice["idle_ns"] == advice["span_ns"])
wait = next((f for f in advice["findings"] if f["kind"] == "synchronization"), {})
check("the wait in the loop is found", wait.get("call") == "cudaStreamSynchronize" and wait.get("after_copy") == "cudaMemcpyAsync" and wait.get("count") == 1500)

# ---- the page ----
page = read("page.html")
data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))
kinds = data["events"][5::8]
check("the page has all events", len(kinds) == data["kept"] and len(kinds) - kinds.count(8) == sum(counted.values()) and data["dropped"] == 0)
check("the page has the samples", kinds.count(8) > 300)
check("the page asks the network for nothing", not re.search(r"https?://|src=|@import|fetch\(|XMLHttpRequest|import\(", page.replace(data["title"], "")))

# ---- traces full of odd names and figures: what is JSON stays JSON ----
for path in sorted(directory.glob("random-*.json")) + sorted(directory.glob("random-*.html")):
    text = path.read_bytes().decode("utf-8")
    if path.suffix == ".html":
        text = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1)
    try:
        json.loads(text, parse_constant=lambda name: failures.append(f"{path.name} has {name}, which is no JSON"))
    except ValueError as error:
        failures.append(f"{path.name}: {error}")

# ---- flame graphs, as a browser will see them ----
import xml.etree.ElementTree

for name in ("cpu", "gpu"):
    svg = read(name + ".svg")
    xml.etree.ElementTree.fromstring(svg)
    check(f"{name}.svg asks the network for nothing", not re.search(r"href|https?://(?!www\.w3\.org/2000/svg)", svg))
    (directory / f"{name}.html").write_text(
        "<!DOCTYPE html><meta charset=utf-8><body>" + svg + """<script>
var failures = [], f = window.flame, texts = function (g) { return g.querySelector('text').textContent; };
function check(what, ok) { if (!ok) failures.push(what); }
try {
  check('frames are there', f.frames.length > 3);
  check('a frame is marked', f.mark('sgemm|cudaLaunch') > 0 && document.querySelectorAll('.hit').length > 0 && /frames, [1-9]/.test(document.getElementById('found').textContent));
  check('half an expression does no harm', f.mark('(') === -1);
  f.mark(''); check('marks go', document.querySelectorAll('.hit').length === 0);
  var last = f.frames[f.frames.length - 1], before = +last.querySelector('rect').getAttribute('width');
  f.zoom(last);
  check('a frame that was clicked is as wide as the picture', +last.querySelector('rect').getAttribute('width') > 1170 && texts(last).length > 3);
  check('others are gone or around it', f.frames.every(function (g) { return g === last || g.classList.contains('off') || +g.getAttribute('data-l') !== +last.getAttribute('data-l'); }));
  f.zoom(null);
  check('and back', Math.abs(+last.querySelector('rect').getAttribute('width') - before) < 0.5);
} catch (e) { failures.push('it threw ' + e); }
var box = document.createElement('div'); box.id = 'outcome';
box.textContent = failures.length ? 'failed: ' + failures.join('; ') : 'passed: ' + f.frames.length + ' frames';
document.body.append(box);
</script>""", encoding="utf-8")

for failure in failures[:20]:
    print("FAIL", failure)
print(f"{len(events)} events of the timeline, {len(table['rows'])} rows: {len(failures)} failures")
sys.exit(bool(failures))
