# torch.nn: modules, and the functions that only they need. Those of one subject stand in its file, after the functions.
#
# A parameter or buffer is an input of the graph, called by its path ("layers.0.weight"); what a run gives a buffer anew
# is written back. Modules are in training mode until eval() is called, as PyTorch's are.


class Module:
    training = True

    def __init__(self, *args, **how): return None

    def train(self, mode=True):
        self.training = mode
        for child in prim.children(self):
            child.train(mode)
        return self

    def eval(self): return self.train(False)
    def to(self, *where, **how): return self
    def cuda(self, device=None): return self
    def cpu(self): return self
    def float(self): return self
    def apply(self, f): return self
    def parameters(self, recurse=True): return prim.parameters(self)[1]
    def named_parameters(self, prefix='', recurse=True): return [(prefix + n, p) for n, p in zip(*prim.parameters(self))]

    def requires_grad_(self, requires_grad=True):
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for p in self.parameters():
            p.grad = None

    def register_parameter(self, name, value): setattr(self, name, value)
    def register_buffer(self, name, value, persistent=True): setattr(self, name, value if value is None else prim.buffer(value.shape, value.dtype))
    def add_module(self, name, module): setattr(self, name, module)
    def register_module(self, name, module): setattr(self, name, module)
    def register_forward_pre_hook(self, hook): run_before(self, hook)

    def register_forward_hook(self, hook):
        run_before(self, None)
        self._after.append(hook)

    def get_submodule(self, target):
        for name in target.split('.') if target else []:
            self = getattr(self, name)
        return self

    def children(self): return prim.children(self)
    def get_parameter(self, name): return dict(self.named_parameters())[name]

    def modules(self):
        out = [self]
        for child in prim.children(self):
            for m in child.modules():
                if m not in out:
                    out.append(m)
        return out

    def named_children(self): return prim.named_children(self)

    def named_modules(self, memo=None, prefix='', remove_duplicate=True):
        out = [(prefix, self)]
        for name, child in prim.named_children(self):
            out += child.named_modules(memo, prefix + ('.' if prefix else '') + name)
        return out



# What runs before a module's forward, on the module and its inputs, which it may replace. No closure knows the module:
# a copy of it has its own.
def run_before(module, f, *more):
    if not hasattr(module, '_before'):
        module._before, module._after = [], []
    if f is not None:
        module._before.append([f, more])


def hooked(module, *x, **how):
    for f, more in module._before:
        y = f(module, x, *more)
        x = x if y is None else y if isinstance(y, tuple) else (y,)
    y = module.forward(*x, **how)
    for f in module._after:
        z = f(module, x, y)
        y = y if z is None else z
    return y


def Parameter(data, requires_grad=True): return prim.requires_grad(prim.parameter(data.shape, data.dtype), requires_grad)
def Buffer(data, persistent=True): return prim.buffer(data.shape, data.dtype)


class Sequential(Module):
    def __init__(self, *modules):
        named = len(modules) == 1 and isinstance(modules[0], dict)
        self._dict = dict(modules[0]) if named else dict([(str(i), m) for i, m in enumerate(modules)])

    def __iter__(self): return list(self._dict.values())
    def __len__(self): return len(self._dict)
    def __getattr__(self, name): return self._dict[name]
    def __setitem__(self, i, module): self._dict[list(self._dict.keys())[i]] = module

    def __getitem__(self, i):
        picked = list(self._dict.values())[i]
        return Sequential(*picked) if isinstance(picked, list) else picked

    def add_module(self, name, module): self._dict[name] = module

    def append(self, module):
        self._dict[str(len(self._dict))] = module
        return self

    def extend(self, modules):
        for m in modules:
            self.append(m)
        return self

    def insert(self, i, module):
        modules = list(self._dict.values())
        modules.insert(i, module)
        self._dict = dict([(str(k), m) for k, m in enumerate(modules)])

    def forward(self, x):
        for m in self._dict.values():
            x = m(x)
        return x


class ModuleList(Sequential):
    def __init__(self, modules=()): self._dict = dict([(str(i), m) for i, m in enumerate(modules)])

    def __getitem__(self, i):
        picked = list(self._dict.values())[i]
        return ModuleList(picked) if isinstance(picked, list) else picked

    def forward(self, *x): prim.fail("a ModuleList has no forward")


class ParameterList(ModuleList):
    def __init__(self, values=()): self._dict = dict([(str(i), m) for i, m in enumerate(values)])


class ModuleDict(Module):
    def __init__(self, modules=None): self._dict = {} if modules is None else dict(modules)
    def __getitem__(self, name): return self._dict[name]
    def __getattr__(self, name): return self._dict[name]
    def __setitem__(self, name, module): self._dict[name] = module
    def __contains__(self, name): return name in self._dict
    def __iter__(self): return list(self._dict.keys())
    def __len__(self): return len(self._dict)
    def add_module(self, name, module): self._dict[name] = module
    def update(self, modules): self._dict.update(modules)
    def items(self): return self._dict.items()
    def values(self): return self._dict.values()
    def keys(self): return self._dict.keys()


class ParameterDict(ModuleDict):
    def __init__(self, parameters=None): self._dict = {} if parameters is None else dict(parameters)


class Identity(Module):
    def __init__(self, *args, **how): self.training = True
    def forward(self, x): return x


# ---- the function of a name, with what the module was made with ----

class Elementwise(Module):
    def __init__(self, *args, **how): self.args, self.how = args, how
    def forward(self, x): return self.call(x, *self.args, **self.how)


class Activation(Elementwise):  # a bool after the numbers is `inplace`
    def __init__(self, *args, inplace=False, **how):
        self.args, self.how = [a for a in args if not isinstance(a, bool)], how
        self.inplace = inplace or True in [a for a in args if isinstance(a, bool)]

    def forward(self, x):
        y = self.call(x, *self.args, **self.how)
        return prim.overwrite(x, y, 'inplace=True') if self.inplace else y
