# Modules that learn from their first input how many channels there are.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.LazyConv2d(6, 3, padding=1), nn.LazyBatchNorm2d(), nn.ReLU(), nn.LazyConvTranspose2d(4, 2, stride=2))
        self.head = nn.LazyLinear(out_features=5, bias=False)

    def forward(self, x):
        y = self.stem(x)
        return self.head(y.flatten(1)), self.head(y.flatten(1) * 2)


def get_inputs():
    return [torch.randn(2, 3, 4, 5)]


def get_init_inputs():
    return []


def made_within(x):
    return nn.Linear(3, 2)(x) + nn.Linear(3, 2)(x * 2)
