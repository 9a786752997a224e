# A training step is one program: forward, backward, and the update of what an optimizer keeps.
# args: x=randn:f32[6,8] y=randint(0,4):i64[6]
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.head = nn.Linear(width, classes, bias=False)

    def forward(self, x):
        x = self.norm(x)
        for layer in self.layers:
            x = x + F.dropout(F.gelu(layer(x)), 0.2)
        return self.head(x)


model = Net(8, 4)
optimizer = torch.optim.AdamW([{"params": model.layers.parameters()}, {"params": model.head.parameters(), "lr": 0.1}], lr=0.01)
other = torch.optim.SGD(model.norm.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def forward(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    other.step()
    return loss, norm
