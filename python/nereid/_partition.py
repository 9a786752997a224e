"""An ATen graph in parts: groups of operations that `nereid fuse` makes kernels of, and what PyTorch runs between them.

    levels   each operation gets a number: even where it is ours, odd where it is PyTorch's, never below an operand's.
             Ours of one level are a group. A way that leaves a group only goes up, so that no group waits for itself.
    Group    the operations of one level on one device as text for the reader, with what comes in and what goes out

How a tensor lies is a matter of the group's border: an operand that is stored transposed is declared as it is stored
and permuted in the text, a result likewise; what a view shows of another tensor is not computed at all.
"""
import operator

import torch

TYPES = {torch.bool: "i1", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
         torch.uint8: "u8", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
         torch.complex64: "c64", torch.complex128: "c128"}
COPY = torch.ops.aten.copy_.default
_aten = torch.ops.aten
_VIEWS = {_aten.permute.default, _aten.view.default, _aten.expand.default, _aten.t.default, _aten.transpose.int,
          _aten.unsqueeze.default, _aten.squeeze.dim, _aten.squeeze.dims, _aten.squeeze.default, _aten.slice.Tensor,
          _aten.select.int, _aten.alias.default, _aten.detach.default, _aten._unsafe_view.default,
          _aten.reshape.default, _aten.diagonal.default}
_RANDOM = {_aten.rand.default, _aten.rand_like.default, _aten.randn.default, _aten.randn_like.default,
           _aten.native_dropout.default}
_SEED = "seed_of_random_numbers"


def tensors_of(node):
    """What the node gives, as fake tensors; None: something else."""
    val = node.meta.get("val")
    if isinstance(val, torch.Tensor):
        return [val]
    if isinstance(val, (list, tuple)) and all(v is None or isinstance(v, torch.Tensor) for v in val):
        return [v for v in val if v is not None]
    return None


def is_symbol(node):
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def is_size(node):
    val = node.meta.get("val")
    return isinstance(val, torch.SymInt) and val.node.hint is not None


def is_tensor(node):
    return isinstance(node.meta.get("val"), torch.Tensor)


def is_filled(node):
    return not any(isinstance(v, int) and v == 0 for v in node.meta["val"].shape)


def is_random(node):
    return node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def expression(v):
    """A size as text: a number, or an expression of symbols."""
    return str(v.node.expr) if isinstance(v, torch.SymInt) else repr(v)


def _hints(values):
    return [v.node.hint if isinstance(v, torch.SymInt) else int(v) for v in values]


def symbols_in(values):
    out = set()
    for v in values:
        if isinstance(v, torch.SymInt):
            out |= {str(s) for s in v.node.expr.free_symbols}
    return out


def order_of(val):
    """The dims of a tensor from the slowest to the fastest, where it lies dense in memory but for dims that repeat;
    None: it has gaps or overlaps."""
    shape, strides = _hints(val.shape), _hints(val.stride())
    dims = sorted((d for d in range(len(shape)) if shape[d] != 1 and strides[d]), key=lambda d: -strides[d])
    step = 1
    for d in reversed(dims):
        if strides[d] != step:
            return None
        step *= shape[d]
    if dims == sorted(dims):
        return list(range(len(shape)))
    rest = [d for d in range(len(shape)) if d not in dims]
    return rest + dims


def is_lazy(val):
    """Whether its memory holds the conjugates, or the negatives, of its values."""
    return val.is_conj() or val.is_neg()


def order_of_input(val):
    """In which order the dims of what a program gets lie; None: it gets a copy, row by row."""
    return None if is_lazy(val) else order_of(val)


def repeated(val):
    return [d for d, (n, s) in enumerate(zip(_hints(val.shape), _hints(val.stride()))) if n > 1 and s == 0]


def _symbolic_type(val):
    """A size or a type that the reader's polynomials do not have."""
    return any(isinstance(v, torch.SymInt) and v.node.hint is None for v in val.shape)


