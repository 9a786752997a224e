# Causal attention with heads that share keys; its gradients compute the probabilities again.
# args: q=randn:f16[2,70,16] k=randn:f16[1,90,16] v=randn:f16[1,90,16] grad_output=randn:f16[2,70,16] --grad q,k,v
import torch


def forward(q, k, v):
    seen = torch.arange(70)[:, None] + 20 >= torch.arange(90)
    s = (q @ k.expand(2, 90, 16).transpose(-1, -2)) * 0.25
    return torch.softmax(s.masked_fill(~seen, float("-inf")), dim=-1) @ v.expand(2, 90, 16)
