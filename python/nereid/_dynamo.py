"""torch.compile(f, backend="nereid"): Dynamo and AOTAutograd capture, `nereid fuse` makes kernels of the ATen graph.

A graph is cut into groups (_partition.py). What is not known of it (an operation, a type) is run by PyTorch between
them; each reason is named once, as a warning. The runs of groups and operations in order are a Python function that is
written for the graph: `source` of what compile_graph gives.
"""
import contextlib
import functools
import operator
import os
import tempfile
import warnings
import weakref

import torch

from . import _devices, _forks, _native
from ._partition import (COPY, TYPES, Group, Refused, Rules, _SEED, _hints, expression, is_size, is_tensor, levels,
                         order_of, order_of_input, repeated, symbols_in)

MOST_SHAPES = 64  # programs of one group whose sizes the reader's polynomials cannot express
MOST_GROUPS = 4   # that run one program: it keeps launches for 8 sets of arrays
_named = set()
MOST_PROGRAMS = 16  # that are compiled at once. As many kernels as there are processors are, of the first programs first
_compiling = _forks.Pool(MOST_PROGRAMS, "nereid-compile")


def _say_once(reason):
    if reason and reason not in _named:
        _named.add(reason)
        warnings.warn(f"nereid: PyTorch runs {reason}", stacklevel=3)


def _device(where):
    return _devices._find(0, 0) if where.type == "cpu" else _devices._find(1, where.index or 0)


def _first_line(e):
    text = str(getattr(e, "error_message", None) or e).strip()
    return text.splitlines()[0] if text else type(e).__name__


# ---- a group's program ---------------------------------------------------------------------------------------------

class _Program:
    """The kernels of a group, and of others of its graph that compute the same, for sizes that are given with each run,
    or (sizes) for one shape."""

    def __init__(self, group, values, sizes):
        self.groups = 0
        text, lines = group.text(sizes)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.py")
            with open(path, "w") as f:
                f.write(text)
            try:
                self.fusion = _native.Fusion(path, _device(group.device), {} if sizes else values, group.products)
            except Exception as e:
                places = getattr(e, "places", ())
                node = lines.get(places[-1][1]) if places and places[-1][0] == path else None
                raise Refused(node, _first_line(e)) from e
        for node, (_, kind, shape, _) in zip(group.outputs, self.fusion.outputs()):
            val = node.meta["val"]
            as_traced = len(shape) == val.dim() if sizes else sorted(shape) == sorted(_hints(val.shape))
            if kind != TYPES[val.dtype] or not as_traced:
                made = node.args[0] if node.target is operator.getitem else node
                raise Refused(made, f"it gives {kind}{shape} here, which the trace calls "
                                    f"{TYPES[val.dtype]}{_hints(val.shape)}")
        index = {_SEED: -1}
        for i, n in enumerate(group.inputs):
            index[n.name] = index[n.name + "_"] = i
        self.order = [index[name] for name, _, _, _ in self.fusion.inputs()]
        self.lock = _forks.lock()
        self.sizes = {}
        for name, value in values.items() if not sizes else ():
            try:
                self.fusion.set_size(name, int(value))
                self.sizes[name] = int(value)
            except ValueError:
                pass  # one that nothing depends on
        self.ready = _compiling.submit(self.fusion.compile)

    def run(self, places, results, sizes):
        """Addresses of the group's inputs (the seed's last) and outputs."""
        if self.ready is not None:
            self.ready.result()
            self.ready = None
        with self.lock:
            if self.sizes:
                for name, value in sizes.items():
                    if self.sizes.get(name, value) != value:
                        self.fusion.set_size(name, value)
                        self.sizes[name] = value
            self.fusion.run([places[i] for i in self.order], results)
            if _devices.recorder is not None:
                _devices.recorder.fused(self.fusion)


