# What else tensor code imports.


# ---- random numbers of a normal distribution; filling parameters, which the caller fills ----

def randn(*size, dtype=None, **placed):
    s = sizes_of(size)
    if dtype is not None and prim.is_complex(dtype):  # parts of variance 1 / 2
        part = prim.real(prim.full([], 0, dtype)).dtype
        return prim.complex(randn(s, dtype=part), randn(s, dtype=part)) * 0.7071067811865476
    radius = prim.sqrt(-2 * prim.log(1 - prim.uniform(s, or_float(dtype))))
    return radius * prim.cos(prim.uniform(s, or_float(dtype)) * (2 * math.pi))


def randn_like(x, *, dtype=None, **placed): return randn(x.shape, dtype=x.dtype if dtype is None else dtype)


def randint(low, high, size=None, *, dtype=None, **placed):
    if size is None:
        low, high, size = 0, low, high
    return prim.convert(prim.floor(prim.uniform(size, torch.float32) * (high - low)) + low, torch.int64 if dtype is None else dtype)


def randint_like(x, low, high=None, *, dtype=None, **placed): return prim.convert(randint(0, low, x.shape) if high is None else randint(low, high, x.shape), x.dtype if dtype is None else dtype)


def init_xavier_uniform_(x, gain=1.0): return x
def init_xavier_normal_(x, gain=1.0): return x
def init_kaiming_uniform_(x, a=0, mode='fan_in', nonlinearity='leaky_relu'): return x
def init_kaiming_normal_(x, a=0, mode='fan_in', nonlinearity='leaky_relu'): return x
def init_normal_(x, mean=0.0, std=1.0): return x
def init_uniform_(x, a=0.0, b=1.0): return x
def init_trunc_normal_(x, mean=0.0, std=1.0, a=-2.0, b=2.0): return x
def init_zeros_(x): return x
def init_ones_(x): return x
def init_constant_(x, value): return x
def manual_seed(seed): return None


# ---- other modules of Python ----

def copy(x, source, non_blocking=False): return prim.expand(prim.convert(source, x.dtype), x.shape)
def item(x): return prim.item(x)
def zero(x): return full_like(x, 0)
def fill(x, value): return full_like(x, value)
def python_itertools_repeat(x, n): return [x] * n
def python_collections_OrderedDict(*items): return dict(*items)
def python_copy_deepcopy(x): return prim.clone_module(x)


def python_functools_partial(f, *args, **how): return lambda *more, **others: f(*args, *more, **how, **others)


def axes_of(pattern):  # "b (c l) ..." -> [['b'], ['c', 'l'], ['...']]
    out, group = [], None
    for word in pattern.replace('(', ' ( ').replace(')', ' ) ').split(' '):
        if word == '(':
            group = []
        elif word == ')':
            out.append(group)
            group = None
        elif word != '' and group is not None:
            group.append(word)
        elif word != '':
            out.append([word])
    return out


def python_einops_rearrange(x, pattern, **sizes):
    left, right = pattern.split('->')
    left, right = axes_of(left), axes_of(right)
    rest = [f"...{i}" for i in range(x.ndim - len(left) + 1)]
    left = sum_lists([[[r] for r in rest] if a == ['...'] else [a] for a in left])
    right = sum_lists([[[r] for r in rest] if a == ['...'] else [a] for a in right])
    names, split_sizes = [], []
    for axis, n in zip(left, x.shape):
        known = 1
        for a in axis:
            known = known * sizes[a] if a in sizes else known
        for a in axis:
            names.append(a)
            split_sizes.append(sizes[a] if a in sizes else n // known)
    y = prim.reshape(x, [n for a, n in zip(names, split_sizes) if a != '1'])
    names, split_sizes = [a for a in names if a != '1'], [n for a, n in zip(names, split_sizes) if a != '1']
    order = [a for axis in right for a in axis if a != '1']
    y = prim.permute(y, [names.index(a) for a in order])
    final = []
    for axis in right:
        n = 1
        for a in axis:
            n = n if a == '1' else n * split_sizes[names.index(a)]
        final.append(n)
    return prim.reshape(y, final)


def sum_lists(lists):
    out = []
    for l in lists:
        out += l
    return out
