# Sorts: of rows of a block, of several blocks, of what is computed, the first few, along other dims.
# args: x=randn:f32[2,2500] d=randn:f64[1100,2] h=randn:bf16[2,3000] n=randint(0,50):i64[2,2100] m=randint(0,2):i1[3,9]
import torch


def sorts(x, d, h, n, m):
    few = torch.topk(x, 8)
    many = torch.topk(h.abs(), 400, largest=False)
    rows = [torch.sort(x[:, :7]), torch.sort(x), [torch.sort(torch.sin(x) * 3)[0]], torch.sort(n), torch.sort(m, descending=True)]
    down = torch.sort(d, dim=0, descending=True)
    return [p for r in rows for p in r], few, many, down, torch.argsort(d, dim=0)
