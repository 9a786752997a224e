# What random programs beside PyTorch found: numbers of an integer's type, types of results, tensors without elements,
# and gradients where a length is below eps, where no weight of a convolution meets an element. The numbers are PyTorch's.
# args: x=arange:f32[2,4] u=arange:u8[7] e=zeros:f32[3,0] h=ones:f16[2] w=ones:f32[2,4,2,2]
# result: 1
import torch
import torch.nn.functional as F


def is_near(a, b): return (abs(a - b) < 1e-5).to(torch.float32)


def forward(x, u, e, h, w):
    good = is_near(F.pad(u, (1, 1), value=2.75).sum(), 25)
    good = good * is_near(F.pad(u > 3, (1, 1), value=0.5).sum(), 5)
    good = good * is_near((u.clamp(-1, 2) // (u + 1)).sum(), 3)  # -1 is 255 there
    good = good * is_near((torch.where(u > 3, u, 4) + 253).sum(), 10)
    good = good * is_near(F.one_hot(u.long() % 3, 3)[:, 0].sum(), 3)
    good = good * is_near(torch.take_along_dim(x, torch.argmax(x, 0, keepdim=True), 0).sum(), 22)
    if torch.add(h, u[:2], alpha=0.5).dtype != torch.float16 or torch.cat([x.double()[0, :0], x[0]]).dtype != torch.float64:
        good = good * 0
    empty = torch.softmax(e, 1).sum() + torch.log_softmax(e, 0).sum() + e.topk(2, 0)[0].sum()
    good = good * is_near(empty, 0) * (torch.logsumexp(e, 1).sum() < -1e30).to(torch.float32)
    y = x.detach().requires_grad_()
    F.cosine_similarity(y * 0.01, y.detach() + 1, dim=1, eps=0.1).sum().backward()
    good = good * is_near(y.grad.abs().sum(), 0.128737)
    z = x.double().reshape(2, 4, 1, 1).detach().requires_grad_()
    (F.conv2d(z, w.double(), stride=2, padding=1) ** 2).sum().backward()
    wide = F.interpolate(x.double().unsqueeze(0), size=7, mode='linear')[0, 0, 3]
    return good * is_near(z.grad.sum(), 448) * (abs(wide - 1.5) < 1e-12).to(torch.float32) * is_near(F.interpolate(x.unsqueeze(0), size=5, mode='linear')[0, 0, 1], 0.7)
