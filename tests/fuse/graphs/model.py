# A module as KernelBench's tasks have them: its parameters are inputs of the graph, buffers are written back.
import torch
import torch.nn as nn

batch, width = 6, 32


class Block(nn.Module):
    def __init__(self, width, heads, act=nn.GELU):
        super(Block, self).__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.heads = heads
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), act(), nn.Dropout(0.25), nn.Linear(2 * width, width))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = [y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(self.norm(x)).split(c, dim=2)]
        att = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        att = att.masked_fill(torch.tril(torch.ones(t, t)) == 0, float("-inf"))
        y = torch.softmax(att, dim=-1) @ v
        x = x + y.transpose(1, 2).contiguous().view(b, t, c)
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.stem = nn.Conv1d(3, width, kernel_size=3, padding=1)
        self.bn = nn.BatchNorm1d(width)
        self.blocks = nn.ModuleList([Block(width, 4) for _ in range(layers)])
        self.scale = nn.Parameter(torch.ones(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = torch.relu(self.bn(self.stem(x))).permute(0, 2, 1)
        for block in self.blocks:
            x = block(x)
        x = torch.mean(x * self.scale, dim=1)
        return self.head(x)


def get_inputs():
    return [torch.rand(batch, 3, 12)]


def get_init_inputs():
    return [width, 2]
