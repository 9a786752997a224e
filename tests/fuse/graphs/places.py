# An ATen graph: elements by index, sorting, random numbers, inputs that are written.
import torch
from math import inf
from torch import device


def forward(table_1: "f32[11, 7][7, 1]cpu", i_1: "i64[3, 4][4, 1]cpu", x_1: "f32[6, 20][20, 1]cpu", count_1: "i64[][]cpu"):
    embedding: "f32[3, 4, 7][28, 7, 1]cpu" = torch.ops.aten.embedding.default(table_1, i_1)
    back: "f32[11, 7][7, 1]cpu" = torch.ops.aten.embedding_dense_backward.default(embedding, i_1, 11, -1, False)
    rows: "f32[4, 7][7, 1]cpu" = torch.ops.aten.index.Tensor(table_1, [torch.ops.aten.select.int(i_1, 0, 1)])
    columns: "f32[11, 3, 4][12, 4, 1]cpu" = torch.ops.aten.index.Tensor(table_1, [None, i_1])
    gather: "f32[3, 4][4, 1]cpu" = torch.ops.aten.gather.default(torch.ops.aten.slice.Tensor(x_1, 0, 0, 3), 1, i_1)
    topk = torch.ops.aten.topk.default(x_1, 3)
    best: "f32[6, 3][3, 1]cpu" = topk[0]
    places: "i64[6, 3][3, 1]cpu" = topk[1];  topk = None
    zeros: "f32[6, 20][20, 1]cpu" = torch.ops.aten.full.default([6, 20], 0, dtype = torch.float32, device = device(type='cpu'))
    scatter: "f32[6, 20][20, 1]cpu" = torch.ops.aten.scatter.value(zeros, 1, places, -1.0)
    iota: "i64[20][1]cpu" = torch.ops.prims.iota.default(20, start = 0, step = 1, dtype = torch.int64, device = device(type='cpu'), requires_grad = False)
    causal: "b8[20, 20][20, 1]cpu" = torch.ops.aten.le.Tensor(iota, torch.ops.aten.unsqueeze.default(iota, 1))
    masked: "f32[20, 20][20, 1]cpu" = torch.ops.aten.where.self(causal, 0.0, -inf)
    rand: "f32[6, 20][20, 1]cpu" = torch.ops.aten.rand.default([6, 20], dtype = torch.float32, device = device(type='cpu'), pin_memory = False)
    keep: "b8[6, 20][20, 1]cpu" = torch.ops.aten.gt.Scalar(rand, 0.25)
    dropped: "f32[6, 20][20, 1]cpu" = torch.ops.aten.mul.Tensor(keep, x_1)
    put: "f32[6, 20][20, 1]cpu" = torch.ops.aten.index_put.default(x_1, [torch.ops.prims.iota.default(6, start = 0, step = 1, dtype = torch.int64)], torch.ops.aten.full.default([6, 20], 2.0))
    copy_: "f32[6, 20][20, 1]cpu" = torch.ops.aten.copy_.default(x_1, put)
    add: "i64[][]cpu" = torch.ops.aten.add.Tensor(count_1, 1)
    copy__1: "i64[][]cpu" = torch.ops.aten.copy_.default(count_1, add)
    return (embedding, back, rows, columns, gather, best, places, scatter, masked, dropped)