class _Kernels:
    """A group that is compiled: one program for all sizes, or one for each shape. shared: the graph's programs. Its
    groups run one after the other, so that they may share a program's memory."""

    def __init__(self, group, shared):
        self.group, self.programs, self.shared = group, {}, shared
        self.dense = [order_of_input(n.meta["val"]) is not None for n in group.inputs]
        hints = {}
        for n in group.nodes + group.inputs:
            for v in _symints(n):
                env = v.node.shape_env
                known = getattr(env, "backed_var_to_val", None) or env.var_to_val
                hints.update((str(s), int(known[s])) for s in v.node.expr.free_symbols)
        texts = {s: str(hints[s]) for s in group.symbols}
        try:
            self.program = self._program(texts, None)
        except Refused:
            if not group.symbols:
                raise
            self.program = None  # these sizes: others likewise when they come
            self._for({s: int(v) for s, v in texts.items()})

    def _program(self, values, sizes):
        g = self.group
        key = g.shape(sizes), g.device, g.products, *values.items()
        found = self.shared.get(key)
        if found is None or found.groups == MOST_GROUPS:
            found = self.shared[key] = _Program(g, values, sizes)
        found.groups += 1
        return found

    def failed(self):
        for program in [self.program, *self.programs.values()]:
            e = program.ready.exception() if program and program.ready else None
            if e is not None:
                return _first_line(e)
        return None

    def _for(self, sizes):
        key = tuple(sizes.values())
        program = self.programs.pop(key, None) or self._program({}, sizes)
        self.programs[key] = program
        if len(self.programs) > MOST_SHAPES:
            del self.programs[next(iter(self.programs))]
        return program

    def __call__(self, inputs, results, sizes):
        """inputs: tensors, as they lie; results: tensors of the right layout."""
        program = self.program or self._for(sizes)
        back = []
        for i, dense in enumerate(self.dense):
            if not dense:
                copy = inputs[i].resolve_conj().resolve_neg().contiguous()
                if self.group.inputs[i] in self.group.written:
                    back.append((inputs[i], copy))
                inputs[i] = copy
        if self.group.random:
            inputs.append(torch.randint(1 << 53, (1,), device=self.group.device))
        program.run([t.data_ptr() for t in inputs], [t.data_ptr() for t in results], sizes)
        for to, value in back:
            to.copy_(value)


def _symints(node):
    val = node.meta.get("val")
    for t in val if isinstance(val, (list, tuple)) else [val]:
        if isinstance(t, torch.SymInt):
            yield t
        if isinstance(t, torch.Tensor):
            yield from (v for v in (*t.shape, *t.stride()) if isinstance(v, torch.SymInt))
    for a in node.all_input_nodes:
        if isinstance(a.meta.get("val"), torch.SymInt):
            yield a.meta["val"]


# ---- the graph ------------------------------------------------------------------------------------------------------

def _groups(gm, failed, products):
    """Kernels for what is ours, at their first node's level: [(level, _Kernels)], {node: level}."""
    rules, made, shared = Rules(gm), {}, weakref.WeakValueDictionary()
    rules.nodes.update(failed)
    while True:
        level, members = levels(gm, rules), {}
        for node in gm.graph.nodes:
            if level.get(node, 1) % 2 == 0:
                device = _node_device(node)
                members.setdefault((level[node], device.type, device.index), []).append(node)

        try:
            groups = []
            for (at, *_), nodes in members.items():
                inside = set(nodes)
                group = Group(nodes, lambda n: any(u not in inside for u in n.users), rules)
                group.products = products
                if not group.computes():
                    raise Refused(None, "")
                key = (tuple(nodes), tuple(group.outputs))
                if key not in made:
                    made[key] = _Kernels(group, shared)
                groups.append((at, made[key]))
            break
        except Refused as e:
            if e.node is None:
                rules.nodes.update((n, e.why) for n in nodes)
            else:
                target = e.node.target
                rules.nodes[e.node] = f"{target}: {e.why}"
                if sum(n.target is target for n, why in rules.nodes.items() if why) > 2 or "not known" in e.why:
                    rules.targets[target] = f"{target}: {e.why}"
                    rules.nodes = {n: why for n, why in rules.nodes.items()
                                   if why is not None or n.target is not target}
    for node in gm.graph.nodes:
        if level.get(node, 0) % 2 and node.target is not COPY:
            _say_once(rules.why_not(node))
    return groups, level


def _node_device(node):
    val = node.meta["val"]
    return next(t for t in (val if isinstance(val, (list, tuple)) else [val]) if t is not None).device