class Rules:
    """Which operations are ours. refused: {node: why} and targets of which no instance is."""

    def __init__(self, gm):
        self.nodes, self.targets = {}, {}
        self.no_random = _fallback_random()
        self.written = {n.args[0] for n in gm.graph.nodes if n.op == "call_function" and n.target is COPY}

    def why_not(self, node):
        """None: it is ours. Else a reason; an empty one is nothing to speak of."""
        if node in self.nodes:
            return self.nodes[node]
        if node.target is operator.getitem:
            return self.why_not(node.args[0]) if node.args[0].op == "call_function" else ""
        if node.target in self.targets:
            return self.targets[node.target]
        why = self.nodes[node] = self._why_not(node)
        return why

    def _why_not(self, node):
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            return f"{getattr(target, '__name__', target)}"
        given = tensors_of(node)
        if target.namespace not in ("aten", "prims"):
            return str(target)
        if given is None:
            return f"{target} gives no tensors"
        if not given:
            return ""
        if target._schema.is_mutable and (target is not COPY or node.args[0].op != "placeholder"):
            return f"{target} writes in place"
        if is_random(node) and "scaled_dot_product" not in str(target):
            if self.no_random or target not in _RANDOM:
                return f"random numbers of {target}"
        if "scaled_dot_product" in str(target) and is_random(node) and _argument(node, "dropout_p", 0.0):
            return f"random numbers of {target}"
        if target is _aten._local_scalar_dense.default:
            return str(target)
        if "efficient_attention" in str(target) and symbols_in(node.args[0].meta["val"].shape[2:3]):
            return f"{target} of a number of queries that changes"  # whose results it fills up to a multiple of 32
        devices = set()
        for val in given + [a.meta["val"] for a in node.all_input_nodes if is_tensor(a)]:
            if val.dtype not in TYPES:
                return f"{target} of {str(val.dtype).replace('torch.', '')}"
            if val.layout is not torch.strided or type(val).__name__ not in ("FakeTensor", "Tensor", "Parameter"):
                return f"{target} of a tensor that is not strided"
            if _symbolic_type(val):
                return f"{target}: a size that depends on data"
            devices.add(val.device)
        if len(devices) != 1:
            return f"{target} on several devices"
        return None if devices.pop().type in ("cpu", "cuda") else f"{target} on this device"


def _fallback_random():
    import sys
    config = sys.modules.get("torch._inductor.config")
    return bool(config and config.fallback_random)


def _argument(node, name, otherwise):
    for i, a in enumerate(node.target._schema.arguments):
        if a.name == name:
            return node.args[i] if i < len(node.args) else node.kwargs.get(name, otherwise)
    return otherwise


def levels(gm, rules):
    """{node: level}. Operations of PyTorch's that draw random numbers stay in order."""
    level, last_random, calls = {}, -1, [n for n in gm.graph.nodes if n.op == "call_function"]
    for node in calls:
        if is_size(node):
            continue  # Python's
        ours = rules.why_not(node) is None
        least = 0 if ours else -1
        operands = node.all_input_nodes
        if node.target is COPY and node.args[0].op == "placeholder":
            operands = operands + [u for u in node.args[0].users if u is not node and u in level]
        for a in operands:
            if a in level:
                same = level[a] % 2 == (0 if ours else 1)
                least = max(least, level[a] if same else level[a] + 1)
        if not ours and is_random(node):
            least = max(least, last_random)
            last_random = least
        level[node] = least
    return level


