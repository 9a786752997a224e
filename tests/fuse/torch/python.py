"""Python itself: decorators, data classes, sets, keywords of its functions; and tensors written while a module is made."""
import functools
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Sizes:
    width: int
    heads: int = 2
    scale: float = 0.5

    @property
    def head(self):
        return self.width // self.heads


@dataclass
class MoreSizes(Sizes):
    bias: bool = True

    def __post_init__(self):
        self.twice = 2 * self.width


class Shapes:
    factor = 3

    @staticmethod
    def flat(x):
        return x.reshape(-1)

    @classmethod
    def times(cls, x):
        return x * cls.factor


class OtherShapes(Shapes):
    factor = 5


def doubled(f):
    @functools.wraps(f)
    def g(*args):
        return f(*args) * 2
    return g


def times(n):
    return lambda f: lambda x: f(x) * n


@doubled
def plus_one(x):
    return x + 1


@times(3)
@doubled
def minus_one(x):
    return x - 1


# x f64[4,6]
def classes(x):
    c, d = Sizes(6, scale=2.0), MoreSizes(6, 3, bias=False)
    return [x.view(4, c.heads, c.head) * c.scale, x * d.twice + d.head, x if d.bias else -x, Shapes.flat(x), Shapes().flat(x), OtherShapes.times(x), OtherShapes().times(x), plus_one(x), minus_one(x)]


# x f64[4,6]
def functions(x):
    names = {"b": 3, "a": 1, "c": 2}
    order = sorted(names, key=lambda k: names[k], reverse=True)
    last = names.pop("c")
    names.setdefault("z", 9)
    names.setdefault("a", 7)
    sizes = list(map(lambda a, b: a * b, [1, 2], [3, 4])) + list(filter(lambda n: n > 1, {1, 2, 2, 3}))
    sizes.remove(3)
    sizes.sort(reverse=True)
    most = max(["x", "yyy", "zz"], key=len)
    return [x * sum(names.values()), x * len(sizes), x * sizes[0], x + len(order[0] + most) + last, x * round(2.567, 1), x * round(2.5), x + sum(i * n for i, n in enumerate([4, 5], start=1)),
            x * max([], default=7), x + len(" ab ".strip()), x * (1 if type(x) is torch.Tensor and callable(plus_one) else 0), x * ("c" in names)]


# layer.weight f32[3,4], scale f32[3], table f32[5,4], x f32[2,4]
# tolerance 1e-6
class WrittenWhileMade(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3, bias=False)
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("table", torch.zeros(5, 4))
        self.layer.weight.data.uniform_(-1, 1)
        nn.init.zeros_(self.scale)
        with torch.no_grad():
            self.scale[0] = 7
            self.layer.weight.fill_(0.5)
        self.table[2] = 1
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                module.weight.data.normal_(0, 0.02)
        place = torch.arange(6).reshape(2, 3)
        place[:, 0] += 2
        self.first = [int(n) for n in (2, 3)]
        self.place = place

    def forward(self, x):
        return self.layer(x) * self.scale, self.table.sum(0), x.reshape(-1)[self.place % 5]


# c.weight f32[4], b.pos_weight f32[4], n.weight f32[4], x f32[5,4], t i64[5]<4, y f32[5,4]
# tolerance 1e-6
class WeightsOfClasses(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.CrossEntropyLoss(torch.rand(4), ignore_index=2, label_smoothing=0.1)
        self.b = nn.BCEWithLogitsLoss(pos_weight=torch.ones(4))
        self.n = nn.NLLLoss(weight=torch.ones(4), reduction="sum")

    def forward(self, x, t, y):
        return self.c(x, t), self.b(x, (y > 0).float()), self.n(x, t)