class _Writer:
    """The function that runs a graph, as text."""

    def __init__(self, gm):
        self.gm, self.lines, self.names, self.space = gm, [], {}, {
            "_view": torch._C._dynamo.guards._reinterpret_tensor, "_cpu": torch._C._dynamo.guards._empty_strided_cpu,
            "_torch": torch, "_as_traced": _as_traced}

    def bind(self, what, name):
        self.space[name] = what
        return name

    def size(self, v):
        if not isinstance(v, torch.SymInt):
            return repr(int(v))
        from torch.utils._sympy.printers import PythonPrinter
        return PythonPrinter().doprint(v.node.expr)

    def sizes(self, values):
        return "(" + "".join(self.size(v) + ", " for v in values) + ")"

    def argument(self, a):
        if isinstance(a, torch.fx.Node):
            return self.names[a]
        if isinstance(a, (list, tuple)):
            inner = "".join(self.argument(x) + ", " for x in a)
            return f"[{inner}]" if isinstance(a, list) else f"({inner})"
        if isinstance(a, dict):  # arguments of a program's own kernel
            return "{" + "".join(f"{k!r}: {self.argument(v)}, " for k, v in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({self.argument(a.start)}, {self.argument(a.stop)}, {self.argument(a.step)})"
        if a is None or isinstance(a, (bool, int, str)):
            return repr(a)
        return self.bind(a, f"_c{len(self.space)}")

    def write(self, line):
        self.lines.append("    " + line)

    def inputs(self, holders):
        names = [n.name for n in holders]
        self.names.update((n, n.name) for n in holders)
        if names:
            self.write("".join(n + ", " for n in names) + "= args")
        self.write("args.clear()")
        known = set()
        for n in holders:
            val = n.meta.get("val")
            pairs = [(val, n.name)] if isinstance(val, torch.SymInt) else []
            if isinstance(val, torch.Tensor):
                pairs = [(v, f"{n.name}.shape[{d}]") for d, v in enumerate(val.shape)]
            for v, text in pairs:
                if isinstance(v, torch.SymInt) and v.node.expr.is_symbol and str(v.node.expr) not in known:
                    known.add(str(v.node.expr))
                    self.write(f"{v.node.expr} = {text}")
            if isinstance(val, torch.Tensor) and not symbols_in(val.stride()):
                stride = tuple(map(int, val.stride()))
                self.write(f"if {n.name} is not None and {n.name}.stride() != {stride!r}: "
                           f"{n.name} = _as_traced({n.name}, {stride!r})")

    def group(self, k, kernels):
        g, results = kernels.group, []
        for n in g.outputs + g.empty:
            val = n.meta["val"]
            order, shape = order_of(val), list(val.shape)
            stride = val.stride() if order and not repeated(val) else _row_major(shape)
            dtype = self.bind(val.dtype, str(val.dtype).replace("torch.", "_"))
            where = "" if g.device.type == "cpu" else f", device={self.bind(g.device, f'_device{k}')}"
            if where:
                self.write(f"{n.name} = _torch.empty_strided({self.sizes(shape)}, {self.sizes(stride)}, "
                           f"dtype={dtype}{where})")
            else:
                self.write(f"{n.name} = _cpu({self.sizes(shape)}, {self.sizes(stride)}, {dtype})")
            self.names[n] = n.name
            results += [n.name] if n in g.outputs else []
        sizes = "{" + ", ".join(f"{s!r}: {s}" for s in g.symbols) + "}"
        inputs = ", ".join(self.names[n] for n in g.inputs)
        self.write(f"{self.bind(kernels, f'_group{k}')}([{inputs}], [{', '.join(results)}], {sizes})")
        for n in g.nodes:
            if n.target is COPY:
                self.names[n] = self.names[n.args[0]]
        for n, root in g.views.items():
            val, base = n.meta["val"], root.meta["val"]
            offset = val.storage_offset() - base.storage_offset()
            self.write(f"{n.name} = _view({self.names[root]}, {self.sizes(val.shape)}, {self.sizes(val.stride())}, "
                       f"{self.size(offset)})")
            self.names[n] = n.name

    def operation(self, n):
        self.names[n] = n.name
        if n.op == "get_attr":
            return self.bind(_attribute(self.gm, n.target), n.name)
        if is_size(n):
            return self.write(f"{n.name} = {self.size(n.meta['val'])}")
        args = [self.argument(a) for a in n.args]
        args += [f"{k}={self.argument(v)}" for k, v in n.kwargs.items()]
        name = f"_f_{n.name}"
        self.write(f"{n.name} = {self.bind(n.target, name)}({', '.join(args)})")
        val = n.meta.get("val")
        if isinstance(val, torch.Tensor) and val.is_complex() and not val.is_conj():  # of a number it is not traced so
            self.write(f"{n.name} = {n.name}.resolve_conj()")
        if isinstance(val, torch.Tensor) and val.layout is torch.strided and not symbols_in(val.stride()):
            stride = tuple(map(int, val.stride()))
            self.write(f"if {n.name}.stride() != {stride!r}: {n.name} = _as_traced({n.name}, {stride!r})")

    def function(self, groups, level):
        nodes = list(self.gm.graph.nodes)
        self.inputs([n for n in nodes if n.op == "placeholder"])
        for n in nodes:
            if n.op == "get_attr" or (n.op == "call_function" and n not in level):
                self.operation(n)
        steps = [(at, 0, k, kernels) for k, (at, kernels) in enumerate(groups)]
        steps += [(at, 1, i, n) for i, n in enumerate(nodes) if (at := level.get(n, 0)) % 2]
        for _, is_node, k, what in sorted(steps, key=lambda s: s[:3]):
            if is_node:
                self.operation(what)
            else:
                self.group(k, what)
        self.write("return " + self.argument(next(n for n in nodes if n.op == "output").args[0]))
        source = "def run(args):\n" + "\n".join(self.lines) + "\n"
        exec(compile(source, "<nereid graph>", "exec"), self.space)
        run = self.space["run"]
        run.source = source
        return run


def _as_traced(t, stride):
    """The tensor, lying in memory as it did when the graph was traced. Strides of dims of size 1 do not matter."""
    if all(n < 2 or s == w for n, s, w in zip(t.shape, t.stride(), stride)) or not t.numel():
        return t
    return torch.empty_strided(t.shape, stride, dtype=t.dtype, device=t.device).copy_(t)


def _row_major(shape):
    out = []
    for n in reversed(shape):
        out.append(out[-1] * last if out else 1)
        last = n
    return out[::-1]


def _attribute(gm, path):
    for part in path.split("."):
        gm = getattr(gm, part)
    return gm


PRODUCTS = {"auto": 0, "own": 1, "library": 2}  # nereid_fuse_products


def compile_graph(gm, example_inputs, products=PRODUCTS["own"]):
    """For AOTAutograd: what runs an ATen graph."""
    failed, state = {}, {}

    def make():
        state["groups"], level = _groups(gm, failed, products)
        state["run"] = _Writer(gm).function(state["groups"], level)

    def first(args):
        while True:  # a kernel that its back end refuses lets PyTorch run its group
            wrong = {}
            for _, kernels in state["groups"]:
                why = kernels.failed()
                if why:
                    wrong.update((n, f"{n.target}: {why}") for n in kernels.group.nodes)
            if not wrong:
                break
            failed.update(wrong)
            make()
        state["call"] = state["run"]
        return state["run"](args)

    def run(args):
        return state["call"](args)

    make()
    state["call"] = first
    run._boxed_call = True  # takes a list, which is emptied
    return run


def _products(mode, options):
    """Who computes products: measuring takes a second for each, and so is asked for, as in Inductor."""
    name = (options or {}).get("products", "auto" if str(mode).startswith("max-autotune") else "own")
    if name not in PRODUCTS:
        raise ValueError(f"products is {name!r}; it may be {', '.join(PRODUCTS)}")
    return PRODUCTS[name]


def _backward_at_once():
    """The backward graph is given to us with the forward one, and not when it first runs: its kernels are compiled
    while the forward graph runs, or waits for its own."""
    from torch._functorch import config
    if hasattr(config, "force_non_lazy_backward_lowering"):
        return config.patch(force_non_lazy_backward_lowering=True)
    return contextlib.nullcontext()


_aten = torch.ops.aten
# What the reader knows as it stands (src/graph/read/library), or never sees in a form that decomposing changes. Tracing
# the parts of these in Python is most of what a cold compile would take more than Dynamo and AOTAutograd alone.
# Softmax stays decomposed: of its parts the partitioner keeps the row's maximum and sum, where it would keep all of it.
_KNOWN = {_aten._native_batch_norm_legit, _aten._native_batch_norm_legit_functional,
          _aten._native_batch_norm_legit_no_training, _aten.native_batch_norm_backward, _aten.native_layer_norm,
          _aten.native_layer_norm_backward, _aten.native_group_norm, _aten.native_group_norm_backward,
          _aten.convolution_backward, _aten.gelu, _aten.gelu_backward, _aten.silu, _aten.silu_backward,
          _aten.threshold_backward, _aten.sigmoid_backward, _aten.tanh_backward, _aten._softmax_backward_data,
          _aten._log_softmax_backward_data, _aten.mm, _aten.addmm, _aten.bmm, _aten.add,
          # These need a part of Inductor that takes a second to import:
          _aten.max_pool2d_with_indices, _aten.max_pool3d_with_indices}


def _transpose(x, a, b):
    dims = list(range(x.dim()))
    if dims:
        dims[a], dims[b] = dims[b], dims[a]
    return _aten.permute.default(x, dims)


def _t(x):
    return _transpose(x, 0, 1) if x.dim() == 2 else _aten.alias.default(x)


def _decompositions():
    """Inductor's, but for those of _KNOWN. Of those of transposing there are hundreds; PyTorch's take a millisecond
    each."""
    from torch._inductor.decomposition import select_decomp_table
    table = {op: f for op, f in select_decomp_table().items() if getattr(op, "overloadpacket", op) not in _KNOWN}
    return {**table, _aten.transpose.int: _transpose, _aten.t.default: _t}


def backend(gm, example_inputs, mode=None, options=None, **unused):
    from torch._dynamo.backends.common import aot_autograd

    from ._joint import partition
    compiler = functools.partial(compile_graph, products=_products(mode, options))
    with _backward_at_once():
        return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, decompositions=_decompositions,
                            partition_fn=partition, keep_inference_input_mutations=True)(gm, example_inputs)