class Group:
    """Operations of ours. inputs: nodes outside; outputs: nodes that others use; empty: those with no element, which
    nothing computes."""

    def __init__(self, nodes, used_outside, rules):
        inside = set(nodes)
        self.nodes, self.rules = nodes, rules
        self.inputs = list(dict.fromkeys(a for n in nodes for a in n.all_input_nodes
                                         if a not in inside and not is_symbol(a)))
        self.written = {n.args[0] for n in nodes if n.target is COPY}
        self.views = {}    # node -> the node that it shows a part of, inside or outside
        self.outputs, self.empty = [], []
        for n in nodes:
            if n.target is COPY or not is_tensor(n) or not used_outside(n):
                continue
            root = self._root(n, inside)
            if root is not None:
                self.views[n] = root
            made = n if root is None else root
            if made in inside and made not in self.outputs and made not in self.empty:
                (self.outputs if is_filled(made) else self.empty).append(made)
        self.random = [n for n in nodes if is_random(n)]
        self.device = (self.outputs[0] if self.outputs else nodes[0]).meta["val"]
        self.device = (self.device if isinstance(self.device, torch.Tensor) else tensors_of(nodes[0])[0]).device
        sizes = [v for n in nodes for t in tensors_of(n) or () for v in (*t.shape, *t.stride())]
        sizes += [v for n in self.inputs for v in (*n.meta["val"].shape, *n.meta["val"].stride())]
        sizes += [a.meta["val"] for n in nodes for a in n.all_input_nodes if is_symbol(a)]
        self.symbols = sorted(symbols_in(sizes))

    def _root(self, n, inside):
        """What the view n shows, when showing it is all that is to be done."""
        at = n
        while at in inside and at.target in _VIEWS and is_tensor(at):
            at = at.args[0]
        if at is n or at in self.rules.written or not is_tensor(at):
            return None
        root, val = at.meta["val"], n.meta["val"]
        if at not in inside and is_lazy(root):
            return None
        if root.dtype != val.dtype or root.device != val.device or root.untyped_storage() is None:
            return None
        if at in inside and (order_of(root) is None or repeated(root) or
                             _product(_hints(val.shape)) < _product(_hints(root.shape))):
            return None
        # The trace says where it lies: a view that had to be copied shares no memory with its root.
        return at if _same_storage(root, val) else None

    def computes(self):
        return bool(self.outputs or self.written) and any(
            n.target not in _VIEWS and n.target is not operator.getitem and n.target is not COPY for n in self.nodes)

    # ---- text ----

    def shape(self, sizes):
        """The text with numbers for names: groups that compute the same, as layers do, have the same."""
        numbers = {}
        return self.text(sizes, lambda node: f"v{numbers.setdefault(node, len(numbers))}")[0]

    def text(self, sizes, name_of=operator.attrgetter("name")):
        """(text, {line: node}). sizes: {symbol: number} of a program that is made for one shape."""
        def size(v):
            t = expression(v)
            if sizes and not t.isdigit():
                return str(int(v.node.expr.xreplace({s: sizes[str(s)] for s in v.node.expr.free_symbols})))
            return t

        def list_of(values):
            return "[" + ", ".join(map(size, values)) + "]"

        def argument(a):
            if isinstance(a, torch.fx.Node):
                return size(a.meta["val"]) if is_symbol(a) else self.names[a]
            if isinstance(a, (list, tuple)):
                inner = ", ".join(map(argument, a))
                return f"[{inner}]" if isinstance(a, list) else f"({inner}{',' if len(a) == 1 else ''})"
            if isinstance(a, (torch.SymInt, torch.SymFloat)):
                return size(a)
            return repr(a) if not isinstance(a, torch.device) else f"device({a.type!r})"

        self.names, head, body, lines = {}, [], [], {}
        for s in () if sizes else self.symbols:
            head.append(f'{s}: "Sym({s})"')
        if self.random:
            head.append(f'{_SEED}: "i64[1]"')
            body.append(f"torch.ops.prims.nereid_seed.default({_SEED})")
        for node in self.inputs:
            val, name = node.meta["val"], name_of(node)
            order, shape = order_of_input(val), list(val.shape)
            stored = name
            expanded = [1 if d in repeated(val) else n for d, n in enumerate(shape)]
            if order is None:
                order, expanded = list(range(len(shape))), shape
            self.names[node] = name
            if order != sorted(order):
                stored = name + "_"
                back = [order.index(d) for d in range(len(order))]
                body.append(f"{name} = torch.ops.aten.permute.default({stored}, {back})")
            head.append(f'{stored}: "{TYPES[val.dtype]}{list_of([expanded[d] for d in order])}"')
            if expanded != shape:
                body.append(f"{name} = torch.ops.aten.expand.default({name}, {list_of(shape)})")
        for node in self.nodes:
            lines[len(body)] = node
            if node.target is operator.getitem:
                # Of which type a mean of f16 is depends on the device, say.
                value, dtype = f"{self.names[node.args[0]]}[{node.args[1]}]", node.meta["val"].dtype
                if dtype.is_floating_point:
                    value = f"torch.ops.prims.convert_element_type.default({value}, {dtype})"
                self.names[node] = name_of(node)
                body.append(f"{self.names[node]} = {value}")
                continue
            if node.target is COPY:
                to, value = node.args[0], argument(node.args[1])
                order = order_of_input(to.meta["val"]) or list(range(to.meta["val"].dim()))
                stored = name_of(to)
                if order != sorted(order):
                    stored, value = name_of(to) + "_", f"torch.ops.aten.permute.default({value}, {order})"
                body.append(f"torch.ops.aten.copy_.default({stored}, {value})")
                continue
            args = [argument(a) for a in node.args]
            args += [f"{k}={argument(v)}" for k, v in node.kwargs.items()]
            note = ""
            if is_tensor(node):
                val = node.meta["val"]
                note = f': "{TYPES[val.dtype]}{list_of(val.shape)}"'
            target = f"torch.ops.{node.target.namespace}.{node.target._schema.name.split('::')[1]}"
            self.names[node] = name_of(node)
            body.append(f"{self.names[node]}{note} = {target}.{node.target._overloadname}({', '.join(args)})")
        results = []
        for node in self.outputs:
            order, name = order_of(node.meta["val"]), self.names[node]
            if order and order != sorted(order):
                body.append(f"{name}_ = torch.ops.aten.permute.default({name}, {order})")
                name += "_"
            results.append(name)
        begin = 6  # lines before the body
        text = ("import torch\nfrom math import inf, nan\nfrom torch import device\n\n\ndef forward(" + ", ".join(head) +
                "):\n" + "".join(f"    {line}\n" for line in body) + f"    return [{', '.join(results)}]\n")
        return text, {begin + 1 + i: n for i, n in lines.items()}


class Refused(Exception):
    """A node that is not ours after all; node None: the whole group."""

    def __init__(self, node, why):
        super().__init__(why)
        self.node, self.why = node, why


def _product(numbers):
    n = 1
    for v in numbers:
        n *= v
    return n


def _same_storage(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata
