"""What AOTAutograd does with the graph of forward and backward before it cuts it in two: of two operations that compute
the same it keeps the first. PyTorch's own pass asks for two small functions of Inductor's pattern matcher, which loads
all of Inductor: a tenth of what a cold compile of a small model takes."""
import contextlib
import operator

import torch


def _key(a):
    """What an argument is, such that equal keys are equal arguments: 1, 1.0 and True differ, as do 0.0 and -0.0."""
    if isinstance(a, (list, tuple)):
        return type(a).__name__, *map(_key, a)
    if isinstance(a, dict):
        return "dict", *((k, _key(v)) for k, v in a.items())
    if isinstance(a, slice):
        return "slice", _key(a.start), _key(a.stop), _key(a.step)
    if isinstance(a, (float, complex)):
        return type(a), repr(a)
    if isinstance(a, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return type(a), a.node
    hash(a)
    return type(a), a


_OWN = {torch.Tag.nondeterministic_seeded,  # each call has a result, or sizes, of its own
        torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}


def _writes(node):
    """Or may."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.is_mutable
    return isinstance(target, torch._ops.HigherOrderOperator)


def _is_pure(node):
    """A function of its arguments alone: of tensors, a part of a result, or of sizes."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return not (_OWN & set(target.tags) or "empty" in target.overloadpacket.__name__ or node.is_impure())
    return target is operator.getitem or isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def _storage(node):
    """Of a tensor, as a number; None: it has none."""
    val = node.meta.get("val")
    try:
        return val.untyped_storage()._cdata if isinstance(val, torch.Tensor) else None
    except NotImplementedError:
        return None


def share(graph):
    """Of operations that compute the same the first serves all. What lies in an output's memory stays by itself, since
    the program's results are apart; past an operation that writes, values may be others."""
    output = next(n for n in reversed(graph.nodes) if n.op == "output")
    results = {_storage(n) for n in output.all_input_nodes} - {None}
    known = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if _writes(node):
            known.clear()
        if _writes(node) or not _is_pure(node) or _storage(node) in results:
            continue
        try:
            key = node.target, _key(node.args), _key(node.kwargs)
        except TypeError:  # an argument that cannot be hashed
            continue
        first = known.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def partition(joint, inputs, **options):
    """AOTAutograd's own way to cut a joint graph."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._functorch import config
    ours = hasattr(config, "cse") and config.cse
    if ours:
        share(joint.graph)
    with config.patch(cse=False) if ours else contextlib.nullcontext():
        return min_cut_rematerialization_partition(joint, inputs, **options)
