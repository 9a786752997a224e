# An ATen graph: products, convolutions and pooling, forward and backward.
import torch


def forward(x_1: "f32[2, 6, 9, 10][540, 90, 10, 1]cpu", w_1: "f32[8, 3, 3, 3][27, 9, 3, 1]cpu", b_1: "f32[8][1]cpu",
            q_1: "f32[3, 5, 20][100, 20, 1]cpu", k_1: "f32[3, 20, 40][800, 40, 1]cpu", m_1: "f32[40, 7][7, 1]cpu"):
    bmm: "f32[3, 5, 40][200, 40, 1]cpu" = torch.ops.aten.bmm.default(q_1, k_1)
    view: "f32[15, 40][40, 1]cpu" = torch.ops.aten.view.default(bmm, [15, 40])
    addmm: "f32[15, 7][7, 1]cpu" = torch.ops.aten.addmm.default(torch.ops.aten.full.default([7], 0.5), view, m_1)
    t: "f32[7, 40][1, 7]cpu" = torch.ops.aten.t.default(m_1)
    mm: "f32[7, 15][15, 1]cpu" = torch.ops.aten.mm.default(t, torch.ops.aten.permute.default(view, [1, 0]))
    convolution: "f32[2, 8, 5, 5][200, 25, 5, 1]cpu" = torch.ops.aten.convolution.default(x_1, w_1, b_1, [2, 2], [1, 1], [1, 1], False, [0, 0], 2)
    relu: "f32[2, 8, 5, 5][200, 25, 5, 1]cpu" = torch.ops.aten.relu.default(convolution)
    convolution_backward = torch.ops.aten.convolution_backward.default(relu, x_1, w_1, [8], [2, 2], [1, 1], [1, 1], False, [0, 0], 2, [True, True, True])
    gx: "f32[2, 6, 9, 10][540, 90, 10, 1]cpu" = convolution_backward[0]
    gw: "f32[8, 3, 3, 3][27, 9, 3, 1]cpu" = convolution_backward[1]
    gb: "f32[8][1]cpu" = convolution_backward[2];  convolution_backward = None
    max_pool = torch.ops.aten.max_pool2d_with_indices.default(relu, [3, 3], [2, 2], [1, 1])
    pooled: "f32[2, 8, 3, 3][72, 9, 3, 1]cpu" = max_pool[0]
    places: "i64[2, 8, 3, 3][72, 9, 3, 1]cpu" = max_pool[1];  max_pool = None
    unpooled: "f32[2, 8, 5, 5][200, 25, 5, 1]cpu" = torch.ops.aten.max_pool2d_with_indices_backward.default(pooled, relu, [3, 3], [2, 2], [1, 1], [1, 1], False, places)
    return (addmm, mm, relu, gx, gw, gb, pooled, places, unpooled)
