"""What a @jit function's source reaches: other functions, whose keys are part of its own, and globals that it reads."""
import ast
import copy
import hashlib
import inspect
from types import ModuleType

from .._utils import of_another_triton

_LANGUAGE = ("nereid.triton", "triton.language")
_KNOWN_MODULES = {"copy", "math"}


def _is_language(value):
    if getattr(value, "__triton_builtin__", False):
        return True
    return callable(value) and not isinstance(value, (int, float, str)) and hasattr(value, "__name__") and (
        getattr(value, "__module__", None) or "").startswith(_LANGUAGE)


class Dependences(ast.NodeVisitor):
    def __init__(self, fn):
        self.fn, self.globals, self.nonlocals = fn, fn.__globals__, fn._scope()
        self.hasher = hashlib.sha256(fn.src.encode())
        self.used = {}  # (name, id of the dict) -> (value, the dict)
        self.locals, self.in_default = set(), False
        self.visit(fn.parse())

    def key(self, line):
        from ..language.core import constexpr
        constants = [(name, value) for (name, _), (value, _) in sorted(self.used.items(), key=lambda i: i[0][0])
                     if isinstance(value, constexpr)]
        return hashlib.sha256(f"{self.hasher.hexdigest()}{line}{constants}".encode()).hexdigest()

    def _merge(self, callee):
        key = callee.cache_key  # fills used_global_vals
        for k in self.used.keys() & callee.used_global_vals.keys():
            mine, other = self.used[k][0], callee.used_global_vals[k][0]
            if mine != other:
                raise RuntimeError(
                    f"Global variable {k[0]} has value {mine} when compiling {self.fn._fn_name}, but inner kernel "
                    f"{callee.__name__} has conflicting value {other} from when it was first compiled.  This is not "
                    "allowed.")
        self.used.update(callee.used_global_vals)
        self.hasher.update(f"{key}{getattr(callee, 'noinline', False)}".encode())

    def _reference(self, value, where=None, name=None):
        from ..language.core import constexpr
        from .jit import JITCallable
        if value is None or isinstance(value, ModuleType):
            return
        if getattr(value, "__triton_aggregate__", False):
            for attr in value.hash_attrs:
                self._reference(attr)
        elif isinstance(value, JITCallable):
            if value.__dict__.get("library") is None and getattr(value, "hash_value", "") != "":
                self._merge(value)
        elif _is_language(value):
            pass  # of another package, too: the compiler says what is wrong with it
        elif inspect.isbuiltin(value):
            pass  # it has no text
        elif callable(value) and not isinstance(value, (type, constexpr)):
            raise RuntimeError(f"Unsupported function referenced: {of_another_triton(value) or value}")
        elif not self.in_default and where is not None:
            self.used[name, id(where)] = copy.deepcopy(value), where

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Store):
            return node.id
        if node.id in self.locals:
            return None
        for where in (self.globals, self.nonlocals):
            value = where.get(node.id)
            if value is not None:
                self._reference(value, where, node.id)
                return value
        return None

    def visit_Attribute(self, node):
        of = self.visit(node.value)
        while isinstance(of, ast.Attribute):
            of = self.visit(of.value)
        name = getattr(of, "__name__", "")
        if of is None or name in _KNOWN_MODULES or (isinstance(of, ModuleType) and name.startswith(_LANGUAGE)):
            return None
        value = getattr(of, node.attr)
        self._reference(value)
        return value

    def visit_Tuple(self, node):
        return [self.visit(e) for e in node.elts]

    def visit_FunctionDef(self, node):
        self.locals = {a.arg for a in node.args.args}
        self.generic_visit(node)

    def visit_arguments(self, node):
        for a in [*node.posonlyargs, *node.args, *([node.vararg] if node.vararg else []), *node.kwonlyargs]:
            self.visit(a)
        self.in_default = True
        for default in [*node.kw_defaults, *node.defaults]:
            if default is not None:
                self.visit(default)
        self.in_default = False

    def _target(self, node):
        target = self.visit(node)
        self.locals |= {t for t in target if isinstance(t, str)} if isinstance(target, list) else {target}

    def visit_Assign(self, node):
        if len(node.targets) != 1:
            raise TypeError("Simultaneous multiple assignment is not supported.")
        self._target(node.targets[0])
        self.generic_visit(node)

    def visit_AnnAssign(self, node):
        self._target(node.target)
        self.generic_visit(node)

    def visit_For(self, node):
        self._target(node.target)
        self.generic_visit(node)
